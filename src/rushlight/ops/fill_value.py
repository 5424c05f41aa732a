"""Python numbers as contents: what a dtype can hold, and what is raised for the rest."""

from __future__ import annotations

import math
from typing import Any  # values are numbers or tensors

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.dtypes import Category, dtype

_INTEGERS = tuple(kind for kind in dt.ALL if kind.category is Category.INTEGRAL)
_RANGES = {kind: (dt.iinfo(kind).min, dt.iinfo(kind).max) for kind in _INTEGERS}
_RANGES |= {k: (-dt.iinfo(k).max, dt.iinfo(k).max) for k in _INTEGERS if k.is_unsigned}  # wrap
_LARGEST = {
    kind: dt.finfo(kind).max for kind in (dt.float64, dt.float32, dt.float16, dt.bfloat16)
}


def checked_value(op: str, value: Any, kind: dtype) -> Any:
    """A number to fill a tensor of `kind` with; a tensor as it is.

    RuntimeError if the dtype cannot hold it, OverflowError for integers of more than 64 bits.
    """
    if type(value) is float and abs(value) <= _LARGEST.get(kind, -1):
        return value
    if not isinstance(value, int | float | complex):
        return value
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise OverflowError(f"{op}: the integer {value} does not fit in 64 bits")
    if not holds(kind, value):
        raise errors.value_overflows(op, value, kind)
    if isinstance(value, complex):
        return value if kind.is_complex else value.real
    if isinstance(value, int) and value >= 2**63:  # run-time integers have a sign
        return value if kind is dt.uint64 else kind is dt.bool_ or float(value)
    return int(value) % (1 << 8 * kind.itemsize) if kind.is_unsigned else value


def check_number(op: str, value: Any, kind: dtype) -> None:
    """Raise for a Python number that a tensor of `kind` meets, and that `kind` cannot hold: one
    of a higher category makes it another dtype first.
    """
    if type(value) is not int and type(value) is not float:
        return
    if kind.is_integral and (type(value) is float or kind is dt.bool_):
        return
    if not kind.is_complex and not holds(kind, value):
        raise errors.value_overflows(op, value, kind)


def holds(kind: dtype, value: complex) -> bool:
    """Whether a number is within the range of a dtype (its fraction may be lost)."""
    if kind is dt.bool_:
        return True
    if isinstance(value, complex):
        if kind.is_complex:
            return holds(kind.to_real(), value.real) and holds(kind.to_real(), value.imag)
        return value.imag == 0 and holds(kind, value.real)
    if kind.is_integral:
        if kind not in _RANGES:
            raise errors.only_named(kind)
        low, high = _RANGES[kind]
        return math.isfinite(value) and low <= int(value) <= high
    if kind.is_float8:  # conversions say what becomes of numbers beyond the largest
        return True
    return not math.isfinite(value) or abs(value) <= _LARGEST[kind.to_real()]
