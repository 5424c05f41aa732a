"""Inverses of the error function and of the normal distribution."""

from __future__ import annotations

from rushlight.loops.vecmath.lanes import Value, copysign, fma, polynomial, rarely, select
from rushlight.loops.vecmath.registry import call, vector_function

INFINITY = float("inf")
ROOT_2 = 1.4142135623730951
ROOT_HALF = 0.7071067811865476

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
# 2.035 <= s <= 8.05, relative error 2^-53.2; and k = 35/2 on 7.95 <= s <= 38.7, relative error 2^-57.7.
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


def _upper_quantile(q: Value) -> Value:
    """The x that a standard normal variable exceeds with probability q, for 0 < q <= 1/8."""
    s = (call("log", q) * -2.0).sqrt()

    def from_fit(centre: float, fit: tuple[float, ...]) -> Value:
        return s * polynomial((s - centre) / (s + centre), fit)

    near = from_fit(NEAR_CENTRE, NEAR)
    return rarely(s > FAR_FROM, lambda: (from_fit(FAR_CENTRE, FAR),), (near,))[0]


@vector_function("erfinv", ulp=(0.55, 3.0))
def erfinv(x: Value) -> Value:
    if x.kind == "f32":
        return call("erfinv", x.convert("f64")).convert("f32")
    a = abs(x)
    inner = a <= 0.75
    square = a * a
    small = a * polynomial(select(inner, square, 0.0), CENTRE)
    tail = select(inner, 0.125, (1.0 - a) * 0.5)
    out = select(inner, small, _upper_quantile(tail) * ROOT_HALF)
    out = select(a.equals(1.0), INFINITY, out)
    return copysign(select(a <= 1.0, out, float("nan")), x)


@vector_function("ndtri", ulp=(0.55, 3.0))
def ndtri(p: Value) -> Value:
    """The p-quantile of the standard normal distribution; 0 and 1 give infinities."""
    if p.kind == "f32":
        return call("ndtri", p.convert("f64")).convert("f32")
    inner = (p >= 0.125) & (p <= 0.875)
    x = fma(p, 2.0, -1.0)
    central = x * polynomial(select(inner, x * x, 0.0), CENTRE) * ROOT_2
    low = p < 0.5
    q = select(low, p, 1.0 - p)
    tail = _upper_quantile(select(inner, 0.125, q))
    tail = select(q.equals(0.0), INFINITY, tail)
    out = select(inner, central, select(low, -tail, tail))
    return select((p >= 0.0) & (p <= 1.0), out, float("nan"))
