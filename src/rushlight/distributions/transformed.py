"""Distributions of functions of random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.continuous import Exponential, Normal, Uniform
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)
from rushlight.distributions.utils import broadcast_all, sum_rightmost
from rushlight.tensor import Tensor

Shape = Sequence[int]
_EULER = 0.57721566490153286


class TransformedDistribution(Distribution):
    """What transforms make of the values of a distribution.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> log_normal = d.TransformedDistribution(d.Normal(0.0, 1.0), d.ExpTransform())
    >>> log_normal.log_prob(torch.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in given):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        self.transforms = given
        whole = ComposeTransform(given)
        base, wanted = base_distribution, whole.domain.event_dim
        extra = max(wanted - len(base.event_shape), 0)
        self.base_dist = Independent(base, extra) if extra else base
        shape = whole.forward_shape((*base.batch_shape, *base.event_shape))
        events = whole.codomain.event_dim + max(len(self.base_dist.event_shape) - wanted, 0)
        kept = len(shape) - events
        super().__init__(shape[:kept], shape[kept:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        whole = ComposeTransform(self.transforms)
        shape = whole.inverse_shape((*batch_shape, *self._event_shape))
        base = self.base_dist
        kept = len(shape) - len(base.event_shape)
        made = object.__new__(type(self))
        vars(made).update(vars(self))
        made.base_dist = base.expand(shape[:kept])
        made._batch_shape = type(self._batch_shape)(batch_shape)
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @constraints.dependent_property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        found = self.transforms[-1].codomain
        extra = len(self._event_shape) - found.event_dim
        return constraints.independent(found, extra) if extra > 0 else found

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        with rl.no_grad():
            return self._moved(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self._moved(self.base_dist.rsample(sample_shape))

    def _moved(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        events, total, y = len(self._event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform._inv_call(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            own = transform.log_abs_det_jacobian(x, y)
            total = total - sum_rightmost(own, events - transform.domain.event_dim)
            y = x
        base = self.base_dist.log_prob(y)
        return total + sum_rightmost(base, events - len(self.base_dist.event_shape))

    def _by_sign(self, value: Tensor) -> Tensor:
        """The probability, or what is left of it where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform._inv_call(value)
        return self._by_sign(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._moved(self.base_dist.icdf(self._by_sign(value)))


class Weibull(TransformedDistribution):
    """scale * x ** (1 / concentration) of exponential numbers x."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive

    def __init__(
        self, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        parts = [
            PowerTransform(self.concentration.reciprocal()),
            AffineTransform(0, self.scale),
        ]
        base = Exponential(rl.ones_like(self.scale), validate_args=False)
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Weibull:
        given = [p.expand(batch_shape) for p in (self.scale, self.concentration)]
        return Weibull(*given, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        a = self.concentration
        return rl.where(a > 1, self.scale * ((a - 1) / a) ** (1 / a), 0.0)

    @property
    def variance(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        first, second = (1 + inverse).lgamma(), (1 + 2 * inverse).lgamma()
        return self.scale.square() * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        inverse = self.concentration.reciprocal()
        return _EULER * (1 - inverse) + (self.scale * inverse).log() + 1


class Pareto(TransformedDistribution):
    """scale * exp(x / alpha) of exponential numbers x."""

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=False)
        super().__init__(base, [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Pareto:
        given = [p.expand(batch_shape) for p in (self.scale, self.alpha)]
        return Pareto(*given, validate_args=False)

    @constraints.dependent_property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + 1 + self.alpha.reciprocal()


class Kumaraswamy(TransformedDistribution):
    """(1 - u ** (1 / concentration0)) ** (1 / concentration1) of uniform numbers u."""

    arg_constraints = {
        "concentration1": constraints.positive,
        "concentration0": constraints.positive,
    }
    support = constraints.unit_interval

    def __init__(
        self, concentration1: Any, concentration0: Any, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        parts = [
            PowerTransform(self.concentration0.reciprocal()),
            AffineTransform(1.0, -1.0),
            PowerTransform(self.concentration1.reciprocal()),
        ]
        one = rl.ones_like(self.concentration0)
        super().__init__(Uniform(0 * one, one, validate_args=False), parts, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Kumaraswamy:
        given = [p.expand(batch_shape) for p in (self.concentration1, self.concentration0)]
        return Kumaraswamy(*given, validate_args=False)

    def _moment(self, n: int) -> Tensor:
        b, power = self.concentration0, 1 + n / self.concentration1
        return (b.log() + power.lgamma() + b.lgamma() - (power + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        log_mode = a.reciprocal() * (a - 1).log() - a.reciprocal() * (a * b - 1).log()
        return rl.where((a < 1) | (b < 1), rl.nan, log_mode.exp())

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).square()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + _EULER
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()


class LogisticNormal(TransformedDistribution):
    """Probabilities made of normal numbers by `StickBreakingTransform`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        if not self.loc.ndim:
            self.loc, self.scale = self.loc.reshape(1), self.scale.reshape(1)
        base = Normal(self.loc, self.scale, validate_args)
        super().__init__(base, StickBreakingTransform(), validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> LogisticNormal:
        shape = (*batch_shape, self.loc.shape[-1])
        return LogisticNormal(self.loc.expand(shape), self.scale.expand(shape), False)
