"""Divergences between distributions of different kinds.

Each is -H(p) - E log q(x), x being distributed as p: the entropy of p, and the expected value
of the log-density of q, which is a sum of a few expected values under p (its mean and variance,
E log x, E exp(-x)). Where p has values that q cannot have, the divergence is infinite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch
from typing import Any

import rushlight as rl
from rushlight.distributions.continuous import (
    EULER,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.discrete import Bernoulli, Binomial, Poisson
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Beta, Gamma
from rushlight.distributions.kl import register_kl
from rushlight.distributions.positive import Pareto
from rushlight.tensor import Tensor

ExpectedDensity = Callable[[Any, Any], Tensor]


def _against(type_q: type, *types_p: type) -> Callable[[ExpectedDensity], ExpectedDensity]:
    """Decorates E log q(x) under p: the divergence from `type_q` for each of `types_p`."""

    def register(expected: ExpectedDensity) -> ExpectedDensity:
        def rule(p: Any, q: Any) -> Tensor:
            return -p.entropy() - expected(p, q)  # type: ignore[no-any-return]

        for type_p in types_p:
            register_kl(type_p, type_q)(rule)
        return expected

    return register


# ---- expected values


@singledispatch
def mean_log(p: Distribution) -> Tensor:
    """E log x."""
    raise NotImplementedError(f"{type(p).__name__} has no known expected logarithm")


@mean_log.register
def _(p: Exponential) -> Tensor:
    return -EULER - p.rate.log()


@mean_log.register
def _(p: Gamma) -> Tensor:
    return p.concentration.digamma() - p.rate.log()


@mean_log.register
def _(p: Beta) -> Tensor:
    return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()


@mean_log.register
def _(p: Pareto) -> Tensor:
    return p.scale.log() + p.alpha.reciprocal()


@mean_log.register
def _(p: Uniform) -> Tensor:
    return _uniform_mean_log(p.low, p.high)


def _uniform_mean_log(low: Tensor, high: Tensor) -> Tensor:
    return (rl.xlogy(high, high) - rl.xlogy(low, low)) / (high - low) - 1


@singledispatch
def mean_exp(p: Distribution, t: Tensor) -> Tensor:
    """E exp(-t x)."""
    raise NotImplementedError(f"{type(p).__name__} has no known Laplace transform")


@mean_exp.register
def _(p: Exponential, t: Tensor) -> Tensor:
    return p.rate / (p.rate + t)


@mean_exp.register
def _(p: Gamma, t: Tensor) -> Tensor:
    return (1 + t / p.rate).pow(-p.concentration)


@mean_exp.register
def _(p: Normal, t: Tensor) -> Tensor:
    return (t.square() * p.scale.square() / 2 - t * p.loc).exp()


@mean_exp.register
def _(p: Uniform, t: Tensor) -> Tensor:
    return ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low))


# ---- expected log-densities


@_against(Exponential, Beta, ContinuousBernoulli, Gamma, Pareto)
def exponential_density(p: Any, q: Any) -> Tensor:
    return q.rate.log() - q.rate * p.mean  # type: ignore[no-any-return]


@_against(Exponential, Uniform)
def _uniform_in_exponential(p: Any, q: Any) -> Tensor:
    return rl.where(p.low < 0, -rl.inf, exponential_density(p, q))


@_against(Gamma, Beta, Exponential, Pareto)
def gamma_density(p: Any, q: Any) -> Tensor:
    powers = q.concentration * q.rate.log() + (q.concentration - 1) * mean_log(p)
    return powers - q.concentration.lgamma() - q.rate * p.mean  # type: ignore[no-any-return]


@_against(Gamma, Uniform)
def _uniform_in_gamma(p: Any, q: Any) -> Tensor:
    return rl.where(p.low < 0, -rl.inf, gamma_density(p, q))


@_against(
    Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform
)
def normal_density(p: Any, q: Any) -> Tensor:
    away = p.variance + (p.mean - q.loc).square()
    size = q.scale.log() + math.log(2 * math.pi) / 2
    return -size - away / (2 * q.scale.square())  # type: ignore[no-any-return]


@_against(Gumbel, Exponential, Gamma, Normal, Uniform)
def gumbel_density(p: Any, q: Any) -> Tensor:
    fallen = mean_exp(p, q.scale.reciprocal()) * (q.loc / q.scale).exp()
    return -q.scale.log() - (p.mean - q.loc) / q.scale - fallen  # type: ignore[no-any-return]


@_against(Laplace, Normal)
def laplace_density(p: Any, q: Any) -> Tensor:
    """By E |x| of a normal number that is not centered (the folded normal distribution)."""
    away = (p.loc - q.loc) / p.scale
    spread = math.sqrt(2 / math.pi) * (-away.square() / 2).exp()
    distance = p.scale * (spread + away * (away / math.sqrt(2)).erf())
    return -(2 * q.scale).log() - distance / q.scale  # type: ignore[no-any-return]


@_against(Beta, Uniform)
def beta_density(p: Any, q: Any) -> Tensor:
    a, b = q.concentration1, q.concentration0
    size = a.lgamma() + b.lgamma() - (a + b).lgamma()
    mirrored = _uniform_mean_log(1 - p.high, 1 - p.low)
    found = (a - 1) * mean_log(p) + (b - 1) * mirrored - size
    return rl.where((p.low < 0) | (p.high > 1), -rl.inf, found)


@_against(ContinuousBernoulli, Beta)
def continuous_bernoulli_density(p: Any, q: Any) -> Tensor:
    return p.mean * q.logits + (-q.probs).log1p() + q._log_norm()  # type: ignore[no-any-return]


@_against(ContinuousBernoulli, Uniform)
def _uniform_in_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    is_outside = (p.low < 0) | (p.high > 1)
    return rl.where(is_outside, -rl.inf, continuous_bernoulli_density(p, q))


@_against(Uniform, Beta, ContinuousBernoulli)
def uniform_density(p: Any, q: Any) -> Tensor:
    found = -(q.high - q.low).log()
    return rl.where((q.low > 0) | (q.high < 1), -rl.inf, found)


@_against(Pareto, Uniform)
def pareto_density(p: Any, q: Any) -> Tensor:
    found = q.alpha.log() + q.alpha * q.scale.log() - (q.alpha + 1) * mean_log(p)
    return rl.where(p.low < q.scale, -rl.inf, found)


@_against(Poisson, Bernoulli)
def poisson_density(p: Any, q: Any) -> Tensor:
    return p.probs * q.rate.log() - q.rate  # type: ignore[no-any-return]


# ---- values that q cannot have


def _infinite(p: Any, q: Any) -> Tensor:
    shape = rl.broadcast_shapes(p.batch_shape, q.batch_shape)
    return rl.full(shape, rl.inf, dtype=p.mean.dtype)


_BEYOND: dict[type, tuple[type, ...]] = {
    Beta: (Pareto,),
    ContinuousBernoulli: (Pareto,),
    Exponential: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gamma: (Beta, ContinuousBernoulli, Pareto, Uniform),
    Gumbel: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Laplace: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Normal: (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform),
    Pareto: (Beta, ContinuousBernoulli, Uniform),
    Poisson: (Bernoulli, Binomial),
}
"""Whatever the parameters, these have values that the others cannot have."""

for _type_p, _types_q in _BEYOND.items():
    for _type_q in _types_q:
        register_kl(_type_p, _type_q)(_infinite)
