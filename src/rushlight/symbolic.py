"""PyTorch's symbolic numbers: sizes here are plain numbers, so nothing is an instance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # numbers, and tensors of one


class SymInt:
    """A symbolic integer: no tensor here has one."""


class SymFloat:
    """A symbolic number: no tensor here has one."""


class SymBool:
    """A symbolic truth value: no tensor here has one."""


def sym_int(a: Any) -> int:
    """A number rounded towards zero.

    >>> sym_int(-2.5)
    -2
    """
    return math.trunc(a)


def sym_float(a: Any) -> float:
    """A number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """The opposite of a truth value."""
    return not a


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


def _promoted(function: Any, a: Any, b: Any) -> Any:
    found = function(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


def sym_max(a: Any, b: Any) -> Any:
    """The greater of two numbers, a float if either is one."""
    return _promoted(max, a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The lesser of two numbers, a float if either is one."""
    return _promoted(min, a, b)


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of several numbers."""
    return sum(args)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """`t` if `b`, otherwise `f`."""
    return t if b else f
