"""What is said when a device is needed and there is none."""

from __future__ import annotations

from typing import NoReturn


class CudaError(RuntimeError):
    """An error that the CUDA run-time reports."""


class DeferredCudaCallError(Exception):
    """An error in a call that waited for CUDA to start."""


def refuse() -> NoReturn:
    """Raise what PyTorch's CPU build raises; programs catch it by class and text."""
    raise AssertionError("Torch not compiled with CUDA enabled")
