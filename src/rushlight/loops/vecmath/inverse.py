"""Inverse trigonometric and inverse hyperbolic functions."""

from __future__ import annotations

from rushlight.loops.vecmath.lanes import (
    Value,
    copysign,
    fast_two_sum,
    fma,
    polynomial,
    select,
)
from rushlight.loops.vecmath.registry import call, vector_function

INFINITY = float("inf")
# Multiples of pi/4 in two parts.
QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
THREE_QUARTER_PI = (2.356194490192345, 9.184850993605148e-17)
PI = (3.141592653589793, 1.2246467991473532e-16)

# fmt: off
# (atan(t) / t - 1) / t^2 in t^2, |t| <= 0.4144. Relative error 2^-35.4 (f32) and 2^-63.8.
ATAN = {
    "f32": (-0.3333333249581113, 0.1999990358791826, -0.14281998349133881,
            0.11044574586040276, -0.08475618311817193, 0.04742711720936589),
    "f64": (-0.33333333333333326, 0.19999999999997248, -0.14285714285345946,
            0.11111111085987328, -0.09090908076354029, 0.07692281398839619,
            -0.06666208746964734, 0.05876861570294301, -0.0521745768527633,
            0.04499986371075226, -0.03339713995299844, 0.015121529111544425),
}
# (asin(t) / t - 1) / t^2 in t^2, |t| <= 0.5. Relative error 2^-35.8 (f32) and 2^-63.7.
ASIN = {
    "f32": (0.16666667188009857, 0.07499948218768951, 0.044660168047037686,
            0.030109952048600917, 0.02462163864355034, 0.00745516475684534,
            0.03471398141917527),
    "f64": (0.1666666666666666, 0.075000000000024, 0.04464285713979573, 0.030381944640090003,
            0.022372151719199467, 0.017352943349336233, 0.013961895571052254,
            0.011585806914838959, 0.00948283930950506, 0.0100166845875287,
            0.000654048170825499, 0.024898132266237532, -0.02625434017663907,
            0.03371087069940477),
}
# fmt: on


@vector_function("atan", ulp=(0.55, 1.0))
def atan(x: Value) -> Value:
    a = abs(x).convert("f64")
    out = _angle(a, a.like(1.0), x.kind, a > 1.0, None).convert(x.kind)
    return copysign(out, x)


@vector_function("atan2", ulp=(0.55, 1.75), arity=2)
def atan2(y: Value, x: Value) -> Value:
    """The angle of (x, y): zeros and infinities as in C."""
    a, b = abs(y).convert("f64"), abs(x).convert("f64")
    both = a.equals(INFINITY) & b.equals(INFINITY)
    a, b = select(both, 1.0, a), select(both, 1.0, b)
    if x.kind == "f64":  # sums of the two must not overflow
        large = (a > 2.0**1021) | (b > 2.0**1021)
        a, b = select(large, a * 0.25, a), select(large, b * 0.25, b)
    out = _angle(a, b, x.kind, a > b, x.bits() < 0).convert(x.kind)
    return select(x.is_nan() | y.is_nan(), x + y, copysign(out, y))


def _angle(a: Value, b: Value, fit: str, steep: Value, left: Value | None) -> Value:
    """atan(a / b) for a, b >= 0, and pi minus that where `left`; steep means a > b.

    t is the ratio of smaller to larger, or, above tan(pi/8), its rotation by pi/4. The angle is
    then a multiple of pi/4, in two parts, plus or minus atan(t).
    """
    small, large = select(steep, b, a), select(steep, a, b)
    turned = small > 0.41421356237309503 * large
    difference, difference_low = fast_two_sum(-large, small)
    sum_, sum_low = fast_two_sum(large, small)
    numerator = select(turned, difference, small)
    denominator = select(turned, sum_, large)
    t = select(numerator.equals(0.0), 0.0, numerator / denominator)
    square = t * t
    tail = t * square * polynomial(square, ATAN[fit])
    if fit == "f64":
        rest = fma(-t, denominator, numerator) + fma(-t, sum_low, difference_low)
        tail = select(turned, tail + rest / denominator, tail)
    base, base_low = (select(turned, t.like(part), 0.0) for part in QUARTER_PI)
    minus = steep
    base = select(steep, select(turned, base, HALF_PI[0]), base)
    base_low = select(steep, select(turned, base_low, HALF_PI[1]), base_low)
    if left is not None:
        base, base_low = _reflect(base, base_low, left, turned, steep)
        minus = steep ^ left
    t, tail = select(minus, -t, t), select(minus, -tail, tail)
    return base + (t + (tail + base_low))


