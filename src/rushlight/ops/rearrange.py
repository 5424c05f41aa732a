"""Rearrangements that copy: joining, repeating, turning, rolling, padding and triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.ops import batching
from rushlight.ops.creation import FULL, sizes_of
from rushlight.ops.elementwise import check_tensors
from rushlight.ops.fill_value import checked_value
from rushlight.ops.movement import diagonal
from rushlight.ops.registry import Linearity, Op, TensorType, documented, public, recorder
from rushlight.ops.view_ops import EMBED
from rushlight.views import Shape, View

# -- joining


def _cat_type(*parts: TensorType, dim: int, sizes: Shape, dtype: dtype) -> TensorType:
    shape = list(parts[0].shape)
    shape[dim] = sum(sizes)
    return TensorType(tuple(shape), dtype)


def _cat_vjp(g: Any, out: Any, *parts: Any, dim: int, sizes: Shape, dtype: dtype) -> Any:
    return g.split(sizes, dim)


CAT = Op(
    "cat",
    attrs=("dim", "sizes", "dtype"),
    type=_cat_type,
    lower=lambda k, *parts, dim, sizes, dtype: k.cat([k.cast(p, dtype) for p in parts], dim),
    vjp=_cat_vjp,
    jvp=Linearity.TOGETHER,
)


def _tensors_of(op: str, tensors: Any) -> list[Any]:
    if hasattr(tensors, "_storage") or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{op}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        kind = ValueError if op == "cat" else RuntimeError
        raise kind(f"{op} expects a non-empty TensorList")
    for i, t in enumerate(tensors):
        if not hasattr(t, "_storage"):
            raise TypeError(
                f"{op}: expected Tensor as element {i} in argument 0, but got "
                f"{type(t).__name__}"
            )
    return list(tensors)


def common_dtype(tensors: Sequence[Any]) -> dtype:
    """The promoted dtype of tensors of equal standing."""
    kind: dtype = tensors[0].dtype
    for t in tensors[1:]:
        kind = dt.promote_types(kind, t.dtype)
    return kind


@public("torch", out=True, aliases=("concat", "concatenate"))
def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors joined along an existing dimension.

    >>> torch.cat([torch.ones(1, 2), torch.zeros(1, 2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    parts = _tensors_of("cat", tensors)
    kind = common_dtype(parts)
    full = [p for p in parts if p._shape != (0,)] or parts[:1]  # (0,) joins anything
    first = full[0]._shape
    if not all(p.ndim for p in parts):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    at = views.dim_index("cat", dim, len(first))
    for i, p in enumerate(full):
        if p.ndim != len(first) or any(
            a != b for d, (a, b) in enumerate(zip(p._shape, first, strict=True)) if d != at
        ):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {at}. Expected "
                f"{errors.shape_text(first)} but got {errors.shape_text(p._shape)} for tensor "
                f"number {i} in the list."
            )
    if _is_data(full):
        return _joined_now(full, at, kind)
    return CAT(*full, dim=at, sizes=tuple(p._shape[at] for p in full), dtype=kind)


def _is_data(parts: Sequence[Any]) -> bool:
    """Whether all parts are in memory already and have no derivatives."""
    has_gradients = config.scopes.grad_enabled and any(p.requires_grad for p in parts)
    if has_gradients or any(recorder.has_tangent(p) for p in parts):
        return False
    types = [p._storage.value.type for p in parts if p._storage.value.buffer is not None]
    return len(types) == len(parts) and not any(t.is_meta or t.levels for t in types)


def _joined_now(parts: Sequence[Any], dim: int, kind: dtype) -> Any:
    """Join data at once: batches cut out of a data set differ in where they are cut, and would
    otherwise make every training step a new program.
    """
    from rushlight.arrays import joined  # ops come before tensors

    return joined(parts, dim, kind)


@public("torch", out=True)
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape joined along a new dimension.

    >>> torch.stack([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])], dim=1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    parts = _tensors_of("stack", tensors)
    for i, p in enumerate(parts):
        if p._shape != parts[0]._shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got "
                f"{errors.shape_text(parts[0]._shape)} at entry 0 and "
                f"{errors.shape_text(p._shape)} at entry {i}"
            )
    at = views.dim_index("stack", dim, parts[0].ndim + 1)
    return cat([p.unsqueeze(at) for p in parts], at)


def _stack_along(name: str, grow: str, dim_of: Any, aliases: tuple[str, ...] = ()) -> None:
    def function(tensors: Any) -> Any:
        import rushlight  # the public forms of atleast_*

        parts = _tensors_of(name, tensors)
        grown = [getattr(rushlight, grow)(p) for p in parts]
        return cat(grown, dim_of(grown[0].ndim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Tensors joined along one dimension, made to have it first."
    public("torch", name=name, out=True, aliases=aliases)(function)


_stack_along("hstack", "atleast_1d", lambda ndim: 0 if ndim == 1 else 1)
_stack_along("vstack", "atleast_2d", lambda ndim: 0, ("row_stack",))
_stack_along("dstack", "atleast_3d", lambda ndim: 2)


@public("torch", out=True)
def column_stack(tensors: Any) -> Any:
    """1-D tensors as columns, matrices side by side.

    >>> torch.column_stack([torch.tensor([1.0, 2.0]), torch.zeros(2, 2)])
    tensor([[1., 0., 0.],
            [2., 0., 0.]])
    """
    parts = _tensors_of("column_stack", tensors)
    return cat([p if p.ndim > 1 else p.reshape(-1, 1) for p in parts], 1)


@public("torch")
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of a larger one.

    >>> torch.block_diag(torch.ones(1, 2), torch.ones(1, 1))
    tensor([[1., 1., 0.],
            [0., 0., 1.]])
    """
    if not tensors:
        return FULL(shape=(1, 0), value=0, dtype=config.default_dtype())
    parts = [t.reshape(1, -1) if t.ndim < 2 else t for t in tensors]
    if any(p.ndim > 2 for p in parts):
        raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions.")
    kind = common_dtype(parts)
    width = sum(p._shape[1] for p in parts)
    rows, left = [], 0
    for p in parts:
        right = width - left - p._shape[1]
        rows.append(constant_pad(p.to(kind), (0, left), (0, right)))
        left += p._shape[1]
    return cat(rows, 0)


