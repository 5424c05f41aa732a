"""Stochastic gradient descent, with momentum; and its averaged form."""

from __future__ import annotations

from typing import Any, NamedTuple

from rushlight.optim.optimizer import Optimizer, check_modes, check_options, number
from rushlight.tensor import Tensor


class _SGDFlags(NamedTuple):
    maximize: bool
    decays: bool
    has_momentum: bool
    nesterov: bool


class SGD(Optimizer):
    """`p -= lr * v`, where `v` is the gradient or its running sum with momentum.

    The first step takes the gradient itself as momentum, undamped.
    """

    STATE = ("momentum_buffer",)
    NUMBERS = ()

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_modes(differentiable, fused, foreach)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)

    def state_names(self, group: dict[str, Any], param: Tensor) -> tuple[str, ...]:
        return self.STATE if group["momentum"] != 0 else ()

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        momentum, decay = number(group["momentum"]), number(group["weight_decay"])
        flags = _SGDFlags(group["maximize"], decay != 0, momentum != 0, group["nesterov"])
        keep = 1.0 if is_first else 1 - group["dampening"]
        return flags, (number(group["lr"]), momentum, keep, decay)

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _SGDFlags,
        hyper: tuple[float, ...],
    ) -> None:
        lr, momentum, keep, decay = hyper
        if flags.maximize:
            grad = -grad
        if flags.decays:
            grad = grad.add(param, alpha=decay)
        if flags.has_momentum:
            (velocity,) = state  # zeros before the first step
            velocity.mul_(momentum).add_(grad, alpha=keep)
            grad = grad.add(velocity, alpha=momentum) if flags.nesterov else velocity
        param.add_(grad, alpha=-lr)


class _ASGDFlags(NamedTuple):
    maximize: bool
    decays: bool
    averages: bool


class ASGD(Optimizer):
    """SGD with a decaying rate that averages its iterates from step `t0` on (in `ax`)."""

    STATE = ("ax",)
    NUMBERS = ("step", "eta", "mu")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def first_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "eta": number(group["lr"]), "mu": 1.0}

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        eta, mu, lambd = numbers["eta"], numbers["mu"], group["lambd"]
        flags = _ASGDFlags(group["maximize"], group["weight_decay"] != 0, mu != 1)
        hyper = (eta, mu, 1 - lambd * eta, group["weight_decay"])
        step = numbers["step"] = numbers["step"] + 1
        lr = number(group["lr"])
        numbers["eta"] = lr / (1 + lambd * lr * step) ** group["alpha"]
        numbers["mu"] = 1 / max(1, step - group["t0"])
        return flags, hyper

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _ASGDFlags,
        hyper: tuple[float, ...],
    ) -> None:
        eta, mu, shrink, decay = hyper
        (average,) = state
        if flags.maximize:
            grad = -grad
        if flags.decays:
            grad = grad.add(param, alpha=decay)
        param.mul_(shrink).add_(grad, alpha=-eta)
        if flags.averages:
            average.add_(param.sub(average).mul_(mu))
        else:
            average.copy_(param)
