"""Sums of products: matrix multiplication in its forms.

One op, `contract`, says a sum of products in einsum's letters; its derivatives are contractions
again. `linear` is an op of its own because its bias joins in the accumulator.
"""

from __future__ import annotations

import functools
import string
from typing import Any  # operands are tensors and numbers

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Number
from rushlight.ops.elementwise import CAST, WHERE, conjugate, the_tensor
from rushlight.ops.registry import Linearity, Op, TensorType, public, recorder


def split_equation(equation: str) -> tuple[str, str, str]:
    """The letters of both operands and of the result."""
    inputs, _, out = equation.partition("->")
    left, _, right = inputs.partition(",")
    return left, right, out


def contract_type(a: TensorType, b: TensorType, equation: str) -> TensorType:
    if a.dtype is not b.dtype:
        raise errors.mixed_dtypes("matmul", a.dtype, b.dtype)
    if a.dtype is dt.bool_:
        raise errors.not_implemented_for("matmul", a.dtype, "numbers")
    left, right, out = split_equation(equation)
    sizes = dict(zip(left, a.shape, strict=True))
    for letter, size in zip(right, b.shape, strict=True):
        if sizes.setdefault(letter, size) != size:
            raise errors.cannot_multiply("matmul", a.shape, b.shape, sizes[letter], size)
    return TensorType(tuple(sizes[c] for c in out), a.dtype)


def contract_vjp(g: Any, out: Any, a: Any, b: Any, equation: str) -> Any:
    left, right, letters = split_equation(equation)
    return (
        CONTRACT(g, conjugate(b), equation=f"{letters},{right}->{left}"),
        CONTRACT(conjugate(a), g, equation=f"{left},{letters}->{right}"),
    )


CONTRACT = Op(  # a letter of one operand alone is in the result; none is repeated in an operand
    "contract",
    attrs=("equation",),
    type=contract_type,
    lower=lambda k, a, b, equation: k.contract(equation, a, b),
    vjp=contract_vjp,
    jvp=Linearity.EACH,
)


def _wide_vjp(g: Any, out: Any, a: Any, b: Any, equation: str) -> Any:
    return contract_vjp(CAST(g, dtype=a.dtype), None, a, b, equation)


CONTRACT_WIDE = Op(  # of half precision, in float32: for what is added before it is rounded
    "contract_wide",
    attrs=("equation",),
    type=lambda a, b, equation: TensorType(contract_type(a, b, equation).shape, dt.float32),
    lower=lambda k, a, b, equation: k.contract(equation, a, b, dt.float32),
    vjp=_wide_vjp,
    jvp=Linearity.EACH,
)


DOT = Op(  # a reduction: a product of vectors has nothing that registers could keep
    "dot",
    type=lambda a, b: contract_type(a, b, "k,k->"),
    lower=lambda k, a, b: k.cast(k.reduce("sum", k.wide(a) * k.wide(b), (0,)), a.dtype),
    vjp=lambda g, out, a, b: (g * conjugate(b), g * conjugate(a)),
    jvp=Linearity.EACH,
)


# -- linear


@functools.cache
def letters_for(count: int, without: str = "") -> str:
    """`count` different letters, none of them in `without`."""
    free = [c for c in string.ascii_letters if c not in without]
    return "".join(free[:count])


def linear_type(x: TensorType, weight: TensorType, *bias: TensorType) -> TensorType:
    for other in (weight, *bias):
        if other.dtype is not x.dtype:
            raise errors.mixed_dtypes("linear", x.dtype, other.dtype)
    if not x.shape or x.shape[-1] != weight.shape[1]:
        size = x.shape[-1] if x.shape else 1
        raise errors.cannot_multiply(
            "linear", x.shape, weight.shape, size, weight.shape[1],
            names=("input", "weight"), is_turned=True,
        )  # fmt: skip
    shape = (*x.shape[:-1], weight.shape[0])
    if bias and views.broadcast_shapes("linear", shape, bias[0].shape) != shape:
        raise errors.cannot_broadcast("linear", (shape, bias[0].shape), -1)
    return TensorType(shape, x.dtype)


def linear_lower(k: Any, x: Any, weight: Any, *bias: Any) -> Any:
    rows = letters_for(len(x.shape) - 1, "kn")
    equation = f"{rows}k,nk->{rows}n"
    if not bias:
        return k.contract(equation, x, weight)
    wide = dt.float32 if x.dtype in (dt.float16, dt.bfloat16) else x.dtype
    return k.cast(k.contract(equation, x, weight, wide) + k.wide(bias[0]), x.dtype)


