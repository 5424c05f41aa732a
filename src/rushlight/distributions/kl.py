"""Kullback and Leibler's divergence between two distributions, in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.distributions.continuous import (
    Exponential,
    Gumbel,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from rushlight.distributions.discrete import (
    Bernoulli,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Beta, Dirichlet, Gamma
from rushlight.distributions.independent import Independent
from rushlight.distributions.multivariate_normal import MultivariateNormal
from rushlight.distributions.transformed import Pareto
from rushlight.distributions.utils import sum_rightmost
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Rule = Callable[[Any, Any], Tensor]
_rules: dict[tuple[type, type], Rule] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Rule], Rule]:
    """Decorates the rule for the divergence of a `type_p` from a `type_q`."""

    def register(rule: Rule) -> Rule:
        _rules[type_p, type_q] = rule
        return rule

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expected value, under p, of log p - log q; of each pair of the batches.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            rule = _rules.get((kind_p, kind_q))
            if rule is not None:
                return rule(p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
        f"{type(q).__name__}"
    )


@register_kl(Normal, Normal)
@register_kl(LogNormal, LogNormal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).square()
    away = ((p.loc - q.loc) / q.scale).square()
    return (ratio + away - 1 - ratio.log()) / 2


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    away = (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio = p.scale / q.scale
    shift = q.loc / q.scale - p.loc / q.scale
    euler = 0.57721566490153286
    moment = (shift + (1 + ratio).lgamma()).exp()
    return ratio * euler - ratio.log() - (1 + euler) + moment - shift


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - ratio.log()


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    found = ((q.high - q.low) / (p.high - p.low)).log()
    return rl.where((q.low > p.low) | (q.high < p.high), rl.inf, found)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    happens = rl.xlogy(p.probs, p.probs) + p.probs * F.softplus(-q.logits)
    fails = rl.xlogy(1 - p.probs, 1 - p.probs) + (1 - p.probs) * F.softplus(q.logits)
    return happens + fails


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return rl.xlogy(p.rate, p.rate / q.rate) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = rl.where((q.probs == 0).expand(terms.shape), rl.inf, terms)
    return rl.where((p.probs == 0).expand(terms.shape), 0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot "
            "be computed"
        )
    n = p.event_shape[0]
    batch = rl.broadcast_shapes(p.batch_shape, q.batch_shape)
    factor = q.scale_tril.expand((*batch, n, n))
    solve = rl.linalg.solve_triangular
    spread = solve(factor, p.scale_tril.expand((*batch, n, n)), upper=False)
    away = solve(factor, (q.loc - p.loc).unsqueeze(-1).expand((*batch, n, 1)), upper=False)
    sizes = spread.square().sum((-2, -1)) + away.square().sum((-2, -1))
    return q._log_scale() - p._log_scale() + (sizes - n) / 2


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    moved = q.concentration * (p.rate / q.rate).log()
    sizes = q.concentration.lgamma() - p.concentration.lgamma()
    shapes = (p.concentration - q.concentration) * p.concentration.digamma()
    return moved + sizes + shapes + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    sizes = q._log_volume() - p._log_volume()
    a, b = p.concentration, q.concentration
    expected = a.digamma() - a.sum(-1, True).digamma()
    return sizes + ((a - b) * expected).sum(-1)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    return _dirichlet(p._dirichlet(), q._dirichlet())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    scales, shapes = p.scale / q.scale, q.alpha / p.alpha
    found = q.alpha * scales.log() - shapes.log() + shapes - 1
    return rl.where(p.scale < q.scale, rl.inf, found)


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independents with different reinterpreted dimensions")
    found = kl_divergence(p.base_dist, q.base_dist)
    return sum_rightmost(found, p.reinterpreted_batch_ndims)
