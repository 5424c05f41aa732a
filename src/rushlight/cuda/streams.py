"""`torch.cuda.streams` and graphs: names to refer to, which cannot be made without a device."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

from rushlight.cuda.absent import refuse

Device = Any  # a device, its name, its index, or None for the current one


class _NeedsDevice:
    """A class that can be named and asked for with isinstance, but not made."""

    def __init__(self, *_: Any, **__: Any) -> None:  # Any: as each would take
        raise RuntimeError(f"torch.cuda.{type(self).__name__} requires CUDA support")


class Stream(_NeedsDevice):
    """A queue of work on a device."""

    def priority_range(self) -> NoReturn:
        refuse()


class ExternalStream(Stream):
    """A stream made outside of this program."""


class Event(_NeedsDevice):
    """A mark in a stream."""


class CUDAGraph(_NeedsDevice):
    """Recorded work of a device."""


class MemPool(_NeedsDevice):
    """Memory of a device kept apart."""


class graph(_NeedsDevice):
    """Record a `CUDAGraph` inside a `with` block."""


class StreamContext:
    """Make a stream current inside a `with` block; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            refuse()

    def __exit__(self, *_: object) -> None:
        return None


def stream(stream: Stream | None) -> StreamContext:
    """A context in which a stream is current; with None nothing changes."""
    return StreamContext(stream)


def set_stream(stream: Stream | None) -> None:
    """Make a stream current; with None nothing changes."""
    if stream is not None:
        refuse()


def current_stream(device: Device = None) -> Stream:
    """The current stream of a device."""
    refuse()


def default_stream(device: Device = None) -> Stream:
    """The default stream of a device."""
    refuse()


def is_current_stream_capturing() -> bool:
    """Whether a graph is being recorded: never."""
    return False


def graph_pool_handle() -> NoReturn:
    """A name for graphs' shared memory."""
    refuse()


def make_graphed_callables(callables: Any, sample_args: Any, **_: Any) -> NoReturn:
    """Record functions as graphs."""
    refuse()


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Allocate from a pool inside a `with` block."""
    refuse()
    yield  # unreachable; makes this a generator
