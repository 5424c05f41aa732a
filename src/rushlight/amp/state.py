"""What autocast is set to on each type of device, for every thread by itself.

Only the CPU's setting has an effect, and it is the scope that functions read
(`config.scopes.autocast`); other devices' are kept for programs that ask.
"""

from __future__ import annotations

import threading
from typing import Any  # arguments of two forms

from rushlight import dtypes as dt
from rushlight.config import scopes
from rushlight.dtypes import dtype

DEVICE_TYPES = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu")


class _State(threading.local):
    def __init__(self) -> None:
        self.enabled: set[str] = set()
        self.dtypes = dict.fromkeys(DEVICE_TYPES, dt.float16)
        self.dtypes.update(dict.fromkeys(("cpu", "xla", "hpu", "maia"), dt.bfloat16))
        self.cache = True
        self.nesting = 0


_state = _State()


def check_device_type(name: str) -> str:
    """The name of a device type, if it is one."""
    if not isinstance(name, str):
        raise TypeError(f"autocast: device_type must be a str, not {type(name).__name__}")
    if name not in DEVICE_TYPES:
        raise RuntimeError(f"autocast: {name!r} is not a device type with autocast")
    return name


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether autocast is on in this thread for devices of one type."""
    return check_device_type(device_type) in _state.enabled


def set_autocast_enabled(*device_type_and_enabled: Any) -> None:
    """`(device_type, enabled)`: switch autocast on or off in this thread, as `autocast` does.

    Without a device type it is the GPU's that is switched.
    """
    *place, enabled = device_type_and_enabled
    name = check_device_type(*place or ["cuda"])
    (_state.enabled.add if enabled else _state.enabled.discard)(name)
    _publish()


def get_autocast_dtype(device_type: str) -> dtype:
    """The dtype that autocast lowers to on devices of one type."""
    return _state.dtypes[check_device_type(device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Choose the dtype that autocast lowers to in this thread."""
    _state.dtypes[check_device_type(device_type)] = dtype
    _publish()


def _publish() -> None:
    scopes.autocast = _state.dtypes["cpu"] if "cpu" in _state.enabled else None


def is_autocast_cpu_enabled() -> bool:
    """Whether autocast is on in this thread for the CPU."""
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch the CPU's autocast on or off in this thread."""
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtype:
    """The dtype that autocast lowers to on the CPU."""
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtype) -> None:
    """Choose the dtype that autocast lowers to on the CPU."""
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtype:
    """The dtype that autocast would lower to on a GPU."""
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtype) -> None:
    """Choose the dtype that autocast would lower to on a GPU."""
    set_autocast_dtype("cuda", dtype)


def is_autocast_cache_enabled() -> bool:
    """Whether casts of weights may be shared: kept, and without effect (equal casts of one
    step are always computed once).
    """
    return _state.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Say whether casts of weights may be shared; without effect."""
    _state.cache = enabled


def clear_autocast_cache() -> None:
    """There is no cache of casts to clear."""


def autocast_increment_nesting() -> int:
    """Count one more block of autocast; returns how many there are."""
    _state.nesting += 1
    return _state.nesting


def autocast_decrement_nesting() -> int:
    """Count one block of autocast less; returns how many are left."""
    _state.nesting -= 1
    return _state.nesting
