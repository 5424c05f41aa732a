"""Elementwise primitives of complex numbers as formulas of real ones.

Those of the inverse functions are W. Kahan's (Branch Cuts for Complex Elementary Functions,
1987).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any  # a builder or recorded ops, and their operands

from rushlight.ir.exact import product_lost
from rushlight.ir.ref import Pair, Ref

if TYPE_CHECKING:
    from rushlight.ir.builder import Builder

Formula = Callable[..., Ref]
LN2, LN10 = math.log(2), math.log(10)
EPS_SQUARED = 2.0**-104


# -- arithmetic


def _neg(k: Builder, z: Pair) -> Pair:
    return Pair(-z.re, -z.im)


def _add(k: Builder, a: Pair, b: Pair) -> Pair:
    return Pair(a.re + b.re, a.im + b.im)


def _sub(k: Builder, a: Pair, b: Pair) -> Pair:
    return Pair(a.re - b.re, a.im - b.im)


def _mul(k: Builder, a: Pair, b: Pair) -> Pair:
    return Pair(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re)


def _div(k: Builder, a: Pair, b: Pair) -> Pair:
    """Scaled by the larger part of the divisor, whose square neither overflows nor vanishes."""
    size = k.max(k.abs(b.re), k.abs(b.im))
    c = k.select(_is_infinite(k, b.re), k.copysign(1.0, b.re), b.re / size)
    d = k.select(_is_infinite(k, b.im), k.copysign(1.0, b.im), b.im / size)
    square = c * c + d * d
    return Pair(
        (a.re * c + a.im * d) / square / size,
        (a.im * c - a.re * d) / square / size,
    )


def _eq(k: Builder, a: Pair, b: Pair) -> Ref:
    return k.eq(a.re, b.re) & k.eq(a.im, b.im)


def _ne(k: Builder, a: Pair, b: Pair) -> Ref:
    return k.ne(a.re, b.re) | k.ne(a.im, b.im)


def _select(k: Builder, mask: Ref, a: Pair, b: Pair) -> Pair:
    return Pair(k.select(mask, a.re, b.re), k.select(mask, a.im, b.im))


# -- size


def hypot(k: Builder, a: Ref, b: Ref) -> Ref:
    """The length of (a, b), scaled by the larger side so that squares neither overflow nor
    vanish.
    """
    a, b = k.abs(a), k.abs(b)
    large, small = k.max(a, b), k.min(a, b)
    ratio = small / k.select(k.eq(large, 0), 1, large)
    length = large * k.sqrt(ratio * ratio + 1)
    is_infinite = k.eq(a, math.inf) | k.eq(b, math.inf)
    return k.select(is_infinite, math.inf, length)


def _abs(k: Builder, z: Pair) -> Ref:
    return hypot(k, z.re, z.im)


def _log_size(k: Builder, a: Ref, b: Ref) -> Ref:
    """The logarithm of the length of (a, b), without cancellation where that is near 1."""
    a, b = k.abs(a), k.abs(b)
    large, small = k.max(a, b), k.min(a, b)
    ratio = small / k.select(k.eq(large, 0) | k.eq(large, math.inf), 1, large)
    far = k.log(large) + k.log1p(ratio * ratio) * 0.5
    near = k.log1p((large - 1) * (large + 1) + small * small) * 0.5
    return k.select((large > 0.5) & (large < 2), near, far)


# -- exponentials, logarithms, roots


def _exp(k: Builder, z: Pair) -> Pair:
    return _turned(k, z.re, k.exp(z.re), z.im)


def _exp2(k: Builder, z: Pair) -> Pair:
    """Of the product z * log 2 only the angle: its rounding in the size would grow with z."""
    return _turned(k, z.re, k.exp2(z.re), z.im * LN2)


def _turned(k: Builder, x: Ref, size: Ref, angle: Ref) -> Pair:
    """A number of the size that belongs to x."""
    is_real = k.eq(angle, 0)  # also where the size is infinite
    is_end = _is_infinite(k, x) & _has_no_angle(k, angle)
    return Pair(
        k.select(is_end, size, size * k.cos(angle)),
        k.select(is_real, angle, size * k.select(is_end, 0, k.sin(angle))),
    )


def _is_infinite(k: Builder, x: Ref) -> Ref:
    return k.eq(k.abs(x), math.inf)


def _has_no_angle(k: Builder, angle: Ref) -> Ref:
    """Whether it is infinite or NaN: at infinity, or zero, a part may have a value even so, as
    in C.
    """
    return ~(k.abs(angle) < math.inf)


def _expm1(k: Builder, z: Pair) -> Pair:
    half = k.sin(z.im * 0.5)
    return Pair(
        k.expm1(z.re) * k.cos(z.im) - half * half * 2,
        k.exp(z.re) * k.sin(z.im),
    )


def _log(k: Builder, z: Pair) -> Pair:
    return Pair(_log_size(k, z.re, z.im), k.atan2(z.im, z.re))


def _log1p(k: Builder, z: Pair) -> Pair:
    near = k.log1p(z.re * (z.re + 2) + z.im * z.im) * 0.5
    size = k.max(k.abs(z.re), k.abs(z.im))
    real = k.select(size < 0.5, near, _log_size(k, z.re + 1, z.im))
    return Pair(real, k.atan2(z.im, z.re + 1))


def _sqrt(k: Builder, z: Pair) -> Pair:
    """The larger part from a sum of positive numbers, the other by division."""
    size = hypot(k, z.re, z.im)
    root = k.sqrt(size * 0.5 + k.abs(z.re) * 0.5)
    other = k.abs(z.im) / k.select(k.eq(root, 0), 1, root * 2)
    other = k.select(k.eq(k.abs(z.im), math.inf), math.inf, other)
    is_right = z.re >= 0
    return Pair(
        k.select(is_right, root, other),
        k.copysign(k.select(is_right, other, root), z.im),
    )


def _rsqrt(k: Builder, z: Pair) -> Ref:
    return 1 / _sqrt(k, z)


def _pow(k: Builder, a: Pair, b: Pair) -> Pair:
    """0 ** 0 is 1, and 0 to a power without a value is NaN."""
    power = _exp(k, _mul(k, b, _log(k, a)))
    of_zero = k.select(b.re < 0, math.nan, k.cast(k.eq(b, 0), b.re.dtype))
    is_zero = k.eq(a, 0)
    return Pair(k.select(is_zero, of_zero, power.re), k.select(is_zero, 0, power.im))


def _sigmoid(k: Builder, z: Pair) -> Ref:
    """By the exponential that is at most 1."""
    is_left = z.re < 0
    e = _exp(k, _select(k, is_left, z, _neg(k, z)))
    return Pair(k.select(is_left, e.re, 1), k.select(is_left, e.im, 0)) / (e + 1)


def log_add_exp(k: Builder, a: Pair, b: Pair) -> Ref:
    """log(exp(a) + exp(b)) from the number with the larger real part; equal numbers (also
    infinite ones) give a + log 2.
    """
    is_first = a.re >= b.re
    high, low = _select(k, is_first, a, b), _select(k, is_first, b, a)
    gap = k.select(k.eq(high, low), 0, low - high)
    return high + k.log1p(k.exp(gap))


# -- circular and hyperbolic


def _times(z: Pair, factor: float) -> Pair:
    return z.each(lambda part: part * factor)


def _times_i(z: Pair) -> Pair:
    return Pair(-z.im, z.re)


def _by_i(z: Pair) -> Pair:
    """z / i"""
    return Pair(z.im, -z.re)


def _sinh(k: Builder, z: Pair) -> Pair:
    """On the real axis the imaginary part is zero, also where cosh overflows."""
    is_real = k.eq(z.im, 0)
    is_end = _has_no_angle(k, z.im) & (_is_infinite(k, z.re) | k.eq(z.re, 0))
    return Pair(
        k.select(is_end, z.re, k.sinh(z.re) * k.cos(z.im)),
        k.select(is_real, z.im, k.cosh(z.re) * k.sin(z.im)),
    )


def _cosh(k: Builder, z: Pair) -> Pair:
    is_real = k.eq(z.im, 0)
    flat = z.im * k.copysign(1.0, z.re)
    has_none = _has_no_angle(k, z.im)
    sine = k.select(has_none & k.eq(z.re, 0), 0, k.sin(z.im))
    return Pair(
        k.select(has_none & _is_infinite(k, z.re), math.inf, k.cosh(z.re) * k.cos(z.im)),
        k.select(is_real, flat, k.sinh(z.re) * sine),
    )


def _tanh(k: Builder, z: Pair) -> Pair:
    """Where the real part is large, sinh would overflow long before the result is 1."""
    far = k.abs(z.re) > 20
    x = k.select(far, 20.0, z.re)
    t, s = k.tan(z.im), k.sinh(x)
    beta = t * t + 1
    size = beta * s * s + 1
    has_none, is_infinite = _has_no_angle(k, z.im), _is_infinite(k, z.re)
    turn = k.select(is_infinite & has_none, 0, k.sin(z.im) * k.cos(z.im))
    near = k.select(has_none & k.eq(z.re, 0), z.re, beta * k.sqrt(s * s + 1) * s / size)
    is_one = is_infinite | (far & ~has_none)
    return Pair(
        k.select(is_one, k.copysign(1.0, z.re), near),
        k.select(far, k.exp(k.abs(z.re) * -2) * 4 * turn, k.select(k.eq(t, 0), t, t / size)),
    )


def _sin(k: Builder, z: Pair) -> Pair:
    return _by_i(_sinh(k, _times_i(z)))


def half_turns(m: Any, x: Any) -> tuple[Any, Any]:
    """A real x less the nearest whole number, exact, and whether that number is odd."""
    whole = m.round(x)
    return x - whole, m.ne(m.round(whole * 0.5) * 2, whole)


PI_LOST = 1.2246467991473532e-16  # pi less math.pi
FAR = 300.0  # sinh(pi FAR) overflows


def _sinc(k: Builder, z: Pair) -> Pair:
    """sin(pi z) / (pi z). Half turns are taken away before the product with pi; what that loses
    of the imaginary part is put back, since the size is exponential in it.
    """
    rest, is_odd = half_turns(k, z.re)
    inner = k.max(k.min(z.im, FAR), -FAR)
    lost = product_lost(inner, math.pi) + inner * PI_LOST
    factor = lost * k.copysign(1.0, inner) + 1
    factor = k.select(is_odd, -factor, factor)
    sine = _sin(k, Pair(rest, z.im).each(lambda part: part * math.pi))
    made = _div(k, sine.each(lambda part: part * factor), _times(z, math.pi))
    is_zero = _eq(k, z, Pair(z.re * 0, z.im * 0))
    return Pair(k.select(is_zero, 1, made.re), k.select(is_zero, 0, made.im))


def _asinh(k: Builder, z: Pair) -> Pair:
    return _by_i(_asin(k, _times_i(z)))


def _roots(k: Builder, z: Pair) -> tuple[Pair, Pair]:
    """sqrt(1 - z) and sqrt(1 + z), whose imaginary parts have the sign that z's has."""
    return _sqrt(k, Pair(1 - z.re, -z.im)), _sqrt(k, Pair(1 + z.re, z.im))


