"""Products of vectors and matrices that have names in `torch.linalg`."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.advice import warn_caller
from rushlight.argument_kinds import IntList
from rushlight.ops.creation import FULL, unrelated
from rushlight.ops.elementwise import conjugate
from rushlight.ops.joining import cat
from rushlight.ops.linear_solve import inv, solve
from rushlight.ops.ranges import EYE
from rushlight.ops.registry import public


@public("linalg", out=True)
def cross(input: Any, other: Any, *, dim: int = -1) -> Any:
    """Cross products of vectors of three elements along `dim`, broadcast.

    >>> import rushlight as torch
    >>> torch.linalg.cross(torch.tensor([1, 0, 0]), torch.tensor([0, 1, 0]))
    tensor([0, 0, 1])
    """
    if input.ndim != other.ndim:
        raise RuntimeError(
            f"linalg.cross: inputs must have the same number of dimensions, got "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.dtype is not other.dtype:
        raise errors.mixed_dtypes("linalg.cross", input.dtype, other.dtype)
    if input.dtype is dt.bool_:
        raise errors.not_implemented_for("linalg.cross", input.dtype, "numbers")
    at = views.dim_index("linalg.cross", dim, input.ndim)
    if input.shape[at] != 3 or other.shape[at] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {list(input.shape)} "
            f"and {list(other.shape)}"
        )
    return input.roll(-1, at) * other.roll(1, at) - input.roll(1, at) * other.roll(-1, at)


@public("torch", "Tensor", name="cross", out=True)
def _cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Cross products along `dim`, by default the first dimension of three elements."""
    if dim is None:
        shape = views.broadcast_shapes("cross", input.shape, other.shape)
        if 3 not in shape:
            raise RuntimeError(f"cross: no dimension of size 3 in input {list(input.shape)}")
        dim = shape.index(3)
        warn_caller(
            "cross without dim is deprecated: the first dimension of size 3 is taken, and "
            "linalg.cross takes the last; pass dim"
        )
    return cross(input, other, dim=dim)


@public("linalg", out=True)
def vecdot(x: Any, y: Any, *, dim: int = -1) -> Any:
    """Inner products of vectors along `dim`, the first conjugated.

    >>> torch.linalg.vecdot(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    if x.dtype.is_integral:
        raise errors.wrong_dtype("linalg.vecdot", x.dtype, "a floating or complex dtype")
    if x.dtype is not y.dtype:
        raise errors.mixed_dtypes("linalg.vecdot", x.dtype, y.dtype)
    return (conjugate(x) * y).sum(dim)


@public("linalg")
def diagonal(A: Any, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Diagonals of matrices, of the last two dimensions by default.

    >>> torch.linalg.diagonal(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([1., 4.])
    """
    return A.diagonal(offset, dim1, dim2)


@public("linalg", out=True)
def matrix_power(A: Any, n: int) -> Any:
    """A multiplied with itself n times; of the inverse if n is negative.

    >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
    tensor([[1., 3.],
            [0., 1.]])
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, got {list(A.shape)}"
        )
    if n < 0:
        return matrix_power(inv(A), -n)
    if n == 0:
        eye = EYE(n=A.shape[-1], m=A.shape[-1], dtype=A.dtype)
        return unrelated(eye.expand(A.shape).clone(), A)
    made = None
    while n:
        if n % 2:
            made = A if made is None else made @ A
        n //= 2
        A = A @ A if n else A
    assert made is not None
    return made.clone() if made._storage is A._storage else made


@public("torch", "Tensor", name="matrix_power", out=True)
def _matrix_power(input: Any, n: int) -> Any:
    """The matrix multiplied with itself n times."""
    return matrix_power(input, n)


@public("linalg")
def vander(x: Any, N: int | None = None) -> Any:
    """Powers 0 to N - 1 of each element, in rows.

    >>> torch.linalg.vander(torch.tensor([2.0, 3.0]))
    tensor([[1., 2.],
            [1., 3.]])
    """
    x = x if x.ndim else x.reshape(1)
    count = x.shape[-1] if N is None else int(N)
    if count < 2:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {count}")
    one = FULL(shape=(*x.shape, 1), value=1, dtype=x.dtype)
    powers = x.unsqueeze(-1).expand(*x.shape, count - 1).cumprod(-1)
    return cat([one, powers], -1)


@public("linalg", out=True)
def tensorinv(A: Any, ind: int = 2) -> Any:
    """The inverse of a tensor as a map from its last dimensions to its first `ind`.

    >>> torch.linalg.tensorinv(2 * torch.eye(4).view(4, 2, 2), ind=1).sum()
    tensor(2.)
    """
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: ind must be a positive integer, got {ind}")
    front, back = tuple(A.shape[:ind]), tuple(A.shape[ind:])
    if math.prod(front) != math.prod(back):
        raise RuntimeError(
            f"linalg.tensorinv: A of shape {list(A.shape)} must have as many elements before "
            f"dimension {ind} as from there on"
        )
    return inv(A.reshape(math.prod(front), -1)).reshape((*back, *front))


@public("linalg", out=True)
def tensorsolve(A: Any, B: Any, dims: IntList | None = None) -> Any:
    """X of tensordot(A, X) = B; `dims` of A are moved to its end first.

    >>> torch.linalg.tensorsolve(2 * torch.eye(4).view(2, 2, 4), torch.ones(2, 2))
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = tuple(A.shape[B.ndim :])
    if math.prod(shape) != B.numel():
        raise errors.cannot_multiply(
            "linalg.tensorsolve", A.shape, B.shape, math.prod(shape), B.numel()
        )
    return solve(A.reshape(B.numel(), math.prod(shape)), B.reshape(-1)).reshape(shape)
