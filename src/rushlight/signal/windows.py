"""`torch.signal.windows`: weights for stretches of a signal.

All are symmetric by default; with `sym=False` they are the first M values of a symmetric window
of M + 1, as spectra of periodic signals need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any  # dtypes, layouts and devices

from rushlight import config
from rushlight import dtypes as dt
from rushlight.layout import strided
from rushlight.ops.bessel import i0
from rushlight.ops.creation import FILL, ones
from rushlight.ops.ranges import linspace
from rushlight.tensor import Tensor

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


class _Frame:
    """What all windows share: how many points, of which dtype, and the checks."""

    def __init__(
        self, name: str, M: int, sym: bool, dtype: Any, layout: Any, device: Any,
        requires_grad: bool,
    ) -> None:  # fmt: skip
        self.dtype = dtype or config.default_dtype()
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        if layout is not None and layout is not strided:
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        if self.dtype not in (dt.float32, dt.float64):
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {self.dtype}")
        self.count, self.sym, self.device, self.requires_grad = M, sym, device, requires_grad
        self.last = max(M - 1 if sym or M == 1 else M, 0)  # of the symmetric window

    def points(self, first: float, last: float) -> Tensor:
        return linspace(first, last, self.count, dtype=self.dtype, device=self.device)

    def window(self, values: Any) -> Tensor:
        """Windows of nothing and of one point need no formula."""
        if self.count <= 1:
            out = ones(self.count, dtype=self.dtype, device=self.device)
        else:
            out = values()
        return out.requires_grad_() if self.requires_grad else out


def bartlett(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A triangle from 0 to 1 and back."""
    frame = _Frame("bartlett", M, sym, dtype, layout, device, requires_grad)
    return frame.window(lambda: 1 - frame.points(-1, -1 + 2 * (M - 1) / frame.last).abs())


def general_cosine(
    M: int, *, a: Iterable[float], sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """The sum of cosines of whole frequencies with weights a and alternating signs."""
    frame = _Frame("general_cosine", M, sym, dtype, layout, device, requires_grad)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    weights = list(a)
    if not weights:
        raise ValueError("Coefficients cannot be empty")

    def values() -> Tensor:
        angle = frame.points(0, 2 * math.pi * (M - 1) / frame.last)
        parts = [(-1) ** i * w * (angle * i).cos() for i, w in enumerate(weights)]
        return sum(parts[1:], parts[0])

    return frame.window(values)


def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """alpha minus (1 - alpha) times a cosine."""
    how = _how(sym, dtype, layout, device, requires_grad)
    return general_cosine(M, a=[alpha, 1.0 - alpha], **how)


def _cosines(name: str, weights: list[float], doc: str) -> Any:
    def function(
        M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:  # fmt: skip
        return general_cosine(M, a=weights, **_how(sym, dtype, layout, device, requires_grad))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def _how(sym: bool, dtype: Any, layout: Any, device: Any, requires_grad: bool) -> Any:
    return {
        "sym": sym, "dtype": dtype, "layout": layout, "device": device,
        "requires_grad": requires_grad,
    }  # fmt: skip


hann = _cosines("hann", [0.5, 0.5], "A raised cosine from 0 to 1 and back.")
hamming = _cosines("hamming", [0.54, 0.46], "A raised cosine that does not reach 0.")
blackman = _cosines("blackman", [0.42, 0.5, 0.08], "Two cosines, for weaker side lobes.")
nuttall = _cosines(
    "nuttall", [0.3635819, 0.4891775, 0.1365995, 0.0106411], "Three cosines (Nuttall, 1981)."
)


def cosine(
    M: int, *, sym: bool = True, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Half a period of a sine."""
    frame = _Frame("cosine", M, sym, dtype, layout, device, requires_grad)
    step = math.pi / (frame.last + 1)
    return frame.window(lambda: frame.points(step / 2, (M - 0.5) * step).sin())


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True,
    dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """exp(-distance from the centre / tau)."""
    frame = _Frame("exponential", M, sym, dtype, layout, device, requires_grad)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    middle = frame.last / 2 if center is None else center
    return frame.window(lambda: (-frame.points(-middle, M - 1 - middle).abs() / tau).exp())


def gaussian(
    M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A normal density of this deviation (in points), 1 at its centre."""
    frame = _Frame("gaussian", M, sym, dtype, layout, device, requires_grad)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = frame.last / 2
    scale = 1 / (std * math.sqrt(2))
    return frame.window(lambda: (-((frame.points(-middle, M - 1 - middle) * scale) ** 2)).exp())


def kaiser(
    M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A Bessel function that trades the main lobe's width for the side lobes by `beta`."""
    frame = _Frame("kaiser", M, sym, dtype, layout, device, requires_grad)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")

    def values() -> Tensor:
        at = frame.points(-1, -1 + 2 * (M - 1) / frame.last)
        root = (1 - at * at).clamp(min=0).sqrt()
        return i0(root * beta) / i0(FILL(beta, shape=(), dtype=frame.dtype))

    return frame.window(values)