def _asin(k: Builder, z: Pair) -> Pair:
    minus, plus = _roots(k, z)
    is_far = _is_infinite(k, z.re) | _is_infinite(k, z.im)
    beside = k.select(is_far, k.abs(z.im), minus.re * plus.re - minus.im * plus.im)
    inner = k.asinh(minus.re * plus.im - minus.im * plus.re)
    return Pair(k.atan2(z.re, beside), k.select(is_far, k.copysign(math.inf, z.im), inner))


def _acos(k: Builder, z: Pair) -> Pair:
    minus, plus = _roots(k, z)
    is_far = _is_infinite(k, z.re) | _is_infinite(k, z.im)
    turn = k.select(is_far, k.atan2(k.abs(z.im), z.re), k.atan2(minus.re, plus.re) * 2)
    inner = k.asinh(plus.re * minus.im - plus.im * minus.re)
    return Pair(turn, k.select(is_far, -k.copysign(math.inf, z.im), inner))


def _acosh(k: Builder, z: Pair) -> Pair:
    minus, plus = _sqrt(k, Pair(z.re - 1, z.im)), _sqrt(k, Pair(z.re + 1, z.im))
    is_far = _is_infinite(k, z.re) | _is_infinite(k, z.im)
    turn = k.select(is_far, k.atan2(z.im, z.re), k.atan2(minus.im, plus.re) * 2)
    return Pair(
        k.select(is_far, math.inf, k.asinh(minus.re * plus.re + minus.im * plus.im)), turn
    )


