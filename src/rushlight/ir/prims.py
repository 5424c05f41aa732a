"""The elementwise primitives: name, arity, result type and meaning in NumPy, one row each.

They take float32, float64, integers and bool; half-precision values are cast up by the
lowerings. The vector form of each row is in `loops/expressions.py`; a test checks that both
tables have the same names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any  # NumPy functions of any arity

import numpy as np


@dataclass(frozen=True, slots=True)
class Prim:
    """One elementwise primitive. `result` is 'same' (as the first value operand), 'bool', or
    'bits': the signed integer of the same width.
    """

    name: str
    arity: int
    reference: Callable[..., Any]
    result: str = "same"
    is_costly: bool = False  # worth keeping rather than computing twice


def _pointwise(function: Callable[..., float]) -> Callable[..., Any]:
    """A scalar function of the standard library applied to arrays, in float64."""

    def apply(*arrays: Any) -> Any:
        out = np.frompyfunc(function, len(arrays), 1)(*arrays)
        return np.asarray(out, dtype=np.float64).astype(np.asarray(arrays[0]).dtype)

    return apply


def _lgamma(x: float) -> float:
    if math.isinf(x):
        return math.inf
    if x <= 0 and x == math.floor(x):
        return math.inf
    return math.lgamma(x)


def _digamma(x: float) -> float:
    """Recurrence up to x >= 10, then the asymptotic series (Abramowitz and Stegun 6.3.18)."""
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return math.inf
    if x == 0:
        return math.copysign(math.inf, -x)
    if x < 0 and x == math.floor(x):
        return math.nan
    if x < 0:
        return _digamma(1 - x) - math.pi / math.tan(math.pi * x)
    total = 0.0
    while x < 10:
        total -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = inverse * (
        1 / 12 - inverse * (1 / 120 - inverse * (1 / 252 - inverse * (1 / 240 - inverse / 132)))
    )
    return total + math.log(x) - 0.5 / x - series


def _erfinv(y: float) -> float:
    """Newton's method on erf from a rational start; exact at the ends."""
    if math.isnan(y) or abs(y) > 1:
        return math.nan
    if abs(y) == 1:
        return math.copysign(math.inf, y)
    a = 0.147
    log = math.log1p(-y * y)
    first = 2 / (math.pi * a) + log / 2
    x = math.copysign(math.sqrt(math.sqrt(first * first - log / a) - first), y)
    for _ in range(4):
        tail = math.erfc(abs(x)) - (1 - abs(y))
        x += math.copysign(1.0, y) * tail * math.sqrt(math.pi) / 2 * math.exp(x * x)
    return x if y else y


def _normal_cdf(x: float) -> float:
    return 0.5 * math.erfc(x * -math.sqrt(0.5))


def _ndtri(p: float) -> float:
    from statistics import NormalDist  # which imports decimal numbers

    if not 0 < p < 1:
        return {0.0: -math.inf, 1.0: math.inf}.get(p, math.nan)
    return NormalDist().inv_cdf(p)


def _scaled_bessel(order: int, x: float) -> float:
    """exp(-|x|) I(x) of order 0 or 1 by its power series, or by the asymptotic one."""
    a = abs(x)
    far = a > 30
    term = total = 1.0 if far else math.exp(-a) * (a / 2) ** order
    for k in range(1, 31 if far else 101):
        odd = 2 * k - 1
        term *= (odd * odd - 4 * order) / (8 * k * a) if far else a * a / (4 * k * (k + order))
        total += term
    made = total / math.sqrt(2 * math.pi * a) if far else total
    return math.copysign(made, x) if order else made


def _bessel(order: int, x: float) -> float:
    a = min(abs(x), 720.0)  # I overflows before
    root = math.exp(a / 2)
    return _scaled_bessel(order, math.copysign(a, x)) * root * root


def _sigmoid(x: Any) -> Any:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small)).astype(x.dtype)


def _truncdiv(a: Any, b: Any) -> Any:
    safe = np.where(b == 0, 1, b)
    quotient = np.abs(a) // np.abs(safe)
    return np.where((a < 0) != (safe < 0), -quotient, quotient).astype(a.dtype)


