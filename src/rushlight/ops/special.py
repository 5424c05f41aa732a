"""Special functions: gamma and zeta, the normal distribution, entropy, orthogonal
polynomials.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors, references or numbers

import numpy as np

from rushlight import config, errors
from rushlight import dtypes as dt
from rushlight.ir.exact import square_lost
from rushlight.ir.host import takes_batches
from rushlight.ops.bessel import host_function
from rushlight.ops.elementwise import (
    CAST,
    RECORDED,
    check_one_tensor,
    check_tensors,
    pointwise,
    scaled,
    unary_function,
)
from rushlight.ops.registry import Op, public
from rushlight.ops.transcendental import (
    ROOT_PI,
    SQRT_HALF,
    normal_density,
    normal_distribution,
)


def _special(op: Op, about: str, name: str | None = None) -> Any:
    return unary_function(op, about, name, places=("special",), inplace=False)


# -- gamma

LGAMMA = pointwise(
    "lgamma", lambda k, x: k.lgamma(x), lambda m, out, x: m.digamma(x), to="float"
)
DIGAMMA = pointwise(
    "digamma",
    lambda k, x: k.digamma(x),
    to="float",
    vjp=lambda g, out, x: scaled(g, POLYGAMMA(x, order=1)),
)
lgamma = unary_function(LGAMMA, "log |gamma(x)|.")
gammaln = _special(LGAMMA, "log |gamma(x)|.", "gammaln")
digamma = unary_function(
    DIGAMMA, "The derivative of log gamma(x).", places=("torch", "Tensor", "special")
)
psi = _special(DIGAMMA, "The derivative of log gamma(x).", "psi")

_BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330,
)  # fmt: skip
_SHIFT = 20  # terms summed one by one before the tail is estimated


def _hurwitz(k: Any, s: Any, q: Any) -> Any:
    """The sum of (q + i) ** -s over i >= 0 by Euler and Maclaurin's formula, in float64."""
    total = k.pow(q, -s)
    for i in range(1, _SHIFT):
        total = total + _power_of_sum(k, q, i, -s)
    a = q + _SHIFT
    integral = _power_of_sum(k, q, _SHIFT, 1 - s)  # not a**-s * a, which is 0 long before this
    tail = integral / a
    total = total + integral / (s - 1) + tail * 0.5
    s = k.min(s, 1e15)  # beyond, the tail is 0, and s**19 would be infinite
    factor, power = s, tail / a
    for j, bernoulli in enumerate(_BERNOULLI):
        total = total + factor * power * (bernoulli / math.factorial(2 * j + 2))
        factor = factor * (s + (2 * j + 1)) * (s + (2 * j + 2))
        power = power / (a * a)
    return total


def _power_of_sum(k: Any, q: Any, i: int, power: Any) -> Any:
    """(q + i) ** power, with what the sum loses put back: a power makes that many times more
    of it.
    """
    whole = q + i
    added = whole - q
    lost = (q - (whole - added)) + (i - added)
    share = k.select(k.abs(lost) < 1, lost / whole, 0)  # not of infinities
    return k.pow(whole, power) * (share * k.max(power, -1e15) + 1)


def _zeta_lower(k: Any, s: Any, q: Any) -> Any:
    s, q = k.cast(s, dt.float64), k.cast(q, dt.float64)
    made = _hurwitz(k, s, q)
    at_pole = (q <= 0) & k.eq(q, k.floor(q))
    undefined = (s < 1) | ((q <= 0) & k.ne(s, k.floor(s)))
    made = k.select(undefined, math.nan, made)
    return k.select(k.eq(s, 1) | (at_pole & (s > 1)), math.inf, made)


ZETA = pointwise(
    "zeta",
    _zeta_lower,
    to="float",
    vjp=lambda g, out, s, q: (None, scaled(g, -s * ZETA(s + 1, q))),
)


@public("special", out=True)
def zeta(input: Any, other: Any) -> Any:
    """The Hurwitz zeta function.

    >>> torch.special.zeta(torch.tensor([2.0, 4.0]), 1)
    tensor([1.6449, 1.0823])
    """
    check_one_tensor("zeta", input, other)
    return ZETA(input, other)


def _polygamma_lower(k: Any, x: Any, order: int) -> Any:
    """(-1)**(n + 1) n! zeta(n + 1, x); the first order is reflected at 1/2."""
    wide = k.cast(x, dt.float64)
    if order == 0:
        return k.digamma(wide)
    if order > 1:
        sign = -1.0 if order % 2 == 0 else 1.0
        s = k.const(order + 1, dt.float64)
        return _zeta_lower(k, s, wide) * (sign * math.factorial(order))
    is_low = wide < 0.5
    s = k.const(2.0, dt.float64)
    plain = _hurwitz(k, s, k.select(is_low, 1 - wide, wide))
    turned = k.sin(wide * math.pi)
    is_pole = (wide <= 0) & k.eq(wide, k.floor(wide))
    reflected = k.select(is_pole, math.inf, math.pi**2 / (turned * turned) - plain)
    return k.select(is_low, reflected, plain)


