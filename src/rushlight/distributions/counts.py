"""Distributions of counts of outcomes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chance import Chance
from rushlight.distributions.discrete import Binomial, Categorical, OverCategories
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import gamma_numbers
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class NegativeBinomial(Chance):
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
        (counts,) = self._take(probs, logits, total_count)
        self.total_count = counts.to(self._param.dtype)
        Distribution.__init__(self, counts.shape, (), validate_args)

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
