"""Reductions over dimensions."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtype as dt
from rushlight import views
from rushlight.dtype import dtype
from rushlight.ops.registry import Op, TensorType, public


def restored(g: Any, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions back as size 1, expanded to `shape`."""
    if not keepdim:
        g = g.reshape(views.reduced_shape(shape, dims, True))
    return g.expand(shape)


def sum_type(x: TensorType, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> TensorType:
    return TensorType(views.reduced_shape(x.shape, dim, keepdim), dtype)


def sum_lower(k: Any, x: Any, dim: tuple[int, ...], keepdim: bool, dtype: dtype) -> Any:
    out = k.reduce("sum", k.wide(k.cast(x, dtype)), dim, keepdim)
    return k.cast(out, dtype)


SUM = Op(
    "sum",
    attrs=("dim", "keepdim", "dtype"),
    type=sum_type,
    lower=sum_lower,
    vjp=lambda g, out, x, dim, keepdim, dtype: restored(g, x.shape, dim, keepdim),
)


@public("torch", "Tensor", out=True)
def sum(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: dtype | None = None) -> Any:
    """Sum over `dim` (all dimensions by default); integers are summed as int64.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).sum(1)
    tensor([3., 3.])
    """
    dims = views.dim_indices("sum", dim, input.ndim)
    kind = dtype or (dt.int64 if input.dtype.is_integral else input.dtype)
    return SUM(input, dim=dims, keepdim=keepdim, dtype=kind)
