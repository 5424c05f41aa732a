"""A program: launches laid out flat in memory, so that running them all is one native call."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.loops.kernel import Launch
from rushlight.runtime import executor as native
from rushlight.runtime.buffers import Buffer
from rushlight.runtime.pool import Pool, current_pool

_UNITS_A_THREAD = (
    16  # pieces each thread can expect of a region: enough to even out, few enough to be cheap
)


@dataclass(frozen=True, slots=True)
class HostCall:
    """A Python function run between launches; it is given the table of buffer addresses."""

    function: Callable[[Sequence[int]], None]


Item = Launch | HostCall
Segment = ctypes.Array[ctypes.c_int64]


class Program:
    """Launches and host calls in order, over `buffer_count` numbered buffers.

    `entries` holds the entry address of each launch's kernel, in order. A program may be run by
    several threads at once: each run has an argument block of its own.
    """

    def __init__(
        self, items: Sequence[Item], entries: Sequence[int], buffer_count: int
    ) -> None:
        self.items = tuple(items)
        self.entries = tuple(entries)
        self.buffer_count = buffer_count
        launches = [item for item in items if isinstance(item, Launch)]
        if len(launches) != len(self.entries):
            raise ValueError(
                f"{len(launches)} launches, but {len(self.entries)} kernel entries"
            )
        _check_buffers(launches, buffer_count)
        self.scratch = max((launch.scratch for launch in launches), default=0)
        self._run = native.executor().run
        self._idle: list[_Frame] = []

    def new_table(self) -> ctypes.Array[ctypes.c_int64]:
        """An array for the buffers' addresses, to be filled and given to `run`."""
        return (ctypes.c_int64 * self.buffer_count)()

    def run(self, addresses: Sequence[int]) -> None:  # hot
        """Run everything once. `addresses` is what `new_table` gave, or an int64 NumPy array:
        the address of each buffer.
        """
        table: object = addresses
        if isinstance(addresses, np.ndarray):
            table = addresses.__array_interface__["data"][0]
        pool = current_pool()
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = _Frame(self.items, self.entries)
        if frame.threads != pool.size:
            frame.divide(pool.size)
        scratch = _reserve_scratch(self.scratch, pool) if self.scratch else 0
        try:
            for segment in frame.segments:
                if isinstance(segment, HostCall):
                    segment.function(addresses)
                else:
                    self._run(pool.address, segment, table, scratch)
        finally:
            self._idle.append(frame)

    def entry_names(self) -> list[str]:
        """The kernels in launch order, for people."""
        return [item.source.name for item in self.items if isinstance(item, Launch)]


class _Frame:
    """One run's native tables: launch records, argument blocks, pointers to patch into them."""

    def __init__(self, items: Sequence[Item], entries: Sequence[int]) -> None:
        self.threads = 0
        self.segments: list[HostCall | Segment] = []
        self._records: list[np.ndarray] = []
        self._kept: list[object] = []  # memory that the tables point into
        waiting = iter(entries)
        launches: list[Launch] = []
        for item in [*items, None]:
            if isinstance(item, Launch):
                launches.append(item)
                continue
            if launches:
                self.segments.append(self._segment(launches, waiting))
                launches = []
            if item is not None:
                self.segments.append(item)

    def divide(self, threads: int) -> None:
        """Cut each region into units for this many threads."""
        for records in self._records:
            for first, width in _regions(records):
                _divide(records[first : first + width], threads)
        self.threads = threads

    def _segment(self, launches: list[Launch], entries: Iterator[int]) -> Segment:
        records = np.zeros((len(launches), native.LAUNCH_WORDS), np.int64)
        sizes = [_argument_count(launch) for launch in launches]
        arguments = np.zeros(sum(sizes), np.int64)
        patches = np.zeros(
            (sum(len(x.pointers) for x in launches), native.PATCH_WORDS), np.int64
        )
        slot = patch = 0
        for record, launch, size in zip(records, launches, sizes, strict=True):
            base = arguments.ctypes.data + 8 * slot
            record[native.FUNCTION] = next(entries)
            record[native.ARGUMENTS] = base
            record[native.CHUNKS] = launch.chunks
            for pointer, reference in enumerate(launch.pointers):
                patches[patch] = (base + 8 * pointer, reference.buffer, reference.offset)
                patch += 1
            rest = [table.ctypes.data for table in launch.tables] + list(launch.ints)
            arguments[slot + len(launch.pointers) : slot + size] = rest
            slot += size
        _mark_regions(records, launches)
        self._records.append(records)
        self._kept += [arguments, patches, [launch.tables for launch in launches]]
        segment = (ctypes.c_int64 * native.SEGMENT_WORDS)()
        segment[native.LAUNCHES] = records.ctypes.data
        segment[native.LAUNCH_COUNT] = len(records)
        segment[native.PATCHES] = patches.ctypes.data
        segment[native.PATCH_COUNT] = len(patches)
        return segment


def _argument_count(launch: Launch) -> int:
    return len(launch.pointers) + len(launch.tables) + len(launch.ints)


def _mark_regions(records: np.ndarray, launches: list[Launch]) -> None:
    """Write each region's width (a launch and the independent ones after it) into its first."""
    starts = [i for i, launch in enumerate(launches) if i == 0 or not launch.independent]
    widths = np.diff([*starts, len(launches)])
    records[starts, native.REGION_WIDTH] = widths


def _regions(records: np.ndarray) -> list[tuple[int, int]]:
    """The regions as (first record, width)."""
    starts = np.flatnonzero(records[:, native.REGION_WIDTH])
    return [(int(start), int(records[start, native.REGION_WIDTH])) for start in starts]


def _divide(region: np.ndarray, threads: int) -> None:
    """Number a region's units: single chunks unless there are far more than threads need."""
    chunks = region[:, native.CHUNKS]
    pieces = threads * _UNITS_A_THREAD if threads > 1 else 1
    grain = max(1, -(-int(chunks.sum()) // pieces))
    units = -(-chunks // grain)
    ends = np.cumsum(units)
    region[:, native.GRAIN] = grain
    region[:, native.FIRST_UNIT] = ends - units
    region[:, native.LAST_UNIT] = ends
    region[0, native.REGION_TOTAL] = ends[-1]


def _check_buffers(launches: list[Launch], buffer_count: int) -> None:
    for launch in launches:
        for reference in launch.pointers:
            if not 0 <= reference.buffer < buffer_count:
                raise ValueError(
                    f"{launch.source.name} refers to buffer {reference.buffer} "
                    f"of {buffer_count}"
                )
        for table in launch.tables:
            if table.dtype != np.int64 or not table.flags.c_contiguous:
                raise ValueError(f"{launch.source.name}: a table must be contiguous int64")


class _Local(threading.local):
    """The calling thread's own scratch memory."""

    def __init__(self) -> None:
        self.nbytes = 0
        self.buffers: list[Buffer] = []


_local = _Local()


def _reserve_scratch(nbytes: int, pool: Pool) -> int:
    """The address of the calling thread's scratch, once every thread has enough."""
    pool.reserve_scratch(nbytes)
    if nbytes > _local.nbytes:
        # A host call may run another program inside this one, so the smaller block is kept as
        # well.
        _local.nbytes = 1 << (nbytes - 1).bit_length()
        _local.buffers.append(Buffer(_local.nbytes))
    return _local.buffers[-1].address