# -- repeating


@public("Tensor")
def repeat(input: Any, *repeats: Any, **named: Any) -> Any:
    """The tensor repeated this many times along each dimension.

    >>> torch.tensor([1.0, 2.0]).repeat(2, 2)
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """
    counts = sizes_of((named["repeats"],) if "repeats" in named else repeats)
    extra = len(counts) - input.ndim
    if extra < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions "
            "of tensor"
        )
    if any(c < 0 for c in counts):
        raise RuntimeError(f"repeat: Trying to create tensor with negative dimension: {counts}")
    own = (1,) * extra + tuple(input._shape)
    between = tuple(s for size in own for s in (1, size))
    wide = tuple(s for c, size in zip(counts, own, strict=True) for s in (c, size))
    final = tuple(c * size for c, size in zip(counts, own, strict=True))
    spread = input.reshape(between).expand(wide)
    return spread.clone().reshape(final)


@public("torch", "Tensor")
@documented("dims")
def tile(input: Any, *dims: Any, **named: Any) -> Any:
    """The tensor repeated; missing counts in front are 1.

    >>> torch.tensor([[1.0, 2.0]]).tile(2)
    tensor([[1., 2., 1., 2.]])
    """
    counts = sizes_of((named["dims"],) if "dims" in named else dims)
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


def _repeat_counts(repeats: Any, size: int) -> Any:
    import numpy as np  # counts are data

    batching.refuse_sizes("repeat_interleave", repeats)
    counts = np.asarray(repeats._numbers()).reshape(-1)
    if repeats.dtype not in (dt.int64, dt.int32):
        raise errors.not_implemented_for("repeat_interleave", repeats.dtype, "int32 or int64")
    if counts.size == 1:
        counts = np.broadcast_to(counts, (size,))
    if counts.size != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size(dim) = {size}"
        )
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return np.repeat(np.arange(size), counts)


@public("torch", "Tensor")
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated along `dim` (of the flattened tensor by default).

    >>> torch.tensor([1.0, 2.0]).repeat_interleave(torch.tensor([1, 2]))
    tensor([1., 2., 2.])
    """
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if repeats is None:  # counts alone: the index of each count, repeated
        if input.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return tensor_of_array(_repeat_counts(input, input._shape[0]), input.dtype)
    if dim is None:
        input, dim = input.reshape(-1), 0
    if not input.ndim:
        input = input.reshape(1)
    at = views.dim_index("repeat_interleave", dim, input.ndim)
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = list(input._shape)
        wide = input.unsqueeze(at + 1).expand(*shape[: at + 1], repeats, *shape[at + 1 :])
        shape[at] *= repeats
        return wide.clone().reshape(shape)
    check_tensors("repeat_interleave", repeats=repeats)
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave: repeats must be 0-dim or 1-dim tensor")
    places = _repeat_counts(repeats, input._shape[at])
    if output_size is not None and len(places) != output_size:
        raise RuntimeError("repeat_interleave: allocated size does not match required size")
    return input.index_select(at, tensor_of_array(places, dt.int64))


# -- turning

FLIP = Op(
    "flip",
    attrs=("dims",),
    type=lambda x, dims: TensorType(x.shape, x.dtype),
    lower=lambda k, x, dims: k.flip(x, dims),
    vjp=lambda g, out, x, dims: FLIP(g, dims=dims),
    jvp=Linearity.TOGETHER,
)


@public("torch", "Tensor")
@documented("dims")
def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """The elements in reverse order along these dimensions.

    >>> torch.arange(3.0).flip(0)
    tensor([2., 1., 0.])
    """
    wanted = sizes_of((named["dims"],) if "dims" in named else dims)
    found = tuple(views.dim_index("flip", d, input.ndim) for d in wanted)
    if len(set(found)) != len(found):
        raise errors.repeated_dim("flip", found[0])
    return FLIP(input, dims=found if input.ndim else ())


@public("torch", "Tensor")
def fliplr(input: Any) -> Any:
    """Columns in reverse order.

    >>> torch.fliplr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 1.],
            [4., 3.]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public("torch", "Tensor")
