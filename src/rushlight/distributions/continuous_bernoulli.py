"""The continuous Bernoulli distribution, of shades between 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chance import Chance
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import broadcast_all, clamp_probs, lazy_property
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class ContinuousBernoulli(Chance, ExponentialFamily):
    """Numbers x of [0, 1] with a density in proportion to probs^x (1 - probs)^(1 - x).

    The likelihood of autoencoders for grey images: Loaiza-Ganem and Cunningham, "The continuous
    Bernoulli: fixing a pervasive error in variational autoencoders", 2019, whose formulas these
    are. They divide 0 by 0 where probs is 1/2: for probs within `lims` a Taylor series around
    1/2 takes their place.

    >>> import rushlight as torch
    >>> torch.distributions.ContinuousBernoulli(0.5).log_prob(torch.tensor(0.3))
    tensor(0.)
    """

    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if probs is not None:
            self.probs = clamp_probs(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter of [0, 1], a little away from its ends."""
        return clamp_probs(self.logits.sigmoid())

    def _is_far(self, x: Tensor, middle: float = 0.0) -> Tensor:
        """Where the formulas hold: outside `lims`, moved by `middle`."""
        low, high = self._lims
        return (x <= low - middle) | (x > high - middle)

    def _parted(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Where probs is far from 1/2; probs there (else a bound), its odds; probs - 1/2."""
        is_far = self._is_far(self.probs)
        kept = rl.where(is_far, self.probs, self._lims[0])
        return is_far, kept, (-kept).log1p() - kept.log(), self.probs - 0.5

    def _log_norm(self) -> Tensor:
        """The logarithm of what makes the density's integral 1."""
        is_far, kept, odds, x = self._parted()
        series = math.log(2.0) + (4 / 3 + 104 / 45 * x.square()) * x.square()
        return rl.where(is_far, odds.abs().log() - (1 - 2 * kept).abs().log(), series)

    @property
    def mean(self) -> Tensor:
        is_far, kept, odds, x = self._parted()
        series = 0.5 + (1 / 3 + 16 / 45 * x.square()) * x
        return rl.where(is_far, kept / (2 * kept - 1) + 1 / odds, series)

    @property
    def variance(self) -> Tensor:
        is_far, kept, odds, x = self._parted()
        series = 1 / 12 - (1 / 15 - 128 / 945 * x.square()) * x.square()
        found = kept * (kept - 1) / (1 - 2 * kept).square() + 1 / odds.square()
        return rl.where(is_far, found, series)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(rl.rand(shape, dtype=self.probs.dtype))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        loss = F.binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._log_norm() - loss

    def cdf(self, value: Tensor) -> Tensor:
        self._checked(value)
        is_far, kept, _, _ = self._parted()
        found = (kept**value * (1 - kept) ** (1 - value) + kept - 1) / (2 * kept - 1)
        return rl.where(is_far, found, value).where(value > 0, 0.0).where(value < 1, 1.0)

    def icdf(self, value: Tensor) -> Tensor:
        is_far, kept, odds, _ = self._parted()
        risen = (value * (2 * kept - 1) - kept).log1p() - (-kept).log1p()
        return rl.where(is_far, risen / -odds, value)

    def entropy(self) -> Tensor:
        fails = (-self.probs).log1p()
        return self.mean * (fails - self.probs.log()) - self._log_norm() - fails

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        (x,) = natural_params
        is_far = self._is_far(x, 0.5)
        kept = rl.where(is_far, x, self._lims[0] - 0.5)
        series = x / 2 + x.square() / 24 - x**4 / 2880
        return rl.where(is_far, kept.expm1().abs().log() - kept.abs().log(), series)
