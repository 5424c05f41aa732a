"""Matrices of correlations, by their Cholesky factors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.gamma import Beta
from rushlight.distributions.utils import broadcast_all
from rushlight.nn import functional as F
from rushlight.tensor import Tensor

Shape = Sequence[int]


class LKJCholesky(Distribution):
    """Cholesky factors L of correlations L L^T with density det(L L^T)^(concentration - 1).

    With concentration 1 all matrices of correlations are alike; the greater it is, the closer
    they are to the identity. Lewandowski, Kurowicka and Joe, "Generating random correlation
    matrices based on vines and extended onion method", 2009. Samples have no gradient.

    >>> import rushlight as torch
    >>> pairs = torch.distributions.LKJCholesky(2)
    >>> pairs.log_prob(torch.eye(2))  # 1 / 2 for each correlation of (-1, 1)
    tensor(-0.6931)
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _row_lengths(self) -> Beta:
        """The squared length of each row but the first, without its diagonal (section 3.2)."""
        before = rl.arange(1, self.dim, dtype=self.concentration.dtype)
        after = (self.dim - 1 - before) / 2 + self.concentration.unsqueeze(-1)
        return Beta(before / 2, after, validate_args=False)

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Factors row by row: a length, and a direction on the sphere of the row's numbers."""
        with rl.no_grad():
            squared = self._row_lengths().sample(sample_shape)  # (..., dim - 1)
            drawn = rl.randn((*squared.shape, self.dim - 1), dtype=squared.dtype).tril()
            rows = drawn * (squared.sqrt() / drawn.norm(dim=-1)).unsqueeze(-1)
            rest = (1 - squared).clamp(min=rl.finfo(squared.dtype).tiny).sqrt()
            diagonal = F.pad(rest, (1, 0), value=1.0)
            return F.pad(rows, (0, 1, 1, 0)) + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        """Powers of the diagonal: of the determinant, and of what L to L L^T stretches."""
        self._checked(value)
        below = rl.arange(self.dim - 2, -1, -1, dtype=self.concentration.dtype)
        powers = 2 * (self.concentration - 1).unsqueeze(-1) + below
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        return (powers * diagonal.log()).sum(-1) - self._log_volume()

    def _log_volume(self) -> Tensor:
        """The product of the beta functions of page 1999, by multivariate gamma functions."""
        n = self.dim - 1
        alpha = self.concentration + n / 2
        spheres = n * math.log(math.pi) / 2
        return spheres + rl.mvlgamma(alpha - 0.5, n) - n * alpha.lgamma()
