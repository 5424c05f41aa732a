"""Schedules made of schedules: one after the other, or all at once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from rushlight.optim.lr_scheduler.base import LRScheduler, current_rates, set_lr
from rushlight.optim.lr_scheduler.plateau import ReduceLROnPlateau
from rushlight.optim.optimizer import Optimizer


class _Composed(LRScheduler):
    """Keeps the states of its parts in its own."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        skip = ("optimizer", "_schedulers")
        state = {key: value for key, value in self.__dict__.items() if key not in skip}
        state["_schedulers"] = [part.state_dict() for part in self._schedulers]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        saved = state_dict["_schedulers"]
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for part, state in zip(self._schedulers, saved, strict=True):
            part.load_state_dict(state)


def _check_parts(name: str, parts: Sequence[Any], optimizer: Any) -> None:
    for i, part in enumerate(parts):
        if not hasattr(part, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(part, ReduceLROnPlateau) and name == "SequentialLR":
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires "
                f"additional kwargs to be specified when calling `step`, but got one at index "
                f"{i} in the given schedulers sequence."
            )
        if part.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got "
                f"scheduler {type(part).__name__} at index {i} has {part.optimizer}, which is "
                f"different from {type(optimizer).__name__}."
            )


class SequentialLR(_Composed):
    """One schedule up to the first milestone, the next up to the second, and so on."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler to be chained.")
        _check_parts("SequentialLR", schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more "
                f"than the number of milestone points, but got number of schedulers "
                f"{len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        first = schedulers[bisect_right(milestones, self.last_epoch)]
        self._start_over(first)
        self._last_lr = first.get_last_lr()

    def _start_over(self, first: LRScheduler) -> None:
        for group in self.optimizer.param_groups:
            set_lr(group, group["initial_lr"])
        self.recursive_undo()
        first._initial_step()

    def recursive_undo(self, sched: LRScheduler | None = None) -> None:
        """Take back the first step that a schedule made when it was built, or that its parts
        and their parts made: of this one if `sched` is None.
        """
        undone: Any = self if sched is None else sched
        if hasattr(undone, "_schedulers"):
            for part in undone._schedulers:
                self.recursive_undo(part)
        elif hasattr(undone, "last_epoch"):
            undone.last_epoch -= 1

    def step(self) -> None:  # type: ignore[override]
        """Begin the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        part = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            part._update_lr(0)
        else:
            part.step()
        self._last_lr = part.get_last_lr()


class ChainedScheduler(_Composed):
    """Schedules that all act at each step, one on the result of the other."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_parts("ChainedScheduler", schedulers, optimizer)
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = current_rates(optimizer)

    def step(self) -> None:  # type: ignore[override]
        """Begin the next epoch."""
        for part in self._schedulers:
            part.step()
        self._last_lr = current_rates(self.optimizer)
