"""What Python's operators do with tensors: `x + y`, `x @ y`, `x == y`, `x += y`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any  # operands: tensors, numbers, arrays, objects that override

import numpy as np

from rushlight import errors
from rushlight.arrays import from_numpy
from rushlight.ops import arithmetic, bitwise, comparison, contract, selection
from rushlight.ops.registry import Op, recorder


def _operator(op: Any) -> Callable[[Any, Any], Any]:
    """The method of a binary operator: an Op, or a function of two operands. Here and below
    `out` is what PyTorch documents for a call of the method: `x.__add__(y, out=z)`.
    """

    def operator(input: Any, other: Any, out: Any = None) -> Any:  # hot
        if out is None and isinstance(other, _OPERANDS):
            return recorder.record_two(op, input, other, ())
        if out is not None:
            return _delivered(operator(input, other), out, operator.__name__)
        return _with_object(operator, op, input, other)

    return operator if isinstance(op, Op) else _function_operator(op, False)


def _reflected(op: Any) -> Callable[[Any, Any], Any]:
    """The method of a binary operator whose tensor stands on the right."""

    def operator(input: Any, other: Any, out: Any = None) -> Any:  # hot
        if out is None and isinstance(other, _OPERANDS):
            if not isinstance(input, Operators):
                raise errors.not_a_tensor(op.name, "input", input)
            return recorder.record_two(op, other, input, ())
        if out is not None:
            return _delivered(operator(input, other), out, operator.__name__)
        return _with_object(operator, lambda a, b: op(b, a), input, other)

    return operator if isinstance(op, Op) else _function_operator(op, True)


def _delivered(result: Any, out: Any, name: str) -> Any:
    if out is None:
        return result
    from rushlight.surface import deliver  # binds functions to tensors, so it comes after them

    return deliver(out, result, name)


def _function_operator(function: Callable[[Any, Any], Any], is_reflected: bool) -> Any:
    def swapped(a: Any, b: Any) -> Any:
        return function(b, a)

    apply = swapped if is_reflected else function

    def operator(input: Any, other: Any, out: Any = None) -> Any:
        if out is not None:
            return _delivered(operator(input, other), out, operator.__name__)
        if isinstance(other, _OPERANDS):
            return apply(input, other)
        return _with_object(operator, apply, input, other)

    return operator


def _with_object(operator: Any, apply: Callable[[Any, Any], Any], x: Any, other: Any) -> Any:
    """An operator with an array, or with an object that overrides; else NotImplemented."""
    if isinstance(other, np.ndarray):
        return apply(x, from_numpy(other))
    if hasattr(type(other), "__torch_function__"):
        return recorder.taken_over(operator, (x, other), {})
    return NotImplemented


def _as_operand(x: Any) -> Any:
    """A NumPy array among the operands as a tensor on its memory."""
    return from_numpy(x) if isinstance(x, np.ndarray) else x


class Operators:
    """The operators of `Tensor`, whose base this is."""

    __slots__ = ()

    __add__ = _operator(arithmetic.ADD)
    __radd__ = _reflected(arithmetic.ADD)
    __sub__ = _operator(arithmetic.SUB)
    __rsub__ = _reflected(arithmetic.SUB)
    __mul__ = _operator(arithmetic.MUL)
    __rmul__ = _reflected(arithmetic.MUL)
    __truediv__ = _operator(arithmetic.DIV)
    __rtruediv__ = _reflected(arithmetic.DIV)
    __rdiv__ = __rtruediv__  # PyTorch still has Python 2's names

    def __div__(
        input: Any, other: Any, *, rounding_mode: str | None = None, out: Any = None
    ) -> Any:
        if not isinstance(other, _OPERANDS) and not isinstance(other, np.ndarray):
            return _with_object(Operators.__div__, arithmetic.div, input, other)
        return _delivered(
            arithmetic.div(input, _as_operand(other), rounding_mode=rounding_mode), out, "div"
        )

    __floordiv__ = _operator(arithmetic.floor_divide)
    __rfloordiv__ = _reflected(arithmetic.floor_divide)
    __mod__ = _operator(arithmetic.remainder)
    __rmod__ = _reflected(arithmetic.remainder)

    def __pow__(input: Any, exponent: Any, out: Any = None) -> Any:
        if isinstance(exponent, _OPERANDS):
            made = arithmetic.pow(input, exponent)
        else:
            made = _with_object(Operators.__pow__, arithmetic.pow, input, exponent)
        return _delivered(made, out, "pow")

    def __ipow__(input: Any, exponent: Any) -> Any:  # type: ignore[misc]  # has no `out`
        if not isinstance(exponent, _OPERANDS) and not isinstance(exponent, np.ndarray):
            return _with_object(Operators.__ipow__, Operators.__ipow__, input, exponent)
        return input.pow_(_as_operand(exponent))

    __rpow__ = _reflected(arithmetic.pow)

    def __matmul__(input: Any, other: Any, out: Any = None) -> Any:
        if out is not None:
            return _delivered(contract.matmul(input, other), out, "matmul")
        if isinstance(other, Operators):
            return contract.matmul(input, other)
        if isinstance(other, np.ndarray):
            return NotImplemented
        return _with_object(Operators.__matmul__, contract.matmul, input, other)

    def __rmatmul__(input: Any, other: Any, out: Any = None) -> Any:
        if out is not None:
            return _delivered(contract.matmul(other, input), out, "matmul")
        if isinstance(other, Operators):
            return contract.matmul(other, input)
        if isinstance(other, _OPERANDS):
            return NotImplemented
        return _with_object(
            Operators.__rmatmul__, lambda a, b: contract.matmul(b, a), input, other
        )

    def __neg__(self: Any) -> Any:
        return arithmetic.NEG(self)

    def __pos__(input: Any, out: Any = None) -> Any:
        return _delivered(arithmetic.positive(input), out, "positive")

    def __abs__(input: Any, out: Any = None) -> Any:
        return _delivered(selection.abs(input), out, "abs")

    def __invert__(self: Any) -> Any:
        if not self.dtype.is_integral:
            raise errors.only_of_integers("~", self.dtype)
        return bitwise.BITWISE_NOT(self)

    __and__ = _operator(bitwise.BITWISE_AND)
    __rand__ = _reflected(bitwise.BITWISE_AND)
    __or__ = _operator(bitwise.BITWISE_OR)
    __ror__ = _reflected(bitwise.BITWISE_OR)
    __xor__ = _operator(bitwise.BITWISE_XOR)
    __rxor__ = _reflected(bitwise.BITWISE_XOR)
    __lshift__ = _operator(bitwise.SHIFT_LEFT)
    __rlshift__ = _reflected(bitwise.SHIFT_LEFT)
    __rshift__ = _operator(bitwise.SHIFT_RIGHT)
    __rrshift__ = _reflected(bitwise.SHIFT_RIGHT)
    __lt__ = _operator(comparison.LT)
    __le__ = _operator(comparison.LE)
    __gt__ = _operator(comparison.GT)
    __ge__ = _operator(comparison.GE)
    __eq__ = _operator(comparison.EQ)
    __ne__ = _operator(comparison.NE)


def _in_place_operator(symbol: str, method: str) -> Callable[[Any, Any], Any]:
    """`x += y` is `x.add_(y)`: every alias of x sees it."""

    def operator(input: Any, other: Any, out: Any = None) -> Any:
        if out is not None:
            return _delivered(operator(input, other), out, symbol)
        if not isinstance(other, _OPERANDS) and not isinstance(other, np.ndarray):
            return _with_object(operator, operator, input, other)
        return getattr(input, method)(_as_operand(other))

    return operator


for _symbol, _method in (
    ("__iadd__", "add_"), ("__isub__", "sub_"), ("__imul__", "mul_"), ("__itruediv__", "div_"),
    ("__idiv__", "div_"),
    ("__ifloordiv__", "floor_divide_"), ("__imod__", "remainder_"),
    ("__iand__", "bitwise_and_"), ("__ior__", "bitwise_or_"), ("__ixor__", "bitwise_xor_"),
    ("__ilshift__", "bitwise_left_shift_"), ("__irshift__", "bitwise_right_shift_"),
):  # fmt: skip
    setattr(Operators, _symbol, _in_place_operator(_symbol, _method))


for _symbol, _member in vars(Operators).items():
    if isinstance(_member, FunctionType):  # where users find it: so does pickle
        _member.__name__, _member.__qualname__ = _symbol, f"Tensor.{_symbol}"
        _member.__module__ = "rushlight"
ELEMENTS = (Operators, int, float, bool, complex, np.number)
_OPERANDS = (*ELEMENTS, np.bool_)
