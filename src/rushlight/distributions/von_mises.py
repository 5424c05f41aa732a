"""The distribution of von Mises, the normal distribution's counterpart on a circle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centred
from rushlight.distributions.utils import broadcast_all
from rushlight.tensor import Tensor

Shape = Sequence[int]


class VonMises(Centred):
    """Angles around `loc`, the closer the greater `concentration` is.

    The density is exp(concentration cos(x - loc)) / (2 pi I0(concentration)), with the modified
    Bessel function I0. Any real number is an angle, modulo 2 pi; samples lie in [-pi, pi).
    `mean` and `variance` are those of directions: the variance is 1 - I1 / I0.

    >>> import rushlight as torch
    >>> torch.distributions.VonMises(0.0, 1.0).log_prob(torch.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def variance(self) -> Tensor:
        return 1 - rl.special.i1e(self.concentration) / rl.special.i0e(self.concentration)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        kappa = self.concentration
        log_bessel = rl.special.i0e(kappa).log() + kappa
        return kappa * (value - self.loc).cos() - math.log(2 * math.pi) - log_bessel

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Angles by rejection from a wrapped Cauchy distribution (Best and Fisher, 1979).

        In float64, since in float32 nothing is accepted for concentrations below 1e-4.
        """
        with rl.no_grad():
            shape = self._extended_shape(sample_shape)
            angle = self._around_zero(shape) + self.loc.double()
            turned = (angle + math.pi) % (2 * math.pi) - math.pi
            return turned.to(self.loc.dtype)

    def _around_zero(self, shape: Shape) -> Tensor:
        kappa = self.concentration.double()
        r = _proposal(kappa)
        angle = rl.zeros(shape, dtype=rl.float64)
        is_open = rl.ones(shape, dtype=rl.bool)
        while is_open.any():
            where, height, side = rl.rand((3, *shape), dtype=rl.float64)
            z = (math.pi * where).cos()
            cosine = ((1 + r * z) / (r + z)).clamp(-1, 1)
            c = kappa * (r - cosine)
            is_taken = (c * (2 - c) > height) | ((c / height).log() + 1 - c >= 0)
            signed = rl.where(side < 0.5, -cosine.acos(), cosine.acos())
            angle = rl.where(is_open & is_taken, signed, angle)
            is_open = is_open & ~is_taken
        return angle


def _proposal(kappa: Tensor) -> Tensor:
    """Best and Fisher's r, of the wrapped Cauchy distribution that is closest from above."""
    tau = 1 + (1 + 4 * kappa.square()).sqrt()
    rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
    # rho of a small concentration is a difference of equal numbers: two terms of its series
    return rl.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))
