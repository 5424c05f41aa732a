"""`torch.distributions`: probability distributions with log-densities that have gradients.

In come parameters as tensors or numbers; out go samples, log-probabilities and moments, made of
the public functions. Values are checked against constraints unless `validate_args` is False,
which waits for them.
"""

from rushlight.distributions import constraints, kl, utils
from rushlight.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    LogNormal,
    Normal,
    Uniform,
)
from rushlight.distributions.discrete import (
    Bernoulli,
    Binomial,
    Categorical,
    Geometric,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    Poisson,
)
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.multivariate_normal import MultivariateNormal

__all__ = [
    "Bernoulli",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Distribution",
    "Exponential",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "Laplace",
    "LogNormal",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Poisson",
    "Uniform",
    "kl_divergence",
    "register_kl",
]
