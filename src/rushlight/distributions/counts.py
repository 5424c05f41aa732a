"""Distributions of counts of several outcomes, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Binomial, Categorical, OverCategories
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import gamma_numbers
from rushlight.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class NegativeBinomial(Distribution):
    """How many successes come before `total_count` failures."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            self.total_count, self.probs = broadcast_all(total_count, probs)
            shape = self.probs.shape
        else:
            self.total_count, self.logits = broadcast_all(total_count, logits)
            shape = self.logits.shape
        self.total_count = self.total_count.to(self._kind())
        super().__init__(shape, (), validate_args)

    def _kind(self) -> Any:
        return vars(self)["probs" if "probs" in vars(self) else "logits"].dtype

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds of a success."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of a success."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / (-self.logits).sigmoid()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            shape = self._extended_shape(sample_shape)
            return rl.poisson(gamma_numbers(self.total_count, shape) * self.logits.exp())

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n, logits = self.total_count, self.logits
        powers = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        ways = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return powers - ways.masked_fill(n + value == 0.0, 0.0)


class Multinomial(OverCategories):
    """How often each outcome comes in `total_count` choices."""

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:  # fmt: skip
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        super().__init__(Categorical(probs, logits), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        counted = F.one_hot(drawn, self._event_shape[0]).sum(0)
        return counted.to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = rl.broadcast_tensors(self.logits, value)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        impossible = (value == 0) & (logits == -rl.inf)
        return ways + (logits.masked_fill(impossible, 0) * value).sum(-1)

    def entropy(self) -> Tensor:
        n = rl.tensor(float(self.total_count), dtype=self.probs.dtype)
        counts = rl.arange(1, self.total_count + 1, dtype=self.probs.dtype)
        counts = counts.reshape(-1, *[1] * self.probs.ndim)
        chances = Binomial(self.total_count, self.probs).log_prob(counts).exp()
        spread = (chances * (counts + 1).lgamma()).sum((0, -1))
        return n * self._categorical.entropy() - (n + 1).lgamma() + spread


class MixtureSameFamily(Distribution):
    """A choice by `mixture_distribution` among the last batch dimension of
    `component_distribution`.
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                "The Mixture distribution needs to be an instance of "
                "torch.distributions.Categorical"
            )
        count = mixture_distribution.param_shape[-1]
        batch, event = component_distribution.batch_shape, component_distribution.event_shape
        if not batch or batch[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({list(batch)})"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        super().__init__(batch[:-1], event, validate_args)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component is taken."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components, along the last batch dimension."""
        return self._component_distribution

    def expand(self, batch_shape: Shape, _instance: Any = None) -> MixtureSameFamily:
        count = self._component_distribution.batch_shape[-1]
        return MixtureSameFamily(
            self._mixture_distribution.expand(batch_shape),
            self._component_distribution.expand((*batch_shape, count)),
            validate_args=False,
        )

    @constraints.dependent_property
    def support(self) -> Any:
        return self._component_distribution.support

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self._event_shape))

    def _over(self) -> int:
        return -1 - len(self._event_shape)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(self._over())

    @property
    def variance(self) -> Tensor:
        means = self._component_distribution.mean
        away = means - self.mean.unsqueeze(self._over())
        spread = self._component_distribution.variance + away.square()
        return (self._weights() * spread).sum(self._over())

    def cdf(self, value: Tensor) -> Tensor:
        found = self._component_distribution.cdf(value.unsqueeze(self._over()))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        found = self._component_distribution.log_prob(value.unsqueeze(self._over()))
        return (found + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            shape = (*chosen.shape, 1, *[1] * len(self._event_shape))
            index = chosen.reshape(shape).expand(*chosen.shape, 1, *self._event_shape)
            return drawn.gather(self._over(), index).squeeze(self._over())
