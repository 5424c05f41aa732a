"""Inverses of the error function and of the normal distribution."""

from __future__ import annotations

import math

from rushlight.loops.vecmath.lanes import Value, copysign, fma, polynomial, rarely, select
from rushlight.loops.vecmath.power import log_in_two
from rushlight.loops.vecmath.registry import call, vector_function

INFINITY = float("inf")
ROOT_2 = 1.4142135623730951

# fmt: off
# erfinv(x) / x in x^2, |x| <= 0.75. Relative error 2^-54.4.
CENTRE = (
    0.886226925452758, 0.2320136665346286, 0.1275561753107878, 0.08655212875300643,
    0.06495964412629276, 0.05173036810310415, 0.04285851875362314, 0.036090323632492795,
    0.03652629111098958, -0.019741534830604684, 0.39217612265759183, -2.2083712678322613,
    10.818148627625096, -41.79862231247149, 129.7478270290638, -321.4609957010572,
    631.7207437022267, -971.5232917379459, 1144.8271399935363, -998.5953485964255,
    608.2913292286073, -231.45144266494506, 41.591283228104935,
)
# quantile(q) / s in t = (s - k) / (s + k) with s = sqrt(-2 log q): k = 5/2 on
# 2.035 <= s <= 8.05, relative error 2^-53.2; k = 35/2 on 7.95 <= s <= 38.7, 2^-57.7.
NEAR = (
    0.6826885178975478, 0.997370695285143, -1.4919178164451499, 1.7243400205846984,
    -1.8851925949352144, 1.9996873542691633, -2.093386146219765, 2.169330636230777,
    -2.2345744646595214, 2.2905653005373328, -2.340338911241088, 2.384456778100456,
    -2.424520211906111, 2.4609346057259263, -2.4941185646175725, 2.5183728897790676,
    -2.5073257112484417, 2.3908071956796877, -2.067611102246716, 1.5000139842999483,
    -0.825866993446649, 0.2985968732148512, -0.05231412389247042,
)
FAR = (
    0.9876065028730943, 0.04317244779667074, -0.07370455227816916, 0.09614556237132799,
    -0.11487707568264537, 0.13075372868773216, -0.14462145416925504, 0.15682720218957533,
    -0.16772039059969368, 0.17748790927510008, -0.18632036234091237, 0.1943383859331727,
    -0.20166048991425345, 0.2083168483523605, -0.21445981701482902, 0.22093759977317784,
    -0.22660807885198342, 0.2235330567388794, -0.22542304628486276, 0.28531448132327636,
    -0.3020469776270891, 0.05930836484250818, -0.028822191995067067, 0.6649106273828765,
    -0.709696067509532,
)
# fmt: on
NEAR_CENTRE, FAR_CENTRE, FAR_FROM = 2.5, 17.5, 8.0


def _upper_quantile(q: Value, factor: float, fit: str) -> Value:
    """sqrt(factor / 2) times the x that a normal variable exceeds with probability q <= 1/8."""
    s, lost = _root(q, factor, fit)
    unit = math.sqrt(factor / 2)

    def from_fit(centre: float, coefficients: tuple[float, ...], slope: float) -> Value:
        t = (s - centre * unit) / (s + centre * unit)
        return fma(s, polynomial(t, coefficients), lost * slope)

    def far() -> tuple[Value]:
        return (from_fit(FAR_CENTRE, FAR, 1.02),)

    return rarely(s > FAR_FROM * unit, far, (from_fit(NEAR_CENTRE, NEAR, 1.1),))[0]


def _root(q: Value, factor: float, fit: str) -> tuple[Value, Value]:
    """sqrt(-factor log q), and what it loses, which counts double near 1/8.

    The slope that carries the loss to the result is within an eighth of 1.1 or 1.02.
    """
    if fit == "f32":
        return (call("log", q) * -factor).sqrt(), q.like(0.0)
    log, log_low = log_in_two(q)
    square = log * -factor
    s = square.sqrt()
    return s, fma(log_low, -factor, fma(-s, s, square)) / (s + s)


@vector_function("erfinv", ulp=(0.55, 2.25))
def erfinv(x: Value) -> Value:
    a = abs(x).convert("f64")
    inner = a <= 0.75
    small = a * polynomial(select(inner, a * a, 0.0), CENTRE)
    tail = select(inner, 0.125, (1.0 - a) * 0.5)
    out = select(inner, small, _upper_quantile(tail, 1.0, x.kind))
    out = select(a.equals(1.0), INFINITY, out)
    out = select(a <= 1.0, out, float("nan"))
    return copysign(out.convert(x.kind), x)


@vector_function("ndtri", ulp=(0.55, 4.0))
def ndtri(p: Value) -> Value:
    """The p-quantile of the standard normal distribution; 0 and 1 give infinities."""
    fit, p = p.kind, p.convert("f64")
    inner = (p >= 0.125) & (p <= 0.875)
    x = fma(p, 2.0, -1.0)
    central = x * polynomial(select(inner, x * x, 0.0), CENTRE) * ROOT_2
    low = p < 0.5
    q = select(low, p, 1.0 - p)
    tail = _upper_quantile(select(inner, 0.125, q), 2.0, fit)
    tail = select(q.equals(0.0), INFINITY, tail)
    out = select(inner, central, select(low, -tail, tail))
    return select((p >= 0.0) & (p <= 1.0), out, float("nan")).convert(fit)
