"""Events that may also happen in part, so that samples have gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chance import Chance
from rushlight.distributions.relaxed import Relaxed
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import broadcast_all, clamp_probs
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class LogitRelaxedBernoulli(Chance):
    """(logits + a standard logistic number) / temperature: the logit of `RelaxedBernoulli`.

    Maddison, Mnih and Teh, "The concrete distribution: a continuous relaxation of discrete
    random variables", 2017, appendix B. temperature: a tensor or number, at any batch.
    """

    support = constraints.real
    has_rsample = True

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = rl.as_tensor(temperature)
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = clamp_probs(self._spread(sample_shape))
        u = clamp_probs(rl.rand(probs.shape, dtype=probs.dtype))
        odds = u.log() - (-u).log1p() + probs.log() - (-probs).log1p()
        return odds / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        return self.temperature.log() + away - 2 * F.softplus(away, threshold=rl.inf)


class RelaxedBernoulli(Relaxed):
    """Numbers between 0 and 1, the closer to either the lower `temperature` is.

    >>> import rushlight as torch
    >>> soft = torch.distributions.RelaxedBernoulli(torch.tensor(0.1), probs=torch.tensor(0.7))
    >>> soft.rsample((4,)).shape
    torch.Size([4])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _scores, _seen = LogitRelaxedBernoulli, SigmoidTransform