def _atanh(k: Builder, z: Pair) -> Pair:
    """In the right half plane, where the logarithm is of numbers from 1 on. At the pole the
    square of the distance vanishes long before the distance.
    """
    square = z.im * z.im
    x = k.abs(z.re)
    apart = 1 - x
    far = k.log1p(x * 4 / (apart * apart + square)) * 0.25
    at_pole = k.eq(apart, 0) & (square < EPS_SQUARED)
    real = k.select(at_pole, (LN2 - k.log(k.abs(z.im))) * 0.5, far)
    angle = k.atan2(z.im * 2, apart * (x + 1) - square) * 0.5
    is_far = _is_infinite(k, z.re) | _is_infinite(k, z.im)
    quarter = k.copysign(math.pi / 2, z.im)
    return Pair(
        k.copysign(k.select(is_far, 0, real), z.re),
        k.select(is_far & k.eq(z.im, z.im), quarter, angle),
    )


FORMULAS: dict[str, Formula] = {
    "neg": _neg,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "eq": _eq,
    "ne": _ne,
    "select": _select,
    "abs": _abs,
    "exp": _exp,
    "exp2": _exp2,
    "expm1": _expm1,
    "log": _log,
    "log2": lambda k, z: _times(_log(k, z), 1 / LN2),
    "log10": lambda k, z: _times(_log(k, z), 1 / LN10),
    "log1p": _log1p,
    "sqrt": _sqrt,
    "rsqrt": _rsqrt,
    "pow": _pow,
    "sigmoid": _sigmoid,
    "sinh": _sinh,
    "cosh": _cosh,
    "tanh": _tanh,
    "sin": _sin,
    "sinc": _sinc,
    "cos": lambda k, z: _cosh(k, _times_i(z)),
    "tan": lambda k, z: _by_i(_tanh(k, _times_i(z))),
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "asin": _asin,
    "acos": _acos,
    "atan": lambda k, z: _by_i(_atanh(k, _times_i(z))),
}
WIDE = FORMULAS.keys() - {"neg", "add", "sub", "mul", "eq", "ne", "select"}
