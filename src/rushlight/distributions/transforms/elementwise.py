"""Transforms of each number by itself."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.transforms.composed import widened
from rushlight.distributions.transforms.transform import Shape, Transform
from rushlight.distributions.utils import sum_rightmost
from rushlight.nn import functional as F
from rushlight.tensor import Tensor


class ExpTransform(Transform):
    """y = exp(x)."""

    bijective = True
    sign = 1
    _compared = ()
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers."""

    bijective = True
    domain = codomain = constraints.positive
    _compared = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent if isinstance(exponent, Tensor) else rl.tensor(float(exponent))

    @property
    def sign(self) -> Any:
        return self.exponent.sign()

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Shape) -> Shape:
        return tuple(rl.broadcast_shapes(shape, self.exponent.shape))

    inverse_shape = forward_shape


class SigmoidTransform(Transform):
    """y = 1 / (1 + exp(-x))."""

    bijective = True
    sign = 1
    _compared = ()
    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        kind = rl.finfo(x.dtype)
        return x.sigmoid().clamp(min=kind.tiny, max=1.0 - kind.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        kind = rl.finfo(y.dtype)
        y = y.clamp(min=kind.tiny, max=1.0 - kind.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(Transform):
    """y = log(1 + exp(x))."""

    bijective = True
    sign = 1
    _compared = ()
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(Transform):
    """y = tanh(x)."""

    bijective = True
    sign = 1
    _compared = ()
    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(Transform):
    """y = |x|; its inverse gives the positive one of two."""

    _compared = ()
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x; `event_dim` last dimensions count as one value."""

    bijective = True
    _compared = ("loc", "scale", "event_dim")
    event_dim = 0

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim
        self.domain = self.codomain = widened(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        if isinstance(self.scale, Tensor):
            return self.scale.sign()
        return (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        scale = self.scale if isinstance(self.scale, Tensor) else rl.tensor(float(self.scale))
        found = scale.abs().log()
        return sum_rightmost(found.expand(x.shape).to(x.dtype), self.event_dim)

    def forward_shape(self, shape: Shape) -> Shape:
        shapes = [getattr(v, "shape", ()) for v in (self.loc, self.scale)]
        return tuple(rl.broadcast_shapes(shape, *shapes))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """y = the probability of at most x under a distribution: uniform, if x has it.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> to_uniform = d.CumulativeDistributionTransform(d.Exponential(1.0))
    >>> to_uniform(torch.tensor(0.0))
    tensor(0.)
    """

    bijective = True
    sign = 1
    codomain = constraints.unit_interval

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution
        self.domain = distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)  # type: ignore[no-any-return]

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)  # type: ignore[no-any-return]

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)  # type: ignore[no-any-return]
