"""Whole numbers, and exact remainders of division."""

from __future__ import annotations

from rushlight.loops.vecmath.lanes import (
    EXPONENT_BIAS,
    LANES,
    MANTISSA_BITS,
    Value,
    copysign,
    fma,
    scale,
    select,
)
from rushlight.loops.vecmath.logarithm import SMALLEST_NORMAL
from rushlight.loops.vecmath.registry import vector_function

INFINITY = float("inf")


def rounded(x: Value, intrinsic: str) -> Value:
    """`llvm.<intrinsic>` of every lane: floor, ceil, trunc or roundeven."""
    return x.code.call(f"llvm.{intrinsic}.v{LANES}{x.kind}", x.kind, x)


@vector_function("fmod", ulp=(0.0, 0.0), arity=2)
def fmod(x: Value, y: Value) -> Value:
    """x - trunc(x / y) y without any rounding, signed like x."""
    return _finish(x, y, _remainder_of_sizes(abs(x), abs(y)))


def _finish(x: Value, y: Value, rest: Value) -> Value:
    a, b = abs(x), abs(y)
    out = select(a < b, x, copysign(rest, x))
    valid = (a < INFINITY) & (b > 0.0)
    return select(valid, out, float("nan"))


def _remainder_of_sizes(a: Value, b: Value) -> Value:
    """a modulo b for positive numbers, by long division: quotients of at most 2^span at a time.

    Each step takes q b 2^k off a, q within one of the true quotient. The fma is exact: the
    difference is smaller than b 2^k and a multiple of its last place. The loop runs once
    unless a quotient exceeds 2^span.
    """
    code, kind = a.code, a.kind
    span = MANTISSA_BITS[kind] - 2
    divisor, shift_b, exponent_b = _normal(b)
    gap = _normal(a)[2] - exponent_b
    before, name = code.block, code.name()[1:]
    code.lines.append(f"  br label %divide.{name}")
    code.label(f"divide.{name}")
    rest, left = code.phi_open(kind), code.phi_open(gap.kind)
    step = select(left > span, left - span, 0)
    rest_next = _one_step(rest, scale(divisor, step - shift_b))
    code.phi_close(rest, (a, before), (rest_next, code.block))
    code.phi_close(left, (gap, before), (step, code.block))
    code.branch(code.any(step > 0), f"divide.{name}", f"divided.{name}")
    code.label(f"divided.{name}")
    return rest_next


def _one_step(rest: Value, divisor: Value) -> Value:
    quotient = rounded(rest / divisor, "trunc")
    less = fma(-quotient, divisor, rest)
    less = select(less < 0.0, less + divisor, less)
    return select(less >= divisor, less - divisor, less)


def _normal(x: Value) -> tuple[Value, Value, Value]:
    """A positive x made normal: x * 2^shift, shift, and the binary exponent of x."""
    bits = MANTISSA_BITS[x.kind]
    tiny = x < SMALLEST_NORMAL[x.kind]
    normal = select(tiny, x * 2.0 ** (bits + 2), x)
    pattern = normal.bits().logical_shift(bits)
    shift = select(tiny, pattern.like(bits + 2), 0)
    return normal, shift, pattern - EXPONENT_BIAS[x.kind] - shift