def _floordiv(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return np.floor_divide(a, b)
    return np.floor_divide(a, np.where(b == 0, 1, b).astype(b.dtype))


def _remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor, exact for floats."""
    if a.dtype.kind != "f":
        return np.remainder(a, np.where(b == 0, 1, b).astype(b.dtype))
    rest = np.fmod(a, b)
    return np.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest).astype(a.dtype)


def _fmod(a: Any, b: Any) -> Any:
    if a.dtype.kind != "f":
        return np.fmod(a, np.where(b == 0, 1, b).astype(b.dtype))
    return np.fmod(a, b)


def _shift(name: str) -> Callable[..., Any]:
    shift = getattr(np, name)

    def apply(a: Any, b: Any) -> Any:
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)
        out = shift(a, np.where(inside, b, 0).astype(b.dtype))
        beyond = (
            np.where(a < 0, -1, 0).astype(a.dtype)
            if name == "right_shift"
            else np.zeros_like(a)
        )
        return np.where(inside, out, beyond).astype(a.dtype)

    return apply


def _ipow(a: Any, b: Any) -> Any:
    """Integer power; negative exponents give 1, -1 or 0 as integer division would."""
    plain = np.power(a, np.maximum(b, 0).astype(b.dtype))
    odd = np.where(b % 2 != 0, -1, 1)
    negative = (
        np.where(a == 1, 1, np.where(a == -1, odd, 0)) if a.dtype.kind == "i" else (a == 1)
    )
    return np.where(b < 0, negative, plain).astype(a.dtype)


def _bits(x: Any) -> Any:
    """A float's bits as a signed integer."""
    return np.asarray(x).view(np.dtype(f"i{x.dtype.itemsize}"))


_ROWS = (
    Prim("neg", 1, np.negative),
    Prim("abs", 1, np.abs),
    Prim("exp", 1, np.exp, is_costly=True),
    Prim("exp2", 1, np.exp2, is_costly=True),
    Prim("expm1", 1, np.expm1, is_costly=True),
    Prim("log", 1, np.log, is_costly=True),
    Prim("log2", 1, np.log2, is_costly=True),
    Prim("log10", 1, np.log10, is_costly=True),
    Prim("log1p", 1, np.log1p, is_costly=True),
    Prim("sqrt", 1, np.sqrt),
    Prim("rsqrt", 1, lambda x: (1 / np.sqrt(x)).astype(x.dtype)),
    Prim("sin", 1, np.sin, is_costly=True),
    Prim("cos", 1, np.cos, is_costly=True),
    Prim("tan", 1, np.tan, is_costly=True),
    Prim("asin", 1, np.arcsin, is_costly=True),
    Prim("acos", 1, np.arccos, is_costly=True),
    Prim("atan", 1, np.arctan, is_costly=True),
    Prim("sinh", 1, np.sinh, is_costly=True),
    Prim("cosh", 1, np.cosh, is_costly=True),
    Prim("tanh", 1, np.tanh, is_costly=True),
    Prim("asinh", 1, np.arcsinh, is_costly=True),
    Prim("acosh", 1, np.arccosh, is_costly=True),
    Prim("atanh", 1, np.arctanh, is_costly=True),
    Prim("erf", 1, _pointwise(math.erf), is_costly=True),
    Prim("erfc", 1, _pointwise(math.erfc), is_costly=True),
    Prim("erfc_half", 1, _pointwise(math.erfc), is_costly=True),  # for half precision only
    Prim("normal_cdf", 1, _pointwise(_normal_cdf), is_costly=True),
    Prim("erfinv", 1, _pointwise(_erfinv), is_costly=True),
    Prim("lgamma", 1, _pointwise(_lgamma), is_costly=True),
    Prim("digamma", 1, _pointwise(_digamma), is_costly=True),
    Prim("ndtri", 1, _pointwise(_ndtri), is_costly=True),
    Prim("i0", 1, _pointwise(lambda x: _bessel(0, x)), is_costly=True),
    Prim("i1", 1, _pointwise(lambda x: _bessel(1, x)), is_costly=True),
    Prim("i0e", 1, _pointwise(lambda x: _scaled_bessel(0, x)), is_costly=True),
    Prim("i1e", 1, _pointwise(lambda x: _scaled_bessel(1, x)), is_costly=True),
    Prim("sigmoid", 1, _sigmoid, is_costly=True),
    Prim("floor", 1, np.floor),
    Prim("ceil", 1, np.ceil),
    Prim("round", 1, np.rint),
    Prim("trunc", 1, np.trunc),
    Prim("not", 1, np.invert),
    Prim("bits", 1, _bits, "bits"),
    Prim("add", 2, np.add),
    Prim("sub", 2, np.subtract),
    Prim("mul", 2, np.multiply),
    Prim("div", 2, np.true_divide),
    Prim("truncdiv", 2, _truncdiv),
    Prim("floordiv", 2, _floordiv),
    Prim("remainder", 2, _remainder, is_costly=True),
    Prim("fmod", 2, _fmod, is_costly=True),
    Prim("pow", 2, np.power, is_costly=True),
    Prim("ipow", 2, _ipow, is_costly=True),
    Prim("atan2", 2, np.arctan2, is_costly=True),
    Prim("min", 2, np.minimum),
    Prim("max", 2, np.maximum),
    Prim("copysign", 2, np.copysign),
    Prim("nextafter", 2, np.nextafter),
    Prim("and", 2, np.bitwise_and),
    Prim("or", 2, np.bitwise_or),
    Prim("xor", 2, np.bitwise_xor),
    Prim("shl", 2, _shift("left_shift")),
    Prim("shr", 2, _shift("right_shift")),
    Prim("lt", 2, np.less, "bool"),
    Prim("le", 2, np.less_equal, "bool"),
    Prim("gt", 2, np.greater, "bool"),
    Prim("ge", 2, np.greater_equal, "bool"),
    Prim("eq", 2, np.equal, "bool"),
    Prim("ne", 2, np.not_equal, "bool"),
    Prim("select", 3, np.where),
)
PRIMS = {row.name: row for row in _ROWS}
