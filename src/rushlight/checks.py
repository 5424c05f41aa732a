"""Conditions that a program states: `torch._check` and the like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # a condition may be a tensor

from rushlight.tensor import Tensor

Message = Callable[[], object] | None


def _assert(condition: Any, message: object) -> None:
    """AssertionError with the message unless the condition holds."""
    if not condition:
        raise AssertionError(message)


def _assert_async(self: Any, assert_msg: str | None = None) -> None:
    """RuntimeError unless a tensor's one element is not zero."""
    if not self:
        raise RuntimeError(assert_msg or "_assert_async: expected a nonzero value, got zero")


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """An error of this class unless the condition, a bool, holds."""
    if isinstance(cond, Tensor):
        raise TypeError("cond must be a bool, but got a Tensor: see torch._check_tensor_all()")
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error_type(str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """RuntimeError unless the condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: Any, message: Message = None) -> None:
    """NotImplementedError unless the condition holds."""
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """RuntimeError unless a number can be a size (and is at most `max`)."""
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_tensor_all(cond: Any, message: Message = None) -> None:
    """RuntimeError unless all elements of a boolean tensor hold."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check(bool(cond.all()), message)
