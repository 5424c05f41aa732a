"""`torch.distributions`: probability distributions with log-densities that have gradients.

In come parameters as tensors or numbers; out go samples, log-probabilities and moments, made of
the public functions. Values are checked against constraints unless `validate_args` is False,
which waits for them. PyTorch has a file for each kind; `_PLACES` says which file has them here.
"""

from rushlight.distributions import (
    constraint_registry,
    constraints,
    kl,
    kl_mixed,
    transforms,
    utils,
)
from rushlight.distributions.constraint_registry import biject_to, transform_to
from rushlight.distributions.continuous import (
    Cauchy,
    Exponential,
    Gumbel,
    Laplace,
    Normal,
    Uniform,
)
from rushlight.distributions.continuous_bernoulli import ContinuousBernoulli
from rushlight.distributions.counts import Multinomial, NegativeBinomial
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
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from rushlight.distributions.generalized_pareto import GeneralizedPareto
from rushlight.distributions.independent import Independent
from rushlight.distributions.kl import kl_divergence, register_kl
from rushlight.distributions.lkj_cholesky import LKJCholesky
from rushlight.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from rushlight.distributions.mixture_same_family import MixtureSameFamily
from rushlight.distributions.multivariate_normal import MultivariateNormal
from rushlight.distributions.positive import (
    HalfCauchy,
    HalfNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from rushlight.distributions.relaxed_bernoulli import RelaxedBernoulli
from rushlight.distributions.relaxed_categorical import RelaxedOneHotCategorical
from rushlight.distributions.shares import Kumaraswamy, LogisticNormal
from rushlight.distributions.transformed import TransformedDistribution
from rushlight.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from rushlight.distributions.von_mises import VonMises
from rushlight.distributions.wishart import Wishart
from rushlight.places import add_places as _add_places

_PLACES = {
    "bernoulli": ("discrete",), "beta": ("gamma",), "binomial": ("discrete",),
    "categorical": ("discrete",), "cauchy": ("continuous",), "chi2": ("gamma",),
    "dirichlet": ("gamma",), "exponential": ("continuous",), "fishersnedecor": ("gamma",),
    "geometric": ("discrete",), "gumbel": ("continuous",), "half_cauchy": ("positive",),
    "half_normal": ("positive",), "inverse_gamma": ("gamma",), "kumaraswamy": ("shares",),
    "laplace": ("continuous",), "log_normal": ("positive",), "logistic_normal": ("shares",),
    "multinomial": ("counts",), "negative_binomial": ("counts",), "normal": ("continuous",),
    "one_hot_categorical": ("discrete",), "pareto": ("positive",), "poisson": ("discrete",),
    "studentT": ("gamma",), "transformed_distribution": ("transformed",),
    "uniform": ("continuous",), "weibull": ("positive",),
}  # fmt: skip
"""PyTorch's file: the files here that define its classes. Those that are not here agree."""


__all__ = [
    "AbsTransform",
    "AffineTransform",
    "Bernoulli",
    "Beta",
    "Binomial",
    "CatTransform",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ComposeTransform",
    "ContinuousBernoulli",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "Dirichlet",
    "Distribution",
    "ExpTransform",
    "Exponential",
    "ExponentialFamily",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "IndependentTransform",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "LowerCholeskyTransform",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "RelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "StudentT",
    "TanhTransform",
    "Transform",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "biject_to",
    "identity_transform",
    "kl_divergence",
    "register_kl",
    "transform_to",
]

_add_places(__name__, _PLACES)
