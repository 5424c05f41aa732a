"""A program: launches laid out flat in memory, so that running them all is one native call."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np

from rushlight.loops.kernel import Launch
from rushlight.runtime import executor as native
from rushlight.runtime.buffers import Buffer
from rushlight.runtime.pool import Pool, current_pool
from rushlight.trace import interrupts

# Pieces that each thread can expect of a region: enough to even out, few enough to be cheap.
_UNITS_A_THREAD = 16
_FEWEST_UNITS_A_THREAD = 4  # of one launch in a wide region
_WORTH_SHARING_NS = 10_000.0  # a region with less work than this stays on the calling thread
_SLICE_NS = 10e6  # of work, after which a program looks whether it has been interrupted


@dataclass(frozen=True, slots=True)
class HostCall:
    """A Python function run between launches; it is given the table of buffer addresses."""

    function: Callable[[Sequence[int]], None]
    may_follow_writes: bool = False  # launches before it may write to memory of others


class Progress:
    """How far a program is that writes to memory of others.

    Note: whole programs. The handler of a signal runs, and may raise, wherever Python does. So
    what such a program launches after its last call of Python is run from one call of C: it is
    done or has not begun. Only calls of Python that follow writes leave room between the two.
    """

    is_split = False
    segments = -1  # after the last call of Python
    launched: Sequence[None] = ()  # filled by C, in one go

    @property
    def is_begun(self) -> bool:
        return self.is_split or bool(self.launched)

    @property
    def is_done(self) -> bool:
        return len(self.launched) == self.segments


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
        self._single: list[Program] = []

    def new_table(self) -> ctypes.Array[ctypes.c_int64]:
        """An array for the buffers' addresses, to be filled and given to `run`."""
        return (ctypes.c_int64 * self.buffer_count)()

    def run(self, addresses: Sequence[int], progress: Progress | None = None) -> None:  # hot
        """Run everything once. `addresses` is what `new_table` gave, or an int64 NumPy array:
        the address of each buffer. `progress` is told of writes to memory of others.
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
            segments = frame.segments
            if progress is not None:
                segments = frame.before
                progress.is_split, progress.segments = frame.is_split, len(frame.rest)
            for segment in segments:
                if interrupts.came:
                    interrupts.stop()
                if isinstance(segment, HostCall):
                    segment.function(addresses)
                else:
                    self._run(pool.address, segment, table, scratch)
            if progress is not None:
                launched: list[None] = []
                progress.launched = launched
                work = map(
                    self._run, repeat(pool.address), frame.rest, repeat(table), repeat(scratch)
                )
                launched.extend(work)
        finally:
            self._idle.append(frame)

    def run_timed(
        self, addresses: Sequence[int], note: Callable[[int, int, int], None]
    ) -> None:
        """The same, one item after the other, also those that usually run side by side: `note`
        is told the number of each, and when it began and ended (`time.perf_counter_ns`).
        """
        if not self._single:
            entries = iter(self.entries)
            self._single = [
                Program(
                    [x], [next(entries)] if isinstance(x, Launch) else [], self.buffer_count
                )
                for x in self.items
            ]
        for number, program in enumerate(self._single):
            begin = time.perf_counter_ns()
            program.run(addresses)
            note(number, begin, time.perf_counter_ns())

    def entry_names(self) -> list[str]:
        """The kernels in launch order, for people."""
        return [item.source.name for item in self.items if isinstance(item, Launch)]


class _Frame:
    """One run's native tables: launch records, argument blocks, pointers to patch into them."""

    def __init__(self, items: Sequence[Item], entries: Sequence[int]) -> None:
        self.threads = 0
        self.segments: list[HostCall | Segment] = []
        # launch records, and which of their regions are worth sharing
        self._records: list[tuple[np.ndarray, np.ndarray]] = []
        self._kept: list[object] = []  # memory that the tables point into
        waiting = iter(entries)
        launches: list[Launch] = []
        nanoseconds = 0.0
        for item in [*items, None]:
            is_full = nanoseconds > _SLICE_NS
            if isinstance(item, Launch) and (item.independent or not is_full):
                launches.append(item)
                nanoseconds += item.nanoseconds
                continue
            if launches:
                self.segments.append(self._segment(launches, waiting))
                launches, nanoseconds = [], 0.0
            if isinstance(item, Launch):
                launches, nanoseconds = [item], item.nanoseconds
            elif item is not None:
                self.segments.append(item)
        calls = [i for i, x in enumerate(self.segments) if isinstance(x, HostCall)]
        first = calls[-1] + 1 if calls else 0
        self.before, self.rest = self.segments[:first], self.segments[first:]
        self.is_split = any(
            isinstance(x, HostCall) and x.may_follow_writes for x in self.segments
        )

    def divide(self, threads: int) -> None:
        """Cut each launch into units for this many threads."""
        for records, is_worth_sharing in self._records:
            _divide(records, is_worth_sharing, threads)
        self.threads = threads

    def _segment(self, launches: list[Launch], entries: Iterator[int]) -> Segment:
        records = np.zeros((len(launches), native.LAUNCH_WORDS), np.int64)
        arguments = np.array([word for x in launches for word in _arguments(x)], np.int64)
        sizes = [len(x.pointers) + len(x.tables) + len(x.ints) for x in launches]
        first = np.cumsum([0, *sizes[:-1]]) * 8 + arguments.ctypes.data
        records[:, native.FUNCTION] = [next(entries) for _ in launches]
        records[:, native.ARGUMENTS] = first
        records[:, native.CHUNKS] = [launch.chunks for launch in launches]
        starts = [i for i, launch in enumerate(launches) if i == 0 or not launch.independent]
        records[starts, native.REGION_WIDTH] = np.diff([*starts, len(launches)])
        patches = np.array(
            [
                (block + 8 * slot, place.buffer, place.offset)
                for block, launch in zip(first.tolist(), launches, strict=True)
                for slot, place in enumerate(launch.pointers)
            ],
            np.int64,
        )
        work = np.add.reduceat([launch.nanoseconds for launch in launches], starts)
        self._records.append((records, work >= _WORTH_SHARING_NS))
        self._kept += [arguments, patches, [launch.tables for launch in launches]]
        segment = (ctypes.c_int64 * native.SEGMENT_WORDS)()
        segment[native.LAUNCHES] = records.ctypes.data
        segment[native.LAUNCH_COUNT] = len(records)
        segment[native.PATCHES] = patches.ctypes.data
        segment[native.PATCH_COUNT] = len(patches)
        return segment


