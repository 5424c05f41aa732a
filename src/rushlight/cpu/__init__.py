"""`torch.cpu`: the one device there is, asked in the words for accelerators.

In come questions about the device and requests to wait, out go answers. Nothing here waits: a
value is computed when it is read.
"""

from __future__ import annotations

import contextlib
from typing import Any

from rushlight.cpu import amp


class Stream:
    """A queue of work; on the CPU there is one."""

    def __init__(self, priority: int = -1) -> None:
        """`priority` has no effect."""

    def wait_stream(self, stream: Stream) -> None:
        """Work on the CPU is in order already."""

    def record_event(self) -> None:
        """There is nothing to record."""

    def wait_event(self, event: Event) -> None:
        """There is nothing to wait for."""


class Event:
    """A point in a queue of work; on the CPU it has always been reached."""

    def query(self) -> bool:
        return True

    def record(self, stream: Stream | None = None) -> None:
        """There is nothing to record."""

    def synchronize(self) -> None:
        """There is nothing to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """There is nothing to wait for."""


_stream = Stream()


def is_available() -> bool:
    """True: programs run on it."""
    return True


def is_initialized() -> bool:
    """True: there is nothing to initialise."""
    return True


def device_count() -> int:
    """One, with all its cores."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is no choice to make."""


def synchronize(device: Any = None) -> None:
    """Compute everything that has been recorded in this thread."""
    from rushlight.trace.trace import flush  # keeps this room free of the recorder

    flush()


def current_stream(device: Any = None) -> Stream:
    """The one queue of work."""
    return _stream


def stream(stream: Stream) -> contextlib.AbstractContextManager[Stream]:
    """A block that runs on the one queue of work."""
    return contextlib.nullcontext(stream)


StreamContext = contextlib.nullcontext