def linear_vjp(g: Any, out: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    rows = letters_for(g.ndim - 1, "kn")
    grads = (
        CONTRACT(g, conjugate(weight), equation=f"{rows}n,nk->{rows}k"),
        CONTRACT(g, conjugate(x), equation=f"{rows}n,{rows}k->nk"),
    )
    return grads if bias is None else (*grads, g)  # the engine sums g over leading dims


LINEAR = Op("linear", type=linear_type, lower=linear_lower, vjp=linear_vjp)


@public("F")
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """input @ weight.T + bias over any leading dimensions.

    >>> torch.nn.functional.linear(torch.tensor([[1.0, 2.0]]), torch.ones(3, 2))
    tensor([[3., 3., 3.]])
    """
    if weight.ndim != 2:
        if weight.ndim != 1:
            raise RuntimeError(
                f"linear: weight must have 1 or 2 dimensions, got {list(weight.shape)}"
            )
        out = matmul(input, weight)
        return out if bias is None else out + bias
    try:
        return LINEAR(input, weight) if bias is None else LINEAR(input, weight, bias)
    except RuntimeError:
        the_tensor("linear", input)
        raise


@public("F")
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """input1 @ weight[n] @ input2 for every output n, plus bias.

    >>> torch.nn.functional.bilinear(torch.ones(1, 2), torch.ones(1, 3), torch.ones(4, 2, 3))
    tensor([[6., 6., 6., 6.]])
    """
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(
            f"bilinear(): input batch dimensions do not match: got {list(input1.shape)} and "
            f"{list(input2.shape)}"
        )
    rows = letters_for(input1.ndim - 1, "nij")
    half = CONTRACT(input1, weight, equation=f"{rows}i,nij->{rows}nj")
    out = CONTRACT(half, input2, equation=f"{rows}nj,{rows}j->{rows}n")
    return out if bias is None else out + bias


# -- products of matrices and vectors


@public("torch", "Tensor", "linalg", out=True)
def matmul(input: Any, other: Any = None, *, tensor2: Any = None) -> Any:
    """Matrix product with PyTorch's rules for vectors and batches; `tensor2` is another name
    of `other`.

    >>> torch.tensor([[1.0, 2.0]]) @ torch.eye(2)
    tensor([[1., 2.]])
    """
    a, b = input, tensor2 if other is None else other
    own, others = len(a._shape), len(b._shape)
    if own == 0 or others == 0:
        raise RuntimeError(
            f"matmul: both arguments to matmul need to be at least 1D, but they are {own}D "
            f"and {others}D"
        )
    if own == others == 1:
        return DOT(a, b)
    if own > 2 and others > 2:
        try:
            batch = views.broadcast_shapes("matmul", a._shape[:-2], b._shape[:-2])
        except RuntimeError:
            raise errors.other_batches("matmul", a._shape, b._shape) from None
        a = a if a._shape[:-2] == batch else a.expand(*batch, *a._shape[-2:])
        b = b if b._shape[:-2] == batch else b.expand(*batch, *b._shape[-2:])
        own = others = len(batch) + 2
    return CONTRACT(a, b, equation=product_equation(own, others))


@functools.cache
def product_equation(own: int, others: int) -> str:
    """The product of matrices (vectors) of so many dimensions; only one of the operands has
    batches, or both have the same.
    """
    if others <= 2:
        rows, column = letters_for(own - 1, "kn"), "n" * (others - 1)
        return f"{rows}k,k{column}->{rows}{column}"
    batch, row = letters_for(others - 2, "kmn"), "m" if own > 1 else ""
    if own <= 2:
        return f"{row}k,{batch}kn->{batch}{row}n"
    return f"{batch}mk,{batch}kn->{batch}mn"


def check_ndim(op: str, name: str, x: Any, ndim: int) -> None:
    if x.ndim != ndim:
        raise RuntimeError(
            f"{op}: {name} must be a tensor of {ndim} dimensions, got shape {list(x.shape)}"
        )


@public("torch", "Tensor", out=True)
def mm(input: Any, mat2: Any) -> Any:
    """The product of two matrices.

    >>> torch.mm(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]]))
    tensor([[11.]])
    """
    check_ndim("mm", "self", input, 2)
    check_ndim("mm", "mat2", mat2, 2)
    return CONTRACT(input, mat2, equation="mk,kn->mn")


@public("torch", "Tensor", out=True)
def bmm(input: Any, mat2: Any) -> Any:
    """The products of two batches of matrices.

    >>> torch.bmm(torch.ones(1, 2, 3), torch.ones(1, 3, 2))
    tensor([[[3., 3.],
             [3., 3.]]])
    """
    check_batches("bmm", input, mat2)
    return CONTRACT(input, mat2, equation="bmk,bkn->bmn")


def check_batches(op: str, batch1: Any, batch2: Any) -> None:
    """Raise where two batches of matrices cannot be multiplied one by one."""
    check_ndim(op, "batch1", batch1, 3)
    check_ndim(op, "batch2", batch2, 3)
    batch, _, depth = batch1._shape
    if batch2._shape[:2] != (batch, depth):
        raise RuntimeError(
            f"{op}: expected {[batch, depth]} as the first two sizes of batch2, beside batch1 "
            f"of shape {list(batch1._shape)}, but batch2 has shape {list(batch2._shape)}"
        )


@public("torch", "Tensor", out=True)
def mv(input: Any, vec: Any) -> Any:
    """A matrix times a vector.

    >>> torch.mv(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    check_ndim("mv", "self", input, 2)
    check_ndim("mv", "vec", vec, 1)
    return CONTRACT(input, vec, equation="mk,k->m")


@public("torch", "Tensor", out=True)
def dot(input: Any, tensor: Any) -> Any:
    """The inner product of two vectors.

    >>> torch.dot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor(11.)
    """
    check_ndim("dot", "self", input, 1)
    check_ndim("dot", "tensor", tensor, 1)
    return DOT(input, tensor)


@public("torch", "Tensor", out=True)
def vdot(input: Any, other: Any) -> Any:
    """The inner product of two vectors, the first conjugated.

    >>> torch.vdot(torch.tensor([1j, 1.0]), torch.tensor([1j, 2.0]))
    tensor(3.+0.j)
    """
    return dot(conjugate(input), other)


@public("torch", "Tensor", out=True)
def inner(input: Any, other: Any) -> Any:
    """Sums of products over the last dimensions of both.

    >>> torch.inner(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if input.ndim == 0 or other.ndim == 0:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise errors.cannot_multiply(
            "inner", input.shape, other.shape, input.shape[-1], other.shape[-1],
            names=("input", "other"), is_turned=True,
        )  # fmt: skip
    left = letters_for(input.ndim - 1, "k")
    right = letters_for(other.ndim - 1, "k" + left)
    return CONTRACT(input, other, equation=f"{left}k,{right}k->{left}{right}")


@public("torch", "Tensor", out=True, aliases=("ger",))
def outer(input: Any, vec2: Any) -> Any:
    """All products of the elements of two vectors.

    >>> torch.outer(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_ndim("outer", "self", input, 1)
    check_ndim("outer", "vec2", vec2, 1)
    return input.reshape(-1, 1) * vec2.reshape(1, -1)


# -- products added to something


def _check_scales(op: str, result: dt.dtype, **numbers: Any) -> None:
    """Raise for a factor that a result of this dtype does not take."""
    for name, number in numbers.items():
        if isinstance(number, bool) and result is not dt.bool_:
            raise RuntimeError(f"{op}: Boolean {name} only supported for Boolean results.")
        if result.is_integral and isinstance(number, float | complex):
            raise RuntimeError(
                f"{op}: For integral input tensors, argument {name} must not be a "
                f"floating point number."
            )


def _combined(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * product, of one dtype; of the input, a beta of 0 leaves no more
    than that gradients may be asked by it, which are zero.
    """
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return WHERE(False, input, product) if input.requires_grad else product
    return (input if beta == 1 else input * beta) + product


def added(op: str, input: Any, a: Any, b: Any, equation: str, beta: Any, alpha: Any) -> Any:
    """beta * input + alpha * a product; a beta of 0 ignores the input, NaN and all. The sum is
    rounded to half precision once, and not the product before it.

    With integers both numbers are cut to integers first, as PyTorch does here.
    """
    kind, is_half = a.dtype, a.dtype in (dt.float16, dt.bfloat16)
    product = (CONTRACT_WIDE if is_half else CONTRACT)(a, b, equation=equation)
    if input.dtype is not kind:
        raise errors.mixed_dtypes(op, input.dtype, kind)
    if kind.is_integral:
        beta, alpha = int(beta), int(alpha)
    shape = views.broadcast_shapes(op, input.shape, product.shape)
    if shape != product.shape:
        raise errors.cannot_broadcast(op, (input.shape, product.shape), -1)
    if is_half:
        wide = _combined(CAST(input, dtype=dt.float32), product, beta, alpha)
        return CAST(wide, dtype=kind)
    return _combined(input, product, beta, alpha)


@public("torch", "Tensor", inplace=True, out=True)
def addmm(input: Any, mat1: Any, mat2: Any, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """beta * input + alpha * (mat1 @ mat2).

    >>> torch.addmm(torch.ones(2), torch.eye(2), torch.ones(2, 2), alpha=2)
    tensor([[3., 3.],
            [3., 3.]])
    """
    check_ndim("addmm", "mat1", mat1, 2)
    check_ndim("addmm", "mat2", mat2, 2)
    return added("addmm", input, mat1, mat2, "mk,kn->mn", beta, alpha)


@public("torch", "Tensor", inplace=True, out=True)
def addmv(input: Any, mat: Any, vec: Any, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """beta * input + alpha * (mat @ vec).

    >>> torch.addmv(torch.ones(2), torch.eye(2), torch.tensor([1.0, 2.0]), beta=10)
    tensor([11., 12.])
    """
    check_ndim("addmv", "mat", mat, 2)
    check_ndim("addmv", "vec", vec, 1)
    return added("addmv", input, mat, vec, "mk,k->m", beta, alpha)


@public("torch", "Tensor", inplace=True, out=True)
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """beta * input + alpha * outer(vec1, vec2).

    >>> torch.addr(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    check_ndim("addr", "vec1", vec1, 1)
    check_ndim("addr", "vec2", vec2, 1)
    dtype = functools.reduce(dt.promote_types, (vec1.dtype, vec2.dtype), input.dtype)
    _check_scales("addr", dtype, beta=beta, alpha=alpha)
    shape = (*vec1.shape, *vec2.shape)
    if views.broadcast_shapes("addr", input.shape, shape) != shape:
        raise errors.cannot_broadcast("addr", (input.shape, shape), -1)
    product = outer(vec1.to(dtype), vec2.to(dtype))
    if dtype is dt.bool_:
        return input & bool(beta) | product & bool(alpha)
    return _combined(input.to(dtype), product, beta, alpha)


@public("torch", "Tensor", inplace=True, out=True)
def baddbmm(
    input: Any, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1
) -> Any:
    """beta * input + alpha * (batch1 @ batch2).

    >>> torch.baddbmm(torch.ones(1, 1, 1), torch.ones(1, 1, 3), torch.ones(1, 3, 1))
    tensor([[[4.]]])
    """
    check_batches("baddbmm", batch1, batch2)
    return added("baddbmm", input, batch1, batch2, "bmk,bkn->bmn", beta, alpha)


@public("torch", "Tensor", out=True)
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1) -> Any:
    """beta * input + alpha * the sum over the batch of batch1 @ batch2.

    >>> torch.addbmm(torch.zeros(1, 1), torch.ones(2, 1, 3), torch.ones(2, 3, 1))
    tensor([[6.]])
    """
    check_ndim("addbmm", "batch1", batch1, 3)
    check_ndim("addbmm", "batch2", batch2, 3)
    return added("addbmm", input, batch1, batch2, "bmk,bkn->mn", beta, alpha)


@public("Tensor", name="addbmm_")
def addbmm_(
    input: Any, batch1: Any, batch2: Any, *, beta: Number = 1, alpha: Number = 1
) -> Any:
    """In-place form of `addbmm`, the one that takes the result's shape where it is larger."""
    made = addbmm(input, batch1, batch2, beta=beta, alpha=alpha)
    if made.shape != input.shape:
        input.resize_(made.shape)
    return recorder.write(input, made, "addbmm_")


# -- products of several, and of general shapes


def _chain_order(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices for the fewest multiplications."""
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length - 1
            options = [
                (cost[i, s] + cost[s + 1, j] + sizes[i] * sizes[s + 1] * sizes[j + 1], s)
                for s in range(i, j)
            ]
            cost[i, j], split[i, j] = min(options)
    return split


def _chain(matrices: list[Any]) -> Any:
    sizes = [matrices[0].shape[0], *(m.shape[1] for m in matrices)]
    split = _chain_order(sizes)

    def product(i: int, j: int) -> Any:
        if i == j:
            return matrices[i]
        middle = split[i, j]
        return mm(product(i, middle), product(middle + 1, j))

    return product(0, len(matrices) - 1)


@public("torch")
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """The product of matrices in the cheapest order.

    >>> torch.chain_matmul(torch.eye(2), torch.ones(2, 1), torch.ones(1, 2))
    tensor([[1., 1.],
            [1., 1.]])
    """
    if len(matrices) == 1 and isinstance(matrices[0], list | tuple):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for m in matrices:
        check_ndim("chain_matmul", "every matrix", m, 2)
    return _chain(list(matrices)) if len(matrices) > 1 else matrices[0].clone()


@public("linalg", out=True)
def multi_dot(tensors: Any) -> Any:
    """The product of matrices in the cheapest order; the first and last may be vectors.

    >>> torch.linalg.multi_dot([torch.ones(1, 3), torch.ones(3, 2), torch.ones(2)])
    tensor([6.])
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot: expected at least 2 tensors but got {len(parts)}")
    is_row, is_column = parts[0].ndim == 1, parts[-1].ndim == 1
    if is_row:
        parts[0] = parts[0].reshape(1, -1)
    if is_column:
        parts[-1] = parts[-1].reshape(-1, 1)
    for part in parts:
        check_ndim("multi_dot", "every tensor", part, 2)
    out = _chain(parts)
    shape = [
        s for s, is_vector in zip(out.shape, (is_row, is_column), strict=True) if not is_vector
    ]
    return out.reshape(shape)


@public("torch", out=True)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sums of products over pairs of dimensions: the last `dims` of a with the first of b, or
    lists. A size of 1 is repeated to meet the other's.

    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 2), dims=1)
    tensor([[3., 3.],
            [3., 3.]])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims} for shapes "
                f"{list(a.shape)} and {list(b.shape)}"
            )
        pairs = ([*range(a.ndim - dims, a.ndim)], [*range(dims)])
    else:
        pairs = ([*dims[0]], [*dims[1]])
    left = [views.dim_index("tensordot", d, a.ndim) for d in pairs[0]]
    right = [views.dim_index("tensordot", d, b.ndim) for d in pairs[1]]
    if len(left) != len(right):
        raise RuntimeError("tensordot: both dimension lists should have same length")
    a_letters = list(letters_for(a.ndim))
    b_letters = list(letters_for(b.ndim, "".join(a_letters)))
    for i, j in zip(left, right, strict=True):
        if a.shape[i] == 1:
            b = b.sum(j, keepdim=True, dtype=b.dtype)
        elif b.shape[j] == 1:
            a = a.sum(i, keepdim=True, dtype=a.dtype)
        if a.shape[i] != b.shape[j]:
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size "
                f"{a.shape[i]} in dim {i} and second has size {b.shape[j]} in dim {j} (shapes "
                f"{list(a.shape)} and {list(b.shape)})"
            )
        b_letters[j] = a_letters[i]
    kept = [c for c in a_letters + b_letters if (c in a_letters) != (c in b_letters)]
    return CONTRACT(
        a, b, equation=f"{''.join(a_letters)},{''.join(b_letters)}->{''.join(kept)}"
    )


@public("torch", "Tensor", out=True)
def kron(input: Any, other: Any) -> Any:
    """The Kronecker product.

    >>> torch.kron(torch.eye(2), torch.tensor([[1.0, 2.0]]))
    tensor([[1., 2., 0., 0.],
            [0., 0., 1., 2.]])
    """
    ndim = max(input.ndim, other.ndim)
    a_shape = (1,) * (ndim - input.ndim) + tuple(input.shape)
    b_shape = (1,) * (ndim - other.ndim) + tuple(other.shape)
    left = input.reshape([s for size in a_shape for s in (size, 1)])
    right = other.reshape([s for size in b_shape for s in (1, size)])
    shape = [x * y for x, y in zip(a_shape, b_shape, strict=True)]
    return (left * right).reshape(shape)
