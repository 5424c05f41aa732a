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
    select,
)
from rushlight.loops.vecmath.registry import vector_function

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
# (tanh(x) / x - 1) / x^2 in x^2, |x| <= 1. Relative error of tanh: 2^-27.7 and 2^-56.0.
TANH = {
    "f32": (
        -0.33333295583724976, 0.13332346081733704, -0.05387984588742256,
        0.021486671641469002, -0.007945992052555084, 0.002301195403560996,
        -0.0003583814832381904,
    ),
    "f64": (
        -0.3333333333333333, 0.13333333333332914, -0.05396825396805749,
        0.02186948853146161, -0.008863235462533545, 0.003592127399527943,
        -0.0014558301813022616, 0.0005900072905571583, -0.00023905717736711038,
        9.672057343160001e-05, -3.887352266441914e-05, 1.5269141392369623e-05,
        -5.6436023123312775e-06, 1.8352034671816068e-06, -4.7471495805040204e-07,
        8.381237988357496e-08, -7.367253487260792e-09,
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
    n, n_int = nearest(x, LOG2_E)
    exact = fma(n, -high, x)
    r = fma(n, -low, exact)
    return r, fma(n, -low, exact - r), n_int, n


def _clamp(x: Value) -> Value:
    low, high = EXP_RANGE[x.kind]
    return clamp_above(clamp_below(x, low), high)


@vector_function("exp", ulp=(1.0, 1.0))
def exp(x: Value) -> Value:
    power, n = _exp_and_exponent(_clamp(x))
    return scale(power, n)


def exp_normal(x: Value) -> Value:
    """exp(x) where that is a normal number: a third less work than for all x."""
    power, n = _exp_and_exponent(x)
    return power * power_of_two(n)


def _exp_and_exponent(x: Value) -> tuple[Value, Value]:
    """exp(x) = power * 2^n with the power between 0.7 and 1.42."""
    high, low = LN2[x.kind]
    n, n_int = nearest(x, LOG2_E)
    r = fma(n, -low, fma(n, -high, x))
    return polynomial(r, (1.0, 1.0, *EXP_TAIL[x.kind])), n_int


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
    """w / (w + h + l), where exp(-x) is (h + l) / w and w a power of two, so that nothing
    overflows. The quotient is corrected by its remainder, with l and the rounding error of the
    sum in it.
    """
    lowest, step, highest = (-104.0, 64, 20.0) if x.kind == "f32" else (-746.0, 512, 40.0)
    clamped = clamp_above(clamp_below(x, lowest), highest)
    high, low = LN2[x.kind]
    n, n_int = nearest(clamped, LOG2_E)
    r = fma(n, low, fma(n, high, -clamped))
    tail = fma(r * r, polynomial(r, EXP_TAIL[x.kind]), r)
    exponential = 1.0 + tail
    rest = tail - (exponential - 1.0)
    power = power_of_two(n_int + step)
    weight = power * 2.0**-step
    is_light = weight < exponential
    most, least = select(is_light, exponential, weight), select(is_light, weight, exponential)
    divisor, error = fast_two_sum(most, least)
    inverse = 1.0 / divisor
    remainder = fma(-inverse, error + rest, fma(-inverse, divisor, 1.0))
    return fma(remainder, inverse, inverse) * power * 2.0**-step


@vector_function("tanh", ulp=(1.0, 1.0))
def tanh(x: Value) -> Value:
    """A polynomial up to 1; beyond, 1 - 2 / (1 + exp(2x)), where the quotient is so small that
    its errors are lost in the rounding of the difference.
    """
    a = abs(x)
    limited = clamp_above(a, 10.0 if x.kind == "f32" else 20.0)
    high, low = LN2[x.kind]
    n, n_int = nearest(limited, 2.0 * LOG2_E)
    half = fma(n, -0.5 * low, fma(n, -0.5 * high, limited))
    power = polynomial(half, _of_half((1.0, 1.0, *EXP_TAIL[x.kind]))) * power_of_two(n_int)
    large = 1.0 - 2.0 / (1.0 + power)
    square = x * x
    small = fma(x * square, polynomial(square, TANH[x.kind]), x)
    return copysign(select(a < 1.0, small, large), x)


def _of_half(coefficients: tuple[float, ...]) -> tuple[float, ...]:
    """The coefficients of p(2x): what they are of p, times powers of two."""
    return tuple(c * 2.0**i for i, c in enumerate(coefficients))


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
