"""Distributions of shares of one, made of others by transforms."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.continuous import EULER, Normal, Uniform
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import (
    AffineTransform,
    PowerTransform,
    StickBreakingTransform,
)
from rushlight.distributions.utils import broadcast_all
from rushlight.tensor import Tensor


class Kumaraswamy(TransformedDistribution):
    """(1 - u ** (1 / concentration0)) ** (1 / concentration1) of uniform numbers u."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        parts = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        one = rl.ones_like(self.concentration0)
        super().__init__(Uniform(0 * one, one, validate_args=False), parts, validate_args)

    def _moment(self, n: int) -> Tensor:
        b, power = self.concentration0, 1 + n / self.concentration1
        return (b.log() + power.lgamma() + b.lgamma() - (power + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (a - 1).log() - a.reciprocal() * (a * b - 1).log()
        return rl.where((a < 1) | (b < 1), rl.nan, log_mode.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Probabilities made of normal numbers by `StickBreakingTransform`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Any

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc  # type: ignore[no-any-return]

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale  # type: ignore[no-any-return]
