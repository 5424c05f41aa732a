"""Distributions that one chance decides, given as `probs` or as `logits`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.layout import Size
from rushlight.tensor import Tensor

Shape = Sequence[int]


class Chance(Distribution):
    """A distribution of events of one probability: exactly one of `probs` and `logits`."""

    arg_constraints: Any = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        super().__init__(self._param.shape, (), validate_args)

    def _take(self, probs: Any, logits: Any, *others: Any) -> list[Tensor]:
        """Keep what is given of the two, in one shape with other parameters; return those."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            self.probs, *rest = broadcast_all(probs, *others)
        else:
            self.logits, *rest = broadcast_all(logits, *others)
        return rest

    @property
    def _param(self) -> Tensor:
        return vars(self)["probs" if "probs" in vars(self) else "logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of `probs` and `logits`."""
        return self._param.shape

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of the event."""
        return logits_to_probs(self.logits, is_binary=True)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the odds of the event."""
        return probs_to_logits(self.probs, is_binary=True)

    def _spread(self, sample_shape: Shape) -> Tensor:
        return self.probs.expand(self._extended_shape(sample_shape))