def flipud(input: Any) -> Any:
    """Rows in reverse order.

    >>> torch.flipud(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@public("torch", "Tensor")
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Turned by 90 degrees k times, from the first of two dimensions towards the second.

    >>> torch.rot90(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [1., 3.]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (views.dim_index("rot90", d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got {dims}")
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return flip(input, a, b)
    turned = flip(input, b if turns == 1 else a)
    return turned.transpose(a, b).clone()


def _roll_lower(k: Any, x: Any, dim: int, shift: int) -> Any:
    size = x.shape[dim]
    head = k.slice(x, dim, size - shift, shift)
    return k.cat([head, k.slice(x, dim, 0, size - shift)], dim)


ROLL = Op(
    "roll",
    attrs=("dim", "shift"),
    type=lambda x, dim, shift: TensorType(x.shape, x.dtype),
    lower=_roll_lower,
    vjp=lambda g, out, x, dim, shift: ROLL(g, dim=dim, shift=g.shape[dim] - shift),
    jvp=Linearity.TOGETHER,
)


@public("torch", "Tensor")
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Elements moved round along dimensions (round the flattened tensor by default).

    >>> torch.arange(4.0).roll(1)
    tensor([3., 0., 1., 2.])
    """
    moves = (shifts,) if isinstance(shifts, int) else tuple(shifts)
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        if len(moves) != 1:
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(moves)}, dims:0"
            )
        return roll(input.reshape(-1), moves, (0,)).reshape(input._shape)
    axes = (dims,) if isinstance(dims, int) else tuple(dims)
    if len(moves) != len(axes):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    out = input
    for move, axis in zip(moves, axes, strict=True):
        at = views.dim_index("roll", axis, input.ndim)
        size = input._shape[at] if input.ndim else 0
        if size and move % size:
            out = ROLL(out, dim=at, shift=move % size)
    return out.clone() if out is input else out


# -- triangles and diagonals


def _triangle_lower(k: Any, x: Any, diagonal: int, is_upper: bool) -> Any:
    last = len(x.shape) - 1
    row, column = k.iota(x.shape, last - 1), k.iota(x.shape, last)
    distance = column - row
    keep = distance >= diagonal if is_upper else distance <= diagonal
    return k.select(keep, x, k.const(0, x.dtype))


TRIANGLE = Op(
    "triangle",
    attrs=("diagonal", "is_upper"),
    type=lambda x, diagonal, is_upper: TensorType(x.shape, x.dtype),
    lower=_triangle_lower,
    vjp=lambda g, out, x, diagonal, is_upper: TRIANGLE(g, diagonal=diagonal, is_upper=is_upper),
    jvp=Linearity.TOGETHER,
)


def _check_matrix(op: str, x: Any) -> None:
    if x.ndim < 2:
        raise RuntimeError(f"{op}: input tensor must have at least 2 dimensions")


