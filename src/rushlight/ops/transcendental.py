"""Exponentials, logarithms, roots, circular and hyperbolic functions, the error function."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors, references or numbers

from rushlight import dtypes as dt
from rushlight.errors import refuses_complex
from rushlight.ir.exact import product_lost
from rushlight.ir.formulas import FORMULAS, half_turns, log_add_exp
from rushlight.ir.formulas import hypot as length
from rushlight.ops.elementwise import (
    RECORDED,
    binary_function,
    check_tensors,
    is_floating,
    is_fractional,
    pointwise,
    unary_function,
)
from rushlight.ops.registry import Op, public

LN2, LN10 = math.log(2), math.log(10)
PLACES = ("torch", "Tensor")
SPECIAL = ("torch", "Tensor", "special")


def _function(name: str, slope: Any) -> Op:
    """An op that is one primitive; integers become the default float."""
    of_complex = name in FORMULAS
    return pointwise(
        name, lambda k, x: k.map(name, x), slope, to="float", of_complex=of_complex
    )


# -- exponentials, logarithms, roots

EXP = _function("exp", lambda m, out, x: out)
EXP2 = _function("exp2", lambda m, out, x: out * LN2)
EXPM1 = _function("expm1", lambda m, out, x: m.exp(x))
LOG = _function("log", lambda m, out, x: 1 / x)
LOG2 = _function("log2", lambda m, out, x: 1 / (x * LN2))
LOG10 = _function("log10", lambda m, out, x: 1 / (x * LN10))
LOG1P = _function("log1p", lambda m, out, x: 1 / (x + 1))
SQRT = _function("sqrt", lambda m, out, x: 0.5 / out)
RSQRT = _function("rsqrt", lambda m, out, x: out * -0.5 / x)

exp = unary_function(EXP, "e^x, of each element.")
exp2 = unary_function(EXP2, "2^x, of each element.", places=SPECIAL)
expm1 = unary_function(EXPM1, "e^x - 1, accurate near zero.", places=SPECIAL)
log = unary_function(LOG, "The natural logarithm, log x.")
log2 = unary_function(LOG2, "The logarithm to base 2.")
log10 = unary_function(LOG10, "The logarithm to base 10.")
log1p = unary_function(LOG1P, "log(1 + x), accurate near zero.", places=SPECIAL)
sqrt = unary_function(SQRT, "The square root; NaN of negative real numbers.")
rsqrt = unary_function(RSQRT, "1 / sqrt(x).")


# -- circular

SIN = _function("sin", lambda m, out, x: m.cos(x))
COS = _function("cos", lambda m, out, x: -m.sin(x))
TAN = _function("tan", lambda m, out, x: out * out + 1)
ASIN = _function("asin", lambda m, out, x: m.rsqrt((1 - x) * (1 + x)))
ACOS = _function("acos", lambda m, out, x: -m.rsqrt((1 - x) * (1 + x)))
ATAN = _function("atan", lambda m, out, x: 1 / (x * x + 1))


def _atan2_slope(m: Any, a: Any, b: Any, top: Any) -> Any:
    """top / (a*a + b*b), scaled so that squares neither overflow nor vanish; 0 at the
    origin.
    """
    size = m.max(m.abs(a), m.abs(b))
    is_origin = m.eq(size, 0)
    safe = m.select(is_origin, 1, size)
    x, y = a / safe, b / safe
    return m.select(is_origin, 0, top / safe / (x * x + y * y) / safe)


ATAN2 = pointwise(
    "atan2",
    lambda k, a, b: k.atan2(a, b),
    lambda m, out, a, b: _atan2_slope(m, a, b, b),
    lambda m, out, a, b: _atan2_slope(m, a, b, -a),
    to="float",
)

sin = unary_function(SIN, "The sine of angles in radians.")
cos = unary_function(COS, "The cosine of angles in radians.")
tan = unary_function(TAN, "The tangent, sin(x) / cos(x).")
asin = unary_function(
    ASIN, "The angle in [-pi/2, pi/2] whose sine is x; NaN beyond [-1, 1].", aliases=("arcsin",)
)
acos = unary_function(
    ACOS, "The angle in [0, pi] whose cosine is x; NaN beyond [-1, 1].", aliases=("arccos",)
)
atan = unary_function(
    ATAN, "The angle in (-pi/2, pi/2) whose tangent is x.", aliases=("arctan",)
)
atan2 = binary_function(
    ATAN2,
    "The angle in [-pi, pi] of the point (other, input), broadcast.",
    aliases=("arctan2",),
    numbers="none",
)


def _sinc_lower(k: Any, x: Any) -> Any:
    """Half turns are taken away before the product with pi, which rounds; then nothing is lost
    near the zeros.
    """
    if x.dtype.is_complex:
        return k.map("sinc", x)
    rest, is_odd = half_turns(k, x)
    sine = k.sin(rest * math.pi)
    return k.select(k.eq(x, 0), 1, k.select(is_odd, -sine, sine) / (x * math.pi))


def _sinc_slope(m: Any, out: Any, x: Any) -> Any:
    """Its power series near zero, where the closed form cancels."""
    t = x * math.pi
    s = t * t
    near = t * (-1 / 3 + s * (1 / 30 + s * (-1 / 840 + s * (1 / 45360 - s / 3991680))))
    is_near = m.abs(t) < 0.5
    far = (_cos_half_turns(m, x) - out) / m.select(is_near, 1, t)
    return m.select(is_near, near, far) * math.pi


def _cos_half_turns(m: Any, x: Any) -> Any:
    """cos(pi x)."""
    if x.dtype.is_complex:
        return m.cos(x * math.pi)
    rest, is_odd = half_turns(m, x)
    cosine = m.cos(rest * math.pi)
    return m.select(is_odd, -cosine, cosine)


SINC = pointwise("sinc", _sinc_lower, _sinc_slope, to="float", of_complex=True)
sinc = unary_function(SINC, "sin(pi x) / (pi x), and 1 at zero.", places=SPECIAL)

DEG2RAD = pointwise(
    "deg2rad",
    lambda k, x: x * (math.pi / 180),
    lambda m, out, x: math.pi / 180,
    to="float",
    refuse_complex=refuses_complex,
)
RAD2DEG = pointwise(
    "rad2deg",
    lambda k, x: x * (180 / math.pi),
    lambda m, out, x: 180 / math.pi,
    to="float",
    refuse_complex=refuses_complex,
)
deg2rad = unary_function(DEG2RAD, "Degrees as radians: x pi / 180.")
rad2deg = unary_function(RAD2DEG, "Radians as degrees: x 180 / pi.")


# -- hyperbolic

SINH = _function("sinh", lambda m, out, x: m.cosh(x))
COSH = _function("cosh", lambda m, out, x: m.sinh(x))
TANH = _function("tanh", lambda m, out, x: 1 - out * out)
ASINH = _function("asinh", lambda m, out, x: m.rsqrt(x * x + 1))
ACOSH = _function("acosh", lambda m, out, x: m.rsqrt(x - 1) * m.rsqrt(x + 1))
ATANH = _function("atanh", lambda m, out, x: 1 / ((1 - x) * (1 + x)))

sinh = unary_function(SINH, "The hyperbolic sine, (e^x - e^-x) / 2.")
cosh = unary_function(COSH, "The hyperbolic cosine, (e^x + e^-x) / 2.")
tanh = unary_function(
    TANH, "The hyperbolic tangent, sinh(x) / cosh(x).", places=("torch", "Tensor", "F")
)
asinh = unary_function(
    ASINH, "The inverse of sinh: log(x + sqrt(x^2 + 1)).", aliases=("arcsinh",)
)
acosh = unary_function(
    ACOSH, "The inverse of cosh: log(x + sqrt(x^2 - 1)); NaN below 1.", aliases=("arccosh",)
)
atanh = unary_function(
    ATANH,
    "The inverse of tanh: log((1 + x) / (1 - x)) / 2; NaN beyond [-1, 1].",
    aliases=("arctanh",),
)


# -- the error function, the logistic function

ROOT_PI = math.sqrt(math.pi)
ERF = _function("erf", lambda m, out, x: m.exp(-(x * x)) * (2 / ROOT_PI))
ERFC = _function("erfc", lambda m, out, x: m.exp(-(x * x)) * (-2 / ROOT_PI))
ERFINV = _function("erfinv", lambda m, out, x: m.exp(out * out) * (ROOT_PI / 2))
SIGMOID = _function("sigmoid", lambda m, out, x: out * (1 - out))

erf = unary_function(
    ERF,
    "The error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.",
    places=SPECIAL,
)
erfc = unary_function(ERFC, "1 - erf(x), accurate where that is small.", places=SPECIAL)
erfinv = unary_function(ERFINV, "The inverse of `erf`; NaN beyond [-1, 1].", places=SPECIAL)
sigmoid = unary_function(
    SIGMOID, "The logistic function, 1 / (1 + e^-x).", places=("torch", "Tensor", "F")
)


@public("special", out=True)
def expit(input: Any) -> Any:
    """The logistic function, 1 / (1 + exp(-x)).

    >>> torch.special.expit(torch.tensor([-1.0, 0.0]))
    tensor([0.2689, 0.5000])
    """
    return SIGMOID(input)


# -- the normal distribution

SQRT_HALF = math.sqrt(0.5)
SQRT_HALF_LOST = -4.833646656726457e-17  # sqrt(1/2) less SQRT_HALF


def normal_distribution(k: Any, x: Any) -> Any:
    """erfc(-x / sqrt(2)) / 2, with what the quotient loses put back: the tail makes 1000
    times more of it.
    """
    x = k.cast(x, dt.float64)
    t = x * -SQRT_HALF
    inner = k.max(k.min(x, 40), -40)
    lost = product_lost(inner, -SQRT_HALF) - inner * SQRT_HALF_LOST
    slope = k.exp(inner * inner * -0.5) * (2 / ROOT_PI)
    return (k.erfc(t) - slope * lost) * 0.5


def normal_density(m: Any, x: Any) -> Any:
    return m.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi))


# What derivatives of gelu are made of; `ndtr` has the accuracy.
NORMAL_CDF = _function("normal_cdf", lambda m, out, x: normal_density(m, x))


# -- the inverse of the logistic function


def _logit_inside(k: Any, x: Any, eps: float | None) -> Any:
    return x if eps is None else k.min(k.max(x, eps), 1 - eps)


def _logit_lower(k: Any, x: Any, eps: float | None) -> Any:
    """Around 1/2 the quotient is too near to 1 to keep what it differs by."""
    inside = _logit_inside(k, x, eps)
    is_central = (inside > 0.25) & (inside < 0.75)
    central = k.log1p((inside * 2 - 1) / (1 - inside))
    return k.select(is_central, central, k.log(inside / (1 - inside)))


def _logit_slope(m: Any, out: Any, x: Any, eps: float | None) -> Any:
    low, high = (0, 1) if eps is None else (eps, 1 - eps)
    beyond = math.nan if eps is None else 0
    return m.select((x < low) | (x > high), beyond, 1 / (x * (1 - x)))


LOGIT = pointwise("logit", _logit_lower, _logit_slope, to="float", attrs=("eps",))


@public("torch", "Tensor", "special", inplace=True, out=True)
def logit(input: Any, eps: float | None = None) -> Any:
    """log(x / (1 - x)); with `eps`, x is first clamped to [eps, 1 - eps].

    >>> torch.logit(torch.tensor([0.25, 0.5, 1.0]), eps=1e-3)
    tensor([-1.0986,  0.0000,  6.9068])
    """
    return LOGIT(input, eps=None if eps is None else float(eps))


# -- of two operands


HYPOT = pointwise(
    "hypot",
    length,
    lambda m, out, a, b: a / out,
    lambda m, out, a, b: b / out,
    accepts=is_floating,
    wanted="a floating dtype",
)
hypot = binary_function(
    HYPOT, "sqrt(input^2 + other^2) without overflow, broadcast.", numbers="none"
)


def _logaddexp_lower(k: Any, a: Any, b: Any) -> Any:
    """max + log1p(exp(-|a - b|)); equal operands (also infinite ones) give a + log 2."""
    if a.dtype.is_complex:
        return log_add_exp(k, a, b)
    gap = k.select(k.eq(a, b), 0, k.abs(a - b))
    return k.max(a, b) + k.log1p(k.exp(-gap))


def _logaddexp2_lower(k: Any, a: Any, b: Any) -> Any:
    gap = k.select(k.eq(a, b), 0, k.abs(a - b))
    return k.max(a, b) + k.log1p(k.exp2(-gap)) * (1 / LN2)


def _share(scale: float, is_first: bool) -> Any:
    """The softmax weight of one of two operands: half for equal ones, also infinite."""

    def slope(m: Any, out: Any, a: Any, b: Any) -> Any:
        gap = (a - b) if is_first else (b - a)
        return m.sigmoid(m.select(m.eq(a, b), 0, gap) * scale)

    return slope


LOGADDEXP = pointwise(
    "logaddexp", _logaddexp_lower, _share(1.0, True), _share(1.0, False),
    accepts=is_fractional, wanted="a floating dtype", of_complex=True,
)  # fmt: skip
LOGADDEXP2 = pointwise(
    "logaddexp2", _logaddexp2_lower, _share(LN2, True), _share(LN2, False),
    accepts=is_floating, wanted="a floating dtype",
)  # fmt: skip
logaddexp = binary_function(
    LOGADDEXP,
    "log(e^input + e^other) without overflow, broadcast.",
    inplace=False,
    numbers="none",
)
logaddexp2 = binary_function(
    LOGADDEXP2,
    "log2(2^input + 2^other) without overflow, broadcast.",
    inplace=False,
    numbers="none",
)


def _times_log(log: str) -> Any:
    """x * log(y), zero where x is zero unless y is NaN."""

    def lower(k: Any, x: Any, y: Any) -> Any:
        product = x * k.map(log, y)
        return k.select(k.eq(x, 0), k.select(k.ne(y, y), y, 0), product)

    return lower


XLOGY = pointwise(
    "xlogy",
    _times_log("log"),
    lambda m, out, x, y: m.select(m.eq(x, 0) & (y <= 0), 0, m.log(y)),
    lambda m, out, x, y: x / y,
    to="float",
)
XLOG1PY = pointwise(
    "xlog1py",
    _times_log("log1p"),
    lambda m, out, x, y: m.select(m.eq(x, 0) & (y <= -1), 0, m.log1p(y)),
    lambda m, out, x, y: x / (y + 1),
    to="float",
)
xlogy = binary_function(
    XLOGY,
    "input * log(other), broadcast; 0 where input is 0, unless other is NaN.",
    places=SPECIAL,
    numbers="either",
)
xlog1py = binary_function(
    XLOG1PY,
    "input * log(1 + other), broadcast; 0 where input is 0, unless other is NaN.",
    places=("special",),
    inplace=False,
    numbers="either",
)


# -- exponents and fractions


@public("torch", "Tensor", inplace=True, out=True)
def ldexp(input: Any, other: Any) -> Any:
    """input * 2**other.

    >>> torch.ldexp(torch.tensor([1.0, 3.0]), torch.tensor([2, -1]))
    tensor([4.0000, 1.5000])
    """
    check_tensors("ldexp", input=input, other=other)
    power = RECORDED.pow(2.0, other)
    return input * power
