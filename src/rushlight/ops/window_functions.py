"""Windows for stretches of a signal: `hann_window` and its relatives.

Calculated in float64 and rounded once. A periodic window is the first part of a symmetric one
that is longer by one point.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any  # windows are tensors

from rushlight import config
from rushlight.dtypes import dtype, float64
from rushlight.layout import check_layout
from rushlight.ops.bessel import i0
from rushlight.ops.creation import FULL, with_grad
from rushlight.ops.elementwise import CAST
from rushlight.ops.ranges import ARANGE
from rushlight.ops.registry import public

Formula = Callable[[Any, int], Any]  # of the points 0, 1, ... and the number of the last one


def _window(
    name: str, length: Any, periodic: bool, formula: Formula, kind: dtype | None, how: Any
) -> Any:
    if not isinstance(length, int) or isinstance(length, bool):
        raise TypeError(
            f"{name}(): argument 'window_length' (position 1) must be int, not "
            f"{type(length).__name__}"
        )
    kind = kind or config.default_dtype()
    if not kind.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind!r}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length <= 1:
        made = FULL(shape=(length,), value=1, dtype=kind)
    else:
        points = ARANGE(0, 1, length=length, dtype=float64)
        made = CAST(formula(points, length if periodic else length - 1), dtype=kind)
    return with_grad(made, how["requires_grad"], how["device"])


def _cosines(weights: tuple[float, ...]) -> Formula:
    """w0 - w1 cos(a) + w2 cos(2 a) - ... over one turn a, added from the end: so the rounded
    weights of a window that is zero at its ends make exactly that.
    """

    def formula(points: Any, last: int) -> Any:
        angle = points * (2 * math.pi / last)
        total: Any = None
        for i in reversed(range(1, len(weights))):
            part = (-1) ** i * weights[i] * (angle * i).cos()
            total = part if total is None else total + part
        return total + weights[0]

    return formula


def _plain(name: str, formula: Formula, doc: str) -> Any:
    def function(
        window_length: int, periodic: bool = True, *, dtype: dtype | None = None,
        layout: Any = None, device: Any = None, pin_memory: bool = False,
        requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        if layout is not None:
            check_layout(layout)
        how = {"device": device, "requires_grad": requires_grad}
        return _window(name, window_length, periodic, formula, dtype, how)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public("torch", name=name)(function)


hann_window = _plain(
    "hann_window", _cosines((0.5, 0.5)), "A raised cosine that is zero at both ends."
)
blackman_window = _plain(
    "blackman_window", _cosines((0.42, 0.5, 0.08)), "Two cosines over a constant."
)
bartlett_window = _plain(
    "bartlett_window",
    lambda points, last: 1 - (points * (2 / last) - 1).abs(),
    "A triangle from 0 to 1 and back.",
)


@public("torch")
def hamming_window(
    window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
    dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """alpha minus beta times a cosine.

    >>> import rushlight as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    if layout is not None:
        check_layout(layout)
    how = {"device": device, "requires_grad": requires_grad}
    formula = _cosines((alpha, beta))
    return _window("hamming_window", window_length, periodic, formula, dtype, how)


@public("torch")
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *,
    dtype: dtype | None = None, layout: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1.

    >>> torch.kaiser_window(3, periodic=False, beta=2.0)
    tensor([0.4387, 1.0000, 0.4387])
    """
    if layout is not None:
        check_layout(layout)

    def formula(points: Any, last: int) -> Any:
        t = points * (2 / last) - 1
        top = i0(FULL(shape=(), value=beta, dtype=float64))
        return i0((1 - t * t).clamp(min=0).sqrt() * beta) / top

    how = {"device": device, "requires_grad": requires_grad}
    return _window("kaiser_window", window_length, periodic, formula, dtype, how)
