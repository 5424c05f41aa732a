"""Modified Bessel functions of the first kind, and the functions that only SciPy calculates.

I0 and I1 come from Chebyshev series of our own: of exp(-x) I(x) on [0, 8] (of I1(x) / x for the
odd one), and of exp(-x) sqrt(x) I(x) in 8 / x beyond; both to the last bits of float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # operands are tensors, references or numbers

import numpy as np

from rushlight import dtypes as dt
from rushlight.ir.host import takes_batches
from rushlight.ops.elementwise import RECORDED, WHERE, pointwise, scaled, unary_function
from rushlight.ops.registry import Op, public

_I0_SMALL = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764,
    0.04930528423967071, -0.02373741480589947, 0.010546460394594998, -0.004324309995050576,
    0.0016394756169413357, -0.0005763755745385824, 0.00018850288509584165,
    -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08,
    -1.300025009986248e-08, 2.6598237246823866e-09, -5.189795601635263e-10,
    9.675809035373237e-11, -1.726826291441556e-11, 2.95505266312964e-12,
    -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17
)  # fmt: skip
_I0_LARGE = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06,
    2.0489185894690638e-07, 2.266668990498178e-08, 3.3962320257083865e-09,
    4.94060238822497e-10, 1.1889147107846439e-11, -3.1499165279632416e-11,
    -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14,
    -9.554846698828307e-15, 3.8116806693526224e-15, 1.7725601330565263e-15,
    -3.425485619677219e-16, -2.8276239805165836e-16, 3.461222867697461e-17,
    4.46562142029676e-17
)  # fmt: skip
_I1_SMALL = (
    0.12629359322181682, -0.17641651835783406, 0.1026436586898471, -0.05294598120809499,
    0.024726449030626516, -0.010564084894626197, 0.004156422944312888, -0.0015135724506312532,
    0.0005122859561685758, -0.00016176081582589674, 4.781565107550054e-05,
    -1.3273163656039436e-05, 3.4702513081376785e-06, -8.568720264695455e-07,
    2.0032947535521353e-07, -4.445059128796328e-08, 9.381537386495773e-09,
    -1.8872497517228294e-09, 3.625590281552117e-10, -6.663489723502027e-11,
    1.1736186298890901e-11, -1.9839743977649436e-12, 3.223793365945575e-13,
    -5.042185504727912e-14, 7.600684294735408e-15, -1.1055969477353862e-15,
    1.5536319577362005e-16, -2.111421214358166e-17
)  # fmt: skip
_I1_LARGE = (
    0.38928811750914005, -0.009761097491361469, -0.00011058893876262371,
    -3.882564808877691e-06, -2.512236237870209e-07, -2.6314688468895196e-08,
    -3.835380385964237e-09, -5.589743462196584e-10, -1.8974958123505413e-11,
    3.2526035830154884e-11, 1.4125807436613782e-11, 2.0356285441470896e-12,
    -7.198551776245908e-13, -4.0835511110921974e-13, -2.1015418427726643e-14,
    4.272440016711951e-14, 1.0420276984128802e-14, -3.8144030724370075e-15,
    -1.8803547755107825e-15, 3.3082023109209285e-16, 2.96262899764595e-16,
    -3.209525921993424e-17, -4.6503053684893586e-17
)  # fmt: skip


def _series(coefficients: Sequence[float], t: Any) -> Any:
    """A Chebyshev series at t in [-1, 1], by Clenshaw's recurrence."""
    later, last = t * 0, t * 0
    for c in reversed(coefficients[1:]):
        later, last = t * later * 2 - last + c, later
    return t * later - last + coefficients[0]


def _scaled_bessel(
    k: Any, x: Any, small: Sequence[float], large: Sequence[float], is_odd: bool
) -> Any:
    """exp(-|x|) I(x) in float64."""
    size = k.abs(x)
    near = _series(small, k.min(size, 8) * 0.25 - 1)
    beyond = k.max(size, 8)
    far = _series(large, 16 / beyond - 1) * k.rsqrt(beyond)
    if not is_odd:
        return k.select(size <= 8, near, far)
    return k.select(size <= 8, near * x, k.copysign(far, x))


def _unscaled(k: Any, value: Any, size: Any) -> Any:
    """value * exp(size), in two factors where exp(size) overflows before the product."""
    is_large = size > 700
    part = k.select(is_large, value * math.exp(16), value)
    return part * k.exp(k.select(is_large, size - 16, size))