def _reflect(
    base: Value, base_low: Value, left: Value, turned: Value, steep: Value
) -> tuple[Value, Value]:
    """pi minus a base of 0, pi/4 or pi/2."""

    def pick(index: int, base: Value) -> Value:
        mirrored = select(turned, base.like(THREE_QUARTER_PI[index]), PI[index])
        mirrored = select(steep & ~turned, HALF_PI[index], mirrored)
        return select(left, mirrored, base)

    return pick(0, base), pick(1, base_low)


@vector_function("asin", ulp=(0.55, 1.0))
def asin(x: Value) -> Value:
    """A series up to 1/2; beyond, pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    a = abs(x).convert("f64")
    inner = a <= 0.5
    root, tail = _arc(a, inner, x.kind)
    outer = _minus(HALF_PI, 2.0 * root, 2.0 * tail)
    out = select(inner, root + tail, outer).convert(x.kind)
    return copysign(out, x)


@vector_function("acos", ulp=(0.55, 1.0))
def acos(x: Value) -> Value:
    wide = x.convert("f64")
    a = abs(wide)
    inner = a <= 0.5
    root, tail = _arc(a, inner, x.kind)
    negative = wide < 0.0
    signed = select(negative, -root, root), select(negative, -tail, tail)
    near = _minus(HALF_PI, *signed)
    twice, twice_tail = 2.0 * root, 2.0 * tail
    out = select(negative, _minus(PI, twice, twice_tail), twice + twice_tail)
    return select(inner, near, out).convert(x.kind)


def _minus(angle: tuple[float, float], part: Value, part_low: Value) -> Value:
    """angle - part - part_low, for parts up to the angle."""
    total, error = fast_two_sum(part.like(angle[0]), -part)
    return total + (error + (angle[1] - part_low))


def _arc(a: Value, inner: Value, fit: str) -> tuple[Value, Value]:
    """asin(s) = s + tail: s is a, or sqrt((1 - a) / 2) with its rounding error in the tail."""
    half = (1.0 - a) * 0.5
    root = half.sqrt()
    lost = fma(-root, root, half) / (root + root)
    lost = select(root.equals(0.0), 0.0, lost)
    s = select(inner, a, root)
    square = select(inner, a * a, half)
    tail = s * square * polynomial(square, ASIN[fit])
    return s, select(inner, tail, tail + lost)


@vector_function("asinh", ulp=(0.55, 2.25))
def asinh(x: Value) -> Value:
    """log1p(a + a^2 / (1 + sqrt(1 + a^2))), or log(a) + log(2) where a^2 is all that counts."""
    a = abs(x).convert("f64")
    square = a * a
    usual = call("log1p", a + square / (1.0 + (1.0 + square).sqrt()))
    out = select(a > 2.0**28, _log_of_twice(a), usual)
    return copysign(out.convert(x.kind), x)


@vector_function("acosh", ulp=(0.55, 2.25))
def acosh(x: Value) -> Value:
    """log1p(t + sqrt(t (t + 2))) with t = x - 1."""
    wide = x.convert("f64")
    t = wide - 1.0
    usual = call("log1p", t + fma(t, t, t + t).sqrt())
    out = select(wide > 2.0**28, _log_of_twice(wide), usual)
    return select(wide < 1.0, float("nan"), out).convert(x.kind)


def _log_of_twice(a: Value) -> Value:
    return call("log", a) + 0.6931471805599453


@vector_function("atanh", ulp=(0.55, 2.25))
def atanh(x: Value) -> Value:
    """log1p(2a / (1 - a)) / 2."""
    a = abs(x).convert("f64")
    out = 0.5 * call("log1p", 2.0 * a / (1.0 - a))
    return copysign(out.convert(x.kind), x)
