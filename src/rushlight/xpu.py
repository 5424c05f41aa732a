"""`torch.xpu` on a machine without Intel's GPUs: every question has its answer, and it is no.

What only makes sense with a device raises what PyTorch raises when it was built without them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.cuda.memory import (  # noqa: F401  # the same answers, under this name
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
)
from rushlight.cuda.random import (  # noqa: F401  # the same
    get_rng_state_all,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
)

Device = Any  # a device, its name, its index, or None for the current one

default_generators: tuple[()] = ()


def is_available() -> bool:
    """Whether an XPU device can be used: it cannot."""
    return False


def is_initialized() -> bool:
    """Whether XPU has been started: it never is."""
    return False


def device_count() -> int:
    """The number of XPU devices: none."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether an XPU device computes in bfloat16: there is no device."""
    return False


def is_tf32_supported() -> bool:
    """Whether an XPU device computes in TF32: there is no device."""
    return False


def get_arch_list() -> list[str]:
    """The architectures that kernels were built for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler flags for those architectures: none."""
    return ""


def set_rng_state_all(new_states: Any) -> None:
    """Set the states of all devices' generators: there are none."""


def set_device(device: Device) -> None:
    """Choose a device. A negative index chooses none, and that works."""
    if not (isinstance(device, int) and device < 0):
        _refuse()


class device:
    """Make a device current inside a `with` block; None and negative indices change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else device

    def __enter__(self) -> None:
        set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        return None


class device_of(device):
    """Make a tensor's device current; a CPU tensor changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.device.type == "xpu" else -1)


class Stream:
    """A queue of work on a device: it can be named, and not made."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("torch.xpu.Stream requires XPU support")


class Event:
    """A mark in a stream: it can be named, and not made."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("torch.xpu.Event requires XPU support")


class StreamContext:
    """Make a stream current inside a `with` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            _refuse()

    def __exit__(self, *_: object) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is current; with None nothing changes."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make a stream current; with None nothing changes."""
    if stream is not None:
        _refuse()


def init() -> NoReturn:
    """Start XPU, which is not there."""
    _refuse()


def _needs_device(name: str, what: str) -> None:
    """A function that asks a device, of which there is none."""

    def function(*_: Any, **__: Any) -> NoReturn:
        _refuse()

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what}: there is no device."
    globals()[name] = function


for _name, _what in {
    "can_device_access_peer": "Whether one device reads another's memory",
    "current_device": "The index of the current device",
    "current_stream": "The current stream of a device",
    "get_device_capability": "What a device can do",
    "get_device_name": "A device's name",
    "get_device_properties": "A device's properties",
    "get_rng_state": "The state of a device's generator",
    "initial_seed": "The seed of the current device's generator",
    "mem_get_info": "Free and total bytes of a device",
    "set_per_process_memory_fraction": "Limit a device's memory",
    "set_rng_state": "Set the state of a device's generator",
    "synchronize": "Wait for a device's work",
}.items():
    _needs_device(_name, _what)


def _is_in_bad_fork() -> bool:
    return False


def _refuse() -> NoReturn:
    raise AssertionError("Torch not compiled with XPU enabled")
