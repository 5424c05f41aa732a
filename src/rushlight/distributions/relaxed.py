"""What relaxed events and choices share: samples that are soft by a temperature."""

from __future__ import annotations

from typing import Any, ClassVar

from rushlight.distributions.distribution import Distribution
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import Transform
from rushlight.tensor import Tensor


class Relaxed(TransformedDistribution):
    """A distribution of scores (`_scores`: a class), seen through a transform (`_seen`)."""

    has_rsample = True
    _scores: ClassVar[type[Distribution]]
    _seen: ClassVar[type[Transform]]

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = self._scores(temperature, probs, logits, validate_args)
        super().__init__(base, self._seen(), validate_args)

    @property
    def temperature(self) -> Tensor:
        """How soft the samples are: the lower, the closer to one of the choices."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithm of the odds of the event, or of the probability of each choice."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probability of the event, or of each choice."""
        return self.base_dist.probs
