"""`GradScaler`: a loss is scaled up so that small float16 gradients do not become zero."""

from __future__ import annotations

import enum
import warnings
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any  # optimizers come later

import rushlight as rl
from rushlight.tensor import Tensor


class OptState(enum.Enum):
    """Where an optimizer stands between two updates of the scale."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


@dataclass(slots=True)
class _Progress:
    stage: OptState = OptState.READY
    found_inf: Tensor | None = None  # 1.0 where some gradient is inf or nan, else 0.0


class GradScaler:
    """Scales losses, unscales gradients, and leaves out steps whose gradients overflowed.

    The scale shrinks by `backoff_factor` after an overflow, and grows by `growth_factor` after
    `growth_interval` steps without one. For a device that is not there it changes nothing and
    says so in a warning.

    >>> import rushlight as torch
    >>> weight = torch.ones(2, requires_grad=True)
    >>> optimizer = torch.optim.SGD([weight], lr=0.5)
    >>> scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    >>> scaler.scale(weight.sum()).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> weight.detach(), scaler.get_scale()
    (tensor([0.5000, 0.5000]), 8.0)
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda":
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
            self._enabled = False
        if self._enabled:
            assert growth_factor > 1.0, "The growth factor must be > 1.0."
            assert backoff_factor < 1.0, "The backoff factor must be < 1.0."
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval
        self._scale: Tensor | None = None
        self._growth_tracker: Tensor | None = None
        self._progress: dict[int, _Progress] = defaultdict(_Progress)

    def _started(self, caller: str) -> tuple[Tensor, Tensor]:
        assert self._scale is not None and self._growth_tracker is not None, (
            f"Attempted {caller} but _scale is None.  This may indicate your script did not "
            f"use scaler.scale(loss or outputs) earlier in the iteration."
        )
        return self._scale, self._growth_tracker

    def _start(self) -> Tensor:
        if self._scale is None:
            self._scale = rl.full((), self._init_scale, dtype=rl.float32)
            self._growth_tracker = rl.full((), self._init_growth_tracker, dtype=rl.int32)
        return self._scale

    def scale(self, outputs: Any) -> Any:
        """A tensor, or tensors in nested containers, times the scale."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._start()
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(part) for part in outputs])
        if isinstance(outputs, Iterable):
            return map(self.scale, outputs)
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the optimizer's gradients by the scale, to clip or look at them."""
        if not self._enabled:
            return
        scale, _ = self._started("unscale_")
        progress = self._progress[id(optimizer)]
        if progress.stage is OptState.UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        inverse = scale.double().reciprocal().float()
        progress.found_inf = _unscale(_gradients(optimizer), inverse)
        progress.stage = OptState.UNSCALED

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step on unscaled gradients, unless one of them is inf or nan.

        The decision needs the gradients, so everything recorded so far is computed here.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError(
                "Closure use is not currently supported if GradScaler is enabled."
            )
        self._started("step")
        progress = self._progress[id(optimizer)]
        if progress.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if progress.stage is OptState.READY:
            self.unscale_(optimizer)
        assert progress.found_inf is not None, "No inf checks were recorded for this optimizer."
        overflowed = bool(progress.found_inf)
        progress.stage = OptState.STEPPED
        return None if overflowed else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Change the scale by what the steps since the last update found, or to `new_scale`."""
        if not self._enabled:
            return
        scale, tracker = self._started("update")
        if new_scale is None:
            self._adapt(scale, tracker)
        elif isinstance(new_scale, Tensor):
            assert new_scale.numel() == 1 and not new_scale.requires_grad, (
                "new_scale should be a float or a 1-element tensor with requires_grad=False."
            )
            scale.copy_(new_scale.reshape(()))
        else:
            scale.fill_(new_scale)
        self._progress = defaultdict(_Progress)

    def _adapt(self, scale: Tensor, tracker: Tensor) -> None:
        found = [p.found_inf for p in self._progress.values() if p.found_inf is not None]
        assert found, "No inf checks were recorded prior to update."
        overflowed = sum(found[1:], start=found[0]) > 0
        steps = tracker + 1
        grows = ~overflowed & (steps == self._growth_interval)
        grown = scale * self._growth_factor
        grown = rl.where(grown.isfinite(), grown, scale)
        shrunk = scale * self._backoff_factor
        scale.copy_(rl.where(overflowed, shrunk, rl.where(grows, grown, scale)))
        tracker.copy_(rl.where(overflowed | grows, rl.zeros_like(tracker), steps))

    # ---- settings

    def get_scale(self) -> float:
        """The scale as a number; 1.0 when switched off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else float(self._scale)

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def _get_growth_tracker(self) -> int:
        if not self._enabled:
            return 0
        tracker = self._growth_tracker
        return self._init_growth_tracker if tracker is None else int(tracker)

    def is_enabled(self) -> bool:
        return self._enabled

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """The scale, its settings and the steps since it changed; empty when switched off."""
        if not self._enabled:
            return {}
        return {
            "scale": self.get_scale(),
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._get_growth_tracker(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` gave; nothing when switched off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled "
                "instance of GradScaler."
            )
        self._init_scale = state_dict["scale"]
        self._growth_factor = state_dict["growth_factor"]
        self._backoff_factor = state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
        self._init_growth_tracker = state_dict["_growth_tracker"]
        self._scale = self._growth_tracker = None

    def __getstate__(self) -> dict[str, Any]:
        assert not (self._enabled and self._progress), (
            "A GradScaler instance may only be pickled at the beginning of an iteration, or at "
            "the end after scaler.update()."
        )
        kept = dict(self.__dict__)
        kept.update(
            _init_scale=self.get_scale(),
            _init_growth_tracker=self._get_growth_tracker(),
            _scale=None,
            _growth_tracker=None,
        )
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _gradients(optimizer: Any) -> list[Tensor]:
    params = [p for group in optimizer.param_groups for p in group["params"]]
    grads = [p.grad for p in params if p.grad is not None]
    if any(grad.dtype is rl.float16 for grad in grads):
        raise ValueError("Attempting to unscale FP16 gradients.")
    return grads


def _unscale(grads: list[Tensor], inverse: Tensor) -> Tensor:
    """Multiply gradients in place; 1.0 if any of them was inf or nan, else 0.0."""
    found = rl.zeros((), dtype=rl.bool)
    with rl.no_grad():
        for grad in grads:
            found = found | ~grad.isfinite().all()
            grad.mul_(inverse)
    return found.float()
