"""LRScheduler: what all schedules share."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import errors
from rushlight.optim.optimizer import Optimizer
from rushlight.tensor import Tensor


class LRScheduler:
    """Sets the learning rates of an optimizer's groups, once an epoch or once a step.

    A schedule says in `get_lr` how the rates follow from the present ones, so that several can
    act on one optimizer; `_get_closed_form_lr`, where there is one, gives those of any epoch.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when "
                        "resuming an optimizer"
                    )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule is; everything but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where a saved schedule was."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates set last."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates of the epoch that has begun."""
        raise errors.left_to_subclasses(self, "get_lr")

    def _check_called_within_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )

    def step(self, epoch: int | None = None) -> None:
        """Begin the next epoch."""
        if self._step_count == 1:
            _warn_of_order(self.optimizer)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch, or of a given one."""
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed_form = getattr(self, "_get_closed_form_lr", self.get_lr)
                values = closed_form()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            set_lr(group, value)
        self._last_lr = current_rates(self.optimizer)

    def _rates(self) -> list[Any]:
        """The present rates."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _scaled(self, factor: float) -> list[Any]:
        return [rate * factor for rate in self._rates()]


EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler."
)


def check_optimizer(optimizer: Any) -> None:
    """Refuse what is not an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def copied(rate: Any) -> Any:
    """A rate that later changes of the group's own do not reach."""
    return rate.clone() if isinstance(rate, Tensor) else rate


def set_lr(group: dict[str, Any], value: Any) -> None:
    """Give a group its rate; one held as a tensor keeps its identity."""
    set_option(group, "lr", value)


def set_option(group: dict[str, Any], name: str, value: Any) -> None:
    """Give a group an option; one held as a tensor keeps its identity."""
    if isinstance(group[name], Tensor):
        group[name].fill_(float(value))
    else:
        group[name] = value


def current_rates(optimizer: Optimizer) -> list[Any]:
    """The rates of all groups."""
    return [copied(group["lr"]) for group in optimizer.param_groups]


def _warn_of_order(optimizer: Any) -> None:
    if not getattr(optimizer, "_opt_called", False):
        warnings.warn(
            "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch "
            "1.1.0 and later, you should call them in the opposite order: "
            "`optimizer.step()` before `lr_scheduler.step()`.  Failure to do this will "
            "result in PyTorch skipping the first value of the learning rate schedule.",
            UserWarning,
            stacklevel=3,
        )


def per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group: the one given, or as many as there are groups."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has "
            f"{len(value)} values, param_groups has {count}."
        )
    return [copied(v) for v in value]
