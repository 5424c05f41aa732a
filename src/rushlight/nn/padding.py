"""Padding at the edges of the last one to three dimensions."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.sizes import repeated
from rushlight.tensor import Tensor


class _Pad(Module):
    """Pads `N` dimensions; padding is (last before, last after, next to last before, ...)."""

    __constants__ = ["padding"]
    N: int
    MODE = "constant"
    padding: tuple[int, ...]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = repeated(padding, 2 * self.N)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.MODE)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """Pads with one value."""

    __constants__ = ["padding", "value"]

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with one value."""

    N = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with one value."""

    N = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with one value."""

    N = 3


class _ZeroPad(_ConstantPad):
    """Pads with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros."""

    N = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros."""

    N = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros."""

    N = 3


class ReflectionPad1d(_Pad):
    """Pads the last dimension with its mirror image."""

    N = 1
    MODE = "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last two dimensions with their mirror image."""

    N = 2
    MODE = "reflect"


class ReflectionPad3d(_Pad):
    """Pads the last three dimensions with their mirror image."""

    N = 3
    MODE = "reflect"


class ReplicationPad1d(_Pad):
    """Pads the last dimension with its outermost values."""

    N = 1
    MODE = "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last two dimensions with their outermost values."""

    N = 2
    MODE = "replicate"


class ReplicationPad3d(_Pad):
    """Pads the last three dimensions with their outermost values."""

    N = 3
    MODE = "replicate"


class _CircularPad(_Pad):
    """Pads with the values from the other end."""

    MODE = "circular"

    def forward(self, input: Tensor) -> Tensor:
        allowed = (self.N + 1, self.N + 2)
        if input.dim() not in allowed:
            names = " or ".join(f"{n}D" for n in allowed)
            raise ValueError(f"expected {names} input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pads the last dimension as if it were a circle."""

    N = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions as if they were circles."""

    N = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions as if they were circles."""

    N = 3
