"""Least squares, by singular values through NumPy between kernels."""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ir.host import takes_batches
from rushlight.ops import batching
from rushlight.ops.linear_algebra import Array, check_matrix
from rushlight.ops.linear_solve import PINV, pinv
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import lstsq_result

DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


@takes_batches
def _solutions(a: Array, b: Array, rcond: float) -> tuple[Array, Array, Array]:
    """X of least squares and least norm, the ranks and the singular values."""
    *batch, m, n = a.shape
    x = np.zeros((*batch, n, b.shape[-1]), a.dtype)
    rank, s = np.zeros(batch, np.int64), np.zeros((*batch, min(m, n)), a.real.dtype)
    if a.size:
        for at in np.ndindex(*batch):
            x[at], _, rank[at], s[at] = np.linalg.lstsq(a[at], b[at], rcond)
    return x, rank, s


def lstsq_type(
    a: TensorType, b: TensorType, rcond: float
) -> tuple[TensorType, TensorType, TensorType]:
    *batch, m, n = a.shape
    return (
        TensorType((*batch, n, b.shape[-1]), b.dtype),
        TensorType(tuple(batch), dt.int64),
        TensorType((*batch, min(m, n)), a.dtype.to_real()),
    )


def lstsq_lower(k: Any, a: Any, b: Any, rcond: float) -> tuple[Any, ...]:
    types = lstsq_type(TensorType(a.shape, a.dtype), TensorType(b.shape, b.dtype), rcond)
    outputs = tuple((t.shape, t.dtype) for t in types)
    return tuple(k.host(_solutions, outputs, a, b, rcond=rcond))


def lstsq_vjp(g: Any, out: Any, a: Any, b: Any, rcond: float) -> Any:
    """The solution is pinv(A) B, wherever the rank does not change."""
    p = pinv(a, rcond)
    no_cut = p.new_zeros(p.shape[:-2])
    return PINV.vjp(g[0] @ b.mH, p, a, no_cut)[0], p.mH @ g[0]


LSTSQ = Op("linalg.lstsq", attrs=("rcond",), type=lstsq_type, lower=lstsq_lower, vjp=lstsq_vjp)


def _columns(op: str, a: Any, b: Any) -> Any:
    """B as matrices whose columns are the right-hand sides."""
    is_vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    columns = b.unsqueeze(-1) if is_vector else b
    if columns.ndim < 2 or columns.shape[-2] != a.shape[-2]:
        raise RuntimeError(
            f"{op}: input.size(-2) should match other.size(-2) ({list(a.shape)} and "
            f"{list(b.shape)})"
        )
    return columns


@public("linalg", out=True)
def lstsq(A: Any, B: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """X of least |A X - B| (and least norm): solution, residuals, rank, singular_values.

    driver: PyTorch's names of LAPACK's methods; all are by singular values here, and the name
    says which of the further results are given, as in PyTorch (others are empty).

    >>> torch.linalg.lstsq(torch.tensor([[2.0], [0.0]]), torch.tensor([[4.0], [1.0]])).solution
    tensor([[2.]])
    """
    op = "torch.linalg.lstsq"
    check_matrix(op, A)
    if A.dtype is not B.dtype:
        raise errors.mixed_dtypes(op, A.dtype, B.dtype)
    driver = driver or "gelsy"
    if driver not in DRIVERS:
        raise RuntimeError(
            f"{op}: parameter `driver` should be one of ({', '.join(DRIVERS)}), got {driver}"
        )
    columns = _columns(op, A, B)
    batch = views.broadcast_shapes(op, A.shape[:-2], columns.shape[:-2])
    a = A.expand(*batch, *A.shape[-2:])
    b = columns.expand(*batch, *columns.shape[-2:])
    m, n = A.shape[-2:]
    cut = dt.finfo(A.dtype).eps * max(m, n) if rcond is None else float(rcond)
    found, rank, s = LSTSQ(a, b, rcond=cut)
    nothing = A.new_zeros((0,), dtype=A.dtype.to_real())
    no_residuals = found.reshape(-1)[:0].abs()  # they have a derivative all the same
    is_over = m > n and driver != "gelsy"
    if is_over and driver != "gels":
        is_over = bool((batching.whole(rank) == n).all())
    return lstsq_result(
        found.squeeze(-1) if columns is not B else found,
        (a @ found - b).abs().square().sum(-2) if is_over else no_residuals,
        rank if driver != "gels" else nothing.to(dt.int64),
        s.detach() if driver in ("gelsd", "gelss") else nothing,
    )
