"""exp and what is made of it: exp2, expm1, sigmoid and the hyperbolic functions."""

from __future__ import annotations

from dataclasses import dataclass

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
    scale_down,
    select,
)
from rushlight.loops.vecmath.registry import call, vector_function

LOG2_E = 1.4426950408889634
# ln 2 as a sum of two numbers of the kind: the first is ln 2 rounded.
LN2 = {
    "f32": (0.6931471824645996, -1.9046542121259336e-09),
    "f64": (0.6931471805599453, 2.3190468138462996e-17),
}
# Arguments beyond these give 0 (or -1) and infinity; clamping keeps 2^n within reach.
EXP_RANGE = {"f32": (-104.0, 89.0), "f64": (-746.0, 710.0)}
EXPM1_LOW = {"f32": -20.0, "f64": -40.0}

# fmt: off
# (exp(r) - 1 - r) / r^2 on |r| <= 0.3476. Error relative to exp(r): 2^-28.2 and 2^-57.9.
EXP_TAIL = {
    "f32": (0.4999999403953552, 0.1666651964187622, 0.04166824743151665,
            0.008368856273591518, 0.0013822776963934302),
    "f64": (0.5000000000000011, 0.1666666666666642, 0.041666666666525846,
            0.008333333333489349, 0.0013888888944835428, 0.00019841269520007377,
            2.480149178204851e-05, 2.755757233761359e-06, 2.7630740648102554e-07,
            2.5005138918556954e-08),
}
# (2^r - 1) / r on |r| <= 0.501. Absolute error of 2^r: 2^-28.0 and 2^-57.6.
EXP2_SLOPE = {
    "f32": (0.6931471824645996, 0.24022653698921204, 0.05550357699394226,
            0.009617733769118786, 0.0013391856336966157, 0.00015548446390312165),
    "f64": (0.6931471805599453, 0.24022650695910133, 0.05550410866482297,
            0.00961812910759317, 0.0013333558146153706, 0.00015403530458421696,
            1.5252734047885466e-05, 1.3215434592243805e-06, 1.0177980932691791e-07,
            7.07390640843427e-09, 4.46624508101615e-10),
}
# (tanh(x) / x - 1) / x^2 in x^2, |x| <= 0.6. Relative error 2^-28.4 and 2^-62.5.
TANH = {
    "f32": (
        -0.33333298563957214, 0.13331936299800873, -0.05378471687436104,
        0.02079862728714943, -0.005897972267121077,
    ),
    "f64": (
        -0.33333333333333326, 0.1333333333333187, -0.053968253967262465,
        0.021869488502662338, -0.00886323486819637, 0.0035921197092195815,
        -0.0014557643195427822, 0.0005896230335138302, -0.0002375146526463939,
        9.249248812440728e-05, -3.1181532646370456e-05, 6.504649155873633e-06,
    ),
}
# (sinh(x) / x - 1) / x^2 in x^2, |x| <= 1. Relative error 2^-32.3 and 2^-62.9.
SINH = {
    "f32": (
        0.1666666716337204, 0.008333292789757252, 0.00019852204422932118,
        2.635616056068102e-06, 7.159513160104325e-08,
    ),
    "f64": (
        0.16666666666666666, 0.008333333333333567, 0.00019841269841050738,
        2.755731932761609e-06, 2.50520805191943e-08, 1.6063491085565064e-10,
        7.230095379845438e-13, 2.4041507555344223e-14, -4.5180111659395294e-15,
    ),
}
# fmt: on


@dataclass(frozen=True, slots=True)
class Exponential:
    """exp(x) = (high + low) * 2^n with high between 0.7 and 1.42 and low far smaller."""

    high: Value
    low: Value
    n: Value


def exp_parts(x: Value, x_low: Value | None = None) -> Exponential:
    """exp(x + x_low) to several bits more than the kind holds, for x within EXP_RANGE."""
    r, low, n, _ = _reduce(x)
    first, error = fast_two_sum(x.like(1.0), r)
    tail = fma(r * r, polynomial(r, EXP_TAIL[x.kind]), low)
    high, low = fast_two_sum(first, error + tail)
    return Exponential(high, low if x_low is None else fma(x_low, high, low), n)


def _reduce(x: Value) -> tuple[Value, Value, Value, Value]:
    """x = n ln 2 + r + low: returns r, low, and n as an integer and as a float.

    The first step is exact: x and n * ln2_high share a last place no finer than r can hold.
    """
    high, low = LN2[x.kind]
    n, n_int = nearest(x * LOG2_E)
    exact = fma(n, -high, x)
    r = fma(n, -low, exact)
    return r, fma(n, -low, exact - r), n_int, n


def _clamp(x: Value) -> Value:
    low, high = EXP_RANGE[x.kind]
    return clamp_above(clamp_below(x, low), high)


@vector_function("exp", ulp=(1.0, 1.0))
def exp(x: Value) -> Value:
    x = _clamp(x)
    high, low = LN2[x.kind]
    n, n_int = nearest(x * LOG2_E)
    r = fma(n, -low, fma(n, -high, x))
    return scale(polynomial(r, (1.0, 1.0, *EXP_TAIL[x.kind])), n_int)


