"""`torch.mps` without Apple's Metal: it says that it is not there, and seeds nothing."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """Whether a Metal device can be used: it cannot."""
    return False


def device_count() -> int:
    """The number of Metal devices: none."""
    return 0


def manual_seed(seed: int) -> None:
    """Seed the device's generator: there is none."""
    int(seed)


def seed() -> None:
    """Seed the device's generator from the system."""
    _refuse("getDefaultGenerator")


def get_rng_state(device: Any = "mps") -> Any:  # Any: a tensor of the core
    """The state of the device's generator."""
    _refuse("getDefaultGenerator")


def set_rng_state(new_state: Any, device: Any = "mps") -> None:
    """Set the state of the device's generator."""
    _refuse("getDefaultGenerator")


def synchronize() -> None:
    """Wait for the device."""
    _refuse("deviceSynchronize")


def empty_cache() -> None:
    """Free the device's unused memory."""
    _refuse("emptyCache")


def current_allocated_memory() -> int:
    """Bytes that tensors hold on the device."""
    _refuse("getCurrentAllocatedMemory")


def driver_allocated_memory() -> int:
    """Bytes that the driver holds on the device."""
    _refuse("getDriverAllocatedMemory")


def recommended_max_memory() -> int:
    """Bytes that should at most be used on the device."""
    _refuse("getRecommendedMaxMemory")


def set_per_process_memory_fraction(fraction: float) -> None:
    """Limit the device's memory."""
    _refuse("setMemoryFraction")


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(f"Cannot execute {what}() without MPS backend.")
