"""Norms of matrices, and what is measured with them."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import views
from rushlight.argument_kinds import IntList, Ints
from rushlight.dtypes import dtype
from rushlight.ops.elementwise import CAST, WHERE
from rushlight.ops.linear_algebra import SVDVALS, as_hermitian, check_matrix, check_square
from rushlight.ops.linear_solve import INV, cut_of
from rushlight.ops.registry import public
from rushlight.ops.statistics import vector_norm

ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


@public("linalg", out=True)
def matrix_norm(
    A: Any, ord: Any = "fro", dim: IntList = (-2, -1), keepdim: bool = False, *,
    dtype: dtype | None = None,
) -> Any:  # fmt: skip
    """Norms of matrices over two dimensions: 'fro', 'nuc' (the sum of singular values), 2 and
    -2 (the extreme ones), 1 and -1 (extreme sums of columns), inf and -inf (of rows).

    >>> import rushlight as torch
    >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), "nuc")
    tensor(7.)
    """
    return matrix_norm_of("linalg.matrix_norm", A, ord, dim, keepdim, dtype)


def matrix_norm_of(
    op: str, x: Any, ord: Any, dim: Any, keepdim: bool, kind: dtype | None
) -> Any:
    x = x if kind is None else CAST(x, dtype=kind)
    if x.ndim < 2:
        raise RuntimeError(
            f"{op}: The input tensor A must have at least 2 dimensions, got {list(x.shape)}"
        )
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        raise RuntimeError(
            f"{op}: Expected a floating point or complex tensor as input. Got {x.dtype!r}"
        )
    if ord not in ORDERS:
        raise RuntimeError(f"{op}: Order {ord} not supported.")
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) != 2:
        raise RuntimeError(f"{op}: dim must be a 2-tuple. Got {list(dims)}")
    first, second = (views.dim_index(op, d, x.ndim) for d in dims)
    if first == second:
        raise RuntimeError(f"{op}: dims must be different. Got {dims}")
    if ord == "fro":
        return vector_norm(x, 2, (first, second), keepdim)
    if ord in ("nuc", 2, -2):
        return _of_singular_values(x, ord, first, second, keepdim)
    along, across = (first, second) if abs(ord) == 1 else (second, first)
    sums = vector_norm(x, 1, along, keepdim)
    across -= not keepdim and across > along
    return _extreme(sums, ord, across, keepdim)


def _of_singular_values(x: Any, ord: Any, first: int, second: int, keepdim: bool) -> Any:
    check_matrix("linalg.matrix_norm", x)
    values = SVDVALS(x.movedim((first, second), (-2, -1)))
    if ord == "nuc":
        made = values.sum(-1)
    else:
        made = _extreme(values, ord, values.ndim - 1, False)
    if keepdim:
        for d in sorted((first, second)):
            made = made.unsqueeze(d)
    return made


def _extreme(x: Any, ord: float, dim: int, keepdim: bool) -> Any:
    """The largest for orders above zero, else the smallest; of nothing, zero."""
    if not x.shape[dim]:
        return x.sum(dim, keepdim)
    return x.amax(dim, keepdim) if ord > 0 else x.amin(dim, keepdim)


@public("linalg", out=True)
def norm(
    A: Any, ord: Any = None, dim: Ints | None = None, keepdim: bool = False, *,
    dtype: dtype | None = None,
) -> Any:  # fmt: skip
    """The vector norm over one dimension (or of all elements), the matrix norm over two.

    ord: as in `vector_norm` and `matrix_norm`; without it the root of the sum of squares.

    >>> torch.linalg.norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else dim
    if dims is not None and len(dims) not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
        )
    if dims is None and ord is not None and A.ndim not in (1, 2):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.ndim}D."
        )
    count = A.ndim if dims is None else len(dims)
    if ord is not None and (isinstance(ord, str) or count == 2):
        dims = tuple(range(A.ndim)) if dims is None else dims
        return matrix_norm_of("linalg.matrix_norm", A, ord, dims, keepdim, dtype)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype)


@public("linalg", out=True)
def cond(A: Any, p: Any = None) -> Any:
    """Condition numbers: the norm of a matrix times that of its inverse (infinite without
    one).

    >>> torch.linalg.cond(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor(2.)
    """
    if p is None or p in (2, -2):
        check_matrix("linalg.cond", A)
        values = SVDVALS(A)
        if not values.shape[-1]:
            return values.sum(-1)
        largest, smallest = values[..., 0], values[..., -1]
        return smallest / largest if p == -2 else largest / smallest
    check_square("linalg.cond", A)
    inverse, info = INV(A)
    product = matrix_norm(A, p) * matrix_norm(inverse, p)
    return WHERE(info != 0, math.inf, product)


@public("linalg", out=True)
def matrix_rank(
    A: Any, tol: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """How many singular values exceed max(atol, rtol * the largest).

    >>> torch.linalg.matrix_rank(torch.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    check_matrix("linalg.matrix_rank", A)
    atol, rtol = (tol, 0.0) if tol is not None else (atol, rtol)
    values = SVDVALS((as_hermitian(A) if hermitian else A).detach())
    return (values > cut_of(values, A.shape, atol, rtol).unsqueeze(-1)).sum(-1)
