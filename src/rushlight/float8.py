"""Floating-point numbers of eight bits: what the bits mean, and which bits a number gets.

They are only stored: kernels move them as bytes, and conversions go through float32 by tables.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any  # NumPy arrays

import numpy as np

Array = Any


@dataclass(frozen=True, slots=True)
class Format:
    """How eight bits are divided, and what the largest patterns mean.

    exponent, mantissa, bias: as in IEEE 754. nan: the patterns of NaN, without the sign; none
    for formats whose only NaN is the pattern of -0. beyond: the pattern of numbers that are too
    large, None for NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    nan: tuple[int, ...]
    beyond: int | None


FORMATS = {
    "float8_e4m3fn": Format(4, 3, 7, (0x7F,), 0x7E),
    "float8_e5m2": Format(5, 2, 15, (0x7D, 0x7E, 0x7F), 0x7C),
    "float8_e4m3fnuz": Format(4, 3, 8, (), None),
    "float8_e5m2fnuz": Format(5, 2, 16, (), None),
}
SCALES = "float8_e8m0fnu"  # powers of two alone, without a sign
NAMES = (*FORMATS, SCALES)


def _value(format: Format, bits: int) -> float:
    """The number that a pattern of bits stands for."""
    magnitude = bits & 0x7F
    if magnitude in format.nan or (bits == 0x80 and not format.nan):
        return float("nan")
    sign = -1.0 if bits & 0x80 else 1.0
    if magnitude == format.beyond and len(format.nan) > 1:
        return sign * float("inf")
    exponent, part = magnitude >> format.mantissa, magnitude & ((1 << format.mantissa) - 1)
    whole = part + ((1 << format.mantissa) if exponent else 0)
    return float(sign * whole * 2.0 ** (max(exponent, 1) - format.bias - format.mantissa))


@functools.cache
def table(name: str) -> Array:
    """The numbers of all 256 patterns, as float32."""
    if name == SCALES:
        return np.array([*[2.0 ** (e - 127) for e in range(255)], np.nan], np.float32)
    return np.array([_value(FORMATS[name], bits) for bits in range(256)], np.float32)


def smallest_normal(name: str) -> float:
    """The smallest number of full precision."""
    if name == SCALES:
        return 2.0**-127
    return 2.0 ** (1 - FORMATS[name].bias)


def decoded(bits: Array, name: str) -> Array:
    """Patterns of bits as float32 numbers."""
    return table(name)[bits]


def encoded(x: Array, name: str) -> Array:
    """Numbers as patterns of bits, rounded to the nearest, ties to even."""
    x = np.asarray(x, np.float32)
    return _scale_bits(x) if name == SCALES else _bits(x, name)


def _bits(x: Array, name: str) -> Array:
    format, numbers = FORMATS[name], table(name)[:128].astype(np.float64)
    numbers = numbers[np.isfinite(numbers)]  # the patterns from 0 up
    size = np.abs(x.astype(np.float64))
    low = np.searchsorted(numbers, np.nan_to_num(size), side="right") - 1
    high = np.minimum(low + 1, len(numbers) - 1)
    below, above = size - numbers[low], numbers[high] - size
    found = np.where((above < below) | ((above == below) & (low % 2 == 1)), high, low)
    largest = len(numbers) - 1
    limit = numbers[largest] + (numbers[largest] - numbers[largest - 1]) / 2
    nan = format.nan[-1] if format.nan else 0x80
    found = np.where(size >= limit, nan if format.beyond is None else format.beyond, found)
    found = np.where(np.isnan(x), nan, found)
    is_signed = np.signbit(x) & (bool(format.nan) | (found != 0))
    return (found | np.where(is_signed, 0x80, 0)).astype(np.uint8)


def _scale_bits(x: Array) -> Array:
    """The exponent of float32, of numbers whose fraction is rounded up from a half on."""
    bits = np.ascontiguousarray(x).view(np.uint32).reshape(x.shape)
    exponent = (bits >> 23) & 0xFF
    is_up = ((bits & 0x7FFFFF) >= 0x400000) & (exponent < 0xFF)
    return (exponent + is_up).astype(np.uint8)
