"""Gamma distributions, and those that are made of gamma numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import PowerTransform
from rushlight.distributions.utils import broadcast_all
from rushlight.ops.gamma_samples import _standard_gamma
from rushlight.tensor import Tensor

Shape = Sequence[int]


def gamma_numbers(concentration: Tensor, shape: Shape) -> Tensor:
    """Gamma numbers of rate 1, with gradients; never zero."""
    drawn = _standard_gamma(concentration.expand(shape))
    least = rl.finfo(concentration.dtype).tiny
    return drawn + (drawn.detach().clamp(min=least) - drawn.detach())


class Gamma(ExponentialFamily):
    """The gamma distribution of shape `concentration` and of this `rate`.

    `cdf` needs SciPy (`special.gammainc`).

    >>> import rushlight as torch
    >>> torch.distributions.Gamma(2.0, 4.0).mean
    tensor(0.5000)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate.square()

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return gamma_numbers(self.concentration, self._extended_shape(sample_shape)) / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        powers = rl.xlogy(self.concentration, self.rate) + rl.xlogy(
            self.concentration - 1, value
        )
        return powers - self.rate * value - self.concentration.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return rl.special.gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return (x + 1).lgamma() - (x + 1) * (-y).log()


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers."""

    arg_constraints = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (self.df,) = broadcast_all(df)
        super().__init__(0.5 * self.df, 0.5, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Chi2:
        made = super().expand(batch_shape, _instance)
        made.concentration = self.concentration.expand(batch_shape)
        made.rate = self.rate.expand(batch_shape)
        return made


class InverseGamma(TransformedDistribution):
    """1 / x for gamma numbers x."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(
        self, concentration: Any, rate: Any, validate_args: bool | None = None
    ) -> None:
        base = Gamma(concentration, rate, validate_args)
        inverted = PowerTransform(base.rate.new_full((), -1.0))
        super().__init__(base, inverted, validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape of the gamma numbers."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate of the gamma numbers, which is the scale of these."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        found = self.rate / (self.concentration - 1)
        return rl.where(self.concentration > 1, found, rl.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        found = self.rate.square() / ((a - 1).square() * (a - 2))
        return rl.where(a > 2, found, rl.inf)

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        return rl.special.gammaincc(self.concentration, self.rate / value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """Probabilities of several events: gamma numbers of shapes `concentration`, divided by
    their sum.
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        over = (self.concentration - 1).clamp(min=0.0)
        found = over / over.sum(-1, True)
        is_corner = (self.concentration < 1).all(-1, True)
        corner = rl.zeros_like(found).scatter(-1, found.argmax(-1, True), 1.0)
        return rl.where(is_corner, corner, found)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        mean = self.concentration / total
        return mean * (1 - mean) / (total + 1)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = gamma_numbers(self.concentration, self._extended_shape(sample_shape))
        return drawn / drawn.sum(-1, True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        powers = rl.xlogy(self.concentration - 1, value).sum(-1)
        return powers - self._log_volume()

    def _log_volume(self) -> Tensor:
        a = self.concentration
        return a.lgamma().sum(-1) - a.sum(-1).lgamma()

    def entropy(self) -> Tensor:
        a, total, count = self.concentration, self.concentration.sum(-1), self._event_shape[0]
        spread = (a - 1) * a.digamma()
        return self._log_volume() - (count - total) * total.digamma() - spread.sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(ExponentialFamily):
    """A probability: the first of the two of a `Dirichlet`."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def _dirichlet(self) -> Dirichlet:
        pair = rl.stack([self.concentration1, self.concentration0], -1)
        return Dirichlet(pair, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        return self._dirichlet().mode[..., 0]

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.square() * (total + 1))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._dirichlet().rsample(sample_shape)[..., 0]

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._dirichlet().log_prob(rl.stack([value, 1 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet().entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class StudentT(Distribution):
    """Student's distribution with `df` degrees of freedom, moved and stretched."""

    arg_constraints = {
        "df": constraints.positive, "loc": constraints.real, "scale": constraints.positive,
    }  # fmt: skip
    support = constraints.real
    has_rsample = True

    def __init__(
        self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return rl.where(self.df > 1, self.loc, rl.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        found = self.scale.square() * self.df / (self.df - 2)
        infinite = rl.where(self.df > 1, rl.inf, rl.nan)
        return rl.where(self.df > 2, found, infinite)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        drawn = rl.randn(shape, dtype=self.df.dtype)
        chi = 2 * gamma_numbers(0.5 * self.df, shape)
        return self.loc + self.scale * drawn * (chi / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        y = (value - self.loc) / self.scale
        size = 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma()
        size = self.scale.log() + size - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (y.square() / self.df).log1p() - size

    def entropy(self) -> Tensor:
        half, more = 0.5 * self.df, 0.5 * (self.df + 1)
        beta = half.lgamma() + math.lgamma(0.5) - more.lgamma()
        return (
            self.scale.log() + more * (more.digamma() - half.digamma())
            + 0.5 * self.df.log() + beta
        )  # fmt: skip


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each divided by its degrees of freedom."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return rl.where(self.df2 > 2, self.df2 / (self.df2 - 2), rl.nan)

    @property
    def mode(self) -> Tensor:
        found = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return rl.where(self.df1 > 2, found, rl.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        found = 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4))
        return rl.where(b > 4, found, rl.nan)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        above = gamma_numbers(0.5 * self.df1, shape) / self.df1
        return above / (gamma_numbers(0.5 * self.df2, shape) / self.df2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        a, b = 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        size = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return (
            size + a * ratio.log() + (a - 1) * value.log() - (a + b) * (ratio * value).log1p()
        )
