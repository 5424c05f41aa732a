"""What products of float64 numbers lose by rounding, for lowerings that put it back.

Dekker's: a number is cut into halves whose products are exact. Numbers are below 2**996.
"""

from __future__ import annotations

from typing import Any  # references or numbers

SPLIT = 134217729.0  # 2**27 + 1


def halves(x: Any) -> tuple[Any, Any]:
    """Two numbers of 26 bits whose sum is x."""
    far = x * SPLIT
    high = far - (far - x)
    return high, x - high


def product_lost(x: Any, factor: float) -> Any:
    """What the product x * factor is short of the exact one."""
    high, low = halves(x)
    first, rest = halves(factor)
    return ((high * first - x * factor) + high * rest + low * first) + low * rest


def square_lost(x: Any) -> Any:
    """What the product x * x is short of the square."""
    high, low = halves(x)
    return ((high * high - x * x) + high * low * 2) + low * low
