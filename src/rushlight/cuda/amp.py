"""`torch.cuda.amp`: older names of `torch.amp` for a device that is not there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # functions of any signature are decorated

from rushlight import amp
from rushlight.advice import warn_deprecated
from rushlight.dtypes import dtype, float16


class autocast(amp.autocast):
    """Lower precision on CUDA devices: without one it switches itself off."""

    def __init__(
        self, enabled: bool = True, dtype: dtype = float16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("torch.cuda.amp.autocast", 'torch.amp.autocast("cuda")', FutureWarning)
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Loss scaling on CUDA devices: without one it switches itself off."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated(
            "torch.cuda.amp.GradScaler", 'torch.amp.GradScaler("cuda")', FutureWarning
        )
        super().__init__(
            "cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )


def custom_fwd(
    fwd: Callable[..., Any] | None = None, *, cast_inputs: dtype | None = None
) -> Callable[..., Any]:
    """`torch.amp.custom_fwd` for CUDA."""
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.amp.custom_bwd` for CUDA."""
    return amp.custom_bwd(bwd, device_type="cuda")
