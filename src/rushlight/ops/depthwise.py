"""Convolutions of each channel by itself: too few products meet in one output for a contraction
to be worth its packing, so they are sums of shifted products, fused like any other elementwise
work.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # builder references

from rushlight import views
from rushlight.ops.windows import Sizes

MOST_TAPS = 49
"""Elements of the largest kernel taken so: each is a step in the text of a loop."""


def fits(groups: int, results: int, channels: int, kernel: Sizes) -> bool:
    """Whether groups of so few channels, each for itself, are best not contracted."""
    return groups > 1 and results <= 2 and channels == 1 and views.numel(kernel) <= MOST_TAPS


def _taps(k: Any, x: Any, count: int) -> Iterator[Any]:
    """x (*lead, *kernel) at each element of the kernel, which has `count` dimensions."""
    lead = len(x.shape) - count
    kernel = x.shape[lead:]
    for number in range(views.numel(kernel)):
        part = x
        for d, place in enumerate(views.coordinates(kernel, number)):
            part = k.slice(part, lead + d, place, 1)
        yield k.reshape(part, x.shape[:lead])


def weighed(k: Any, weight: Any, windows: Any, count: int) -> Any:
    """Windows (n, g, 1, *at, *kernel) times weight (g, m, 1, *kernel), summed over the kernel:
    (n, g, m, *at). Elements of one row of the kernel are added first, then the rows.
    """
    g, m, _, *kernel = weight.shape
    factors = k.wide(k.reshape(weight, (1, g, m, *(1 for _ in kernel), *kernel)))
    rows: list[Any] = []
    pairs = zip(_taps(k, k.wide(windows), count), _taps(k, factors, count), strict=True)
    for number, (x, w) in enumerate(pairs):
        if number % kernel[-1] == 0:
            rows.append(x * w)
        else:
            rows[-1] = rows[-1] + x * w
    total = rows[0]
    for row in rows[1:]:
        total = total + row
    return total


def weights_grad(k: Any, windows: Any, g: Any, count: int) -> Any:
    """Windows (n, g, 1, *at, *kernel) times the gradient (n, g, m, *at), summed over n and at:
    (g, m, *kernel).
    """
    lead = len(windows.shape) - count
    dims, wide = (0, *range(3, lead)), k.wide(g)
    sums = [k.reduce("sum", x * wide, dims) for x in _taps(k, k.wide(windows), count)]
    each = k.cat([k.reshape(s, (*g.shape[1:3], 1)) for s in sums], 2)
    return k.reshape(each, (*g.shape[1:3], *windows.shape[lead:]))
