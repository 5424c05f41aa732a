"""Adam and AdamW (Kingma and Ba, 2015; Loshchilov and Hutter, 2019), and their relatives."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.optim.optimizer import (
    Optimizer,
    as_held,
    check_modes,
    check_options,
    number,
    number_dtype,
)
from rushlight.tensor import Tensor


class _Decay(NamedTuple):
    """How a rule starts: the sign of the gradient, and which kind of weight decay."""

    maximize: bool
    decays: bool
    decoupled: bool
    variant: bool = False


def _begin(param: Tensor, grad: Tensor, flags: _Decay, decay: float, shrink: float) -> Tensor:
    """The gradient to use; decoupled decay shrinks the parameter instead."""
    if flags.maximize:
        grad = -grad
    if flags.decays and flags.decoupled:
        param.mul_(shrink)
    elif flags.decays:
        grad = grad.add(param, alpha=decay)
    return grad


class Adam(Optimizer):
    """Steps of the size `lr`, by the gradient's running mean over its running root mean square.

    With `amsgrad` the mean square is replaced by the largest seen so far.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _check_tensor_options(lr, betas, foreach, capturable)
        check_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        check_modes(differentiable, fused, foreach)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)

    def state_names(self, group: dict[str, Any], param: Tensor) -> tuple[str, ...]:
        return _AMSGRAD_STATE if group["amsgrad"] else _ADAM_STATE

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        lr, decay = number(group["lr"]), group["weight_decay"]
        beta1, beta2 = (number(beta) for beta in group["betas"])
        decoupled = group["decoupled_weight_decay"]
        flags = _Decay(group["maximize"], decay != 0, decoupled, group["amsgrad"])
        size = lr / (1 - beta1**step)
        root = math.sqrt(1 - beta2**step)
        hyper = (size, 1 - beta1, beta2, 1 - beta2, root, group["eps"], decay, 1 - lr * decay)
        return flags, hyper

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Decay,
        hyper: tuple[float, ...],
    ) -> None:
        size, new1, beta2, new2, root, eps, decay, shrink = hyper
        mean, square = state[0], state[1]
        grad = _begin(param, grad, flags, decay, shrink)
        mean.lerp_(grad, new1)
        square.mul_(beta2).addcmul_(grad, grad, value=new2)
        if flags.variant:
            square = rl.maximum(state[2], square, out=state[2])
        param.addcdiv_(mean, (square.sqrt() / root).add_(eps), value=-size)


_ADAM_STATE = ("exp_avg", "exp_avg_sq")
_AMSGRAD_STATE = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")


class AdamW(Adam):
    """Adam whose weight decay shrinks the weights directly, apart from the gradient."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[Any, Any] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


def _check_tensor_options(lr: Any, betas: Any, foreach: Any, capturable: bool) -> None:
    """Options given as tensors: which of them go together, as PyTorch has it."""
    if isinstance(lr, Tensor):
        if foreach and not capturable:
            raise ValueError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
    are_tensors = [isinstance(beta, Tensor) for beta in betas]
    if any(are_tensors) and not all(are_tensors):
        raise ValueError("betas must be either both floats or both Tensors")
    for i, beta in enumerate(betas):
        if not isinstance(beta, Tensor):
            continue
        if foreach and not capturable:
            raise ValueError(
                f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
            )
        if beta.numel() != 1:
            raise ValueError(f"Tensor betas[{i}] must be 1-element")


class Adamax(Optimizer):
    """Adam with the largest gradient, fading, in place of the root mean square."""

    STATE = ("exp_avg", "exp_inf")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        beta1, beta2 = group["betas"]
        decay = group["weight_decay"]
        size = number(group["lr"]) / (1 - beta1**step)
        flags = _Decay(group["maximize"], decay != 0, False)
        return flags, (size, 1 - beta1, beta2, group["eps"], decay)

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Decay,
        hyper: tuple[float, ...],
    ) -> None:
        size, new1, beta2, eps, decay = hyper
        mean, largest = state
        grad = _begin(param, grad, flags, decay, 1.0)
        mean.lerp_(grad, new1)
        rl.maximum(largest.mul_(beta2), grad.abs().add_(eps), out=largest)
        param.addcdiv_(mean, largest, value=-size)


class NAdam(Optimizer):
    """Adam with Nesterov momentum, whose coefficient warms up (Dozat, 2016)."""

    STATE = ("exp_avg", "exp_avg_sq")
    NUMBERS = ("step", "mu_product")

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            lr=lr,
            betas=betas,
            eps=eps,
            weight_decay=weight_decay,
            momentum_decay=momentum_decay,
        )
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def first_numbers(self, group: dict[str, Any]) -> dict[str, float]:
        return {"step": 0.0, "mu_product": 1.0}

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        beta1, beta2 = group["betas"]
        mu, next_mu = (
            beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)
        )
        kind = number_dtype()  # of PyTorch's product of tensors
        product = as_held(numbers["mu_product"] * as_held(mu, kind), kind)
        numbers["mu_product"] = product
        lr, decay = number(group["lr"]), group["weight_decay"]
        of_grad = lr * (1 - mu) / (1 - product)
        of_mean = lr * next_mu / (1 - product * next_mu)
        flags = _Decay(group["maximize"], decay != 0, group["decoupled_weight_decay"])
        spread = 1 - beta2**step
        return flags, (
            of_grad, of_mean, 1 - beta1, beta2, 1 - beta2, spread, group["eps"], decay,
            1 - lr * decay,
        )  # fmt: skip

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Decay,
        hyper: tuple[float, ...],
    ) -> None:
        of_grad, of_mean, new1, beta2, new2, spread, eps, decay, shrink = hyper
        mean, square = state
        grad = _begin(param, grad, flags, decay, shrink)
        mean.lerp_(grad, new1)
        square.mul_(beta2).addcmul_(grad, grad, value=new2)
        scale = square.div(spread).sqrt_().add_(eps)
        param.addcdiv_(grad, scale, value=-of_grad)
        param.addcdiv_(mean, scale, value=-of_mean)


class RAdam(Optimizer):
    """Adam that waits with the adaptive step until its variance is known (Liu et al., 2020)."""

    STATE = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        beta1, beta2 = group["betas"]
        lr, decay = number(group["lr"]), group["weight_decay"]
        size = lr / (1 - beta1**step)
        spread = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / spread
        is_adaptive = length > 5
        if is_adaptive:
            size *= math.sqrt(spread) * _rectification(length, longest)
        flags = _Decay(
            group["maximize"], decay != 0, group["decoupled_weight_decay"], is_adaptive
        )
        hyper = (size, 1 - beta1, beta2, 1 - beta2, group["eps"], decay, 1 - lr * decay)
        return flags, hyper

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Decay,
        hyper: tuple[float, ...],
    ) -> None:
        size, new1, beta2, new2, eps, decay, shrink = hyper
        mean, square = state
        grad = _begin(param, grad, flags, decay, shrink)
        mean.lerp_(grad, new1)
        square.mul_(beta2).addcmul_(grad, grad, value=new2)
        if flags.variant:
            param.addcdiv_(mean, square.sqrt().add_(eps), value=-size)
        else:
            param.add_(mean, alpha=-size)


def _rectification(length: float, longest: float) -> float:
    """How much less to step while the running variance rests on few gradients."""
    return math.sqrt(
        (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    )
