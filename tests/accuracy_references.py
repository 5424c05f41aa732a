"""Every function of docs/bounds.py by mpmath, to more digits than the bounds need."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any  # mpmath has no types

import mpmath
from mpmath import mp, mpf

Exact = Callable[..., Any]


FAR = 1e9  # from here on mpmath's erfc gives up; two terms of its series have 36 digits


def _erfc(x: Any) -> Any:
    """Without what is smaller than every float64."""
    return mpmath.erfc(x) if abs(x) < FAR else mpf(0 if x > 0 else 2)


def _erfcx(x: Any) -> Any:
    if x < FAR:
        return mpmath.exp(x * x) * _erfc(x)
    return (1 - 1 / (2 * x * x)) / (x * mpmath.sqrt(mp.pi))


def _ndtr(x: Any) -> Any:
    return _erfc(-x / mpmath.sqrt(2)) / 2


def _log_ndtr(x: Any) -> Any:
    if x > 5:
        return mpmath.log1p(-_ndtr(-x))
    return mpmath.log(_erfcx(-x / mpmath.sqrt(2)) / 2) - x * x / 2


def _inverse_erfc(c: Any) -> Any:
    """y > 0 with erfc(y) = c < 1 by Newton's steps on the logarithm."""
    y = mpmath.sqrt(max(-mpmath.log(c) - 1, mpf(1) / 2))
    for _ in range(100):
        tail = mpmath.erfc(y)
        slope = tail * mpmath.exp(y * y) * mpmath.sqrt(mp.pi) / 2
        step = mpmath.log(tail / c) * slope
        y += step
        if abs(step) < mpf(2) ** -120 * y:
            break
    return y


def _ndtri(p: Any) -> Any:
    low = min(p, 1 - p)
    if low > 0.25:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
    found = mpmath.sqrt(2) * _inverse_erfc(2 * low)
    return -found if p < 0.5 else found


