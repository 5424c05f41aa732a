"""Resilient propagation: steps that heed only the sign of the gradient."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.optim.optimizer import Optimizer, check_options, number
from rushlight.tensor import Tensor


class Rprop(Optimizer):
    """A step size for each weight, that grows while the gradient's sign stays and shrinks when
    it changes (Riedmiller and Braun, 1993).
    """

    STATE = ("prev", "step_size")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def init(self, param: Tensor, group: dict[str, Any]) -> tuple[Tensor, ...]:
        lr = number(group["lr"])
        first = complex(lr, lr) if param.is_complex() else lr
        previous = rl.zeros_like(param)
        return previous, rl.full_like(param, first)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        numbers["step"] += 1
        return group["maximize"], (*group["etas"], *group["step_sizes"])

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: bool,
        hyper: tuple[float, ...],
    ) -> None:
        shrink, grow, smallest, largest = hyper
        previous, size = state
        if flags:
            grad = -grad
        agreement = grad * previous
        turned = agreement < 0
        smaller = rl.where(turned, size * shrink, size)
        size.copy_(rl.where(agreement > 0, size * grow, smaller).clamp_(smallest, largest))
        grad = grad.masked_fill(turned, 0.0)
        param.addcmul_(grad.sign(), size, value=-1.0)
        previous.copy_(grad)
