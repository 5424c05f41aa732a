"""Distributions of functions of random values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.independent import Independent
from rushlight.distributions.transforms import (
    ComposeTransform,
    Transform,
)
from rushlight.distributions.utils import sum_rightmost
from rushlight.tensor import Tensor

Shape = Sequence[int]


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
        own_shape = (*base.batch_shape, *base.event_shape)
        if len(own_shape) < wanted:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {wanted}, but got "
                f"{own_shape}."
            )
        shape = whole.forward_shape(own_shape)
        needed = whole.inverse_shape(shape)  # each of the results has a base value of its own
        if needed != own_shape:
            base = base.expand(needed[: len(needed) - len(base.event_shape)])
        extra = max(wanted - len(base.event_shape), 0)
        self.base_dist = Independent(base, extra) if extra else base
        events = whole.codomain.event_dim + max(len(self.base_dist.event_shape) - wanted, 0)
        kept = len(shape) - events
        super().__init__(shape[:kept], shape[kept:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        whole = ComposeTransform(self.transforms)
        shape = whole.inverse_shape((*batch_shape, *self._event_shape))
        made = super().expand(batch_shape, _instance)
        kept = len(shape) - len(self.base_dist.event_shape)
        made.base_dist = self.base_dist.expand(shape[:kept])
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
