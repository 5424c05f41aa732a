"""`torch.cuda.memory`: no device, so nothing is allocated and there is nothing to free."""

from __future__ import annotations

import collections
from typing import Any, NoReturn

from rushlight.cuda.absent import refuse

Device = Any  # a device, its name, its index, or None for the current one


def empty_cache() -> None:
    """Free what the allocator keeps: nothing."""


def memory_allocated(device: Device = None) -> int:
    """Bytes in use on a device: none."""
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that were in use on a device: none."""
    return 0


def memory_reserved(device: Device = None) -> int:
    """Bytes that the allocator holds on a device: none."""
    return 0


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that the allocator held on a device: none."""
    return 0


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Device = None) -> None:
    """Forget the peaks: there are none."""


reset_accumulated_memory_stats = reset_peak_memory_stats
reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's counters: none."""
    return collections.OrderedDict()


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """The allocator's counters, nested: none."""
    return {}


def host_memory_stats() -> dict[str, Any]:
    """The counters of pinned host memory: none."""
    return collections.OrderedDict()


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> list[Any]:
    """The allocator's blocks: none."""
    return []


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """A table of the allocator's counters."""
    refuse()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a device."""
    refuse()


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limit a device's memory."""
    refuse()


def caching_allocator_alloc(size: int, device: Device = None, stream: Any = None) -> int:
    """Allocate on a device."""
    refuse()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Free what was allocated on a device."""
    refuse()


def get_allocator_backend() -> str:
    """The allocator's name."""
    refuse()


class CUDAPluggableAllocator:
    """An allocator of the user's own, from a shared library."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        refuse()


def _record_memory_history(*_: Any, **__: Any) -> NoReturn:
    refuse()


def _snapshot(device: Device = None) -> NoReturn:
    refuse()


def _dump_snapshot(filename: str = "dump_snapshot.pickle") -> NoReturn:
    refuse()
