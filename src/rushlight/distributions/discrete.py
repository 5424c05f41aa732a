"""Distributions of whole numbers and of choices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.chance import Chance
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
    probs_to_logits,
)
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class Bernoulli(Chance, ExponentialFamily):
    """1 with probability `probs`, otherwise 0."""

    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        likely = (self.probs >= 0.5).to(self.probs.dtype)
        return rl.where(self.probs == 0.5, math.nan, likely)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            return rl.bernoulli(self._spread(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = rl.arange(2, dtype=self._param.dtype)
        return _enumerated(values, self._batch_shape, expand)

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return F.softplus(natural_params[0], threshold=rl.inf)


def _enumerated(values: Tensor, batch_shape: Shape, expand: bool) -> Tensor:
    values = values.reshape(-1, *[1] * len(batch_shape))
    return values.expand(-1, *batch_shape) if expand else values


class Geometric(Chance):
    """The number of failures before the first success."""

    support = constraints.nonnegative_integer

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(probs, logits, validate_args)
        if self._validate_args and probs is not None and not (self.probs > 0).all():
            raise ValueError(
                f"Geometric: probs of shape {tuple(self.probs.shape)} must be positive, but "
                f"found invalid values:\n{self.probs}"
            )

    @property
    def mean(self) -> Tensor:
        return 1 / self.probs - 1

    @property
    def mode(self) -> Tensor:
        return rl.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1 / self.probs - 1) / self.probs

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            drawn = rl.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype)
            drawn = drawn.clamp(min=rl.finfo(drawn.dtype).tiny)
            return (drawn.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        kept = rl.where((probs == 1) & (value == 0), 0, probs)
        return value * (-kept).log1p() + probs.log()

    def entropy(self) -> Tensor:
        logits, probs = self.logits, self.probs
        return F.binary_cross_entropy_with_logits(logits, probs, reduction="none") / probs


class Binomial(Chance):
    """The number of successes in `total_count` tries."""

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self,
        total_count: Any = 1,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        (counts,) = self._take(probs, logits, total_count)
        self.total_count = counts.to(self._param.dtype)
        Distribution.__init__(self, counts.shape, (), validate_args)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            probs = self._spread(sample_shape)
            return rl.binomial(self.total_count.expand(probs.shape), probs)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        count, logits = self.total_count, self.logits
        ways = (count + 1).lgamma() - (value + 1).lgamma() - (count - value + 1).lgamma()
        return ways + value * logits - count * F.softplus(logits)

    def _one_count(self, asked: str) -> int:
        most = int(self.total_count.max())
        if not bool((self.total_count == most).all()):
            raise NotImplementedError(f"Inhomogeneous total count not supported by `{asked}`.")
        return most

    def entropy(self) -> Tensor:
        self._one_count("entropy")
        found = self.log_prob(self.enumerate_support(False))
        return -(found.exp() * found).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = rl.arange(1 + self._one_count("enumerate_support"), dtype=self._param.dtype)
        return _enumerated(values, self._batch_shape, expand)


class Poisson(ExponentialFamily):
    """The number of events in a unit of time, of `rate` on average."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            return rl.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return rl.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()


class Categorical(Distribution):
    """One of the indices of the last dimension, by `probs` (normalised here) or `logits`.

    >>> import rushlight as torch
    >>> choice = torch.distributions.Categorical(torch.tensor([1.0, 3.0]))
    >>> choice.probs, choice.log_prob(torch.tensor(1)).exp()
    (tensor([0.2500, 0.7500]), tensor(0.7500))
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given = probs if logits is None else logits
        if given.ndim < 1:
            name = "probs" if logits is None else "logits"
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if logits is None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
        self._events = given.shape[-1]
        super().__init__(given.shape[:-1], (), validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The probability of each index."""
        return logits_to_probs(self.logits)

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithm of the probability of each index."""
        return probs_to_logits(self.probs)

    @constraints.dependent_property(is_discrete=True)
    def support(self) -> Any:
        return constraints.integer_interval(0, self._events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of `probs` and `logits`."""
        return (self.probs if "probs" in vars(self) else self.logits).shape

    @property
    def mean(self) -> Tensor:
        return rl.full(self._batch_shape, math.nan, dtype=self.probs.dtype)

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return rl.full(self._batch_shape, math.nan, dtype=self.probs.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        count = math.prod(sample_shape)
        with rl.no_grad():
            rows = self.probs.reshape(-1, self._events)
            drawn = rl.multinomial(rows, count, True).T
            return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        index, logits = rl.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        least = rl.finfo(self.logits.dtype).min
        return -(self.logits.clamp(min=least) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        return _enumerated(rl.arange(self._events), self._batch_shape, expand)


class OverCategories(Distribution):
    """What is made of the choices of one `Categorical`, whose parameters it shows."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, categorical: Categorical, validate_args: bool | None = None) -> None:
        self._categorical = categorical
        shape = categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        made = super().expand(batch_shape)
        made._categorical = self._categorical.expand(batch_shape)
        return made

    @property
    def probs(self) -> Tensor:
        """The probability of each outcome."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The logarithm of the probability of each outcome."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Any:
        """The shape of `probs` and `logits`."""
        return self._categorical.param_shape


class OneHotCategorical(OverCategories):
    """A `Categorical` whose values are rows of zeros with a one."""

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(Categorical(probs, logits, validate_args), validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return self._one_hot(self._categorical.mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def _one_hot(self, index: Tensor) -> Tensor:
        return F.one_hot(index, self._event_shape[0]).to(self.probs.dtype)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self._one_hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        size = self._event_shape[0]
        values = rl.eye(size, dtype=self.probs.dtype)
        values = values.reshape(size, *[1] * len(self._batch_shape), size)
        return values.expand(size, *self._batch_shape, size) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose samples have the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        probs = clamp_probs(self.probs)
        return self.sample(sample_shape) + (probs - probs.detach())
