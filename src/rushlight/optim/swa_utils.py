"""Averaging the weights of a model over training (Izmailov et al., 2018; Polyak, 1992)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import rushlight as rl
from rushlight.nn.batchnorm import _BatchNorm
from rushlight.nn.module import Module
from rushlight.optim.lr_scheduler import LRScheduler
from rushlight.optim.lr_scheduler.base import per_group
from rushlight.optim.optimizer import Optimizer
from rushlight.tensor import Tensor

__all__ = [
    "AveragedModel",
    "SWALR",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, Any], Tensor]
MultiAverage = Callable[[list[Tensor], list[Tensor], Any], None]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """An exponential moving average of one tensor."""
    _check_decay(decay)

    def average(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with rl.no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return average


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverage:
    """An exponential moving average of many tensors, in place."""
    _check_decay(decay)

    def average(ema_params: list[Tensor], current_params: list[Tensor], _: Any) -> None:
        with rl.no_grad():
            for ema, current in zip(ema_params, current_params, strict=True):
                if ema.is_floating_point() or ema.is_complex():
                    ema.lerp_(current.to(ema.dtype), 1 - decay)
                else:
                    ema.copy_(ema * decay + current * (1 - decay))

    return average


def get_swa_avg_fn() -> Average:
    """The plain mean of all values of one tensor."""

    def average(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        with rl.no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return average


def get_swa_multi_avg_fn() -> MultiAverage:
    """The plain mean of all values of many tensors, in place."""

    def average(averaged: list[Tensor], current: list[Tensor], num_averaged: Any) -> None:
        with rl.no_grad():
            for mean, value in zip(averaged, current, strict=True):
                mean.add_((value - mean) / (num_averaged + 1))

    return average


class AveragedModel(Module):
    """A copy of a model that holds the average of its weights.

    Without an averaging function it is the plain mean of the models passed to
    `update_parameters`. `use_buffers` averages buffers too, instead of copying them.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Average | None = None,
        multi_avg_fn: MultiAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", rl.tensor(0, dtype=rl.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the model's present weights into the average."""
        own, new = self._averaged_tensors(self), self._averaged_tensors(model)
        pairs = [
            (mine, theirs.detach().to(mine.device))
            for mine, theirs in zip(own, new, strict=False)
        ]
        with rl.no_grad():
            if int(self.n_averaged) == 0:
                for mine, theirs in pairs:
                    mine.copy_(theirs)
            else:
                self._average(pairs)
            if not self.use_buffers:
                buffers = zip(self.module.buffers(), model.buffers(), strict=True)
                for mine, theirs in buffers:
                    mine.copy_(theirs.detach().to(mine.device))
            self.n_averaged.add_(1)

    def _averaged_tensors(self, model: Any) -> list[Tensor]:
        source = model.module if model is self else model
        if not self.use_buffers:
            return list(source.parameters())
        return list(itertools.chain(source.parameters(), source.buffers()))

    def _average(self, pairs: list[tuple[Tensor, Tensor]]) -> None:
        count = self.n_averaged
        if self.avg_fn is not None:
            for mine, theirs in pairs:
                mine.copy_(self.avg_fn(mine.detach(), theirs, count.to(mine.device)))
            return
        multi = self.multi_avg_fn or get_swa_multi_avg_fn()
        own, new = [mine.detach() for mine, _ in pairs], [theirs for _, theirs in pairs]
        if self.multi_avg_fn is not None:
            multi(own, new, count)
            return
        for mine, theirs in pairs:
            if mine.is_floating_point() or mine.is_complex():
                multi([mine.detach()], [theirs], count)
            else:
                mine.copy_(get_swa_avg_fn()(mine.detach(), theirs, count))


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Run data through a model to give its batch norms statistics of its present weights."""
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = {norm: norm.momentum for norm in norms}
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    with rl.no_grad():
        for batch in loader:
            if isinstance(batch, (list, tuple)):
                batch = batch[0]
            model(batch if device is None else batch.to(device))
    for norm, momentum in momenta.items():
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the present rate to a fixed one in `anneal_epochs`, and there it stays."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for group, rate in zip(
            optimizer.param_groups, per_group("swa_lr", optimizer, swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must by one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(
                f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}"
            )
        self._anneal_strategy = anneal_strategy
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """How much of the way is done at an epoch."""
        t = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        groups = self.optimizer.param_groups
        epoch = self._step_count - 1
        if self.anneal_epochs == 0:
            epoch = max(1, epoch)
        before, now = self._share(max(0, epoch - 1)), self._share(epoch)
        rates = []
        for group in groups:
            goal, rate = group["swa_lr"], group["lr"]
            start = goal if before == 1 else (rate - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
