"""`torch.Stream` and `torch.Event`: the CPU's one order of work.

What is recorded is computed when it is needed, in the order it was written, so a stream is
always ready and waiting for one changes nothing.
"""

from __future__ import annotations

from typing import Any, NoReturn  # Any: a device, its name or its index

from rushlight.devices import device as _device
from rushlight.trace import flush


class Stream:
    """The CPU's queue of work. RuntimeError for devices that are not there."""

    def __init__(self, device: Any = "cpu", *, priority: int = 0) -> None:
        self.device = _of_cpu(device, "Stream")
        self.stream_id = 0
        self.device_index = -1

    def query(self) -> bool:
        """Whether all work is done: what is pending counts as done when it is asked for."""
        return True

    def synchronize(self) -> None:
        """Compute what is pending."""
        flush()

    def wait_event(self, event: Event) -> None:
        """Let later work wait for an event: it is after it anyway."""

    def wait_stream(self, stream: Stream) -> None:
        """Let later work wait for another stream: there is one."""

    def record_event(self, event: Event | None = None) -> NoReturn:
        """Refuse, as PyTorch's CPU does: it has no events."""
        raise RuntimeError("Stream.record_event: the cpu backend has no events")

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash((self.device.type, self.stream_id))

    def __repr__(self) -> str:
        return f"torch.Stream device_type=cpu, device_index=-1, stream_id={self.stream_id}"


class Event:
    """A mark in a stream. It can be made for the CPU, which records none, as in PyTorch."""

    def __init__(
        self,
        device: Any = "cpu",
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> None:
        self.device = _of_cpu(device, "Event")
        self.event_id = 0

    def query(self) -> bool:
        """Whether what was marked is done: nothing was marked."""
        return True

    def record(self, stream: Stream | None = None) -> NoReturn:
        """Refuse, as PyTorch's CPU does."""
        raise RuntimeError("Event.record: the cpu backend has no events")

    def wait(self, stream: Stream | None = None) -> None:
        """Let later work wait for the mark: none was made."""

    def synchronize(self) -> None:
        """Wait for the mark: none was made."""

    def elapsed_time(self, end_event: Event) -> NoReturn:
        """Refuse, as PyTorch's CPU does."""
        raise RuntimeError("Event.elapsed_time: the cpu backend has no events")

    def __repr__(self) -> str:
        return "torch.Event device_type=cpu, device_index=-1, event_flag=0, event_id=0"


def _of_cpu(wanted: Any, what: str) -> _device:
    found = _device(wanted)
    if found.type != "cpu":
        raise RuntimeError(f"{what}: there is no support for {found.type} devices")
    return found
