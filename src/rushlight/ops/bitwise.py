"""Operations on the bits of integers."""

from __future__ import annotations

from typing import Any  # operands are tensors or numbers

from rushlight.ops.elementwise import (
    binary_function,
    is_integer,
    is_integral,
    pointwise,
    unary_function,
)
from rushlight.ops.registry import Op


def _on_bits(name: str, lower: Any) -> Op:
    return pointwise(name, lower, accepts=is_integral, wanted="integers or bool")


BITWISE_AND = _on_bits("bitwise_and", lambda k, a, b: a & b)
BITWISE_OR = _on_bits("bitwise_or", lambda k, a, b: a | b)
BITWISE_XOR = _on_bits("bitwise_xor", lambda k, a, b: a ^ b)
BITWISE_NOT = _on_bits("bitwise_not", lambda k, x: ~x)
SHIFT_LEFT = pointwise(
    "bitwise_left_shift", lambda k, a, b: k.shl(a, b), accepts=is_integer, wanted="integers"
)
SHIFT_RIGHT = pointwise(
    "bitwise_right_shift", lambda k, a, b: k.shr(a, b), accepts=is_integer, wanted="integers"
)

bitwise_and = binary_function(
    BITWISE_AND, "The bits set in both (of bool: and), broadcast.", numbers="either"
)
bitwise_or = binary_function(
    BITWISE_OR, "The bits set in one or both (of bool: or), broadcast.", numbers="either"
)
bitwise_xor = binary_function(
    BITWISE_XOR,
    "The bits set in one of both (of bool: whether they differ), broadcast.",
    numbers="either",
)
bitwise_not = unary_function(
    BITWISE_NOT, "All bits turned: -x - 1 of signed integers, not x of bool."
)
bitwise_left_shift = binary_function(
    SHIFT_LEFT,
    "The bits of input moved up by other: input * 2^other, broadcast.",
    numbers="either",
)
bitwise_right_shift = binary_function(
    SHIFT_RIGHT,
    "The bits of input moved down by other: input / 2^other rounded down, broadcast.",
    numbers="either",
)
