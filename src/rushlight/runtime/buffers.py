"""Memory: aligned blocks that return to free lists, and views of memory that others own.

A block goes back to the list of its size when the last reference to its Buffer is dropped.
Sizes come in four steps between powers of two, so at most a fifth of a block is unused. Blocks
of a huge page and more are mapped one by one, smaller ones are cut from regions of several;
both ask for huge pages, since a step walks all its parameters and a miss of the page tables
costs more than the cache line it leads to. The lists hold at most a set number of bytes; the
sizes least recently used go first.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from dataclasses import dataclass

import numpy as np

from rushlight import errors, forks

_ALIGNMENT = 64
_LARGE_BYTES = 1 << 16  # from here on the memory of a free block can go back to the system
_HUGE_PAGE = 1 << 21  # from here on a block has a mapping of its own
_REGION_BYTES = 16 * _HUGE_PAGE
_ADDRESS_BITS = 47
# Python's default is memory shared with children after a fork, which also gets no huge pages.
_PRIVATE = (
    {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
)


@dataclass(frozen=True, slots=True)
class MemoryCounters:
    """Bytes in live buffers now and at most so far, and bytes waiting in free lists."""

    in_use: int
    peak: int
    cached: int


class Buffer:
    """A block of memory, alive while it or an array made by `as_numpy` is referenced."""

    __slots__ = (
        "__weakref__", "_block", "_exports", "_owner", "address", "is_foreign", "nbytes",
        "windows",
    )  # fmt: skip

    def __init__(self, nbytes: int) -> None:
        block = _heap_take(nbytes)
        self._block: _Block | None = block
        self._owner: object = None
        self.address = block.address
        self.nbytes = nbytes
        # weak references to what else reads this memory
        self.windows: list[object] | None = None
        self.is_foreign = False  # somebody else may write here at any time
        self._exports: list[weakref.ref[np.ndarray]] | None = None

    def __del__(self) -> None:
        try:
            block = self._block
        except AttributeError:
            return  # the allocation failed
        if block is not None and _heap_give is not None:  # None at the very end of the process
            _heap_give(block)

    def __repr__(self) -> str:
        return f"Buffer(nbytes={self.nbytes}, address={self.address:#x})"

    def export(self, array: np.ndarray) -> None:
        """Note that `array`, on this memory, was given away: while it lives it may be
        written.
        """
        alive = [r for r in self._exports or () if r() is not None]
        self._exports = [*alive, weakref.ref(array)]

    @property
    def is_shared(self) -> bool:
        """Whether this memory may change, or be looked at, behind the runtime's back."""
        if self.is_foreign:
            return True
        return self._exports is not None and any(r() is not None for r in self._exports)

    @property
    def owner(self) -> object:
        """The object whose memory this is, when it was wrapped; None for memory of our own."""
        return self._owner

    def as_numpy(
        self,
        dtype: np.dtype | type | str,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None = None,
        offset: int = 0,
        *,
        writable: bool = True,
    ) -> np.ndarray:
        """This memory as an array that keeps it alive. Strides and offset are in bytes."""
        return np.asarray(_Exposed(self, np.dtype(dtype), shape, strides, offset, writable))


class _Exposed:
    """What NumPy asks for memory, and keeps as the array's base."""

    __slots__ = ("__array_interface__", "_buffer")

    def __init__(
        self,
        buffer: Buffer,
        dtype: np.dtype,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        offset: int,
        writable: bool,
    ) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "version": 3,
            "data": (buffer.address + offset, not writable),
            "typestr": dtype.str,
            "shape": shape,
            "strides": strides,
        }


def wrap(owner: object, address: int, nbytes: int) -> Buffer:
    """A Buffer on memory that `owner` keeps alive (an imported array, a mapped file)."""
    buffer = Buffer.__new__(Buffer)
    buffer._block = None
    buffer._owner = owner
    buffer.address = address
    buffer.nbytes = nbytes
    buffer.windows = None
    buffer.is_foreign = False
    buffer._exports = None
    return buffer


def wrap_array(array: np.ndarray) -> Buffer:
    """A Buffer on everything that `array` reaches; its address is the lowest byte."""
    first = array.ctypes.data
    if array.size == 0:
        return wrap(array, first, 0)
    reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    low = first + sum(step for step in reach if step < 0)
    high = first + sum(step for step in reach if step > 0) + array.itemsize
    return wrap(array, low, high - low)


def memory_counters() -> MemoryCounters:
    """What is allocated now."""
    return MemoryCounters(_heap.in_use, _heap.peak, _heap.cached)


def reset_peak() -> None:
    """Let the peak count from what is in use now."""
    _heap.peak = _heap.in_use


def release_cached() -> None:
    """Give memory in the free lists back to the system."""
    _heap.trim(0)


