"""`torch.accelerator`: none here; the CPU is not what PyTorch calls an accelerator."""

from __future__ import annotations

from typing import NoReturn

from rushlight.devices import device


def is_available() -> bool:
    """Whether a device other than the CPU can be used: none can."""
    return False


def device_count() -> int:
    """The number of accelerators: none."""
    return 0


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of accelerator this build uses, None for none."""
    return None


def current_device_index() -> int:
    """The index of the accelerator in use."""
    _refuse()


def set_device_index(device: object) -> None:
    """Choose the accelerator to use."""
    _refuse()


def synchronize(device: object = None) -> None:
    """Wait for the accelerator."""
    _refuse()


def current_device_idx() -> int:
    """The index of the accelerator in use (the older name)."""
    _refuse()


def set_device_idx(device: object) -> None:
    """Choose the accelerator to use (the older name)."""
    _refuse()


def current_stream(device: object = None) -> object:
    """The stream of work that is in use on an accelerator."""
    _refuse()


def set_stream(stream: object) -> None:
    """Choose the stream of work."""
    _refuse()


def get_device_capability(device: object = None) -> dict[str, object]:
    """What an accelerator can do."""
    _refuse()


def get_memory_info(device: object = None) -> tuple[int, int]:
    """Free and total bytes of an accelerator."""
    _refuse()


def _of_memory(name: str) -> None:
    """A function about an accelerator's memory."""

    def function(device_index: object = None) -> NoReturn:
        _refuse()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`torch.cuda.{name}` of the accelerator in use."
    globals()[name] = function


for _name in (
    "empty_cache", "empty_host_cache", "max_memory_allocated", "max_memory_reserved",
    "memory_allocated", "memory_reserved", "memory_stats", "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
):  # fmt: skip
    _of_memory(_name)


def _refuse() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")
