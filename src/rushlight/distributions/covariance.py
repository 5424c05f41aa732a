"""What distributions by a covariance share: it may be given in three ways."""

from __future__ import annotations

from collections.abc import Sequence

import rushlight as rl
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import lazy_property
from rushlight.tensor import Tensor


class OfCovariance(Distribution):
    """A distribution by a covariance, its inverse, or its Cholesky factor: the other two are
    computed when they are first asked for.
    """

    # no `__init__`: users' subclasses call that of Distribution past the class they extend
    def _take(
        self,
        name: str,
        matrix: Tensor,
        batch: Sequence[int],
        event: Sequence[int],
        validate_args: bool | None,
    ) -> None:
        """Keep what is given, `name` saying which of the three it is; it is checked before
        anything is computed of it.
        """
        setattr(self, name, matrix.expand((*batch, *matrix.shape[-2:])))
        super().__init__(batch, event, validate_args)
        self._factor = _cholesky_factor(name, matrix)

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


def only_matrix(
    refused: type[Exception],
    covariance_matrix: Tensor | None,
    precision_matrix: Tensor | None,
    scale_tril: Tensor | None,
) -> tuple[str, Tensor]:
    """The one that is given, with its name; `refused` is raised if it is not one."""
    matrices = {
        "covariance_matrix": covariance_matrix,
        "precision_matrix": precision_matrix,
        "scale_tril": scale_tril,
    }
    given = {name: matrix for name, matrix in matrices.items() if matrix is not None}
    if len(given) != 1:
        raise refused(f"Exactly one of {' or '.join(matrices)} may be specified.")
    ((name, matrix),) = given.items()
    if matrix.ndim < 2:
        raise ValueError(f"{name} must be at least two-dimensional, with leading batches")
    return name, matrix


def _cholesky_factor(name: str, matrix: Tensor) -> Tensor:
    """The Cholesky factor of a covariance, of what `name` says it is given by."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return rl.linalg.cholesky(matrix)
    # with J P J = R R^T, where J reverses rows, P^-1 = A A^T for the lower A = (J R^T J)^-1
    lower = rl.linalg.cholesky(matrix.flip((-2, -1))).flip((-2, -1)).mT
    one = rl.eye(matrix.shape[-1], dtype=matrix.dtype).expand(matrix.shape)
    return rl.linalg.solve_triangular(lower, one, upper=False)
