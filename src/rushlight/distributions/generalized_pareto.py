"""The generalized Pareto distribution, of what lies beyond a threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import broadcast_all
from rushlight.tensor import Tensor

Shape = Sequence[int]


class GeneralizedPareto(Distribution):
    """Values above `loc` with survival (1 + concentration z)^(-1 / concentration), for
    z = (x - loc) / scale; exponential where concentration is 0, bounded where it is negative
    (Pickands, "Statistical inference using extreme order statistics", 1975).

    >>> import rushlight as torch
    >>> torch.distributions.GeneralizedPareto(0.0, 1.0, 0.0).cdf(torch.tensor(1.0))
    tensor(0.6321)
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @constraints.dependent_property
    def support(self) -> Any:
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, rl.where(self.concentration < 0, end, rl.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is (nearly) 0, and the concentration, 1 there."""
        is_zero = self.concentration.abs() <= 1e-8
        return is_zero, rl.where(is_zero, 1.0, self.concentration)

    @property
    def mean(self) -> Tensor:
        is_finite = self.concentration < 1
        found = self.loc + self.scale / (1 - rl.where(is_finite, self.concentration, 0.5))
        return rl.where(is_finite, found, rl.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        is_finite = self.concentration < 0.5
        c = rl.where(is_finite, self.concentration, 0.25)
        found = self.scale.square() / ((1 - c).square() * (1 - 2 * c))
        return rl.where(is_finite, found, rl.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rl.rand(shape, dtype=self.loc.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        z = (value - self.loc) / self.scale
        is_zero, c = self._shape()
        power = 1 / c + 1
        fallen = rl.where(power == 0, 0.0, power * (c * z).log1p())
        return -self.scale.log() - rl.where(is_zero, z, fallen)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of more than `value`."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        is_zero, c = self._shape()
        return -rl.where(is_zero, z, (c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of at most `value`."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        is_zero, c = self._shape()
        left = (-value).log1p()
        return self.loc + self.scale * rl.where(is_zero, -left, (-c * left).expm1() / c)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
