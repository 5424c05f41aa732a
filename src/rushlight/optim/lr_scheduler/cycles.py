"""Schedules that rise and fall: restarts, cycles, one cycle; some move the momentum too."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from rushlight.optim.lr_scheduler.base import (
    LRScheduler,
    check_optimizer,
    copied,
    per_group,
    set_lr,
    set_option,
)
from rushlight.optim.optimizer import Optimizer


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the initial rate to `eta_min`, again and again: over `T_0` epochs, and
    then `T_mult` times as long each time (Loshchilov and Hutter, 2017).
    """

    def __init__(
        self,
        optimizer: Optimizer,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0.0,
        last_epoch: int = -1,
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(
                f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}"
            )
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: Any = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        height = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * height for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Begin the next epoch, or move to any, also between two."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            self._advance()
        else:
            self._move_to(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, value)
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _advance(self) -> None:
        self.last_epoch = math.floor(self.last_epoch + 1)
        self.T_cur = self.T_cur + 1
        if self.T_cur >= self.T_i:
            self.T_cur = self.T_cur % self.T_i
            self.T_i = self.T_i * self.T_mult

    def _move_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        self.last_epoch = math.floor(epoch)
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_i, self.T_cur = self.T_0, epoch % self.T_0
        else:
            passed = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            started = self.T_0 * (self.T_mult**passed - 1) / (self.T_mult - 1)
            self.T_cur = epoch - started
            self.T_i = self.T_0 * self.T_mult**passed


def _uses_momentum(optimizer: Optimizer, name: str) -> bool:
    """Does the optimizer keep its momentum in `betas`? It must have one of the two."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            f"optimizer must support momentum or beta1 with `{name}` option enabled"
        )
    return "betas" in optimizer.defaults


def _set_momentum(group: dict[str, Any], use_beta1: bool, value: float) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        set_option(group, "momentum", value)


class CyclicLR(LRScheduler):
    """Between two rates and back, step by step, with peaks that may shrink (Smith, 2017)."""

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        base_lrs = per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(optimizer.param_groups, base_lrs, strict=True):
                set_lr(group, lr)
        self.max_lrs = per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = up if step_size_down is None else float(step_size_down)
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def _start_momentum(
        self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
    ) -> None:
        self.use_beta1 = _uses_momentum(optimizer, "cycle_momentum")
        self.base_momentums = per_group("base_momentum", optimizer, base_momentum)
        self.max_momentums = per_group("max_momentum", optimizer, max_momentum)
        if last_epoch != -1:
            return
        for i, group in enumerate(optimizer.param_groups):
            _set_momentum(group, self.use_beta1, self.max_momentums[i])
            group["max_momentum"] = self.max_momentums[i]
            group["base_momentum"] = self.base_momentums[i]

    def scale_fn(self, x: float) -> float:
        """How high the peak is in a cycle, or at a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        rising = x <= self.step_ratio
        height = x / self.step_ratio if rising else (x - 1) / (self.step_ratio - 1)
        peak = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        rates = [
            base + (highest - base) * height * peak
            for base, highest in zip(self.base_lrs, self.max_lrs, strict=True)
        ]
        if self.cycle_momentum:
            self._move_momentum(height, peak)
        return rates

    def _move_momentum(self, height: float, peak: float) -> None:
        """The momentum falls as the rate rises."""
        pairs = zip(self.base_momentums, self.max_momentums, strict=True)
        for group, (low, high) in zip(self.optimizer.param_groups, pairs, strict=True):
            _set_momentum(group, self.use_beta1, high - (high - low) * height * peak)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        function = state.pop("_scale_fn_custom")
        state["_scale_fn_custom"] = None
        if function is not None and not isinstance(function, types.FunctionType):
            state["_scale_fn_custom"] = dict(function.__dict__)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state = dict(state_dict)
        saved = state.pop("_scale_fn_custom")
        super().load_state_dict(state)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """Up to a peak and down far below the start, in a fixed number of steps (Smith, 2018)."""

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.total_steps = _number_of_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "anneal_strategy must be one of 'cos' or 'linear', instead got "
                f"{anneal_strategy}"
            )
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        if last_epoch == -1:
            for i, rate in enumerate(per_group("max_lr", optimizer, max_lr)):
                group = optimizer.param_groups[i]
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _start_momentum(
        self, optimizer: Optimizer, base_momentum: Any, max_momentum: Any, last_epoch: int
    ) -> None:
        self.use_beta1 = _uses_momentum(optimizer, "cycle_momentum")
        if last_epoch != -1:
            return
        highest = per_group("max_momentum", optimizer, max_momentum)
        lowest = per_group("base_momentum", optimizer, base_momentum)
        for group, high, low in zip(optimizer.param_groups, highest, lowest, strict=True):
            _set_momentum(group, self.use_beta1, high)
            group["max_momentum"] = high
            group["base_momentum"] = low

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Any]:
        self._check_called_within_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        phase, share = self._place(step)
        rates = []
        for group in self.optimizer.param_groups:
            ends = group[phase["start_lr"]], group[phase["end_lr"]]
            rates.append(self._between(*ends, share))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, self.use_beta1, self._between(*ends, share))
        return rates

    def _place(self, step: int) -> tuple[dict[str, Any], float]:
        """The phase a step is in, and how far."""
        start = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                return phase, (step - start) / (end - start)
            start = end
        raise AssertionError("a schedule has phases")


def _number_of_steps(
    total_steps: int | None, epochs: int | None, steps_per_epoch: int | None
) -> int:
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    if total_steps is not None:
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        return total_steps
    for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
        if value <= 0 or not isinstance(value, int):  # type: ignore[operator]
            raise ValueError(f"Expected positive integer {name}, but got {value}")
    return epochs * steps_per_epoch  # type: ignore[operator]


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Where each phase ends, and between which of a group's options it moves."""
    up = {"start_lr": "initial_lr", "end_lr": "max_lr",
          "start_momentum": "max_momentum", "end_momentum": "base_momentum"}  # fmt: skip
    down = {"start_lr": "max_lr", "start_momentum": "base_momentum",
            "end_momentum": "max_momentum"}  # fmt: skip
    if not three:
        return [
            {"end_step": float(share * total) - 1, **up},
            {"end_step": total - 1, **down, "end_lr": "min_lr"},
        ]
    rest = {"start_lr": "initial_lr", "end_lr": "min_lr",
            "start_momentum": "max_momentum", "end_momentum": "max_momentum"}  # fmt: skip
    return [
        {"end_step": float(share * total) - 1, **up},
        {"end_step": float(2 * share * total) - 2, **down, "end_lr": "initial_lr"},
        {"end_step": total - 1, **rest},
    ]