def set_cache_bound(nbytes: int) -> None:
    """Keep at most `nbytes` of freed memory for reuse."""
    _heap.bound = nbytes
    _heap.trim(nbytes)


class _Block:
    """An address, its rounded size, and the mapping that it lies in."""

    __slots__ = ("address", "mapping", "size")

    def __init__(self, address: int, size: int, mapping: mmap.mmap) -> None:
        self.address = address
        self.size = size
        self.mapping = mapping

    def forget(self) -> None:
        """Give the pages back; the addresses go with the last block of the mapping."""
        if hasattr(mmap, "MADV_DONTNEED"):
            start = self.address - _address(self.mapping)
            self.mapping.madvise(mmap.MADV_DONTNEED, start, self.size)


class _Heap:
    """Free lists by size.

    The lock is re-entrant because a collection may drop a Buffer while it is held.
    """

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.large = _LARGE_BYTES
        self.in_use = self.peak = self.cached = 0
        self.lock = threading.RLock()
        self._free: dict[int, list[_Block]] = {}
        self._rounded: dict[int, int] = {}
        self._used_at: dict[int, int] = {}
        self._clock = 0
        self._region: _Block | None = None
        self._region_next = 0

    def take(self, nbytes: int) -> _Block:  # hot
        size = self._rounded.get(nbytes) or self._round(nbytes)
        with self.lock:
            self.in_use += size
            if self.in_use > self.peak:
                self.peak = self.in_use
            free = self._free.get(size)
            if free:
                if size >= self.large:
                    self.cached -= size
                return free.pop()
            try:
                return self._make(size)
            except BaseException:
                self.in_use -= size
                raise

    def give(self, block: _Block) -> None:  # hot
        size = block.size
        with self.lock:
            self.in_use -= size
            free = self._free.get(size)
            if free is None:
                free = self._free[size] = []
            free.append(block)
            if size >= self.large:
                self.cached += size
                self._clock += 1
                self._used_at[size] = self._clock
                if self.cached > self.bound:
                    self.trim(self.bound)

    def trim(self, bound: int) -> None:
        """Give up large free blocks until at most `bound` bytes are kept."""
        with self.lock:
            for size in sorted(self._used_at, key=self._used_at.__getitem__):
                free = self._free[size]
                while free and self.cached > bound:
                    free.pop().forget()
                    self.cached -= size

    def _round(self, nbytes: int) -> int:
        if len(self._rounded) > 10_000:
            self._rounded.clear()
        size = self._rounded[nbytes] = rounded_size(nbytes)
        return size

    def _make(self, size: int) -> _Block:
        try:
            return self._cut(size)
        except MemoryError:
            self.trim(0)
            return self._cut(size)

    def _cut(self, size: int) -> _Block:
        if size >= _HUGE_PAGE:
            return _map(size, self.in_use - size)
        alignment = mmap.PAGESIZE if size >= self.large else _ALIGNMENT
        address = -(-self._region_next // alignment) * alignment
        region = self._region
        if region is None or address + size > region.address + region.size:
            region = self._region = _map(_REGION_BYTES, self.in_use - size)
            address = region.address
        self._region_next = address + size
        return _Block(address, size, region.mapping)


def rounded_size(nbytes: int) -> int:
    """The size of the block that serves `nbytes`."""
    if nbytes <= _ALIGNMENT:
        if nbytes < 0:
            raise ValueError(f"a buffer cannot have {nbytes} bytes")
        return _ALIGNMENT
    step = max(_ALIGNMENT, 1 << ((nbytes - 1).bit_length() - 3))
    return (nbytes + step - 1) // step * step


def _map(size: int, in_use: int) -> _Block:
    """Memory that starts on a huge page; the room to align costs nothing while untouched."""
    if size >> _ADDRESS_BITS:
        raise _out_of_memory(size, in_use)
    try:
        mapping = mmap.mmap(-1, size + _HUGE_PAGE, **_PRIVATE)
    except (OSError, OverflowError, ValueError):
        raise _out_of_memory(size, in_use) from None
    _advise(mapping)
    address = -(-_address(mapping) // _HUGE_PAGE) * _HUGE_PAGE
    return _Block(address, size, mapping)


def _address(mapping: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(mapping))


def _advise(mapping: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        try:
            mapping.madvise(mmap.MADV_HUGEPAGE)
        except OSError:
            pass  # a kernel without huge pages


def _out_of_memory(size: int, in_use: int) -> MemoryError:
    return errors.out_of_memory(size, f"{in_use} bytes are in use by other tensors")


def _default_bound() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, ValueError, OSError):
        return 2 << 30


_heap = _Heap(_default_bound())
_heap_take = _heap.take
_heap_give = _heap.give  # bound here because a Buffer may outlive the module's names at exit
# A child drops the buffers of threads that it does not have before any hook of ours could make
# a new lock.
forks.hold("memory", _heap.lock)
