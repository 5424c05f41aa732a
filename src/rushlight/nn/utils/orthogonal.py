"""Orthogonal matrices as functions of matrices without a constraint (Lezcano-Casado, 2019)."""

from __future__ import annotations

import rushlight as rl
from rushlight.nn.module import Module
from rushlight.tensor import Tensor


class Orthogonal(Module):
    """What `orthogonal` registers; wide matrices are the transposes of tall ones."""

    base: Tensor | None

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError(
                "The householder parametrization does not support complex tensors."
            )
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        self.use_trivialization = use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        is_wide = x.size(-2) < x.size(-1)
        tall = x.mT if is_wide else x
        if self.orthogonal_map == "householder":
            q = _reflected(tall)
        else:
            q = _rotated(tall, self.orthogonal_map)
        if self.use_trivialization:
            q = self.base @ q
        return q.mT if is_wide else q

    @rl.no_grad()
    def right_inverse(self, value: Tensor) -> Tensor:
        """What `forward` maps to the value, or to the orthogonal matrix of its directions."""
        if value.shape != self.shape:
            raise ValueError(
                f"orthogonal: the parametrised weight has shape {list(self.shape)}, but what "
                f"is assigned has shape {list(value.shape)}"
            )
        is_wide = value.size(-2) < value.size(-1)
        tall = value.mT if is_wide else value
        if self.use_trivialization:
            self.base = _completed(tall)
            # the diagonal is the signs of the reflections: of these the product is the identity
            return -rl.eye(*value.shape[-2:], dtype=value.dtype).expand(value.shape).clone()
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                f"orthogonal: a weight cannot be assigned under the map "
                f"'{self.orthogonal_map}' without use_trivialization=True, since the map has "
                f"no inverse here"
            )
        x = _reflections(tall)
        return x.mT if is_wide else x


def _rotated(x: Tensor, orthogonal_map: str) -> Tensor:
    """The first columns of the rotation by the skew-Hermitian matrix of the lower triangle."""
    n, k = x.shape[-2:]
    lower = x.tril()
    if n != k:
        lower = rl.cat([lower, lower.new_zeros(*x.shape[:-2], n, n - k)], dim=-1)
    skew = lower - lower.mH
    if orthogonal_map == "matrix_exp":
        return rl.matrix_exp(skew)[..., :k]
    identity = rl.eye(n, dtype=x.dtype)
    return rl.linalg.solve(identity - skew / 2, identity + skew / 2)[..., :k]


def _reflected(x: Tensor) -> Tensor:
    """A product of reflections along the columns below the diagonal, which holds signs."""
    below = x.tril(-1)
    scales = 2.0 / (1.0 + (below * below).sum(dim=-2))
    signs = x.diagonal(dim1=-2, dim2=-1).int()
    return rl.linalg.householder_product(below, scales) * signs.unsqueeze(-2)


def _reflections(x: Tensor) -> Tensor:
    """Reflections and signs whose product has the directions of x."""
    packed, scales = rl.geqrf(x)
    signs = packed.diagonal(dim1=-2, dim2=-1).sign()
    signs = rl.where(scales == 0, -signs, signs)  # no reflection: forward has one all the same
    packed.diagonal(dim1=-2, dim2=-1).copy_(signs)
    return packed


def _completed(x: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the directions of x."""
    n, k = x.shape[-2:]
    if n != k:
        x = rl.cat([x, rl.randn(*x.shape[:-2], n, n - k, dtype=x.dtype)], dim=-1)
    elif _is_orthogonal(x):
        return x.clone()
    q, r = rl.linalg.qr(x)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def _is_orthogonal(x: Tensor) -> bool:
    n = x.size(-1)
    off = x.mH @ x - rl.eye(n, dtype=x.dtype)
    return bool((off.abs() <= 10 * n * rl.finfo(x.dtype).eps).all())