@vector_function("exp2", ulp=(1.0, 1.0))
def exp2(x: Value) -> Value:
    low, high = (-151.0, 129.0) if x.kind == "f32" else (-1076.0, 1025.0)
    x = clamp_above(clamp_below(x, low), high)
    n, n_int = nearest(x)
    r = x - n
    return scale(fma(r, polynomial(r, EXP2_SLOPE[x.kind]), 1.0), n_int)


@vector_function("expm1", ulp=(1.25, 1.25))
def expm1(x: Value) -> Value:
    """2 * (2^(n-1) (1 + r) - 1/2 + 2^(n-1) tail): half size so that n may reach overflow."""
    top = EXP_RANGE[x.kind][1]
    clamped = clamp_above(clamp_below(x, EXPM1_LOW[x.kind]), top)
    r, low, n_int, _ = _reduce(clamped)
    half = power_of_two(n_int - 1)
    tail = fma(r * r, polynomial(r, EXP_TAIL[x.kind]), low)
    base = half - 0.5
    total = fma(half, r, base)
    error = fma(half, r, base - total)
    out = 2.0 * (total + fma(half, tail, error))
    return select(abs(x) < 2.0 ** (-26 if x.kind == "f32" else -55), x, out)


@vector_function("sigmoid", ulp=(1.0, 1.0))
def sigmoid(x: Value) -> Value:
    """1 / (1 + exp(-x)), or exp(x) / (1 + exp(x)) for negative x, so that nothing overflows.

    The quotient is corrected by its remainder, with the low part of the exponential in it.
    """
    e = exp_parts(clamp_below(-abs(x), EXP_RANGE[x.kind][0]))
    inverse, divisor, divisor_low = _one_plus(e)
    negative = x < 0.0
    top = select(negative, e.high, 1.0)
    quotient = top * inverse
    top_low = select(negative, e.low, 0.0)
    rest = fma(-quotient, divisor, top) + fma(-quotient, divisor_low, top_low)
    return scale_down(fma(rest, inverse, quotient), select(negative, e.n, 0))


def _one_plus(e: Exponential) -> tuple[Value, Value, Value]:
    """1 / d rounded, and d = 1 + exp as a sum of two, for exponentials up to 1."""
    floor = -100 if e.high.kind == "f32" else -1000
    power = power_of_two(select(e.n < floor, floor, e.n))
    divisor, error = fast_two_sum(e.high.like(1.0), e.high * power)
    return 1.0 / divisor, divisor, fma(e.low, power, error)


@vector_function("tanh", ulp=(1.0, 1.0))
def tanh(x: Value) -> Value:
    """A polynomial up to 0.6; beyond, 1 - 2 / (1 + exp(2x)) with the quotient corrected."""
    a = abs(x)
    limited = clamp_above(a, 10.0 if x.kind == "f32" else 20.0)
    e = exp_parts(2.0 * limited)
    power = power_of_two(e.n)
    divisor, error = fast_two_sum(e.high * power, x.like(1.0))
    divisor_low = fma(e.low, power, error)
    quotient = 2.0 / divisor
    rest = fma(-quotient, divisor, 2.0) - quotient * divisor_low
    large = 1.0 - fma(rest, 0.5 * quotient, quotient)
    square = x * x
    small = fma(x * square, polynomial(square, TANH[x.kind]), x)
    return copysign(select(a < 0.6, small, large), x)


@vector_function("log_sigmoid", ulp=(2.0, 2.0))
def log_sigmoid(x: Value) -> Value:
    """min(x, 0) - log1p(exp(-|x|)); softplus(x) is minus this of -x."""
    tail = call("log1p", call("exp", -abs(x)))
    return clamp_above(x, 0.0) - tail


@vector_function("cosh", ulp=(1.0, 1.0))
def cosh(x: Value) -> Value:
    """exp(|x|) / 2 + 1 / (2 exp(|x|)), at half size and scaled last."""
    half, inverse, n = _halves(x)
    return _join(half, inverse, n)


@vector_function("sinh", ulp=(1.0, 1.25))
def sinh(x: Value) -> Value:
    """A polynomial up to 1; beyond, exp(|x|) / 2 - 1 / (2 exp(|x|))."""
    half, inverse, n = _halves(x)
    square = x * x
    small = fma(x * square, polynomial(square, SINH[x.kind]), x)
    return copysign(select(abs(x) < 1.0, small, _join(half, -inverse, n)), x)


def _halves(x: Value) -> tuple[Exponential, Value, Value]:
    """exp(|x|), its inverse over 2^n, and n."""
    limited = clamp_above(abs(x), 90.0 if x.kind == "f32" else 711.0)
    e = exp_parts(limited)
    floor = -60 if x.kind == "f32" else -500
    twice = select(e.n * -2 < floor, floor, e.n * -2)
    return e, power_of_two(twice) / e.high, e.n


def _join(e: Exponential, inverse: Value, n: Value) -> Value:
    """(e + inverse) * 2^(n - 1) with the rounding of the sum made good by the low part."""
    total, error = fast_two_sum(e.high, inverse)
    return scale(total + (error + e.low), n - 1)
