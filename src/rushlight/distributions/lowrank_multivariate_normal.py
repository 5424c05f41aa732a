"""Normal distributions of vectors whose covariance has few directions of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Centred
from rushlight.distributions.utils import lazy_property
from rushlight.tensor import Tensor

Shape = Sequence[int]


class LowRankMultivariateNormal(Centred):
    """The normal distribution of vectors with covariance W W^T + D, D diagonal.

    loc: (..., n); cov_factor: (..., n, m), which is W; cov_diag: (..., n), which is D's. Every
    inverse and determinant goes through the m x m matrix C = 1 + W^T D^-1 W: by Woodbury's
    identity the inverse of the covariance is D^-1 - D^-1 W C^-1 W^T D^-1, and by the lemma of
    determinants its determinant is det C det D.

    >>> import rushlight as torch
    >>> wide = torch.distributions.LowRankMultivariateNormal(
    ...     torch.zeros(2), torch.tensor([[1.0], [0.0]]), torch.ones(2)
    ... )
    >>> wide.covariance_matrix
    tensor([[2., 0.],
            [0., 1.]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        cov_factor: Tensor,
        cov_diag: Tensor,
        validate_args: bool | None = None,
    ) -> None:
        _check_shapes(loc, cov_factor, cov_diag)
        shapes = (loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        try:
            batch = rl.broadcast_shapes(*shapes)
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, "
                f"cov_diag {cov_diag.shape}"
            ) from error
        self.loc = loc.expand((*batch, *loc.shape[-1:]))
        self.cov_factor = cov_factor.expand((*batch, *cov_factor.shape[-2:]))
        self.cov_diag = cov_diag.expand((*batch, *cov_diag.shape[-1:]))
        super().__init__(batch, loc.shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: object = None) -> LowRankMultivariateNormal:
        made = super().expand(batch_shape, _instance)
        for derived in ("scale_tril", "covariance_matrix", "precision_matrix", "_whitened"):
            vars(made).pop(derived, None)
        return made

    @lazy_property
    def _whitened(self) -> Tensor:
        """K^-1 W^T D^-1, where K is the Cholesky factor of C: the covariance's inverse is
        D^-1 less the products of its columns.
        """
        return rl.linalg.solve_triangular(self._capacitance_tril(), self._scaled(), upper=False)

    def _scaled(self) -> Tensor:
        return self.cov_factor.mT / self.cov_diag.unsqueeze(-2)  # W^T D^-1

    def _capacitance_tril(self) -> Tensor:
        inner = self._scaled() @ self.cov_factor
        one = rl.eye(inner.shape[-1], dtype=inner.dtype)
        return rl.linalg.cholesky(inner + one)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance, by that of 1 + D^-1/2 W W^T D^-1/2, whose
        eigenvalues are at least 1.
        """
        deviation = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / deviation
        one = rl.eye(self._event_shape[0], dtype=scaled.dtype)
        return deviation * rl.linalg.cholesky(scaled @ scaled.mT + one)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The expected products of the distances to the mean."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self.cov_diag.reciprocal().diag_embed() - self._whitened.mT @ self._whitened

    @property
    def variance(self) -> Tensor:
        return self.cov_factor.square().sum(-1) + self.cov_diag

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = rl.randn((*shape[:-1], self.cov_factor.shape[-1], 1), dtype=self.loc.dtype)
        own = rl.randn(shape, dtype=self.loc.dtype)
        return self.loc + (self.cov_factor @ few).squeeze(-1) + self.cov_diag.sqrt() * own

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        away = self._squared_distance(value - self.loc)
        n = self._event_shape[0]
        return -(n * math.log(2 * math.pi) + self._log_determinant() + away) / 2

    def _squared_distance(self, away: Tensor) -> Tensor:
        """x^T (W W^T + D)^-1 x."""
        few = (self._whitened @ away.unsqueeze(-1)).squeeze(-1)
        return (away.square() / self.cov_diag).sum(-1) - few.square().sum(-1)

    def _log_determinant(self) -> Tensor:
        inner = self._capacitance_tril().diagonal(0, -2, -1).log().sum(-1)
        return 2 * inner + self.cov_diag.log().sum(-1)

    def entropy(self) -> Tensor:
        return (
            self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_determinant()
        ) / 2


def _check_shapes(loc: Tensor, cov_factor: Tensor, cov_diag: Tensor) -> None:
    if loc.ndim < 1:
        raise ValueError("loc must be at least one-dimensional.")
    event = loc.shape[-1:]
    if cov_factor.ndim < 2:
        raise ValueError("cov_factor must be at least two-dimensional, with leading batches")
    if cov_factor.shape[-2:-1] != event:
        raise ValueError(
            f"cov_factor must be a batch of matrices with shape {event[0]} x m, but it has "
            f"shape {tuple(cov_factor.shape)}"
        )
    if cov_diag.shape[-1:] != event:
        raise ValueError(
            f"cov_diag must be a batch of vectors with shape {tuple(event)}, but it has shape "
            f"{tuple(cov_diag.shape)}"
        )
