"""Weight norm and spectral norm as forward pre-hooks: the older form of `parametrizations`."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.parametrizations import (
    as_matrix,
    default_dim,
    norm_except,
)
from rushlight.tensor import Tensor


class WeightNorm:
    """Recomputes a weight from its length `g` and direction `v` before each forward."""

    def __init__(self, name: str, dim: int | None) -> None:
        self.name = name
        self.dim = -1 if dim is None else dim

    def compute_weight(self, module: Module) -> Tensor:
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / norm_except(v, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The older form of `parametrizations.weight_norm`."""
    warnings.warn(
        "`torch.nn.utils.weight_norm` is deprecated in favor of "
        "`torch.nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    _refuse_second(module, name, WeightNorm, "weight_norm")
    hook = WeightNorm(name, dim)
    weight = getattr(module, name)
    del module._parameters[name]
    module.register_parameter(name + "_g", Parameter(norm_except(weight, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute_weight(module))
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again."""
    key, hook = _find(module, name, WeightNorm, "weight_norm")
    weight = hook.compute_weight(module)
    delattr(module, name)
    del module._parameters[name + "_g"]
    del module._parameters[name + "_v"]
    setattr(module, name, Parameter(weight.detach()))
    del module._forward_pre_hooks[key]
    return module


class SpectralNorm:
    """Divides a weight by its largest singular value before each forward."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                "Expected n_power_iterations to be positive, but got "
                f"n_power_iterations={n_power_iterations}"
            )
        self.name = name
        self.n_power_iterations = n_power_iterations
        self.dim = dim
        self.eps = eps

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = as_matrix(weight, self.dim)
        if do_power_iteration:
            with rl.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(rl.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(rl.mv(matrix, v), dim=0, eps=self.eps))
                u, v = u.clone(), v.clone()
        return weight / rl.dot(u, rl.mv(matrix, v))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module,
    name: str = "weight",
    n_power_iterations: int = 1,
    eps: float = 1e-12,
    dim: int | None = None,
) -> Module:
    """The older form of `parametrizations.spectral_norm`."""
    _refuse_second(module, name, SpectralNorm, "spectral_norm")
    hook = SpectralNorm(
        name, n_power_iterations, default_dim(module) if dim is None else dim, eps
    )
    weight = getattr(module, name)
    with rl.no_grad():
        matrix = as_matrix(weight, hook.dim)
        rows, columns = matrix.size()
        u = F.normalize(weight.new_empty(rows).normal_(0, 1), dim=0, eps=eps)
        v = F.normalize(weight.new_empty(columns).normal_(0, 1), dim=0, eps=eps)
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again."""
    key, hook = _find(module, name, SpectralNorm, "spectral_norm")
    with rl.no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    for part in (name, name + "_u", name + "_v", name + "_orig"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    del module._forward_pre_hooks[key]
    return module


def _refuse_second(module: Module, name: str, kind: type, what: str) -> None:
    for hook in module._forward_pre_hooks.values():
        if isinstance(hook, kind) and hook.name == name:
            raise RuntimeError(f"Cannot register two {what} hooks on the same parameter {name}")


def _find(module: Module, name: str, kind: type, what: str) -> tuple[int, Any]:
    for key, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            return key, hook
    raise ValueError(f"{what} of '{name}' not found in {module}")
