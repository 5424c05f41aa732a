"""Sums of products: matrix multiplication in its forms."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import errors, views
from rushlight.ops.registry import Op, TensorType, public


def bmm_type(a: TensorType, b: TensorType) -> TensorType:
    if a.dtype is not b.dtype:
        raise errors.mixed_dtypes("matmul", a.dtype, b.dtype)
    if a.shape[-1] != b.shape[-2]:
        raise errors.cannot_multiply("matmul", a.shape, b.shape, a.shape[-1], b.shape[-2])
    return TensorType((*a.shape[:-1], b.shape[-1]), a.dtype)


MATMUL = Op(  # (..., m, k) @ (k, n) with b a matrix, or batches of equal size
    "matmul",
    type=bmm_type,
    lower=lambda k, a, b: _matmul_lower(k, a, b),
    vjp=lambda g, out, a, b: _matmul_vjp(g, a, b),
)


def _matmul_lower(k: Any, a: Any, b: Any) -> Any:
    if len(b.shape) == 2:
        rows = "abcdefgh"[: len(a.shape) - 1]
        return k.contract(f"{rows}k,kn->{rows}n", a, b)
    batch = "abcdefgh"[: len(a.shape) - 2]
    return k.contract(f"{batch}mk,{batch}kn->{batch}mn", a, b)


def _matmul_vjp(g: Any, a: Any, b: Any) -> Any:
    if b.ndim == 2:
        flat = g.reshape(-1, g.shape[-1])
        return MATMUL(g, b.transpose(0, 1)), MATMUL(
            a.reshape(-1, a.shape[-1]).transpose(0, 1), flat
        )
    return MATMUL(g, b.transpose(-1, -2)), MATMUL(a.transpose(-1, -2), g)


@public("torch", "Tensor", out=True)
def matmul(input: Any, other: Any) -> Any:
    """Matrix product with PyTorch's rules for vectors and batches.

    >>> import rushlight as torch
    >>> torch.matmul(torch.ones(2, 3), torch.ones(3)).shape
    torch.Size([2])
    """
    a, b = input, other
    if a.ndim == 0 or b.ndim == 0:
        raise RuntimeError(
            f"matmul: both arguments to matmul need to be at least 1D, but they are {a.ndim}D "
            f"and {b.ndim}D"
        )
    if a.ndim == 1 and b.ndim == 1:
        if a.shape != b.shape:
            raise errors.cannot_multiply("matmul", a.shape, b.shape, a.shape[0], b.shape[0])
        return MATMUL(a.reshape(1, -1), b.reshape(-1, 1)).reshape(())
    if a.ndim == 1:
        return matmul(a.reshape(1, -1), b).squeeze(-2)
    if b.ndim == 1:
        return matmul(a, b.reshape(-1, 1)).squeeze(-1)
    if b.ndim == 2:
        return MATMUL(a, b)
    batch = views.broadcast_shapes("matmul", a.shape[:-2], b.shape[:-2])
    return MATMUL(a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:]))
