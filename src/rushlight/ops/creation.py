"""Tensors from sizes and numbers: full, arange and what is built on them."""

from __future__ import annotations

from typing import Any  # fill values are numbers

from rushlight import dtype as dt
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType

FULL = Op(
    "full",
    attrs=("shape", "value", "dtype"),
    type=lambda shape, value, dtype: TensorType(shape, dtype),
    lower=lambda k, shape, value, dtype: k.full(shape, value, dtype),
    vjp=NOT_DIFFERENTIABLE,
)


def _arange_lower(k: Any, start: Any, step: Any, length: int, dtype: Any) -> Any:
    """start + i * step, calculated in float64 for floating results and int64 for integers."""
    work = dt.float64 if dtype.is_floating_point else dt.int64
    index = k.cast(k.iota((length,), 0), work)
    return k.cast(k.cast(start, work) + index * k.cast(step, work), dtype)


ARANGE = Op(
    "arange",
    attrs=("length", "dtype"),
    type=lambda start, step, length, dtype: TensorType((length,), dtype),
    lower=_arange_lower,
    vjp=NOT_DIFFERENTIABLE,
)
