"""Distributions of one real number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight import errors
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centred, Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all
from rushlight.tensor import Tensor

Shape = Sequence[int]
EULER = 0.57721566490153286


def _uniform(shape: Shape, like: Tensor) -> Tensor:
    """Uniform draws strictly between 0 and 1."""
    eps = rl.finfo(like.dtype).eps
    return rl.rand(shape, dtype=like.dtype).clamp(eps / 2, 1 - eps / 2)


class _LocationScale(Distribution):
    """loc + scale * x of a standard distribution of x."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self._standard(shape) * self.scale

    def _standard(self, shape: Shape) -> Tensor:
        raise errors.left_to_subclasses(self, "_standard")

    def _scaled(self, value: Tensor) -> Tensor:
        self._checked(value)
        return (value - self.loc) / self.scale


class Normal(Centred, _LocationScale, ExponentialFamily):
    """The normal distribution.

    >>> import rushlight as torch
    >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-0.9189)
    """

    _mean_carrier_measure = 0

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale.square()

    def _standard(self, shape: Shape) -> Tensor:
        return rl.randn(shape, dtype=self.loc.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        x = self._scaled(value)
        return -x.square() / 2 - self.scale.log() - math.log(2 * math.pi) / 2

    def cdf(self, value: Tensor) -> Tensor:
        return (1 + (self._scaled(value) / math.sqrt(2)).erf()) / 2

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + math.log(2 * math.pi) / 2 + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        variance = self.scale.square()
        return self.loc / variance, -0.5 / variance

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return -x.square() / (4 * y) + (-math.pi / y).log() / 2


class Laplace(Centred, _LocationScale):
    """Two exponential distributions, back to back."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale.square()

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale

    def _standard(self, shape: Shape) -> Tensor:
        u = 2 * _uniform(shape, self.loc) - 1
        return -u.sign() * (-u.abs()).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -self._scaled(value).abs() - (2 * self.scale).log()

    def cdf(self, value: Tensor) -> Tensor:
        x = self._scaled(value)
        return 0.5 - 0.5 * x.sign() * (-x.abs()).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        x = value - 0.5
        return self.loc - self.scale * x.sign() * (-2 * x.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """The ratio of two normal variables; it has no mean."""

    @property
    def mean(self) -> Tensor:
        return rl.full_like(self.loc, math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return rl.full_like(self.loc, math.inf)

    def _standard(self, shape: Shape) -> Tensor:
        return (math.pi * (_uniform(shape, self.loc) - 0.5)).tan()

    def log_prob(self, value: Tensor) -> Tensor:
        return -math.log(math.pi) - self.scale.log() - self._scaled(value).square().log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self._scaled(value).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The largest of many variables, in the limit."""

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def stddev(self) -> Tensor:
        return math.pi / math.sqrt(6) * self.scale

    @property
    def variance(self) -> Tensor:
        return self.stddev.square()

    def _standard(self, shape: Shape) -> Tensor:
        return -(-_uniform(shape, self.loc).log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        x = self._scaled(value)
        return -x - (-x).exp() - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        return (-(-self._scaled(value)).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + EULER)


class Exponential(ExponentialFamily):
    """The time to the next event, of `rate` events a unit of time."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        return rl.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return rl.empty(shape, dtype=self.rate.dtype).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return -(-natural_params[0]).log()


class Uniform(Distribution):
    """All values of [low, high) alike."""

    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Each end is bounded by the other."""
        return {
            "low": constraints.less_than(self.high),
            "high": constraints.greater_than(self.low),
        }

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low).square() / 12

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.low.dtype)
        return self.low + drawn * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        inside = (self.low <= value) & (self.high > value)
        return inside.to(self.low.dtype).log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()
