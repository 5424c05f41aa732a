"""The dynamic scopes: gradient mode, inference mode, default dtype and device, and flags.

All are thread-local and set through context managers or setters; nothing else is hidden state.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any  # levels come later

from rushlight.devices import CPU, check_usable, device
from rushlight.dtypes import dtype, float16, float32, float64

_BACKENDS = ("compiled", "reference")


class _Scopes(threading.local):
    grad_enabled = True
    inference = False
    devices: tuple[device, ...] = ()
    anomaly_mode = False  # what is_anomaly_enabled() says
    anomaly = False  # whether NaNs are searched for
    levels: tuple[Any, ...] = ()  # of forward mode, the innermost last (autograd/tangents.py)
    autocast: dtype | None = None  # what LOW functions compute in (ops/precision.py)


scopes = _Scopes()  # hot: the recorder reads scopes.grad_enabled


class _Process:
    """Settings of the whole process (PyTorch's default dtype is one too)."""

    default_dtype: dtype = float32
    default_device: device = CPU
    backend: str = "compiled"
    has_overrides: bool = False  # some class overrides functions (overrides/dispatch.py)
    has_inference: bool = False  # inference mode was used (trace/inference.py)
    has_places: bool = False  # some tensor is, or is to be, elsewhere than on the CPU


process = _Process()
# What recorders do when the default dtype changes: types of steps follow from it, and no key of
# a step has it.
changing_default_dtype: Callable[[], contextlib.AbstractContextManager[None]] = (
    contextlib.nullcontext
)


def _backend_from_environment() -> str:
    name = os.environ.get("RUSHLIGHT_BACKEND", "compiled")
    if name not in _BACKENDS:
        raise ValueError(f"RUSHLIGHT_BACKEND={name!r}: expected one of {', '.join(_BACKENDS)}")
    return name


process.backend = _backend_from_environment()


def default_dtype() -> dtype:
    return process.default_dtype


def set_default_dtype(d: dtype) -> None:
    """Set the dtype that Python floats and factory functions take (a floating dtype)."""
    if not isinstance(d, dtype):
        raise TypeError(f"invalid dtype object: {d!r}")
    if d not in (float16, float32, float64) and not d.is_floating_point:
        raise TypeError(
            f"only floating-point types are supported as the default type, got {d!r}"
        )
    if d is not process.default_dtype:
        with changing_default_dtype():
            process.default_dtype = d


def default_device() -> device:
    return scopes.devices[-1] if scopes.devices else process.default_device


def push_device(place: device) -> None:
    process.has_places = True
    scopes.devices = (*scopes.devices, place)


def pop_device() -> None:
    scopes.devices = scopes.devices[:-1]


def get_default_device() -> device:
    """The device that factory functions use."""
    return default_device()


def set_default_device(device: device | str | None) -> None:
    """Set the device that factory functions use; one that is absent is refused here."""
    process.default_device = check_usable(device)
    process.has_places = True


@contextlib.contextmanager
def autocast_off() -> Iterator[None]:
    """Every function computes in the dtypes it is given inside."""
    before, scopes.autocast = scopes.autocast, None
    try:
        yield
    finally:
        scopes.autocast = before


def gradients_off() -> contextlib.AbstractContextManager[None]:
    """Record no gradient history inside (what `no_grad` is to users, for the rooms above
    it).
    """
    return gradients(False)


@contextlib.contextmanager
def gradients(enabled: bool) -> Iterator[None]:
    """Record gradient history inside, or none."""
    before = scopes.grad_enabled
    scopes.grad_enabled = enabled
    try:
        yield
    finally:
        scopes.grad_enabled = before


def in_force() -> tuple[object, ...]:
    """Everything here that what an op does may depend on."""
    s = scopes
    return (
        s.grad_enabled, s.inference, s.devices, s.anomaly, s.levels, s.autocast,
        process.default_dtype, process.default_device, process.backend,
    )  # fmt: skip
