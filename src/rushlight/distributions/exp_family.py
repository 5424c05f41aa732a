"""Exponential families: what follows from their normalizer alone."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import sum_rightmost
from rushlight.tensor import Tensor


class ExponentialFamily(Distribution):
    """log p(x) = <t(x), theta> - F(theta) + k(x), with natural parameters theta.

    A subclass that gives `_natural_params`, the log-normalizer F as `_log_normalizer` and the
    expected k(x) as `_mean_carrier_measure` has an entropy and divergences: with the expected
    t(x), which is the gradient of F, they follow as Bregman divergences of F (Nielsen and Nock,
    "Entropies and cross-entropies of exponential families", 2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError(f"{type(self).__name__} names no natural parameters")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no log-normalizer")

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} has no expected carrier measure")

    def entropy(self) -> Tensor:
        own = self._natural_params
        found = self._log_normalizer(*own) - self._mean_carrier_measure
        for parameter, statistic in zip(own, self._expected_statistics(own), strict=True):
            found = found - self._over_event(parameter * statistic, parameter)
        return found

    def _divergence_from(self, other: ExponentialFamily) -> Tensor:
        """KL(self || other), both of one family."""
        own, its = self._natural_params, other._natural_params
        found = other._log_normalizer(*its) - self._log_normalizer(*own)
        for p, q, statistic in zip(own, its, self._expected_statistics(own), strict=True):
            found = found - self._over_event((q - p) * statistic, p)
        return found

    def _expected_statistics(self, own: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """The expected t(x), with the gradient that the natural parameters have."""
        is_followed = any(p.requires_grad for p in own)
        with rl.enable_grad():
            at = [p if p.requires_grad else p.detach().requires_grad_() for p in own]
            total = self._log_normalizer(*at).sum()
            found = rl.autograd.grad(total, at, create_graph=is_followed)
        return tuple(found)

    def _over_event(self, terms: Tensor, parameter: Tensor) -> Tensor:
        """Terms summed over the dimensions that a natural parameter has beyond the batch."""
        return sum_rightmost(terms, parameter.ndim - len(self._batch_shape))
