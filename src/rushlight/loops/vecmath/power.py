"""x to the power y, and square roots."""

from __future__ import annotations

from rushlight.loops.vecmath.exponential import exp_parts
from rushlight.loops.vecmath.lanes import (
    Value,
    clamp_above,
    clamp_below,
    copysign,
    fast_two_sum,
    fma,
    nearest,
    polynomial,
    power_of_two,
    scale,
    select,
    two_product,
    two_sum,
)
from rushlight.loops.vecmath.logarithm import split
from rushlight.loops.vecmath.registry import vector_function
from rushlight.loops.vecmath.rounding import rounded

INFINITY = float("inf")

# fmt: off
# For float32 in float64: 2 atanh(s) / (s ln 2) in s^2, |s| <= 0.1717, relative error 2^-45.1;
# and (2^r - 1) / r on |r| <= 0.501, absolute error of 2^r 2^-34.3.
LOG2_ATANH = (2.885390081777849, 0.9617966941153533, 0.5770779417331547, 0.41220932089286305,
              0.31990270760487105, 0.28294525036904683)
EXP2_SLOPE = (0.6931471805413469, 0.24022651080177243, 0.0555041096445226,
              0.009618036200133032, 0.0013333429228627094, 0.00015467355624328085,
              1.5315296324357055e-05)
# (2 atanh(s) / s - 2 - 2 s^2 / 3) / s^4 in s^2, |s| <= 0.1717. Relative error of the
# logarithm 2^-66.6.
LOG_TAIL = (0.4, 0.28571428571428376, 0.22222222222291235, 0.1818181816914618,
            0.1538461676321631, 0.13333239875681382, 0.11768692303409119,
            0.10422571510347003, 0.11015818087670884)
# fmt: on
TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)
# ln 2: 41 bits, so that an exponent times it is exact, and the rest.
LN2 = (0.6931471805601177, -1.7239444525614835e-13)


@vector_function("pow", ulp=(0.55, 1.0), arity=2)
def pow(x: Value, y: Value) -> Value:
    """2^(y log2 |x|), for float64 with the logarithm in two parts; then C's special cases."""
    size = _power_through_double if x.kind == "f32" else _power_double
    return _special_cases(x, y, size(abs(x), y))


def _power_through_double(a: Value, y: Value) -> Value:
    f, e = split(a)
    f, e, y = f.convert("f64"), e.convert("f64"), y.convert("f64")
    s = f / (f + 2.0)
    log = fma(s, polynomial(s * s, LOG2_ATANH), e)
    exponent = clamp_above(clamp_below(y * log, -200.0), 200.0)
    n, n_int = nearest(exponent)
    r = exponent - n
    return (fma(r, polynomial(r, EXP2_SLOPE), 1.0) * power_of_two(n_int)).convert("f32")


def _power_double(a: Value, y: Value) -> Value:
    """The exponential of a product in two parts; out of range, the low part means nothing."""
    log, log_low = log_in_two(a)
    y = clamp_above(clamp_below(y, -(2.0**65)), 2.0**65)
    product, error = two_product(y, log)
    low = fma(y, log_low, error)
    limited = clamp_above(clamp_below(product, -746.0), 710.0)
    e = exp_parts(limited, select(limited.equals(product), low, 0.0))
    return scale(e.high + e.low, e.n)


def log_in_two(a: Value) -> tuple[Value, Value]:
    """log(a) as a sum with some 65 correct bits: 2s + s^3 (2/3 + ...), s = f / (2 + f)."""
    f, e = split(a)
    divisor, divisor_low = fast_two_sum(f.like(2.0), f)
    s = f / divisor
    s_low = (fma(-s, divisor, f) - s * divisor_low) / divisor
    square, error = two_product(s, s)
    square_low = fma(2.0 * s, s_low, error)
    factor, lost = fast_two_sum(f.like(TWO_THIRDS[0]), square * polynomial(square, LOG_TAIL))
    bend, bend_low = _product(square, square_low, factor, lost + TWO_THIRDS[1])
    cubic, cubic_low = _product(s, s_low, bend, bend_low)
    total, lost1 = fast_two_sum(e * LN2[0], 2.0 * s)
    total, lost2 = two_sum(total, cubic)
    low = fma(s_low, 2.0, cubic_low) + (lost1 + lost2)
    return fast_two_sum(total, fma(e, LN2[1], low))


def _product(a: Value, a_low: Value, b: Value, b_low: Value) -> tuple[Value, Value]:
    product, error = two_product(a, b)
    return product, fma(a, b_low, fma(a_low, b, error))


def _special_cases(x: Value, y: Value, size: Value) -> Value:
    """Zeros, infinities, NaN and negative bases, as Annex F of the C standard has them."""
    a, b = abs(x), abs(y)
    grows = (a > 1.0) ^ (y < 0.0)
    extreme = select(a.equals(1.0), 1.0, select(grows, x.like(INFINITY), 0.0))
    edge = a.equals(0.0) | a.equals(INFINITY) | b.equals(INFINITY)
    out = select(edge, extreme, size)
    whole = rounded(y, "trunc").equals(y)
    odd = whole & rounded(y * 0.5, "trunc").differs(y * 0.5) & (b < INFINITY)
    out = select(odd, copysign(out, x), out)
    invalid = (x < 0.0) & ~whole & (a < INFINITY)
    out = select(invalid, float("nan"), out)
    out = select(x.is_nan() | y.is_nan(), x + y, out)
    return select(x.equals(1.0) | y.equals(0.0), 1.0, out)
