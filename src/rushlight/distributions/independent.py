"""Batch dimensions taken as parts of one value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import sum_rightmost
from rushlight.tensor import Tensor

Shape = Sequence[int]


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions of a distribution as one event.

    >>> import rushlight as torch
    >>> d = torch.distributions
    >>> normal = d.Independent(d.Normal(torch.zeros(3), torch.ones(3)), 1)
    >>> normal.batch_shape, normal.event_shape
    (torch.Size([]), torch.Size([3]))
    """

    arg_constraints: dict[str, Any] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        batch = base_distribution.batch_shape
        count = reinterpreted_batch_ndims
        if count > len(batch):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {count} vs {len(batch)}"
            )
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, count
        kept = len(batch) - count
        event = (*batch[kept:], *base_distribution.event_shape)
        super().__init__(batch[:kept], event, validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Independent:
        rest = self._event_shape[: self.reinterpreted_batch_ndims]
        made = super().expand(batch_shape, _instance)
        made.base_dist = self.base_dist.expand((*batch_shape, *rest))
        return made

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Any:
        count, inner = self.reinterpreted_batch_ndims, self.base_dist.support
        return constraints.independent(inner, count) if count else inner

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
