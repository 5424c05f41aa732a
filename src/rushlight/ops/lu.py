"""LU factorisations with row exchanges, and what is solved with them."""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ir.host import takes_batches
from rushlight.ops import batching, elimination, return_types
from rushlight.ops.joining import cat
from rushlight.ops.linear_algebra import Array, check_matrix, check_square
from rushlight.ops.linear_solve import matched, solve_triangular
from rushlight.ops.ranges import ARANGE, EYE
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public

_factors = takes_batches(elimination.factors)


@takes_batches
def _permutations(pivots: Array, size: int) -> Array:
    """P of P L U = A, from the row exchanges."""
    *batch, k = pivots.shape
    flat = pivots.reshape(int(np.prod(batch)), k)
    order = np.tile(np.arange(size), (len(flat), 1))
    every = np.arange(len(flat))
    for i in range(k):
        other = flat[:, i] - 1
        order[every, i], order[every, other] = order[every, other], order[every, i]
    matrices = np.zeros((len(flat), size, size))
    matrices[every[:, None], order, np.arange(size)] = 1
    return matrices.reshape(*batch, size, size)


def lu_type(a: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    batch = a.shape[:-2]
    exchanges = TensorType((*batch, min(a.shape[-2:])), dt.int32)
    return a, exchanges, TensorType(batch, dt.int32)


def lu_lower(k: Any, a: Any) -> tuple[Any, ...]:
    types = lu_type(TensorType(a.shape, a.dtype))
    return tuple(k.host(_factors, tuple((t.shape, t.dtype) for t in types), a))


def lu_vjp(g: Any, out: Any, a: Any) -> Any:
    """By the square block; rows below it are L2 U, columns beside it L U2 (one is empty)."""
    packed, exchanges, _ = out
    m, n = packed.shape[-2:]
    k = min(m, n)
    p, lower, upper = lu_unpack(packed, exchanges)
    g_lower, g_upper = g[0][..., :k].tril(-1), g[0][..., :k, :].triu()
    l1, u1 = lower[..., :k, :], upper[..., :k]
    g_l2, g_u2 = g_lower[..., k:, :], g_upper[..., k:]
    by_lower = l1.mH @ g_lower[..., :k, :] - g_u2 @ upper[..., k:].mH
    by_upper = g_upper[..., :k] @ u1.mH - lower[..., k:, :].mH @ g_l2
    inner = by_lower.tril(-1) + by_upper.triu()
    inner = solve_triangular(l1.mH, inner, upper=True, unitriangular=True)
    square = solve_triangular(u1.mH, inner, upper=False, left=False)
    if m > n:
        below = solve_triangular(u1.mH, g_l2, upper=False, left=False)
        return p @ cat((square, below), -2)
    beside = solve_triangular(l1.mH, g_u2, upper=True, unitriangular=True)
    return p @ cat((square, beside), -1)


LU = Op("linalg.lu_factor", type=lu_type, lower=lu_lower, vjp=lu_vjp)
PERMUTATION = Op(
    "linalg.permutation",
    attrs=("size", "dtype"),
    type=lambda pivots, size, dtype: TensorType((*pivots.shape[:-1], size, size), dtype),
    lower=lambda k, pivots, size, dtype: k.host(
        _permutations, (((*pivots.shape[:-1], size, size), dtype),), pivots, size=size
    )[0],
    vjp=NOT_DIFFERENTIABLE,
)


def _factored(op: str, a: Any, pivot: bool, is_checked: bool) -> Any:
    check_matrix(op, a)
    if not pivot:
        raise RuntimeError(f"{op}: LU without pivoting is not implemented on the CPU")
    packed, exchanges, info = LU(a)
    flags = batching.whole(info)
    if is_checked and flags.numel() and bool((flags != 0).any()):
        first = int(flags[flags != 0][0])
        raise errors.LinAlgError(
            f"{op}: U[{first},{first}] is zero and using it on lu_solve would result in a "
            f"division by zero; torch.linalg.lu and lu_factor_ex factorise such matrices too"
        )
    return packed, exchanges, info


@public("linalg", out=True)
def lu_factor_ex(A: Any, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """L and U in one matrix, the row exchanges (from 1), and the first zero pivot (or 0).

    >>> torch.linalg.lu_factor_ex(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    torch.return_types.linalg_lu_factor_ex(
    LU=tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]),
    pivots=tensor([2, 2], dtype=torch.int32),
    info=tensor(0, dtype=torch.int32))
    """
    return return_types.lu_factor_ex_result(
        *_factored("linalg.lu_factor_ex", A, pivot, check_errors)
    )


@public("linalg", out=True)
def lu_factor(A: Any, *, pivot: bool = True) -> Any:
    """L and U in one matrix, and the row exchanges (from 1) that `lu_solve` takes.

    Raises torch.linalg.LinAlgError where a pivot is zero.

    >>> torch.linalg.lu_factor(torch.tensor([[1.0, 2.0], [2.0, 2.0]]))
    torch.return_types.linalg_lu_factor(
    LU=tensor([[2.0000, 2.0000],
            [0.5000, 1.0000]]),
    pivots=tensor([2, 2], dtype=torch.int32))
    """
    packed, exchanges, _ = _factored("linalg.lu_factor", A, pivot, True)
    return return_types.lu_factor_result(packed, exchanges)


@public("linalg", out=True)
def lu(A: Any, *, pivot: bool = True) -> Any:
    """P, L and U with P @ L @ U = A.

    >>> A = torch.tensor([[1.0, 2.0], [4.0, 4.0]])
    >>> P, L, U = torch.linalg.lu(A)
    >>> P @ L @ U
    tensor([[1., 2.],
            [4., 4.]])
    """
    packed, exchanges, _ = _factored("linalg.lu", A, pivot, False)
    return return_types.lu_result(*lu_unpack(packed, exchanges))


@public("torch", "Tensor", name="lu", out=True)
def _lu(A: Any, pivot: bool = True, get_infos: bool = False) -> Any:
    """`torch.linalg.lu_factor`, by its older name; with `get_infos` also the zero pivots."""
    found = _factored("lu", A, pivot, False)
    return tuple(found if get_infos else found[:2])


@public("torch", out=True)
def lu_unpack(
    LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True
) -> Any:
    """P, L and U from what `lu_factor` gave; those not wanted are empty.

    >>> A = torch.tensor([[1.0, 2.0], [2.0, 2.0]])
    >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(A))
    >>> P @ L @ U
    tensor([[1., 2.],
            [2., 2.]])
    """
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    p = lower = upper = LU_data.new_zeros((0,))
    if unpack_pivots:
        if LU_pivots.dtype is not dt.int32:
            raise RuntimeError(
                f"lu_unpack: Expected LU_pivots to be of dtype int32, got {LU_pivots.dtype!r}"
            )
        if LU_pivots.shape != (*LU_data.shape[:-2], k):
            raise RuntimeError(
                f"lu_unpack: pivots {list(LU_pivots.shape)} are not those of matrices "
                f"{list(LU_data.shape)}: expected {[*LU_data.shape[:-2], k]}"
            )
        p = PERMUTATION(LU_pivots, size=m, dtype=LU_data.dtype)
    if unpack_data:
        lower = LU_data[..., :k].tril(-1) + EYE(n=m, m=k, dtype=LU_data.dtype)
        upper = LU_data[..., :k, :].triu()
    return return_types.lu_unpack(p, lower, upper)


@public("linalg", out=True)
def lu_solve(LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """X of A X = B from `lu_factor(A)`: of A.mH with `adjoint`, of X A = B if not `left`.

    >>> LU = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [1.0, 4.0]]))
    >>> torch.linalg.lu_solve(*LU, torch.tensor([[2.0], [9.0]]))
    tensor([[1.],
            [2.]])
    """
    check_square("linalg.lu_solve", LU)
    check_matrix("linalg.lu_solve", B, "B")
    if LU.dtype is not B.dtype:
        raise errors.mixed_dtypes("linalg.lu_solve", LU.dtype, B.dtype)
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    B = matched("linalg.lu_solve", LU, B, True)[1]
    p, lower, upper = lu_unpack(LU, pivots)
    if adjoint:
        half = solve_triangular(upper.mH, B, upper=False)
        turned = solve_triangular(lower.mH, half, upper=True, unitriangular=True)
        return _rows(turned, p)
    half = solve_triangular(lower, _rows(B, p.mT), upper=False, unitriangular=True)
    return solve_triangular(upper, half, upper=True)


def _rows(x: Any, permutation: Any) -> Any:
    """The product, without NaN in all rows where one is infinite."""
    size = x.shape[-2]
    at = ((permutation != 0) * ARANGE(0, 1, length=size, dtype=dt.int64)).sum(-1)
    batch = views.broadcast_shapes("linalg.lu_solve", x.shape[:-2], at.shape[:-1])
    places = at.unsqueeze(-1).expand(*batch, size, x.shape[-1])
    return x.expand(*batch, *x.shape[-2:]).gather(-2, places)


@public("torch", "Tensor", name="lu_solve", out=True)
def _lu_solve(b: Any, LU_data: Any, LU_pivots: Any) -> Any:
    """`torch.linalg.lu_solve`, by its older name."""
    return lu_solve(LU_data, LU_pivots, b)