def _softplus(x: Any) -> Any:
    return mpmath.log1p(mpmath.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def _sinc(x: Any) -> Any:
    return mpmath.sincpi(x)


def _scaled(function: Exact, sign: int) -> Exact:
    return lambda x: function(x) * mpmath.exp(sign * abs(x))


def _tanhshrink(x: Any) -> Any:
    return x**3 / 3 if abs(x) < 1e-30 else x - mpmath.tanh(x)


def _gelu_tanh(x: Any) -> Any:
    return x * _sigmoid(2 * mpmath.sqrt(2 / mp.pi) * (x + mpf(0.044715) * x**3))


def _elu(x: Any) -> Any:
    return x if x > 0 else mpmath.expm1(x)


def _selu(x: Any) -> Any:
    alpha = mpf("1.6732632423543772848170429916717")
    scale = mpf("1.0507009873554804934193349852946")
    return scale * (x if x > 0 else alpha * mpmath.expm1(x))


def _real(function: Exact) -> Exact:
    return lambda *x: mpmath.re(function(*x))


def _polygamma(order: int) -> Exact:
    return lambda x: mpmath.psi(order, x)


def _multigamma(x: Any) -> Any:
    total = sum(mpmath.loggamma(x - mpf(j) / 2) for j in range(3))
    return total + mpf(3) / 2 * mpmath.log(mp.pi)


def _zeta(s: Any, q: Any) -> Any:
    """mpmath's error is absolute; small results need as many digits more."""
    lost = max(0, int(s * mpmath.log(q, 2)))
    with mpmath.workprec(mp.prec + lost):
        return mpmath.zeta(s, q)


def _bessel(function: Exact, order: int) -> Exact:
    return lambda x: function(order, x)


def _scaled_k(order: int) -> Exact:
    """exp(x) K(x) of order 0 or 1; mpmath's cancels from 1 to 150, and takes a second there."""

    def function(x: Any) -> Any:
        if x < 1:
            return _k_by_series(order, x) * mpmath.exp(x)
        return _scaled_k_by_integral(order, x)

    return function


def _k_by_series(order: int, x: Any) -> Any:
    """K0 by its power series, and K1 from I0 K1 + I1 K0 = 1/x."""
    square = x * x / 4
    log = -mpmath.log(x / 2) - mp.euler
    term, total, harmonic = mpf(1), log, mpf(0)
    for k in range(1, 30):
        term *= square / (k * k)
        harmonic += mpf(1) / k
        total += term * (log + harmonic)
    if order == 0:
        return total
    return (1 / x - mpmath.besseli(1, x) * total) / mpmath.besseli(0, x)


def _scaled_k_by_integral(order: int, x: Any) -> Any:
    """The integral of exp(x - x cosh t) cosh(order t) over t > 0. The trapezoidal rule is as
    exact as its step is small next to the poles and to the width of the bell: 30 digits here.
    """
    step = min(mpf(1) / 8, mpf(9) / 20 / mpmath.sqrt(x))
    total = term = mpf(1) / 2
    t = mpf(0)
    while term > total * mpf(2) ** -130:
        t += step
        rise = 2 * mpmath.sinh(t / 2) ** 2  # cosh t - 1
        term = mpmath.exp(-x * rise) * (1 + order * rise)
        total += term
    return total * step


def _remainder(x: Any, y: Any) -> Any:
    rest = Fraction(float(x)) % Fraction(float(y))  # exact, and of the divisor's sign
    return mpf(rest.numerator) / rest.denominator


def _fmod(x: Any, y: Any) -> Any:
    return mpmath.sign(x) * _remainder(abs(x), abs(y))


def _log_add(base: Any) -> Exact:
    def function(a: Any, b: Any) -> Any:
        gap = -abs(a - b) * mpmath.log(base)
        return max(a, b) + mpmath.log1p(mpmath.exp(gap)) / mpmath.log(base)

    return function


def _times(function: Exact) -> Exact:
    return lambda x, y: mpf(0) if x == 0 else x * function(y)


def _lower_gamma(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, 0, x, regularized=True)


def _upper_gamma(a: Any, x: Any) -> Any:
    return mpmath.gammainc(a, x, regularized=True)


F, S = "nn.functional", "special"

EXACT: dict[str, Exact] = {
    "exp": mpmath.exp,
    "exp2": lambda x: mpf(2) ** x,
    "expm1": mpmath.expm1,
    "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2),
    "log10": lambda x: mpmath.log(x) / mpmath.log(10),
    "log1p": mpmath.log1p,
    "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "abs": abs,
    **{name: getattr(mpmath, name) for name in (
        "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
        "atanh", "erf", "erfinv", "atan2", "hypot",
    )},
    "erfc": _erfc,
    "sigmoid": _sigmoid,
    "sinc": _sinc,
    "deg2rad": lambda x: x * mp.pi / 180,
    "rad2deg": lambda x: x * 180 / mp.pi,
    "logit": lambda x: mpmath.log(x) - mpmath.log1p(-x),
    "lgamma": mpmath.loggamma,
    "digamma": mpmath.digamma,
    "polygamma(1)": _polygamma(1),
    "polygamma(2)": _polygamma(2),
    "polygamma(5)": _polygamma(5),
    "mvlgamma(3)": _multigamma,
    "i0": _bessel(mpmath.besseli, 0),
    f"{S}.i0e": _scaled(_bessel(mpmath.besseli, 0), -1),
    f"{S}.i1": _bessel(mpmath.besseli, 1),
    f"{S}.i1e": _scaled(_bessel(mpmath.besseli, 1), -1),
    f"{S}.erfcx": _erfcx,
    f"{S}.ndtr": _ndtr,
    f"{S}.log_ndtr": _log_ndtr,
    f"{S}.ndtri": _ndtri,
    f"{S}.entr": lambda x: -x * mpmath.log(x),
    f"{S}.bessel_j0": _bessel(mpmath.besselj, 0),
    f"{S}.bessel_j1": _bessel(mpmath.besselj, 1),
    f"{S}.bessel_y0": _bessel(mpmath.bessely, 0),
    f"{S}.bessel_y1": _bessel(mpmath.bessely, 1),
    f"{S}.modified_bessel_k0": _scaled(_scaled_k(0), -1),
    f"{S}.modified_bessel_k1": _scaled(_scaled_k(1), -1),
    f"{S}.scaled_modified_bessel_k0": _scaled_k(0),
    f"{S}.scaled_modified_bessel_k1": _scaled_k(1),
    f"{S}.spherical_bessel_j0": mpmath.sinc,
    f"{S}.airy_ai": mpmath.airyai,
    f"{F}.silu": lambda x: x * _sigmoid(x),
    f"{F}.mish": lambda x: x * mpmath.tanh(_softplus(x)),
    f"{F}.gelu": lambda x: x * _ndtr(x),
    f"{F}.gelu(tanh)": _gelu_tanh,
    f"{F}.softplus": _softplus,
    f"{F}.logsigmoid": lambda x: -_softplus(-x),
    f"{F}.elu": _elu,
    f"{F}.selu": _selu,
    f"{F}.softsign": lambda x: x / (1 + abs(x)),
    f"{F}.tanhshrink": _tanhshrink,
    "pow": mpmath.power,
    "fmod": _fmod,
    "remainder": _remainder,
    "logaddexp": _log_add(mp.e),
    "logaddexp2": _log_add(mpf(2)),
    "xlogy": _times(mpmath.log),
    f"{S}.xlog1py": _times(mpmath.log1p),
    f"{S}.zeta": _zeta,
    f"{S}.gammainc": _lower_gamma,
    f"{S}.gammaincc": _upper_gamma,
}  # fmt: skip
