"""Elementwise nonlinearities, and the softmax family."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.tensor import Tensor


class Activation(Module):
    """A nonlinearity; `SHOWN` names the attributes that are printed, besides `inplace`."""

    SHOWN: tuple[str, ...] = ()
    inplace: bool = False

    def extra_repr(self) -> str:
        parts = [f"{name}={getattr(self, name)}" for name in self.SHOWN]
        if self.inplace:
            parts.append("inplace=True")
        return ", ".join(parts)


class _MayBeInPlace(Activation):
    """A nonlinearity without parameters that can overwrite its input."""

    __constants__ = ["inplace"]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class ReLU(_MayBeInPlace):
    """`max(x, 0)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, inplace=self.inplace)


class SiLU(_MayBeInPlace):
    """`x * sigmoid(x)`, also called swish."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, inplace=self.inplace)


class Mish(_MayBeInPlace):
    """`x * tanh(softplus(x))`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, inplace=self.inplace)


class SELU(_MayBeInPlace):
    """The scaled exponential unit that keeps mean 0 and variance 1 (Klambauer et al., 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_MayBeInPlace):
    """`clip(x / 6 + 1/2, 0, 1)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_MayBeInPlace):
    """`x * hardsigmoid(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Sigmoid(Activation):
    """`1 / (1 + exp(-x))`."""

    def forward(self, input: Tensor) -> Tensor:
        return rl.sigmoid(input)


class Tanh(Activation):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return rl.tanh(input)


class Tanhshrink(Activation):
    """`x - tanh(x)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class Softsign(Activation):
    """`x / (1 + |x|)`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class LogSigmoid(Activation):
    """`log(sigmoid(x))`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Threshold(Activation):
    """`x` where it is above a threshold, else a constant."""

    __constants__ = ["threshold", "value", "inplace"]
    SHOWN = ("threshold", "value")

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)


class RReLU(Activation):
    """A leaky ReLU whose slope is drawn at random in training and is the mean otherwise."""

    __constants__ = ["lower", "upper", "inplace"]
    SHOWN = ("lower", "upper")

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)


class Hardtanh(Activation):
    """`clip(x, min_val, max_val)`."""

    __constants__ = ["min_val", "max_val", "inplace"]
    SHOWN = ("min_val", "max_val")

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, value in (("min", min_value), ("max", max_value)):
            if value is not None:
                warnings.warn(
                    f"keyword argument `{old}_value` is deprecated and rename to `{old}_val`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)


class ReLU6(Hardtanh):
    """`clip(x, 0, 6)`."""

    SHOWN = ()

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)


class ELU(Activation):
    """`x` above zero, `alpha * (exp(x) - 1)` below."""

    __constants__ = ["alpha", "inplace"]
    SHOWN = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(Activation):
    """An ELU that is smooth for every `alpha`."""

    __constants__ = ["alpha", "inplace"]
    SHOWN = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class GLU(Activation):
    """One half of the input, gated by the sigmoid of the other half."""

    __constants__ = ["dim"]
    SHOWN = ("dim",)

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)


class GELU(Activation):
    """`x` times the normal distribution function of `x`."""

    __constants__ = ["approximate"]

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Hardshrink(Activation):
    """`x` where it is farther than `lambd` from zero, else 0."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class Softshrink(Activation):
    """`x` moved by `lambd` towards zero, and 0 where that would pass it."""

    __constants__ = ["lambd"]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return f"{self.lambd}"


class LeakyReLU(Activation):
    """`x` above zero, `negative_slope * x` below."""

    __constants__ = ["inplace", "negative_slope"]
    SHOWN = ("negative_slope",)

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class Softplus(Activation):
    """`log(1 + exp(beta * x)) / beta`, and `x` itself where that is the same."""

    __constants__ = ["beta", "threshold"]
    SHOWN = ("beta", "threshold")

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)


class PReLU(Activation):
    """A leaky ReLU with learned slopes: one, or one a channel."""

    __constants__ = ["num_parameters"]
    SHOWN = ("num_parameters",)

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = Parameter(rl.empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)


class _OverDimension(Activation):
    """A nonlinearity that normalises along one dimension."""

    __constants__ = ["dim"]
    SHOWN = ("dim",)
    dim: int | None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("dim", None)


class Softmax(_OverDimension):
    """`exp(x)`, scaled to sum 1 along a dimension."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, _stacklevel=5)


class Softmin(_OverDimension):
    """The softmax of `-x`."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, _stacklevel=5)


class LogSoftmax(_OverDimension):
    """The logarithm of the softmax."""

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, _stacklevel=5)


class Softmax2d(Activation):
    """The softmax over the channels of each pixel."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, _stacklevel=5)
