"""Modified Bessel functions of the first kind, orders 0 and 1; plain, and over exp(|x|)."""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.loops.vecmath.exponential import exp_parts
from rushlight.loops.vecmath.lanes import (
    Value,
    clamp_above,
    copysign,
    polynomial,
    scale,
    select,
)
from rushlight.loops.vecmath.registry import call, vector_function

MIDDLE = 8.0

# fmt: off
# I0(x) in (x / 8)^2 for |x| <= 8. Relative error 2^-54.8.
I0_SMALL = (
    1.0, 16.0, 64.0, 113.7777777777777, 113.77777777777987, 72.81777777774393,
    32.363456790469975, 10.567659357645876, 2.6419148516257858, 0.5218596809006537,
    0.08349765909672667, 0.011040804355848683, 0.0012270457065092842,
    0.00011587818338293909, 9.666602283150452e-06, 5.892203501814274e-07,
    6.469587692919685e-08,
)
# sqrt(x) exp(-x) I0(x) in 16 / x - 1 for x >= 8. Relative error 2^-52.4.
I0_LARGE = (
    0.4021765094450081, 0.003360551983667687, 0.00013621607438046244,
    1.1143033805407224e-05, 1.4838480508626445e-06, 2.9735950271845827e-07,
    8.871419136483483e-08, 3.932990505012201e-08, 2.1616386639840364e-08,
    7.528853684228652e-09, -7.086965097503729e-09, -1.3308133833212688e-08,
    -4.337606325590814e-09, 7.299279924242885e-09, 5.236480741157472e-09,
    -3.087368682512105e-09, -2.971315430229535e-09, 1.0677768979888905e-09,
    9.911387601865685e-10, -2.638969816756268e-10, -1.5173685849304413e-10,
    3.31887395057146e-11,
)
# I1(x) / x in (x / 8)^2 for |x| <= 8. Relative error 2^-55.1.
I1_SMALL = (
    0.5, 4.0, 10.666666666666666, 14.222222222222218, 11.377777777777874,
    6.068148148146715, 2.3116754850225822, 0.6604787099125606, 0.146773047082805,
    0.026092984683675484, 0.0037953468466470613, 0.00046003542513365394,
    4.719203548330102e-05, 4.1400181760451825e-06, 3.2147220535080366e-07,
    1.8633833781809898e-08, 1.8734358717376444e-09,
)
# sqrt(x) exp(-x) I1(x) in 16 / x - 1 for x >= 8. Relative error 2^-52.8.
I1_LARGE = (
    0.3893984590258723, -0.0097495771932356, -0.00021923576382190896,
    -1.5038547211962442e-05, -1.8349106389713222e-06, -3.483852915770127e-07,
    -1.0000453202902664e-07, -4.31324722831211e-08, -2.3444826735713065e-08,
    -8.40647729295859e-09, 7.088019126441714e-09, 1.3949898542857965e-08,
    4.862934855484297e-09, -7.427121163294318e-09, -5.604087004767308e-09,
    3.0650292883207597e-09, 3.138867986124508e-09, -1.0425698416076286e-09,
    -1.0408479144487533e-09, 2.5611940650005433e-10, 1.5885239191652575e-10,
    -3.230816849726931e-11,
)
# fmt: on


def _small(a: Value, fit: Sequence[float]) -> Value:
    part = select(a <= MIDDLE, a * (1.0 / MIDDLE), 0.0)
    return polynomial(part * part, fit)


def _large(a: Value, fit: Sequence[float]) -> Value:
    """The function divided by exp(a)."""
    return polynomial(select(a > MIDDLE, 16.0 / a - 1.0, 0.0), fit) / a.sqrt()


def _grown(a: Value, scaled: Value) -> Value:
    """scaled * exp(a); a factor below 1 may bring the product back from overflow."""
    e = exp_parts(a)
    return scale((e.high + e.low) * scaled, e.n)


@vector_function("i0", ulp=(0.55, 5.0))
def i0(x: Value) -> Value:
    if x.kind == "f32":
        return call("i0", x.convert("f64")).convert("f32")
    a = clamp_above(abs(x), 720.0)
    return select(a <= MIDDLE, _small(a, I0_SMALL), _grown(a, _large(a, I0_LARGE)))


@vector_function("i0e", ulp=(0.55, 3.5))
def i0e(x: Value) -> Value:
    if x.kind == "f32":
        return call("i0e", x.convert("f64")).convert("f32")
    a = abs(x)
    small = _small(a, I0_SMALL) * call("exp", -a)
    return select(a <= MIDDLE, small, _large(a, I0_LARGE))


@vector_function("i1", ulp=(0.55, 5.0))
def i1(x: Value) -> Value:
    if x.kind == "f32":
        return call("i1", x.convert("f64")).convert("f32")
    a = clamp_above(abs(x), 720.0)
    small = a * _small(a, I1_SMALL)
    return copysign(select(a <= MIDDLE, small, _grown(a, _large(a, I1_LARGE))), x)


@vector_function("i1e", ulp=(0.55, 4.0))
def i1e(x: Value) -> Value:
    if x.kind == "f32":
        return call("i1e", x.convert("f64")).convert("f32")
    a = abs(x)
    small = a * _small(a, I1_SMALL) * call("exp", -a)
    return copysign(select(a <= MIDDLE, small, _large(a, I1_LARGE)), x)
