"""`torch.cpu.amp`: older names of `torch.amp` for the CPU."""

from __future__ import annotations

from rushlight import amp
from rushlight.advice import warn_deprecated
from rushlight.dtypes import bfloat16, dtype


class autocast(amp.autocast):
    """`torch.amp.autocast` for the CPU."""

    def __init__(
        self, enabled: bool = True, dtype: dtype = bfloat16, cache_enabled: bool = True
    ) -> None:
        warn_deprecated("torch.cpu.amp.autocast", 'torch.amp.autocast("cpu")', FutureWarning)
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`torch.amp.GradScaler` for the CPU."""

    def __init__(
        self,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        warn_deprecated(
            "torch.cpu.amp.GradScaler", 'torch.amp.GradScaler("cpu")', FutureWarning
        )
        super().__init__(
            "cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
