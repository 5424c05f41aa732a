"""Triangles and diagonals of matrices: kept, or made of vectors."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import views
from rushlight.ops.movement import diagonal
from rushlight.ops.registry import Linearity, Op, TensorType, public
from rushlight.ops.view_ops import EMBED
from rushlight.views import View


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
