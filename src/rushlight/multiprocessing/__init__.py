"""`torch.multiprocessing`: Python's, and `spawn`, which starts one process a rank.

Tensors that go through its queues and pipes are sent by value. A process that computed before
it forks leaves its threads behind, so `spawn` (the default here) is the method to choose.
"""

from __future__ import annotations

import multiprocessing as _multiprocessing
from multiprocessing import *

from rushlight.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_STRATEGIES = ("file_descriptor", "file_system")
_strategy = "file_descriptor"

__all__ = [
    *_multiprocessing.__all__,
    "ProcessContext",
    "ProcessException",
    "ProcessExitedException",
    "ProcessRaisedException",
    "SpawnContext",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


def get_all_sharing_strategies() -> set[str]:
    """The names that `set_sharing_strategy` takes."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The name that was set."""
    return _strategy


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory would be shared; tensors are sent by value, so it changes nothing."""
    global _strategy
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"invalid sharing strategy {new_strategy!r}, not in {_STRATEGIES}")
    _strategy = new_strategy
