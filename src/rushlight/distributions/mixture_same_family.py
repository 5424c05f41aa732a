"""Mixtures of distributions of one kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.tensor import Tensor

Shape = Sequence[int]


class MixtureSameFamily(Distribution):
    """A choice by `mixture_distribution` among the last batch dimension of
    `component_distribution`.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> weights, means = torch.tensor([0.25, 0.75]), torch.tensor([0.0, 4.0])
    >>> d.MixtureSameFamily(d.Categorical(weights), d.Normal(means, 1.0)).mean
    tensor(3.)
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
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                "torch.distributions.Distribution"
            )
        count = mixture_distribution.param_shape[-1]
        batch, event = component_distribution.batch_shape, component_distribution.event_shape
        if not batch or batch[-1] != count:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({list(batch)})"
            )
        own = mixture_distribution.batch_shape
        for chosen, made in zip(reversed(own), reversed(batch[:-1]), strict=False):
            if chosen != made and 1 not in (chosen, made):
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({own}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch[:-1]})"
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
        made = super().expand(batch_shape, _instance)
        count = self._component_distribution.batch_shape[-1]
        made._component_distribution = self._component_distribution.expand(
            (*batch_shape, count)
        )
        made._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        return made

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

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

    def cdf(self, x: Tensor) -> Tensor:
        found = self._component_distribution.cdf(x.unsqueeze(self._over()))
        return (found * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Tensor) -> Tensor:
        self._checked(x)
        found = self._component_distribution.log_prob(x.unsqueeze(self._over()))
        return (found + self._mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            choice = self._mixture_distribution.expand(self._batch_shape)
            chosen = choice.sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            shape = (*chosen.shape, 1, *[1] * len(self._event_shape))
            index = chosen.reshape(shape).expand(*chosen.shape, 1, *self._event_shape)
            return drawn.gather(self._over(), index).squeeze(self._over())

    def __repr__(self) -> str:
        parts = (self._mixture_distribution, self._component_distribution)
        return "MixtureSameFamily({})".format(",".join(f"\n  {part!r}" for part in parts))
