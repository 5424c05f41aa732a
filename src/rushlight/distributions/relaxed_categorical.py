"""Choices that may also be shared out, so that samples have gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.discrete import Categorical, OverCategories
from rushlight.distributions.relaxed import Relaxed
from rushlight.distributions.transforms import ExpTransform
from rushlight.distributions.utils import clamp_probs
from rushlight.tensor import Tensor

Shape = Sequence[int]


class ExpRelaxedCategorical(OverCategories):
    """The logarithms of the shares of a `RelaxedOneHotCategorical`.

    Maddison, Mnih and Teh, "The concrete distribution: a continuous relaxation of discrete
    random variables", 2017, appendix C: the softmax of (logits + Gumbel numbers) / temperature.
    """

    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = rl.as_tensor(temperature)
        super().__init__(Categorical(probs, logits, validate_args), validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rl.rand(shape, dtype=self.logits.dtype))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores.log_softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        count = self._event_shape[0]
        scale = math.lgamma(count) + self.temperature.log() * (count - 1)
        shares = (self.logits - value * self.temperature).log_softmax(-1)
        return shares.sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed):
    """Shares of 1, the closer to a `OneHotCategorical` the lower `temperature` is.

    >>> import rushlight as torch
    >>> soft = torch.distributions.RelaxedOneHotCategorical(
    ...     torch.tensor(0.5), probs=torch.tensor([0.2, 0.8])
    ... )
    >>> soft.rsample((4,)).shape
    torch.Size([4, 2])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex
    _scores, _seen = ExpRelaxedCategorical, ExpTransform
