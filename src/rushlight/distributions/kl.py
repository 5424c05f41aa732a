"""Kullback and Leibler's divergence between two distributions, in closed form."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.distributions.continuous import (
    EULER,
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    Poisson,
)
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.gamma import Beta, Dirichlet, Gamma
from rushlight.distributions.independent import Independent
from rushlight.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from rushlight.distributions.multivariate_normal import MultivariateNormal
from rushlight.distributions.positive import HalfNormal, LogNormal, Pareto
from rushlight.distributions.transformed import TransformedDistribution
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

    The rule is that of the closest classes which have one. `NotImplementedError` if there is
    none; `RuntimeWarning` where the rule closest to p's class is not the one closest to q's.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0))
    tensor(0.5000)
    """
    return _rule(type(p), type(q))(p, q)


def _rule(type_p: type, type_q: type) -> Rule:
    by_p = [(a, b) for a in type_p.__mro__ for b in type_q.__mro__ if (a, b) in _rules]
    by_q = [(a, b) for b in type_q.__mro__ for a in type_p.__mro__ if (a, b) in _rules]
    if not by_p:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type_p.__name__} and q type "
            f"{type_q.__name__}"
        )
    found = _rules[by_p[0]]
    if found is not _rules[by_q[0]]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0][0].__name__}, {by_q[0][1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return found


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type "
            f"{type(q).__name__}: they are different exponential families"
        )
    return p._divergence_from(q)  # type: ignore[no-any-return]


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    """What both were made of, by the same transforms."""
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of distributions made by different transforms")
    return kl_divergence(p.base_dist, q.base_dist)


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
    moment = (shift + (1 + ratio).lgamma()).exp()
    return ratio * EULER - ratio.log() - (1 + EULER) + moment - shift


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    """Chyzak and Nielsen, "A closed-form formula for the divergence between Cauchy
    distributions", 2019.
    """
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


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
    happens = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    happens = rl.where(p.probs == 0, 0.0, rl.where(q.probs == 0, rl.inf, happens))
    fails = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    return happens + rl.where(p.probs == 1, 0.0, rl.where(q.probs == 1, rl.inf, fails))


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    """As many Bernoulli trials as there are; infinite where p may succeed more often than q."""
    if (p.total_count < q.total_count).any():
        raise NotImplementedError(
            "KL between Binomials where q.total_count > p.total_count is not implemented"
        )
    tries = p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p()
    return rl.where(p.total_count > q.total_count, rl.inf, p.total_count * tries)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    sizes = p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + sizes  # type: ignore[no-any-return]


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
    n = _common_size(p, q)
    spread = _solved(q, p.scale_tril).square().sum((-2, -1))
    away = _solved(q, (q.loc - p.loc).unsqueeze(-1)).square().sum((-2, -1))
    return q._log_scale() - p._log_scale() + (spread + away - n) / 2  # type: ignore[no-any-return]


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_any(p: Any, q: Any) -> Tensor:
    n = _common_size(p, q)
    parts = (p.cov_factor, p.cov_diag.sqrt().diag_embed(), (q.loc - p.loc).unsqueeze(-1))
    sizes = [_solved(q, part).square().sum((-2, -1)) for part in parts]
    return q._log_scale() + (sum(sizes, -p._log_determinant()) - n) / 2  # type: ignore[no-any-return]


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _any_to_low_rank(p: Any, q: Any) -> Tensor:
    determinants = q._log_determinant() - 2 * p._log_scale()
    return _from_low_rank(p, q, [p.scale_tril], determinants)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: Any, q: Any) -> Tensor:
    determinants = q._log_determinant() - p._log_determinant()
    parts = [p.cov_factor, p.cov_diag.sqrt().diag_embed()]
    return _from_low_rank(p, q, parts, determinants)


def _from_low_rank(p: Any, q: Any, parts: list[Tensor], determinants: Tensor) -> Tensor:
    """p's covariance being the sum of F F^T over parts F: the trace of q's precision times it,
    a part at a time, as the squares of D^-1/2 F less those of what Woodbury's identity takes.
    """
    n = _common_size(p, q)
    found = determinants + q._squared_distance(q.loc - p.loc) - n
    for part in parts:
        kept = (part / q.cov_diag.sqrt().unsqueeze(-1)).square().sum((-2, -1))
        found = found + kept - (q._whitened @ part).square().sum((-2, -1))
    return found / 2


def _common_size(p: Any, q: Any) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between two (Low Rank) Multivariate Normals with different event "
            f"shapes cannot be computed: {tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    return int(p.event_shape[0])


def _solved(q: Any, columns: Tensor) -> Tensor:
    """The inverse of q's Cholesky factor times columns, batches broadcast."""
    batch = rl.broadcast_shapes(q.batch_shape, columns.shape[:-2])
    factor = q.scale_tril.expand((*batch, *q.scale_tril.shape[-2:]))
    wide = columns.expand((*batch, *columns.shape[-2:]))
    return rl.linalg.solve_triangular(factor, wide, upper=False)


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
