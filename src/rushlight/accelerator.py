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


def _refuse() -> NoReturn:
    raise RuntimeError("Cannot access accelerator device when none is available.")
