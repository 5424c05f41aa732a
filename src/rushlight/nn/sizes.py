"""Kernel sizes, strides and paddings: one number for all dimensions, or one for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def repeated(value: Any, count: int) -> tuple[Any, ...]:
    """A size for each of `count` dimensions."""
    if isinstance(value, Iterable):
        return tuple(value)
    return (value,) * count
