"""Distributions of positive numbers, made of others by transforms."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.continuous import EULER, Cauchy, Exponential, Normal
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
)
from rushlight.distributions.utils import broadcast_all
from rushlight.tensor import Tensor


class LogNormal(TransformedDistribution):
    """exp of a normal variable."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Normal

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        super().__init__(base, ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        return (self.loc + self.scale.square() / 2).exp()

    @property
    def mode(self) -> Tensor:
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        square = self.scale.square()
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The absolute value of a variable that is symmetric around zero."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Any
    _whole: type[Normal] | type[Cauchy]

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = self._whole(0.0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the symmetric distribution."""
        return self.base_dist.scale  # type: ignore[no-any-return]

    @property
    def mode(self) -> Tensor:
        return rl.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        density = self.base_dist.log_prob(value) + math.log(2)
        return rl.where(value >= 0, density, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1  # type: ignore[no-any-return]

    def icdf(self, prob: Tensor) -> Tensor:
        return self.base_dist.icdf((prob + 1) / 2)  # type: ignore[no-any-return]

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)  # type: ignore[no-any-return]


class HalfNormal(_Half):
    """The absolute value of a normal variable."""

    _whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.square() * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The absolute value of a Cauchy variable."""

    _whole = Cauchy

    @property
    def mean(self) -> Tensor:
        return rl.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return rl.full_like(self.scale, math.inf)


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration) of exponential numbers x."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(
        self, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        parts = [
            PowerTransform(self.concentration.reciprocal()),
            AffineTransform(0, self.scale),
        ]
        base = Exponential(rl.ones_like(self.scale), validate_args=False)
        super().__init__(base, parts, validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        a = self.concentration
        return rl.where(a > 1, self.scale * ((a - 1) / a) ** (1 / a), 0.0)

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        first, second = (1 + inverse).lgamma(), (1 + 2 * inverse).lgamma()
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(TransformedDistribution):
    """scale * exp(x / alpha) of exponential numbers x."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=False)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()
