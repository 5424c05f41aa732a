"""Normal distributions of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.covariance import OfCovariance, only_matrix
from rushlight.distributions.distribution import Centred
from rushlight.tensor import Tensor

Shape = Sequence[int]


class MultivariateNormal(Centred, OfCovariance):
    """The normal distribution of vectors, by one of covariance, precision or Cholesky factor.

    loc: (..., n); covariance_matrix, precision_matrix or scale_tril: (..., n, n).
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = only_matrix(ValueError, covariance_matrix, precision_matrix, scale_tril)
        batch = rl.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand((*batch, loc.shape[-1]))
        self._take(name, matrix, batch, loc.shape[-1:], validate_args)

    @property
    def variance(self) -> Tensor:
        return self.scale_tril.square().sum(-1)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        drawn = rl.randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self.scale_tril @ drawn.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self._event_shape[0]
        away = (value - self.loc).unsqueeze(-1)
        factor = self.scale_tril.expand((*away.shape[:-2], n, n))
        size = rl.linalg.solve_triangular(factor, away, upper=False).square().sum((-2, -1))
        return -(n * math.log(2 * math.pi) + size) / 2 - self._log_scale()

    def _log_scale(self) -> Tensor:
        return self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def entropy(self) -> Tensor:
        return self._event_shape[0] * (1 + math.log(2 * math.pi)) / 2 + self._log_scale()
