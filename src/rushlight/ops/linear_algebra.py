"""Matrix factorisations, by LAPACK through NumPy between kernels."""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import QR


def _qr_host(a: Any, mode: Any) -> tuple[Any, Any]:
    q, r = np.linalg.qr(a, mode)
    return q, r


def _qr_type(a: TensorType, mode: str) -> tuple[TensorType, TensorType]:
    if a.ndim < 2:
        raise RuntimeError(
            f"linalg.qr: The input tensor A must have at least 2 dimensions, got shape "
            f"{list(a.shape)}"
        )
    if a.dtype not in (dt.float32, dt.float64):
        raise errors.wrong_dtype("linalg.qr", a.dtype, "float32 or float64")
    *batch, m, n = a.shape
    inner = m if mode == "complete" else min(m, n)
    return TensorType((*batch, m, inner), a.dtype), TensorType((*batch, inner, n), a.dtype)


def _qr_lower(k: Any, a: Any, mode: str) -> Any:
    q, r = _qr_type(TensorType(a.shape, a.dtype), mode)
    outputs = ((q.shape, q.dtype), (r.shape, r.dtype))
    return tuple(k.host(_qr_host, outputs, a, mode=mode))


QR_OP = Op("linalg.qr", attrs=("mode",), type=_qr_type, lower=_qr_lower, vjp=None)


@public("linalg")
def qr(A: Any, mode: str = "reduced") -> Any:
    """Q and R of the QR factorisation of (batches of) matrices; not differentiable yet.

    mode: 'reduced' (Q is m x min(m, n)) or 'complete' (Q is m x m).
    """
    if mode not in ("reduced", "complete"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            f"or 'complete'"
        )
    return QR(*QR_OP(A, mode=mode))


@public("torch", "Tensor")
def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got shape {list(input.shape)}")
    if input.dtype is dt.bool_:
        raise errors.not_implemented_for("trace", input.dtype, "numbers")
    return input.diagonal().sum()
