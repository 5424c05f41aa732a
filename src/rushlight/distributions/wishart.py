"""Covariances of samples of normal vectors."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.covariance import OfCovariance, only_matrix
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.gamma import gamma_numbers
from rushlight.tensor import Tensor

Shape = Sequence[int]


class Wishart(OfCovariance, ExponentialFamily):
    """The distribution of X X^T, X being `df` normal vectors of one covariance side by side.

    df: (...), above n - 1, whole or not; exactly one of covariance_matrix, precision_matrix and
    scale_tril: (..., n, n). Formulas: Anderson, "An introduction to multivariate statistical
    analysis", 2003, chapter 7. Samples by Bartlett's decomposition.

    >>> import rushlight as torch
    >>> torch.distributions.Wishart(3.0, torch.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """What the parameters may be; `df` depends on the size of the matrices."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = only_matrix(
            AssertionError, covariance_matrix, precision_matrix, scale_tril
        )
        df = df if isinstance(df, Tensor) else rl.tensor(df, dtype=matrix.dtype)
        batch = rl.broadcast_shapes(matrix.shape[:-2], df.shape)
        _check_freedom(df, matrix.shape[-1])
        self.df = df.expand(batch)
        self._take(name, matrix, batch, matrix.shape[-2:], validate_args)

    def _freedom(self) -> Tensor:
        return self.df[..., None, None]

    @property
    def mean(self) -> Tensor:
        return self._freedom() * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        over = self._freedom() - self._event_shape[-1] - 1
        return rl.where(over > 0, over, rl.nan) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        diagonal = self.covariance_matrix.diagonal(0, -2, -1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._freedom() * (self.covariance_matrix.square() + products)

    def rsample(
        self, sample_shape: Shape = (), max_try_correction: int | None = None
    ) -> Tensor:
        """Matrices with gradients; those that rounding made singular are drawn again.

        After `max_try_correction` attempts (10 if None) one that is still singular stays: its
        log_prob is -inf.
        """
        drawn = self._bartlett(sample_shape)
        is_singular = ~self.support.check(drawn)
        for _ in range(10 if max_try_correction is None else max_try_correction):
            if not is_singular.any():
                return drawn
            warnings.warn("Singular sample detected.", stacklevel=2)
            drawn = rl.where(is_singular[..., None, None], self._bartlett(sample_shape), drawn)
            is_singular = ~self.support.check(drawn)
        return drawn

    def _bartlett(self, sample_shape: Shape) -> Tensor:
        """L A A^T L^T: L the covariance's factor, A lower, of normal numbers below a diagonal
        of the roots of chi-squared numbers with df, df - 1, ... degrees of freedom.
        """
        shape = self._extended_shape(sample_shape)
        lost = rl.arange(shape[-1], dtype=self.df.dtype)
        squared = 2 * gamma_numbers((self.df.unsqueeze(-1) - lost) / 2, shape[:-1])
        diagonal = squared.sqrt().clamp(min=rl.finfo(squared.dtype).eps)
        below = rl.randn(shape, dtype=squared.dtype).tril(-1)
        factor = self.scale_tril @ (below + diagonal.diag_embed())
        return factor @ factor.mT

    def log_prob(self, value: Tensor) -> Tensor:
        self._checked(value)
        n = self._event_shape[-1]
        weight = (self.df - n - 1) / 2 * rl.linalg.slogdet(value).logabsdet
        factor = self.scale_tril.expand(rl.broadcast_shapes(value.shape, self.scale_tril.shape))
        trace = (
            rl.cholesky_solve(value.expand(factor.shape), factor).diagonal(0, -2, -1).sum(-1)
        )
        return weight - trace / 2 - self.df * self._log_scale() - rl.mvlgamma(self.df / 2, n)

    def _log_scale(self) -> Tensor:
        """Half the logarithm of the determinant of twice the covariance."""
        determinant = self.scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return self._event_shape[-1] * math.log(2) / 2 + determinant

    def entropy(self) -> Tensor:
        n, half = self._event_shape[-1], self.df / 2
        spread = (self.df - n - 1) / 2 * _multivariate_digamma(half, n)
        return (n + 1) * self._log_scale() + rl.mvlgamma(half, n) - spread + n * half

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        determinant = rl.linalg.slogdet(-2 * x).logabsdet
        return half * (n * math.log(2) - determinant) + rl.mvlgamma(half, n)


def _check_freedom(df: Tensor, n: int) -> None:
    if (df <= n - 1).any():
        raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
    if (df < n).any():
        warnings.warn(
            "Low df values detected. Singular samples are highly likely to occur for "
            "ndim - 1 < df < ndim.",
            stacklevel=3,
        )


def _multivariate_digamma(x: Tensor, n: int) -> Tensor:
    """The slope of `mvlgamma`."""
    return (x.unsqueeze(-1) - rl.arange(n, dtype=x.dtype) / 2).digamma().sum(-1)
