"""`torch.amp`: lower precision on a GPU switches itself off here; on the CPU it is refused."""

from __future__ import annotations

from typing import Any

from rushlight.cuda import amp as _cuda

# Any, above and below: dtypes and scalers of the core, and options that are passed on.


class autocast(_cuda.autocast):
    """Lower precision on the devices of one type, inside a `with` block or a function."""

    def __init__(
        self,
        device_type: str,
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
            )
        if device_type == "cpu" and enabled:
            raise NotImplementedError(
                "autocast: this version of rushlight does not lower precision on the CPU; "
                "cast the model and its inputs, or pass enabled=False"
            )
        super().__init__(enabled, dtype)
        self.device = device_type


class GradScaler(_cuda.GradScaler):
    """Loss scaling for float16 on a device; without a GPU it changes nothing."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if device == "cpu" and enabled:
            raise NotImplementedError(
                "GradScaler: this version of rushlight does not scale losses on the CPU"
            )
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` can lower precision on that type of device: on none yet."""
    return False