def _bessel(name: str, small: Any, large: Any, is_odd: bool, is_scaled: bool, vjp: Any) -> Op:
    def lower(k: Any, x: Any) -> Any:
        wide = k.cast(x, dt.float64)
        made = _scaled_bessel(k, wide, small, large, is_odd)
        return made if is_scaled else _unscaled(k, made, k.abs(wide))

    return pointwise(name, lower, to="float", vjp=vjp)


def _over(x: Any, value: Any) -> Any:
    """I1(x) / x, which is one half of I0 at zero."""
    is_zero = RECORDED.eq(x, 0)
    return WHERE(is_zero, 0.5, value / WHERE(is_zero, 1, x))


def _i0e_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I1E(x) - RECORDED.sign(x) * out)


def _i1_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I0(x) - _over(x, out))


def _i1e_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I0E(x) - RECORDED.sign(x) * out - _over(x, out))


I0 = _bessel("i0", _I0_SMALL, _I0_LARGE, False, False, lambda g, out, x: scaled(g, I1(x)))
I0E = _bessel("i0e", _I0_SMALL, _I0_LARGE, False, True, _i0e_vjp)
I1 = _bessel("i1", _I1_SMALL, _I1_LARGE, True, False, _i1_vjp)
I1E = _bessel("i1e", _I1_SMALL, _I1_LARGE, True, True, _i1e_vjp)

i0 = unary_function(
    I0,
    "The modified Bessel function of the first kind of order 0.",
    places=("torch", "Tensor", "special"),
)
i0e = unary_function(I0E, "e^-|x| times `i0` of x.", places=("special",), inplace=False)
i1 = unary_function(
    I1,
    "The modified Bessel function of the first kind of order 1.",
    places=("special",),
    inplace=False,
)
i1e = unary_function(I1E, "e^-|x| times `i1` of x.", places=("special",), inplace=False)


@public("special", out=True)
def modified_bessel_i0(input: Any) -> Any:
    """The modified Bessel function of the first kind of order 0.

    >>> torch.special.modified_bessel_i0(torch.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """
    return I0(input)


@public("special", out=True)
def modified_bessel_i1(input: Any) -> Any:
    """The modified Bessel function of the first kind of order 1.

    >>> torch.special.modified_bessel_i1(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """
    return I1(input)


# -- by SciPy


@takes_batches
def by_scipy(*arrays: Any, name: str) -> Any:
    """`scipy.special.<name>` of the arrays."""
    try:
        from scipy import special  # an optional dependency
    except ImportError:
        raise ImportError(f"special.{name} needs SciPy: pip install scipy") from None
    return getattr(special, name)(*arrays)


def host_function(name: str, scipy_name: str, vjp: Any = None) -> Op:
    """An op that SciPy calculates between kernels."""

    def lower(k: Any, *operands: Any) -> Any:
        shape = sum((o * 0 for o in operands[1:]), start=operands[0] * 0).shape
        spread = [k.expand(o, shape) for o in operands]
        return k.host(by_scipy, [(shape, operands[0].dtype)], *spread, name=scipy_name)[0]

    return pointwise(name, lower, to="float", vjp=vjp)


def _scipy_function(name: str, scipy_name: str) -> Any:
    op = host_function(name, scipy_name)

    def function(input: Any) -> Any:
        return op(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each element (needs SciPy)."
    return public("special", name=name, out=True)(function)


for _name, _scipy_name in (
    ("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"), ("bessel_y1", "y1"),
    ("modified_bessel_k0", "k0"), ("modified_bessel_k1", "k1"),
    ("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
):  # fmt: skip
    _scipy_function(_name, _scipy_name)


@takes_batches
def airy_values(x: Any) -> Any:
    """Ai(x), the first of SciPy's four."""
    made = by_scipy(x, name="airy")[0]
    return np.where(x > 110, made.dtype.type(0), made)  # SciPy's is NaN far beyond underflow


AIRY_AI = pointwise(
    "airy_ai", lambda k, x: k.host(airy_values, [(x.shape, x.dtype)], x)[0], to="float"
)


@public("special", out=True)
def airy_ai(input: Any) -> Any:
    """The Airy function Ai (needs SciPy).

    >>> torch.special.airy_ai(torch.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    return AIRY_AI(input)
