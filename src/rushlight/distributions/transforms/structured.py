"""Transforms of vectors and matrices: to probabilities, triangles and correlations."""

from __future__ import annotations

import math

import rushlight as rl
from rushlight.distributions import constraints
from rushlight.distributions.transforms.transform import Shape, Transform
from rushlight.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from rushlight.nn import functional as F
from rushlight.tensor import Tensor


class SoftmaxTransform(Transform):
    """Unconstrained numbers to probabilities; the inverse is one of many."""

    _compared = ()
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n unconstrained numbers to n + 1 probabilities: each takes its part of what is left."""

    bijective = True
    _compared = ()
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        parts = _clipped_sigmoid(x - _left(x).log())
        left = (1 - parts).cumprod(-1)
        return F.pad(parts, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        crop = y[..., :-1]
        left = (1 - crop.cumsum(-1)).clamp(min=rl.finfo(y.dtype).tiny)
        return crop.log() - left.log() + _left(crop).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        moved = x - _left(x).log()
        return (-moved + F.logsigmoid(moved) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Shape) -> Shape:
        return (*shape[:-1], shape[-1] - 1)


def _left(x: Tensor) -> Tensor:
    """How many parts are still to come at each place."""
    size = x.shape[-1]
    return rl.arange(size, 0, -1, dtype=x.dtype)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    kind = rl.finfo(x.dtype)
    return x.sigmoid().clamp(min=kind.tiny, max=1.0 - kind.eps)


class LowerCholeskyTransform(Transform):
    """Unconstrained matrices to lower triangles with a positive diagonal."""

    _compared = ()
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.diagonal(dim1=-2, dim2=-1).sum(-1)


class PositiveDefiniteTransform(Transform):
    """Unconstrained matrices to positive-definite ones."""

    _compared = ()
    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rl.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Unconstrained numbers to the Cholesky factor of a matrix of correlations.

    x: (..., n (n - 1) / 2), the lower triangle row by row; y: (..., n, n), of rows of length 1.
    The k-th number of a row, as r = tanh(x), takes the share r^2 of what the numbers before it
    left of the row's squared length (canonical partial correlations: Lewandowski, Kurowicka and
    Joe, 2009, section 2).

    >>> import rushlight as torch
    >>> torch.distributions.CorrCholeskyTransform()(torch.zeros(1))
    tensor([[1., 0.],
            [0., 1.]])
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        most = 1 - rl.finfo(x.dtype).eps
        share = vec_to_tril_matrix(x.tanh().clamp(-most, most), -1)
        left = (1 - share.square()).sqrt().cumprod(-1)
        one = rl.eye(share.shape[-1], dtype=x.dtype)
        return (share + one) * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = F.pad(_left_of_rows(y)[..., :-1], [1, 0], value=1)
        share = tril_matrix_to_vec(y, -1) / tril_matrix_to_vec(left, -1).sqrt()
        return (share.log1p() - (-share).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor, intermediates: None = None) -> Tensor:
        """log |d v / d x| of the elements v of y below its diagonal: dimensions must agree."""
        sticks = tril_matrix_to_vec(_left_of_rows(y), -2).log().sum(-1) / 2
        slopes = 2 * (math.log(2.0) - x - F.softplus(-2 * x)).sum(-1)
        return sticks + slopes

    def forward_shape(self, shape: Shape) -> Shape:
        if not shape:
            raise ValueError("Too few dimensions on input")
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Shape) -> Shape:
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return (*shape[:-2], n * (n - 1) // 2)


def _left_of_rows(y: Tensor) -> Tensor:
    """What each element and those before it leave of a row's squared length of 1."""
    return 1 - y.square().cumsum(-1)
