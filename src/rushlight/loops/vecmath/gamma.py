"""The logarithm of the gamma function and that logarithm's derivatives.

For negative arguments, near whose zeros no relative bound can hold in this precision, the error
is bounded by a few units in the last place of the largest term.
"""

from __future__ import annotations

from rushlight.loops.vecmath.lanes import (
    Value,
    fma,
    polynomial,
    select,
    two_product,
    two_sum,
)
from rushlight.loops.vecmath.power import log_in_two
from rushlight.loops.vecmath.registry import call, vector_function
from rushlight.loops.vecmath.rounding import rounded
from rushlight.loops.vecmath.trigonometric import cos_half_turns, sin_half_turns

INFINITY = float("inf")
PI = 3.141592653589793
# (log(2 pi) - 1) / 2
STIRLING = (0.4189385332046727, 1.6728209650585413e-17)

# fmt: off
# lgamma(1 + u) / u on -0.26 <= u <= 0.751. Relative error 2^-56.3.
NEAR_ONE = (
    -0.5772156649015329, 0.8224670334241131, -0.4006856343865293, 0.27058080842783727,
    -0.20738555102902437, 0.16955717699030928, -0.14404989673079152, 0.12550966995496401,
    -0.11133426850190586, 0.10009944553683915, -0.09095391188269138, 0.08335391302087652,
    -0.07693478183453399, 0.07143690150287128, -0.06664736185796366, 0.062406379181167315,
    -0.05879435929815977, 0.05621120315587191, -0.054439709760555864, 0.05104998997226844,
    -0.04234467843872803, 0.028002407375717946, -0.013283590750566154,
    0.003936986001835679, -0.0005425113670965634,
)
# lgamma(2 + v) / v on -0.41 <= v <= 1.001. Relative error 2^-56.2.
NEAR_TWO = (
    0.42278433509846713, 0.3224670334241132, -0.0673523010531975, 0.020580808427784893,
    -0.007385551028689892, 0.002890510330773579, -0.0011927539117487398,
    0.0005096695238177192, -0.0002231547508664812, 9.945751409142024e-05,
    -4.492635278357798e-05, 2.0507386302840955e-05, -9.438839998165253e-06,
    4.372891023298338e-06, -2.039406062022824e-06, 9.625700587030955e-07,
    -4.5923724623557166e-07, 2.0986493942554665e-07, -8.012751870021965e-08,
    2.0854997255863162e-08, -2.618312844590425e-09,
)
# x times what Stirling's formula leaves, in 1 / x^2 for x >= 3. Error of lgamma 2^-60.4.
LEFT_BY_STIRLING = (
    0.08333333333333144, -0.0027777777769393457, 0.0007936506561603208,
    -0.0005952263356128552, 0.0008411424131257898, -0.0018968342809965667,
    0.0059214338414390845, -0.02115030940437714, 0.06861067171202502,
    -0.15835384290309015, 0.18126472569173407,
)
# digamma(1 + y) / (y - root) in y - 1/2 for 0 <= y <= 1. Relative error 2^-54.3.
DIGAMMA = (
    0.9510558760318328, -0.4236274212814606, 0.24054248424080232, -0.14840492305388361,
    0.09498872445128655, -0.06192213327536469, 0.04076083401816202, -0.026975796662054064,
    0.017907246248406068, -0.011908220096754522, 0.007927055594513345,
    -0.005279936971328247, 0.0035177522167675617, -0.0023454997940513347,
    0.0015658035491492176, -0.0010364202062670145, 0.000680030651328166,
    -0.00048610596879372934, 0.00035456987569638915, -0.00014447505093891493,
    4.7529562637135265e-05, -0.00017850989054808667, 0.00015291616216727438,
)
# x^2 (log(x) - 1 / (2x) - digamma(x)) in 1 / x^2 for x >= 3. Error of digamma 2^-57.6.
DIGAMMA_TAIL = (
    0.08333333333331157, -0.008333333322809717, 0.003968252119322426,
    -0.004166499148833164, 0.007566643724736385, -0.02076828585271253,
    0.07531963380171006, -0.29898817246455767, 1.0413916987992635, -2.52510587457153,
    2.9981546974617856,
)
# fmt: on
# digamma's positive zero less 1, in two parts.
DIGAMMA_ROOT = (0.46163214496836236, -1.5522348162858677e-17)


@vector_function("lgamma", ulp=(1.0, 3.0))
def lgamma(x: Value) -> Value:
    """log |gamma(x)|; the bound for float64 holds for positive x."""
    if x.kind == "f32":
        return call("lgamma", x.convert("f64")).convert("f32")
    a = abs(x)
    log, log_low = log_in_two(a)
    near_zero = a < 0.75
    one = polynomial(select(near_zero, a, a - 1.0), NEAR_ONE)
    next_to_zero = a * one  # lgamma(1 + a) for a < 0.75
    out = select(a < 3.0, (a - 2.0) * polynomial(a - 2.0, NEAR_TWO), _stirling(a, log, log_low))
    out = select(a < 1.6, (a - 1.0) * one + 0.0, out)  # lgamma(1) is not -0
    out = select(near_zero, (next_to_zero - log_low) - log, out)
    successor = select(near_zero, next_to_zero, out + log)
    sine = abs(sin_half_turns(a))
    reflected = -call("log", sine * (1.0 / PI)) - successor
    out = select(x < 0.0, reflected, out)
    whole = (x <= 0.0) & rounded(x, "trunc").equals(x)
    return select(whole | a.equals(INFINITY) | (x > 2.5563e305), INFINITY, out)


def _stirling(x: Value, log: Value, log_low: Value) -> Value:
    """(x - 1/2) (log(x) - 1) + (log(2 pi) - 1) / 2 + left / x."""
    factor = x - 0.5
    slope, lost = two_sum(log, log.like(-1.0))
    product, error = two_product(factor, slope)
    inverse = 1.0 / x
    left = inverse * polynomial(inverse * inverse, LEFT_BY_STIRLING)
    total, lost2 = two_sum(product, x.like(STIRLING[0]))
    low = fma(factor, lost + log_low, error) + (lost2 + STIRLING[1])
    return total + (low + left)


@vector_function("digamma", ulp=(1.0, 3.0))
def digamma(x: Value) -> Value:
    """The derivative of lgamma; the bound for float64 holds for positive x."""
    if x.kind == "f32":
        return call("digamma", x.convert("f64")).convert("f32")
    negative = x < 0.0
    a = select(negative, 1.0 - x, x)
    y = select(a < 1.0, a, select(a < 2.0, a - 1.0, a - 2.0))
    root = (y - DIGAMMA_ROOT[0]) - DIGAMMA_ROOT[1]
    middle = root * polynomial(y - 0.5, DIGAMMA)
    step = select(a < 1.0, -1.0 / a, select(a < 2.0, 0.0, 1.0 / (a - 1.0)))
    inverse = 1.0 / a
    square = inverse * inverse
    far = fma(square, -polynomial(square, DIGAMMA_TAIL), fma(inverse, -0.5, call("log", a)))
    out = select(a < 3.0, middle + step, far)
    cotangent = cos_half_turns(x) / sin_half_turns(x)
    out = select(negative, fma(cotangent, -PI, out), out)
    return select(negative & rounded(x, "trunc").equals(x), float("nan"), out)
