"""Ready parametrisations: weight norm, spectral norm, orthogonal matrices."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.module import Module
from rushlight.nn.utils.orthogonal import Orthogonal
from rushlight.nn.utils.parametrize import register_parametrization
from rushlight.tensor import Tensor

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except(tensor: Tensor, dim: int) -> Tensor:
    """The norm over all dimensions but one, which keeps its place; over all for -1."""
    if dim == -1:
        return rl.linalg.vector_norm(tensor)
    dim %= tensor.ndim
    others = [d for d in range(tensor.ndim) if d != dim]
    return rl.linalg.vector_norm(tensor, 2, others, True)


def _check_tensor(module: Module, name: str) -> Tensor:
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Length and direction of a weight learned apart (Salimans and Kingma, 2016)."""
    _check_tensor(module, name)
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def translate(state_dict: Any, prefix: str, *rest: Any) -> None:
        """Let checkpoints of the hook-based form load."""
        old = [f"{prefix}{name}_{part}" for part in "gv"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                new = f"{prefix}parametrizations.{name}.original{i}"
                state_dict[new] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(translate)
    return module


def as_matrix(weight: Tensor, dim: int) -> Tensor:
    """The weight with one dimension as rows and all others as columns."""
    return (weight.movedim(dim, 0) if dim != 0 else weight).flatten(1)


def default_dim(module: Module) -> int:
    """Which dimension of a layer's weight counts its outputs."""
    transposed = (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)
    return 1 if isinstance(module, transposed) else 0


def power_iterate(
    matrix: Tensor, u: Tensor, v: Tensor, count: int, eps: float
) -> tuple[Tensor, Tensor]:
    """Better estimates of the first pair of singular vectors."""
    for _ in range(count):
        u = F.normalize(rl.mv(matrix, v), dim=0, eps=eps)
        v = F.normalize(rl.mv(matrix.mH, u), dim=0, eps=eps)
    return u, v


class _SpectralNorm(Module):
    def __init__(
        self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12
    ) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [-{weight.ndim}, "
                f"{weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.dim = dim % weight.ndim
        self.eps = eps
        if weight.ndim == 1:
            return
        self.n_power_iterations = n_power_iterations
        with rl.no_grad():
            matrix = as_matrix(weight, self.dim)
            rows, columns = matrix.size()
            u = F.normalize(matrix.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
            v = F.normalize(matrix.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
            u, v = power_iterate(matrix, u, v, 15, eps)
        self.register_buffer("_u", u)
        self.register_buffer("_v", v)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = as_matrix(weight, self.dim)
        if self.training:
            with rl.no_grad():
                found = power_iterate(
                    matrix, self._u, self._v, self.n_power_iterations, self.eps
                )
                self._u.copy_(found[0])
                self._v.copy_(found[1])
        u, v = self._u.clone(), self._v.clone()  # backward keeps them; the next call writes
        return weight / rl.vdot(u, rl.mv(matrix, v))

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """A weight divided by its largest singular value (Miyato et al., 2018)."""
    weight = _check_tensor(module, name)
    dim = default_dim(module) if dim is None else dim
    parametrization = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return register_parametrization(module, name, parametrization)


def orthogonal(
    module: Module,
    name: str = "weight",
    orthogonal_map: str | None = None,
    *,
    use_trivialization: bool = True,
) -> Module:
    """A weight whose rows or columns stay orthonormal (Lezcano-Casado, 2019).

    orthogonal_map: "matrix_exp" or "cayley" (of a skew-Hermitian matrix), or "householder" (a
    product of reflections, for real weights). use_trivialization: optimise around a base
    point, by which any weight can be assigned; without it only the householder map can be.

    >>> import rushlight as torch
    >>> layer = orthogonal(torch.nn.Linear(3, 3))
    >>> torch.allclose(layer.weight @ layer.weight.mT, torch.eye(3), atol=1e-5)
    True
    """
    weight = _check_tensor(module, name)
    if weight.ndim < 2:
        raise ValueError(
            f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions."
        )
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError(
            'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
            f"Got: {orthogonal_map}"
        )
    parametrization = Orthogonal(weight, orthogonal_map, use_trivialization)
    return register_parametrization(module, name, parametrization, unsafe=True)
