"""Parked threads: each waits in a native loop for the chunks that programs share with it.

The pool belongs to one process and is started by the first program that can use it. A child
after a fork starts its own. Several Python threads may run programs at once: one region at a
time gets the pool, others do their chunks themselves, which changes no result.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import sys
import threading
import time

from rushlight.runtime import executor as native
from rushlight.runtime.buffers import Buffer

MAXIMUM_THREADS = 1024
# How long a thread looks for work before it goes to sleep. The Python between two programs
# takes some 100 us where these have swept it out of the cache, and to sleep through that costs
# more than the waking: the system moves threads to other processors, away from their memory.
_SPIN_SECONDS = 200e-6
_CROWDED_SPIN_SECONDS = 50e-6  # with more threads than processors
_JOIN_SECONDS = 1.0

_lock = threading.RLock()
_pool: Pool | None = None
_wanted: int | None = None


def get_num_threads() -> int:
    """How many threads a program may use, the calling one included."""
    global _wanted
    if _wanted is None:
        _wanted = default_thread_count()
    return _wanted


def set_num_threads(count: int) -> None:
    """Use `count` threads from now on. Results do not depend on it."""
    global _pool, _wanted
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"set_num_threads expects an int, but got {type(count).__name__}")
    if not 1 <= count <= MAXIMUM_THREADS:
        raise ValueError(
            f"set_num_threads expects 1 to {MAXIMUM_THREADS} threads, but got {count}"
        )
    with _lock:
        if _pool is not None and _pool.size != count:
            _pool.stop()
            _pool = None
        _wanted = count


def current_pool() -> Pool:
    """The pool of this process, started now if need be."""
    pool = _pool
    return pool if pool is not None else _start_pool()


def default_thread_count() -> int:
    """RUSHLIGHT_NUM_THREADS or OMP_NUM_THREADS, else the processors this process may use."""
    for name in ("RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return min(int(text), MAXIMUM_THREADS)
    return min(_processors(), MAXIMUM_THREADS)


class Pool:
    """`size - 1` parked threads and the control block that they share with callers."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._functions = native.executor()
        self._scratch_bytes = 0
        self._scratches: list[Buffer] = []
        self._scratch_table = (ctypes.c_int64 * size)()
        count = native.COUNTERS + native.LINE_WORDS * size
        self._memory = Buffer(8 * count)
        self.address = self._memory.address
        self._words = (ctypes.c_int64 * count).from_address(self.address)
        self._threads: list[threading.Thread] = []
        self._fill()
        for index in range(1, size):
            self._start(index)
        self._words[native.THREADS] = size

    def reserve_scratch(self, nbytes: int) -> None:
        """See that each parked thread has `nbytes` of scratch before the next region starts."""
        if nbytes <= self._scratch_bytes:
            return
        with _lock:
            if nbytes > self._scratch_bytes:
                size = 1 << (nbytes - 1).bit_length()
                fresh = [Buffer(size) for _ in range(1, self.size)]
                # A region of another caller may still be using the smaller ones, so those are
                # kept; sizes double, so all of them together are no more than the newest.
                self._scratches.extend(fresh)
                for index, buffer in enumerate(fresh, 1):
                    self._scratch_table[index] = buffer.address
                self._scratch_bytes = size

    def stop(self) -> None:
        """Send the threads home. A region that is running finishes first."""
        self._functions.halt(self.address)
        deadline = time.monotonic() + _JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _start(self, index: int) -> None:
        # The arguments keep the control block alive for as long as the thread runs.
        thread = threading.Thread(
            target=_serve, args=(self, index), name=f"rushlight-{index}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _fill(self) -> None:
        words = self._words
        ctypes.memset(words, 0, ctypes.sizeof(words))
        words[native.SPINS] = _spins(self._functions, self.size)
        words[native.SCRATCHES] = ctypes.addressof(self._scratch_table)
        mutex, condition = (
            self.address + 8 * slot for slot in (native.MUTEX, native.CONDITION)
        )
        for slot, address in _system_calls(mutex, condition).items():
            words[slot] = address


def _serve(pool: Pool, index: int) -> None:
    pool._functions.serve(pool.address, index)


def _start_pool() -> Pool:
    global _pool
    with _lock:
        if _pool is None:
            _pool = Pool(get_num_threads())
        return _pool


def _spins(functions: native.Executor, threads: int) -> int:
    """How many pauses make up the spinning time: one takes 10 to 140 cycles."""
    is_crowded = threads > _processors()
    seconds = _CROWDED_SPIN_SECONDS if is_crowded else _SPIN_SECONDS
    count = 200
    best = min(_elapsed(functions, count) for _ in range(3))
    return max(100, round(seconds / max(best / count, 1e-9)))


def _elapsed(functions: native.Executor, count: int) -> float:
    started = time.perf_counter()
    functions.pause(count)
    return time.perf_counter() - started


def _system_calls(mutex: int, condition: int) -> dict[int, int]:
    """Initialise the mutex and the condition; give their functions' addresses by slot."""
    if sys.platform == "win32":
        system = ctypes.windll.kernel32
        names = (
            "AcquireSRWLockExclusive",
            "ReleaseSRWLockExclusive",
            "SleepConditionVariableSRW",
            "WakeConditionVariable",
            "WakeAllConditionVariable",
            "SwitchToThread",
        )
    else:
        system = ctypes.CDLL(None)
        system.pthread_mutex_init(ctypes.c_void_p(mutex), None)
        system.pthread_cond_init(ctypes.c_void_p(condition), None)
        names = (
            "pthread_mutex_lock",
            "pthread_mutex_unlock",
            "pthread_cond_wait",
            "pthread_cond_signal",
            "pthread_cond_broadcast",
            "sched_yield",
        )
    slots = (
        native.LOCK,
        native.UNLOCK,
        native.WAIT,
        native.WAKE_ONE,
        native.WAKE_ALL,
        native.YIELD,
    )
    return {
        slot: _address(getattr(system, name)) for slot, name in zip(slots, names, strict=True)
    }


def _address(function: object) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def _processors() -> int:
    """Processors that this process may keep busy."""
    try:
        processors = len(os.sched_getaffinity(0))
    except AttributeError:
        processors = os.cpu_count() or 1
    return max(1, min(processors, _quota()))


def _quota() -> int:
    """Processors that a container's CPU quota allows, rounded up."""
    try:
        with open("/sys/fs/cgroup/cpu.max") as stream:
            quota, period = stream.read().split()
        return MAXIMUM_THREADS if quota == "max" else -(-int(quota) // int(period))
    except (OSError, ValueError):
        return MAXIMUM_THREADS


def _leave() -> None:
    with _lock:
        if _pool is not None:
            _pool.stop()


def _forget() -> None:
    """In a child after a fork: the parent's threads are not here; they may hold its locks."""
    global _pool, _lock
    _pool = None
    _lock = threading.RLock()


atexit.register(_leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
