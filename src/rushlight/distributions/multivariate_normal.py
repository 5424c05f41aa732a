"""Normal distributions of vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import lazy_property
from rushlight.tensor import Tensor

Shape = Sequence[int]


class MultivariateNormal(Distribution):
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
        name, matrix = only_matrix(
            ValueError,
            covariance_matrix=covariance_matrix,
            precision_matrix=precision_matrix,
            scale_tril=scale_tril,
        )
        batch = rl.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        self.loc = loc.expand((*batch, loc.shape[-1]))
        super().__init__(batch, loc.shape[-1:], validate_args)
        self._factor = cholesky_factor(name, matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._factor.expand((*self._batch_shape, *self._factor.shape[-2:]))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The expected products of the distances to the mean."""
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return rl.cholesky_inverse(self.scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

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


def only_matrix(refused: type[Exception], **matrices: Tensor | None) -> tuple[str, Tensor]:
    """The one matrix that is given, with its name; `refused` is raised if it is not one."""
    given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
    if len(given) != 1:
        raise refused(f"Exactly one of {' or '.join(matrices)} may be specified.")
    ((name, matrix),) = given.items()
    if matrix.ndim < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with leading batches")
    return name, matrix


def cholesky_factor(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of a covariance, of what `name` says it is given by."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return rl.linalg.cholesky(matrix)
    # with J P J = R R^T, where J reverses rows, P^-1 = A A^T for the lower A = (J R^T J)^-1
    lower = rl.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
    one = rl.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return rl.linalg.solve_triangular(lower, one, upper=False)
