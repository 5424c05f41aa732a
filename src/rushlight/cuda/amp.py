"""`torch.cuda.amp` without CUDA: autocasting and gradient scaling that switch themselves off.

PyTorch does the same on such a machine: a warning, and then everything runs unscaled in the
precision it would have. So scripts written for a GPU run, and give what PyTorch gives on a CPU.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, Self

# Any, below: tensors and optimizers are the core's, and wrapped functions take anything.


class autocast:
    """Lower precision on CUDA devices, inside a `with` block or a decorated function."""

    def __init__(
        self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True
    ) -> None:
        if enabled:
            warnings.warn(
                "User provided device_type of 'cuda', but CUDA is not available. Disabling",
                stacklevel=2,
            )
        self.device, self.fast_dtype, self._enabled = "cuda", dtype, False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


class GradScaler:
    """Loss scaling for float16 on CUDA devices; without one it changes nothing."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled:
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.",
                stacklevel=2,
            )
        self._growth_factor = growth_factor
        self._backoff_factor = backoff_factor
        self._growth_interval = growth_interval

    def scale(self, outputs: Any) -> Any:
        """The outputs as they are."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Nothing was scaled."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """The optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        """There is no scale to update."""

    def get_scale(self) -> float:
        return 1.0

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

    def is_enabled(self) -> bool:
        return False

    def state_dict(self) -> dict[str, Any]:
        """Empty, as of every scaler that is switched off."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """A state has nothing to go to here."""


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: Any = None
) -> Callable[..., Any]:
    """Mark the `forward` of a Function as knowing about autocast, which is off."""
    if fwd is None:
        return functools.partial(custom_fwd, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._fwd_used_autocast = False
        return fwd(ctx, *args, **kwargs)

    return forward


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the `backward` of a Function as running under its forward's autocast, which is
    off.
    """
    return bwd