POLYGAMMA = pointwise(
    "polygamma",
    _polygamma_lower,
    to="float",
    attrs=("order",),
    vjp=lambda g, out, x, order: scaled(g, POLYGAMMA(x, order=order + 1)),
)


def _polygamma(n: int, x: Any) -> Any:
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n: got n = {n}")
    return POLYGAMMA(x, order=int(n))


@public("torch", "special", out=True)
def polygamma(n: int, input: Any) -> Any:
    """The derivative of order n of digamma.

    >>> torch.polygamma(1, torch.tensor([1.0, 2.0]))
    tensor([1.6449, 0.6449])
    """
    return _polygamma(n, input)


@public("Tensor", name="polygamma", inplace=True)
def _polygamma_method(input: Any, n: int) -> Any:
    """The derivative of order n of digamma."""
    return _polygamma(n, input)


def _log_multigamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function."""
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, but got {p}")
    if input.dtype is dt.bool_:
        raise errors.not_implemented_for("mvlgamma", input.dtype, "numbers")
    if input.dtype.is_integral:
        input = CAST(input, dtype=config.default_dtype())
    total = LGAMMA(input)
    for j in range(1, p):
        total = total + LGAMMA(input - j / 2)
    return total + p * (p - 1) / 4 * math.log(math.pi)


@public("torch", "Tensor", inplace=True, out=True)
def mvlgamma(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension p.

    >>> torch.mvlgamma(torch.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    return _log_multigamma(input, p)


@public("special", out=True)
def multigammaln(input: Any, p: int) -> Any:
    """The logarithm of the multivariate gamma function of dimension p.

    >>> torch.special.multigammaln(torch.tensor([2.0, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    return _log_multigamma(input, p)


def _gammainc_vjp(sign: float) -> Any:
    """By the second operand: the density of the gamma distribution. None by the first."""

    def vjp(g: Any, out: Any, a: Any, x: Any) -> Any:
        density = RECORDED.exp((a - 1) * RECORDED.log(x) - x - LGAMMA(a))
        return None, scaled(g, density * sign)

    return vjp


GAMMAINC = host_function("gammainc", "gammainc", _gammainc_vjp(1.0))
GAMMAINCC = host_function("gammaincc", "gammaincc", _gammainc_vjp(-1.0))


def _check_incomplete(op: str, input: Any, other: Any) -> None:
    check_tensors(op, input=input, other=other)
    if input.dtype.is_integral and other.dtype.is_integral:
        raise errors.not_implemented_for(op, input.dtype, "a floating dtype")


@public("torch", "Tensor", name="igamma", inplace=True, out=True)
@public("special", out=True)
def gammainc(input: Any, other: Any) -> Any:
    """The regularised lower incomplete gamma function (needs SciPy).

    >>> torch.special.gammainc(torch.tensor([1.0, 2.0]), torch.tensor(1.0))
    tensor([0.6321, 0.2642])
    """
    _check_incomplete("gammainc", input, other)
    return GAMMAINC(input, other)


@public("torch", "Tensor", name="igammac", inplace=True, out=True)
@public("special", out=True)
def gammaincc(input: Any, other: Any) -> Any:
    """The regularised upper incomplete gamma function (needs SciPy).

    >>> torch.special.gammaincc(torch.tensor([1.0, 2.0]), torch.tensor(1.0))
    tensor([0.3679, 0.7358])
    """
    _check_incomplete("gammaincc", input, other)
    return GAMMAINCC(input, other)


# -- the normal distribution


def _erfcx(k: Any, x: Any) -> Any:
    """exp(x*x) erfc(x) in float64: the product while both factors are finite, then the
    asymptotic series (16 terms are exact to the last bits from 8 on).
    """
    inner = k.max(k.min(x, 27), -27)
    power = k.exp(k.min(inner * inner, 709))
    near = (power + power * square_lost(inner)) * k.erfc(x)
    large = k.max(x, 8)
    step = -0.5 / (large * large)
    total = step * 0 + 1
    for i in range(16, 0, -1):
        total = total * step * (2 * i - 1) + 1
    far = total * (1 / ROOT_PI) / large  # large * ROOT_PI may overflow
    made = k.select(x < 8, near, far)
    return k.select(x < -26.7, math.inf, made)


def _lognormal_distribution(k: Any, x: Any) -> Any:
    t = k.cast(x, dt.float64) * SQRT_HALF
    low = k.log(_erfcx(k, -k.min(t, -SQRT_HALF)) * 0.5) - t * t
    high = k.log1p(-normal_distribution(k, -k.max(k.cast(x, dt.float64), -1)))
    return k.select(t < -SQRT_HALF, low, high)


NDTR = pointwise(
    "ndtr",
    normal_distribution,
    lambda m, out, x: normal_density(m, x),
    to="float",
)
ERFCX = pointwise(
    "erfcx",
    lambda k, x: _erfcx(k, k.cast(x, dt.float64)),
    to="float",
    vjp=lambda g, out, x: scaled(g, x * out * 2 - 2 / ROOT_PI),
)
LOG_NDTR = pointwise(
    "log_ndtr",
    _lognormal_distribution,
    to="float",
    vjp=lambda g, out, x: scaled(g, math.sqrt(2 / math.pi) / ERFCX(x * -SQRT_HALF)),
)


NDTRI = pointwise(
    "ndtri",
    lambda k, p: k.ndtri(p),
    lambda m, out, x: m.exp(out * out * 0.5) * math.sqrt(2 * math.pi),
    to="float",
)


def _entr_lower(k: Any, x: Any) -> Any:
    inside = k.select(k.eq(x, 0), 0, -x * k.log(x))
    return k.select(x < 0, -math.inf, inside)


ENTR = pointwise("entr", _entr_lower, lambda m, out, x: -m.log(x) - 1, to="float")

ndtr = _special(NDTR, "The normal distribution function, (1 + erf(x / sqrt(2))) / 2.")
ndtri = _special(NDTRI, "The inverse of `ndtr`: quantiles of the normal distribution.")
log_ndtr = _special(LOG_NDTR, "log(ndtr(x)), finite far below zero.")
erfcx = _special(ERFCX, "e^(x^2) erfc(x).")
entr = _special(ENTR, "-x log x; 0 at zero and -infinity below it.")


def _spherical_lower(k: Any, x: Any) -> Any:
    """sin(x) / x, and its power series near zero."""
    is_near = k.abs(x) < 0.5
    s = x * x
    near = 1 - s / 210
    for divisor in (156, 110, 72, 42, 20, 6):
        near = 1 - s / divisor * near
    safe = k.select(is_near, 1, x)
    made = k.select(is_near, near, k.sin(safe) / safe)
    return k.select(k.eq(k.abs(x), math.inf), 0, made)


spherical_bessel_j0 = _special(
    pointwise("spherical_bessel_j0", _spherical_lower, to="float"),
    "sin(x) / x, and 1 at zero.",
)


# -- orthogonal polynomials


@takes_batches
def polynomial_values(x: Any, n: Any, *, family: str) -> Any:
    """The polynomial of degree n at x, by the family's recurrence (arrays, element by
    element); zero where the degree is negative or no number.
    """
    first, rule = _FAMILIES[family]
    n = np.where(np.isfinite(n), np.trunc(n), -1)
    wide = x.astype(np.float64)
    if family.startswith("shifted_"):
        wide = wide * 2 - 1
    with np.errstate(all="ignore"):
        before, here = np.ones_like(wide), first(wide)
        out = np.where(n == 0, before, here)
        top = int(np.max(n, initial=0))
        for i in range(1, top):
            before, here = here, rule(i, wide, here, before)
            out = np.where(n == i + 1, here, out)
    return np.where(n < 0, 0.0, out).astype(x.dtype)


def _chebyshev(i: int, x: Any, here: Any, before: Any) -> Any:
    return 2 * x * here - before


_FAMILIES: dict[str, Any] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: 2 * x, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: 2 * x - 1, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: 2 * x + 1, _chebyshev),
    "shifted_chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "shifted_chebyshev_polynomial_u": (lambda x: 2 * x, _chebyshev),
    "shifted_chebyshev_polynomial_v": (lambda x: 2 * x - 1, _chebyshev),
    "shifted_chebyshev_polynomial_w": (lambda x: 2 * x + 1, _chebyshev),
    "hermite_polynomial_h": (lambda x: 2 * x, lambda i, x, h, b: 2 * x * h - 2 * i * b),
    "hermite_polynomial_he": (lambda x: x, lambda i, x, h, b: x * h - i * b),
    "laguerre_polynomial_l": (
        lambda x: 1 - x, lambda i, x, h, b: ((2 * i + 1 - x) * h - i * b) / (i + 1)
    ),
    "legendre_polynomial_p": (lambda x: x, lambda i, x, h,
    b: ((2 * i + 1) * x * h - i * b) / (i + 1)),
}  # fmt: skip


def _polynomial_function(name: str) -> Any:
    def lower(k: Any, x: Any, n: Any) -> Any:
        shape = (x * 0 + n * 0).shape
        spread = [k.expand(o, shape) for o in (x, n)]
        return k.host(polynomial_values, [(shape, x.dtype)], *spread, family=name)[0]

    op = pointwise(name, lower, to="float")

    def function(input: Any, n: Any) -> Any:
        check_one_tensor(name, input, n)
        return op(input, n)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {name.replace('_', ' ')} of degree n."
    return public("special", name=name, out=True)(function)


for _name in _FAMILIES:
    _polynomial_function(_name)