@public("torch", "Tensor", inplace=True, out=True)
def tril(input: Any, diagonal: int = 0) -> Any:
    """The lower triangle of matrices, zeros above it.

    >>> torch.tril(torch.ones(2, 3))
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    _check_matrix("tril", input)
    return TRIANGLE(input, diagonal=int(diagonal), is_upper=False)


@public("torch", "Tensor", inplace=True, out=True)
def triu(input: Any, diagonal: int = 0) -> Any:
    """The upper triangle of matrices, zeros below it.

    >>> torch.triu(torch.ones(2, 3), diagonal=1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    _check_matrix("triu", input)
    return TRIANGLE(input, diagonal=int(diagonal), is_upper=True)


@public("torch", "Tensor")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The last dimension as the diagonal of two new ones.

    >>> torch.diag_embed(torch.tensor([[1.0, 2.0]]))
    tensor([[[1., 0.],
             [0., 2.]]])
    """
    ndim = input.ndim + 1
    a, b = views.dim_index("diag_embed", dim1, ndim), views.dim_index("diag_embed", dim2, ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    length = input._shape[-1]
    side = length + abs(offset)
    rest = iter(input._shape[:-1])
    shape = tuple(side if d in (a, b) else next(rest) for d in range(ndim))
    strides = views.contiguous_strides(shape)
    start = offset * strides[b] if offset >= 0 else -offset * strides[a]
    kept = tuple(strides[d] for d in range(ndim) if d not in (a, b))
    place = View(tuple(input._shape), (*kept, strides[a] + strides[b]), start)
    return EMBED(input, shape=shape, view=place)


@public("torch", "Tensor", out=True)
def diag(input: Any, diagonal: int = 0) -> Any:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix as a vector.

    >>> torch.diag(torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return _diagonal(input, diagonal).clone()


_diagonal = diagonal  # the parameter of `diag` has the same name


@public("torch", "Tensor")
def diagflat(input: Any, offset: int = 0) -> Any:
    """All elements as the diagonal of a matrix.

    >>> torch.diagflat(torch.tensor([[1.0], [2.0]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    return diag_embed(input.reshape(-1), offset)


# -- padding


def _padded_shape(shape: Shape, before: Shape, after: Shape) -> Shape:
    return tuple(s + b + a for s, b, a in zip(shape, before, after, strict=True))


PAD = Op(
    "pad",
    attrs=("before", "after", "value"),
    type=lambda x, before, after, value: TensorType(
        _padded_shape(x.shape, before, after), x.dtype
    ),
    lower=lambda k, x, before, after, value: k.pad(x, before, after, value),
    vjp=lambda g, out, x, before, after, value: PAD(
        g, before=tuple(-b for b in before), after=tuple(-a for a in after), value=0
    ),
)


def constant_pad(x: Any, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Any:
    """x with this many elements of `value` before and after along each dimension (negative:
    cut).
    """
    if any(s < 0 for s in _padded_shape(x._shape, tuple(before), tuple(after))):
        raise RuntimeError(
            f"pad: the resulting size is negative: input {errors.shape_text(x._shape)}, before "
            f"{list(before)}, after {list(after)}"
        )
    value = checked_value("pad", value, x.dtype)
    return PAD(x, before=tuple(before), after=tuple(after), value=value)


@public("torch")
def constant_pad_nd(input: Any, pad: Any, value: Any = 0) -> Any:
    """Padding given as (left, right, top, bottom, ...), from the last dimension backwards.

    >>> torch.constant_pad_nd(torch.ones(1, 2), (1, 0), 9.0)
    tensor([[9., 1., 1.]])
    """
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise RuntimeError(
            f"pad: padding length must be even and at most twice the {input.ndim} dimensions "
            f"of the input, got {len(pad)}"
        )
    before, after = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = int(pad[2 * i]), int(pad[2 * i + 1])
    return constant_pad(input, before, after, value)


# -- products


@public("torch")
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each 1-D tensor, as rows.

    >>> torch.cartesian_prod(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[1., 3.],
            [1., 4.],
            [2., 3.],
            [2., 4.]])
    """
    from rushlight.ops.creation import meshgrid  # only here

    if any(t.ndim != 1 for t in tensors):
        raise RuntimeError("Expect a 1D vector, but got a tensor of another dimension")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors)], 1)


@public("torch")
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All ways to choose r elements of a vector, in order.

    >>> torch.combinations(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 2.],
            [1., 3.],
            [2., 3.]])
    """
    import itertools  # only here

    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if input.ndim != 1:
        raise RuntimeError(
            f"Expect a 1D vector, but got shape {errors.shape_text(input._shape)}"
        )
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    pick = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    rows = list(pick(range(input._shape[0]), r)) if r else []
    if not rows:
        return input[:0] if r == 0 else input[:0].reshape(0, 1).expand(0, r).clone()
    places = tensor_of_array(rows, dt.int64)
    return input.index_select(0, places.reshape(-1)).reshape(len(rows), r)


@public("torch", out=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns.

    >>> torch.vander(torch.tensor([2.0, 3.0]), 3)
    tensor([[4., 2., 1.],
            [9., 3., 1.]])
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got {x.ndim}D")
    count = x._shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {count}")
    powers = [x**i for i in range(count)]
    if not powers:
        return x.new_empty((x._shape[0], 0))
    return stack(powers if increasing else powers[::-1], 1)
