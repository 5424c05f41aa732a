"""Steps scaled by the history of squared gradients: Adagrad, RMSprop, Adadelta, Adafactor."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight as rl
from rushlight.optim.optimizer import Optimizer, check_modes, check_options, number
from rushlight.tensor import Tensor


class _Flags(NamedTuple):
    maximize: bool
    decays: bool
    has_momentum: bool = False
    centered: bool = False


def _begin(param: Tensor, grad: Tensor, flags: _Flags, decay: float) -> Tensor:
    if flags.maximize:
        grad = -grad
    return grad.add(param, alpha=decay) if flags.decays else grad


class Adagrad(Optimizer):
    """Steps over the root of the sum of all squared gradients (Duchi et al., 2011)."""

    STATE = ("sum",)

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        check_modes(differentiable, fused, foreach)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for param in group["params"]:
                self._fill_state(self.state[param], param, group, self.STATE)

    def init(self, param: Tensor, group: dict[str, Any]) -> tuple[Tensor, ...]:
        value = group["initial_accumulator_value"]
        value = complex(value, value) if param.is_complex() else value
        return (rl.full_like(param, value),)

    def share_memory(self) -> None:
        """Move the state to memory that other processes can map."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        size = number(group["lr"]) / (1 + (step - 1) * group["lr_decay"])
        flags = _Flags(group["maximize"], group["weight_decay"] != 0)
        return flags, (size, group["eps"], group["weight_decay"])

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Flags,
        hyper: tuple[float, ...],
    ) -> None:
        size, eps, decay = hyper
        (total,) = state
        grad = _begin(param, grad, flags, decay)
        total.addcmul_(grad, grad, value=1.0)
        param.addcdiv_(grad, total.sqrt().add_(eps), value=-size)


class RMSprop(Optimizer):
    """Steps over the root of the running mean of squared gradients (Hinton, 2012).

    `centered` subtracts the square of the gradient's running mean.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def state_names(self, group: dict[str, Any], param: Tensor) -> tuple[str, ...]:
        names = ["square_avg"]
        if group["momentum"] > 0:
            names.append("momentum_buffer")
        if group["centered"]:
            names.append("grad_avg")
        return tuple(names)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        numbers["step"] += 1
        alpha, momentum, decay = group["alpha"], group["momentum"], group["weight_decay"]
        flags = _Flags(group["maximize"], decay != 0, momentum > 0, group["centered"])
        hyper = (number(group["lr"]), alpha, 1 - alpha, group["eps"], momentum, decay)
        return flags, hyper

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Flags,
        hyper: tuple[float, ...],
    ) -> None:
        lr, alpha, new, eps, momentum, decay = hyper
        square = state[0]
        grad = _begin(param, grad, flags, decay)
        square.mul_(alpha).addcmul_(grad, grad, value=new)
        if flags.centered:
            mean = state[-1]
            mean.lerp_(grad, new)
            root = square.addcmul(mean, mean, value=-1.0).sqrt_().add_(eps)
        else:
            root = square.sqrt().add_(eps)
        if flags.has_momentum:
            velocity = state[1]
            velocity.mul_(momentum).addcdiv_(grad, root)
            param.add_(velocity, alpha=-lr)
        else:
            param.addcdiv_(grad, root, value=-lr)


class Adadelta(Optimizer):
    """Steps as large as recent steps were, over recent gradients (Zeiler, 2012)."""

    STATE = ("square_avg", "acc_delta")

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        numbers["step"] += 1
        rho, decay = group["rho"], group["weight_decay"]
        flags = _Flags(group["maximize"], decay != 0)
        return flags, (number(group["lr"]), rho, 1 - rho, group["eps"], decay)

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: _Flags,
        hyper: tuple[float, ...],
    ) -> None:
        lr, rho, new, eps, decay = hyper
        square, steps = state
        grad = _begin(param, grad, flags, decay)
        square.mul_(rho).addcmul_(grad, grad, value=new)
        root = square.add(eps).sqrt_()
        delta = steps.add(eps).sqrt_().div_(root).mul_(grad)
        steps.mul_(rho).addcmul_(delta, delta, value=new)
        param.add_(delta, alpha=-lr)


class Adafactor(Optimizer):
    """Adam without momentum whose squares of a matrix are kept as row and column means
    (Shazeer and Stern, 2018); steps are relative to the size of the parameter.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def state_names(self, group: dict[str, Any], param: Tensor) -> tuple[str, ...]:
        return ("row_var", "col_var") if param.dim() > 1 else ("variance",)

    def init(self, param: Tensor, group: dict[str, Any]) -> tuple[Tensor, ...]:
        if param.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        if param.dim() <= 1:
            return (rl.zeros_like(param),)
        shape = list(param.shape)
        rows, columns = [*shape[:-1], 1], [*shape[:-2], 1, shape[-1]]
        return param.new_zeros(rows), param.new_zeros(columns)

    def advance(
        self, group: dict[str, Any], numbers: dict[str, float], is_first: bool
    ) -> tuple[Any, tuple[float, ...]]:
        step = numbers["step"] = numbers["step"] + 1
        new = step ** group["beta2_decay"]
        relative = min(number(group["lr"]), 1 / step**0.5)
        decay = group["weight_decay"]
        flags = (group["maximize"], decay != 0, group["eps"])
        return flags, (new, relative, group["d"], 1 - number(group["lr"]) * decay)

    @staticmethod
    def update(
        param: Tensor,
        grad: Tensor,
        state: tuple[Tensor, ...],
        flags: tuple[bool, bool, tuple[float | None, float]],
        hyper: tuple[float, ...],
    ) -> None:
        new, relative, d, shrink = hyper
        maximize, decays, (eps1, eps2) = flags
        eps1 = rl.finfo(param.dtype).eps if eps1 is None else eps1
        if maximize:
            grad = -grad
        scale = (param.norm(2) / param.numel() ** 0.5).clamp(min=eps2) * relative
        if decays:
            param.mul_(shrink)
        variance = _running_squares(grad, state, new, eps1)
        update = variance.clamp(min=eps1 * eps1).rsqrt_().mul_(grad)
        limit = (update.norm(2) / (update.numel() ** 0.5 * d)).clamp(min=1.0)
        param.sub_(update * (scale / limit))


def _running_squares(
    grad: Tensor, state: tuple[Tensor, ...], new: float, eps1: float
) -> Tensor:
    """The running mean of squared gradients; of a matrix, as a product of rows and columns."""
    if len(state) == 1:
        state[0].lerp_(grad.square(), new)
        return state[0].clone()
    rows, columns = state
    rows.lerp_(grad.square().mean(dim=-1, keepdim=True), new)
    columns.lerp_(grad.square().mean(dim=-2, keepdim=True), new)
    return (rows @ columns) / rows.mean(dim=-2, keepdim=True).clamp(min=eps1)
