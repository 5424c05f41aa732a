"""`torch.cuda.profiler`: switches of NVIDIA's profiler, which needs its devices."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from rushlight.cuda.absent import refuse


def start() -> None:
    """Start profiling."""
    refuse()


def stop() -> None:
    """Stop profiling."""
    refuse()


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """Profile a `with` block."""
    start()
    try:
        yield
    finally:
        stop()