def _arguments(launch: Launch) -> list[int]:
    """A launch's argument block, with the pointers still to be patched in."""
    tables = [table.ctypes.data for table in launch.tables]
    return [0] * len(launch.pointers) + tables + list(launch.ints)


def _divide(records: np.ndarray, is_worth_sharing: np.ndarray, threads: int) -> None:
    """Number the units of each region: single chunks, unless a launch has far more than enough.
    A region with little work is one unit.

    Launches that share a region need fewer pieces each, for together they make many.
    """
    starts = np.flatnonzero(records[:, native.REGION_WIDTH])
    widths = records[starts, native.REGION_WIDTH]
    wanted = np.maximum(_UNITS_A_THREAD // widths, _FEWEST_UNITS_A_THREAD) * threads
    pieces = np.repeat(wanted, widths) if threads > 1 else 1
    chunks = records[:, native.CHUNKS]
    grain = np.maximum(1, -(-chunks // pieces))
    units = -(-chunks // grain)
    ends = np.cumsum(units)
    ends -= np.repeat(ends[starts] - units[starts], widths)
    records[:, native.GRAIN] = grain
    records[:, native.FIRST_UNIT] = ends - units
    records[:, native.LAST_UNIT] = ends
    totals = ends[starts + widths - 1]
    records[starts, native.REGION_TOTAL] = np.where(is_worth_sharing, totals, 1)


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
