"""Muon: momentum, orthogonalised, for the matrices of a network's hidden layers."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.optim.optimizer import Optimizer, check_options, number
from rushlight.tensor import Tensor


class Muon(Optimizer):
    """Steps along the nearest orthogonal matrix to the momentum (Jordan et al., 2024)."""

    STATE = ("momentum_buffer",)
    NUMBERS = ()

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                if param.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters whereas we found a parameter with "
                        f"size: {param.size()}"
                    )

    def init(self, param: Tensor, group: dict[str, Any]) -> tuple[Tensor, ...]:
        if param.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        return super().init(param, group)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        if group["ns_steps"] >= 100:
            raise ValueError(
                "Number of steps must be less than 100 for computational efficiency"
            )
        if len(group["ns_coefficients"]) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        flags = (
            group["nesterov"], group["ns_steps"], tuple(group["ns_coefficients"]),
            group["adjust_lr_fn"], group["eps"],
        )  # fmt: skip
        lr, momentum = number(group["lr"]), group["momentum"]
        return flags, (lr, momentum, 1 - momentum, 1 - lr * group["weight_decay"])

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: tuple[Any, ...],
        hyper: tuple[float, ...],
    ) -> None:
        nesterov, steps, coefficients, adjust, eps = flags
        lr, momentum, new, shrink = hyper
        (velocity,) = state
        velocity.lerp_(grad, new)
        direction = grad.lerp(velocity, momentum) if nesterov else velocity
        direction = orthogonalized(direction, coefficients, steps, eps)
        param.mul_(shrink)
        param.add_(direction.to(param.dtype), alpha=-lr * _size_factor(adjust, param.shape))


def orthogonalized(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Bring all singular values near 1 by a fixed polynomial, in bfloat16 (Newton-Schulz)."""
    a, b, c = coefficients
    x = matrix.bfloat16()
    is_tall = x.size(0) > x.size(1)
    x = x.T if is_tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = rl.addmm(x, rl.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if is_tall else x


def _size_factor(adjust: str | None, shape: Any) -> float:
    """How much larger to step for a matrix of this shape."""
    rows, columns = shape[:2]
    if adjust == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
