"""Logarithms to three bases, and log(1 + x)."""

from __future__ import annotations

from rushlight.loops.vecmath.lanes import (
    MANTISSA_BITS,
    Value,
    fast_two_sum,
    fma,
    polynomial,
    select,
    two_product,
)
from rushlight.loops.vecmath.registry import vector_function

INFINITY = float("inf")
SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
ROOT_HALF_BITS = {"f32": 0x3F3504F3, "f64": 0x3FE6A09E667F3BCD}

# fmt: off
# (log(1 + f) - f) / f^2 on 1 + f between the roots of 1/2 and 2. Relative error 2^-27.8.
LOG_TAIL = (-0.49999988079071045, 0.33333325386047363, -0.2500160038471222,
            0.20002003014087677, -0.16608759760856628, 0.14181125164031982,
            -0.13244666159152985, 0.12909245491027832, -0.07623804360628128)
# (2 atanh(s) / s - 2) / s^2 in s^2, |s| <= 0.1717. Relative error 2^-58.5.
ATANH_TAIL = (0.6666666666666735, 0.3999999999940895, 0.2857142874383848,
              0.22222198407438898, 0.18183573769805045, 0.15313788820799684,
              0.1479875955879202)
# fmt: on
# ln 2 and log10 2 in two parts each; the first has so few bits that its product with an
# exponent is exact.
LN2_SHORT = {
    "f32": (0.693145751953125, 1.428606765330187e-06),
    "f64": (0.6931471805601177, -1.7239444525614835e-13),
}
LOG10_2_SHORT = {
    "f32": (0.301025390625, 4.605039066518657e-06),
    "f64": (0.3010299956640665, -8.532344317057107e-14),
}
LOG2_E = {
    "f32": (1.4426950216293335, 1.925963033500011e-08),
    "f64": (1.4426950408889634, 2.0355273740931033e-17),
}
LOG10_E = {
    "f32": (0.4342944920063019, -1.0103049952192578e-08),
    "f64": (0.4342944819032518, 1.098319650216765e-17),
}


def split(x: Value) -> tuple[Value, Value]:
    """f and e with x = 2^e (1 + f), 1 + f between the roots of 1/2 and 2; for finite x > 0."""
    kind, bits = x.kind, MANTISSA_BITS[x.kind]
    tiny = x < SMALLEST_NORMAL[kind]
    x = select(tiny, x * 2.0 ** (bits + 2), x)
    pattern = x.bits()
    exponent = exponent_of(pattern - ROOT_HALF_BITS[kind], bits)
    mantissa = (pattern - (exponent << bits)).as_float()
    exponent = select(tiny, exponent - (bits + 2), exponent)
    return mantissa - 1.0, exponent.convert("i32").convert(kind)


def exponent_of(pattern: Value, bits: int) -> Value:
    """Arithmetic shift right; on 64 bits by a logical one, which every target has."""
    if pattern.kind == "i32":
        return pattern >> bits
    offset = 1 << 11
    return (pattern + (offset << bits)).logical_shift(bits) - offset


def log_tail(f: Value) -> Value:
    """log(1 + f) - f."""
    if f.kind == "f32":
        return f * f * polynomial(f, LOG_TAIL)
    s = f / (f + 2.0)
    square = s * s
    half_square = 0.5 * f * f
    rest = square * polynomial(square, ATANH_TAIL)
    return fma(s, half_square + rest, -half_square)


def finish(x: Value, out: Value) -> Value:
    """The logarithm's values at 0, infinity, NaN and negative numbers."""
    out = select(x.equals(0.0), -INFINITY, out)
    out = select(x < INFINITY, out, x)
    return select(x < 0.0, float("nan"), out)


@vector_function("log", ulp=(1.0, 1.0))
def log(x: Value) -> Value:
    f, e = split(x)
    return finish(x, _natural(f, e, log_tail(f)))


def _natural(f: Value, e: Value, tail: Value) -> Value:
    """e ln 2 + f + tail."""
    high, low = LN2_SHORT[f.kind]
    total, error = fast_two_sum(e * high, f)
    return total + (error + fma(e, low, tail))


@vector_function("log1p", ulp=(1.0, 1.0))
def log1p(x: Value) -> Value:
    """log of 1 + x with what the addition lost put back; near zero, log's own series in x."""
    sum_ = 1.0 + x
    lost = select(x > 1.0, 1.0 - (sum_ - x), x - (sum_ - 1.0))
    f, e = split(sum_)
    near = (x > -0.29) & (x < 0.41)
    f = select(near, x, f)
    e = select(near, 0.0, e)
    correction = select(near, 0.0, lost / sum_)
    out = _natural(f, e, log_tail(f) + correction)
    out = select(abs(x) < 2.0 ** (-26 if x.kind == "f32" else -55), x, out)
    out = select(sum_.equals(0.0), -INFINITY, out)
    out = select(x < INFINITY, out, x)
    return select(x < -1.0, float("nan"), out)


@vector_function("log2", ulp=(1.125, 1.125))
def log2(x: Value) -> Value:
    f, e = split(x)
    return finish(x, _other_base(f, e, LOG2_E[x.kind]))


@vector_function("log10", ulp=(1.125, 1.0))
def log10(x: Value) -> Value:
    f, e = split(x)
    high, low = LOG10_2_SHORT[x.kind]
    return finish(x, _other_base(f, e * high, LOG10_E[x.kind], e * low))


def _other_base(
    f: Value, whole: Value, factor: tuple[float, float], whole_low: Value | None = None
) -> Value:
    """whole + whole_low + log(1 + f) * factor."""
    product, error = two_product(f, f.like(factor[0]))
    total, lost = fast_two_sum(whole, product)
    rest = fma(log_tail(f), factor[0], fma(f, factor[1], error)) + lost
    return total + (rest if whole_low is None else rest + whole_low)
