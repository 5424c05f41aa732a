"""Convolutions of each channel by itself: too few products meet in one output for a contraction
to be worth its packing, so they are sums of shifted products, fused like any other elementwise
work.
"""

from __future__ import annotations

from typing import Any  # builder references

from rushlight import views
from rushlight.ops.windows import Sizes, window_elements

MOST_TAPS = 49
"""Elements of the largest kernel taken so: each is a step in the text of a loop."""


def fits(groups: int, results: int, channels: int, kernel: Sizes) -> bool:
    """Whether groups of so few channels, each for itself, are best not contracted."""
    return groups > 1 and results <= 2 and channels == 1 and views.numel(kernel) <= MOST_TAPS


def weighed(k: Any, weight: Any, windows: Any, count: int) -> Any:
    """Windows (n, g, 1, *at, *kernel) times weight (g, m, 1, *kernel), summed over the kernel:
    (n, g, m, *at). Elements of one row of the kernel are added first, then the rows.
    """
    g, m, _, *kernel = weight.shape
    factors = k.reshape(weight, (1, g, m, *(1 for _ in kernel), *kernel))
    rows: list[Any] = []
    parts = window_elements(k, windows, count)
    for number, ((_, x), (_, w)) in enumerate(
        zip(parts, window_elements(k, factors, count), strict=True)
    ):
        product = k.wide(x) * k.wide(w)
        if number % kernel[-1] == 0:
            rows.append(product)
        else:
            rows[-1] = rows[-1] + product
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
    parts = window_elements(k, windows, count)
    sums = [k.reduce("sum", k.wide(x) * wide, dims) for _, x in parts]
    each = k.cat([k.reshape(s, (*g.shape[1:3], 1)) for s in sums], 2)
    return k.reshape(each, (*g.shape[1:3], *windows.shape[lead:]))
