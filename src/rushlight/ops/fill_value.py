"""Python numbers as contents: what a dtype can hold, and what is raised for the rest."""

from __future__ import annotations

import math
from typing import Any  # values are numbers or tensors

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.dtypes import dtype

_INTEGERS = (dt.int64, dt.int32, dt.int16, dt.int8, dt.uint8)
_RANGES = {kind: (dt.iinfo(kind).min, dt.iinfo(kind).max) for kind in _INTEGERS}
_RANGES[dt.uint8] = (-255, 255)  # as in PyTorch: negatives wrap
_LARGEST = {
    kind: dt.finfo(kind).max for kind in (dt.float64, dt.float32, dt.float16, dt.bfloat16)
}


def checked_value(op: str, value: Any, kind: dtype) -> Any:
    """A number to fill a tensor of `kind` with; a tensor as it is.

    RuntimeError if the dtype cannot hold it, OverflowError for integers of more than 64 bits.
    """
    if not isinstance(value, int | float | complex):
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"{op}: the integer {value} does not fit in 64 bits")
    if not holds(kind, value):
        raise errors.value_overflows(op, value, kind)
    if isinstance(value, complex):
        return value if kind.is_complex else value.real
    if isinstance(value, int) and value >= 2**63:  # run-time integers have a sign
        return kind is dt.bool_ or float(value)
    return int(value) % 256 if kind is dt.uint8 else value


def holds(kind: dtype, value: complex) -> bool:
    """Whether a number is within the range of a dtype (its fraction may be lost)."""
    if kind is dt.bool_:
        return True
    if isinstance(value, complex):
        if kind.is_complex:
            return holds(kind.to_real(), value.real) and holds(kind.to_real(), value.imag)
        return value.imag == 0 and holds(kind, value.real)
    if kind.is_integral:
        low, high = _RANGES[kind]
        return math.isfinite(value) and low <= int(value) <= high
    return not math.isfinite(value) or abs(value) <= _LARGEST[kind.to_real()]
