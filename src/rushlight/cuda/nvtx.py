"""`torch.cuda.nvtx`: marks for NVIDIA's profilers, which need its library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn


def _refuse() -> NoReturn:
    raise RuntimeError("NVTX functions not installed. Are you sure you have a CUDA build?")


def range_push(msg: str) -> int:
    """Open a named range."""
    _refuse()


def range_pop() -> int:
    """Close the range opened last."""
    _refuse()


def range_start(msg: str) -> int:
    """Open a range that can be closed out of order."""
    _refuse()


def range_end(range_id: int) -> None:
    """Close a range by its number."""
    _refuse()


def mark(msg: str) -> None:
    """Mark a moment."""
    _refuse()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # Any: str.format's arguments
    """A named range as a `with` block or a decorator."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
