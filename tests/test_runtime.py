"""Memory, threads and programs, on small kernels."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_kernels import add_kernel, build, python, resolve, run_cube, run_on

from rushlight.codegen.cache import ObjectCache
from rushlight.codegen.module import Kernels
from rushlight.codegen.target import current_target
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.runtime import buffers, pool
from rushlight.runtime import executor as native
from rushlight.runtime.buffers import Buffer, rounded_size, wrap_array
from rushlight.runtime.program import HostCall, Program


@pytest.fixture(autouse=True)
def _no_garbage_of_other_tests():
    """Memory counters are the process's: nothing may be collected while a test compares
    them.
    """
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def folder_for_compiled_kernels(tmp_path_factory: pytest.TempPathFactory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "cache")


@pytest.fixture
def kernels(cache: ObjectCache) -> Kernels:
    return Kernels(resolve, cache=cache)


@pytest.fixture(autouse=True)
def threads_as_before():
    before = pool.get_num_threads()
    yield
    pool.set_num_threads(before)


# Memory


def test_buffers_are_aligned_and_reused() -> None:
    for nbytes in (0, 1, 65, 1000, 70_000, 5 << 20):
        buffer = Buffer(nbytes)
        address = buffer.address
        assert address % 64 == 0
        buffer.as_numpy(np.uint8, (nbytes,))[:] = 7
        del buffer
        again = Buffer(nbytes)
        assert again.address == address


@pytest.mark.parametrize("nbytes", [1, 64, 65, 127, 129, 1000, 4097, 1_000_000, (1 << 30) + 1])
def test_rounding_wastes_little(nbytes: int) -> None:
    size = rounded_size(nbytes)
    assert size % 64 == 0
    assert nbytes <= size <= max(64, nbytes * 1.25 + 64)
    assert rounded_size(size) == size


def test_array_keeps_its_buffer_alive() -> None:
    before = buffers.memory_counters().in_use
    array = Buffer(1 << 20).as_numpy(np.float32, (4, 5), offset=64)
    array[:] = 3
    gc.collect()
    assert buffers.memory_counters().in_use == before + (1 << 20)
    del array
    assert buffers.memory_counters().in_use == before


def test_array_views_share_memory_with_strides() -> None:
    buffer = Buffer(64)
    flat = buffer.as_numpy(np.int64, (8,))
    flat[:] = range(8)
    assert buffer.as_numpy(np.int64, (4,), strides=(-16,), offset=56).tolist() == [7, 5, 3, 1]
    frozen = buffer.as_numpy(np.int64, (8,), writable=False)
    with pytest.raises(ValueError, match="read-only"):
        frozen[0] = 1


def test_wrapped_array_is_kept_alive_and_covers_negative_strides() -> None:
    array = np.arange(10)[::-1]
    buffer = wrap_array(array)
    assert buffer.nbytes == 80
    assert buffer.address == array[-1:].ctypes.data
    assert buffer.owner is array
    assert wrap_array(np.empty((0, 3))).nbytes == 0


def test_impossible_sizes_say_so() -> None:
    before = buffers.memory_counters().in_use
    for nbytes in (1 << 60, 1 << 46):
        with pytest.raises(
            MemoryError, match=r"cannot allocate .* are in use by other tensors"
        ):
            Buffer(nbytes)
    with pytest.raises(ValueError, match="cannot have -1 bytes"):
        Buffer(-1)
    assert buffers.memory_counters().in_use == before


def test_free_lists_keep_within_their_bound() -> None:
    buffers.release_cached()
    before = buffers._heap.bound
    try:
        buffers.set_cache_bound(10 << 20)
        held = [Buffer((1 << 20) + i * (1 << 18)) for i in range(12)]
        del held
        assert 0 < buffers.memory_counters().cached <= 10 << 20
        buffers.release_cached()
        assert buffers.memory_counters().cached == 0
    finally:
        buffers.set_cache_bound(before)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory of Linux")
def test_released_blocks_of_a_shared_region_give_their_pages_back() -> None:
    buffers.release_cached()
    kept = Buffer(1 << 20)
    held = [Buffer(1 << 20) for _ in range(24)]
    for buffer in (kept, *held):
        buffer.as_numpy(np.uint8, (1 << 20,))[:] = 7
    full = _resident_bytes()
    del buffer, held
    assert buffers.memory_counters().cached >= 24 << 20
    buffers.release_cached()
    assert full - _resident_bytes() > 20 << 20
    assert (kept.as_numpy(np.uint8, (1 << 20,)) == 7).all()
    assert (Buffer(1 << 20).as_numpy(np.uint8, (1 << 20,)) == 0).all()


def test_parameters_of_a_model_share_huge_pages() -> None:
    buffers.release_cached()
    held = [Buffer(3 << 18) for _ in range(8)]
    assert len({buffer.address >> 21 for buffer in held}) <= 5


def _resident_bytes() -> int:
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
@pytest.mark.parametrize("nbytes", [64, 1 << 17, 4 << 20])
def test_child_after_fork_has_memory_of_its_own(nbytes: int) -> None:
    values = Buffer(nbytes).as_numpy(np.uint8, (nbytes,))
    values[:] = 1
    child = os.fork()
    if child == 0:
        values[:] = 2
        os._exit(0)
    os.waitpid(child, 0)
    assert (values == 1).all()


def test_peak_counts_from_its_reset() -> None:
    buffers.reset_peak()
    start = buffers.memory_counters().in_use
    held = Buffer(1 << 20)
    del held
    assert buffers.memory_counters().peak == start + (1 << 20)


def test_buffers_in_many_threads() -> None:
    def work() -> None:
        held: list[Buffer] = []
        for i in range(3000):
            held.append(Buffer(64 << (i % 12)))
            if i % 3:
                del held[0]
        distinct = len({buffer.address for buffer in held}) == len(held)
        results.append(distinct)

    before = buffers.memory_counters().in_use
    results: list[bool] = []
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [True] * 4
    gc.collect()
    assert buffers.memory_counters().in_use == before


# Programs


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_every_chunk_is_done_once(kernels: Kernels, threads: int) -> None:
    pool.set_num_threads(threads)
    buffer = Buffer(8 * 5000)
    values = buffer.as_numpy(np.int64, (5000,))
    values[:] = 0
    launches = [
        Launch(add_kernel(1), chunks, (BufferRef(0),)) for chunks in (5000, 1, 0, 17, 2, 999)
    ]
    program = build(kernels, launches, 1)
    for _ in range(200):
        run_on(program, buffer)
    expected = np.zeros(5000, np.int64)
    for launch in launches:
        expected[: launch.chunks] += 200
    assert (values == expected).all()


def test_results_do_not_depend_on_threads(kernels: Kernels) -> None:
    results = set()
    for threads in (1, 2, 3):
        pool.set_num_threads(threads)
        results.add(run_cube(kernels, 1000).tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_independent_launches_share_a_region(kernels: Kernels, threads: int) -> None:
    pool.set_num_threads(threads)
    buffer = Buffer(8 * 76 * 10)
    values = buffer.as_numpy(np.int64, (76, 10))
    values[:] = 0
    updates = [
        Launch(add_kernel(i % 5 + 1), i % 11, (BufferRef(0, 80 * i),), independent=i > 0)
        for i in range(76)
    ]
    after = Launch(add_kernel(1), 760, (BufferRef(0),))
    program = build(kernels, [*updates, after, *updates], 1)
    for _ in range(100):
        run_on(program, buffer)
    row, column = np.ogrid[:76, :10]
    assert (values == 100 + 200 * (row % 5 + 1) * (column < row % 11)).all()


STAMP = KernelSource(
    "stamp",
    """
define void @stamp(ptr %args, i64 %begin, i64 %end, ptr %scratch) {
  %clock = load ptr, ptr %args
  %out.at = getelementptr i64, ptr %args, i64 1
  %out = load ptr, ptr %out.at
  %now = atomicrmw add ptr %clock, i64 1 seq_cst
  %at = getelementptr i64, ptr %out, i64 %begin
  store i64 %now, ptr %at
  ret void
}
""",
)


def test_shares_are_walked_up_and_down_in_turns(kernels: Kernels) -> None:
    pool.set_num_threads(2)
    units = 32
    clock, out = Buffer(8), Buffer(8 * units)
    launch = Launch(STAMP, units, (BufferRef(0), BufferRef(1)))
    program = build(kernels, [launch], 2)
    stamps = out.as_numpy(np.int64, (2, units // 2))
    directions = []
    for _ in range(40):  # a thread may pause between taking a unit and its stamp, but rarely
        run_on(program, clock, out)
        directions.append(stamps[0, 0] < stamps[0, -1])
    turns = sum(a != b for a, b in zip(directions, directions[1:], strict=False))
    assert turns > 20


def test_numpy_table_of_addresses(kernels: Kernels) -> None:
    buffer = Buffer(64)
    values = buffer.as_numpy(np.int64, (8,))
    values[:] = 0
    program = build(kernels, [Launch(add_kernel(1), 4, (BufferRef(0, 8),))], 1)
    program.run(np.array([buffer.address]))
    assert values.tolist() == [0, 1, 1, 1, 1, 0, 0, 0]


def test_host_calls_run_between_launches(kernels: Kernels) -> None:
    buffer = Buffer(64)
    values = buffer.as_numpy(np.int64, (8,))
    values[:] = 0
    seen = []

    def double(addresses: object) -> None:
        seen.append(list(addresses))  # type: ignore[call-overload]
        values[:] *= 2

    add = Launch(add_kernel(1), 8, (BufferRef(0),))
    program = build(kernels, [HostCall(double), add, add, HostCall(double), add], 1)
    run_on(program, buffer)
    assert values.tolist() == [5] * 8
    assert seen == [[buffer.address]] * 2


def test_long_programs_are_cut_where_nothing_runs_side_by_side(kernels: Kernels) -> None:
    buffer = Buffer(64)
    values = buffer.as_numpy(np.int64, (8,))
    values[:] = 0
    add = Launch(add_kernel(1), 8, (BufferRef(0),))
    work = [6e6, 6e6, 6e6, 1e3, 1e3, 30e6, 1e3]
    launches = [replace(add, nanoseconds=each) for each in work]
    launches[2] = replace(launches[2], independent=True)
    program = build(kernels, launches, 1)
    run_on(program, buffer)
    assert values.tolist() == [7] * 8
    (frame,) = program._idle
    counts = [segment[native.LAUNCH_COUNT] for segment in frame.segments]
    assert counts == [3, 3, 1]


def test_failing_host_call_leaves_the_program_usable(kernels: Kernels) -> None:
    buffer = Buffer(64)
    values = buffer.as_numpy(np.int64, (8,))
    values[:] = 0
    failures = [KeyboardInterrupt(), None]

    def fail_once(addresses: object) -> None:
        if failures.pop(0):
            raise KeyboardInterrupt

    program = build(
        kernels, [HostCall(fail_once), Launch(add_kernel(1), 8, (BufferRef(0),))], 1
    )
    with pytest.raises(KeyboardInterrupt):
        run_on(program, buffer)
    run_on(program, buffer)
    assert values.tolist() == [1] * 8


def test_program_checks_its_parts(kernels: Kernels) -> None:
    launch = Launch(add_kernel(1), 1, (BufferRef(1),))
    with pytest.raises(ValueError, match="add_1 refers to buffer 1 of 1"):
        build(kernels, [launch], 1)
    with pytest.raises(ValueError, match="1 launches, but 0 kernel entries"):
        Program([launch], [], 2)


def test_empty_program_runs() -> None:
    program = Program([], [], 0)
    program.run(program.new_table())


def test_several_python_threads_run_one_program(kernels: Kernels) -> None:
    pool.set_num_threads(2)
    launches = [Launch(add_kernel(1), 3000, (BufferRef(0),)) for _ in range(20)]
    program = build(kernels, launches, 1)

    def work() -> None:
        buffer = Buffer(8 * 3000)
        values = buffer.as_numpy(np.int64, (3000,))
        values[:] = 0
        for _ in range(50):
            run_on(program, buffer)
        results.append(bool((values == 1000).all()))

    results: list[bool] = []
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [True] * 4


def test_thread_count_may_change_while_programs_run(kernels: Kernels) -> None:
    launches = [Launch(add_kernel(1), 2000, (BufferRef(0),)) for _ in range(10)]
    program = build(kernels, launches, 1)
    buffer = Buffer(8 * 2000)
    values = buffer.as_numpy(np.int64, (2000,))
    values[:] = 0
    done = threading.Event()

    def change() -> None:
        for count in (1, 2, 3, 2, 4, 1, 2):
            pool.set_num_threads(count)
            time.sleep(0.002)
        done.set()

    changer = threading.Thread(target=change)
    changer.start()
    runs = 0
    while not done.is_set():
        run_on(program, buffer)
        runs += 1
    changer.join()
    assert (values == 10 * runs).all()


def test_threads_beyond_the_processors_sleep_sooner() -> None:
    functions, processors = native.executor(), pool._processors()
    alone, crowded = (pool._spins(functions, processors + more) for more in (0, 1))
    assert alone > 2 * crowded


@pytest.mark.parametrize("count", [0, -1, 10_000, 1.5, True, "2"])
def test_bad_thread_counts_are_refused(count: object) -> None:
    with pytest.raises((TypeError, ValueError), match="set_num_threads expects"):
        pool.set_num_threads(count)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_child_after_fork_has_a_pool_of_its_own(tmp_path: Path) -> None:
    code = """
        import os, threading, time
        from small_kernels import *
        from rushlight.runtime import pool
        pool.set_num_threads(2)
        kernels = Kernels(resolve)
        program = build(kernels, [Launch(add_kernel(1), 3000, (BufferRef(0),))] * 30, 1)
        stop = threading.Event()

        def keep_busy():
            buffer = Buffer(24000)
            while not stop.is_set():
                run_on(program, buffer)

        busy = threading.Thread(target=keep_busy)
        busy.start()
        for attempt in range(20):
            child = os.fork()
            if child == 0:
                buffer = Buffer(24000)
                values = buffer.as_numpy(np.int64, (3000,))
                values[:] = 0
                for _ in range(20):
                    run_on(program, buffer)
                fresh = kernels.address(cube_kernel(attempt)) != 0
                os._exit(0 if fresh and (values == 600).all() else 1)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        busy.join()
        print("done")
    """
    result = python(code, RUSHLIGHT_CACHE_DIR=str(tmp_path))
    assert (result.stdout, result.stderr, result.returncode) == ("done\n", "", 0)


def test_interpreter_leaves_quickly_and_cleanly(tmp_path: Path) -> None:
    code = """
        import os, threading, time
        from small_kernels import *
        from rushlight.runtime import pool
        import time
        pool.set_num_threads(3)
        print(run_cube(Kernels(resolve)).sum() != 0)
        import atexit
        started = time.perf_counter()
        atexit._run_exitfuncs()
        print(time.perf_counter() - started < 0.5)
    """
    result = python(code, RUSHLIGHT_CACHE_DIR=str(tmp_path))
    assert (result.stdout, result.stderr, result.returncode) == ("True\nTrue\n", "", 0)


def test_daemon_threads_may_run_programs_until_the_end(tmp_path: Path) -> None:
    code = """
        import threading, time
        from small_kernels import *

        program = build(Kernels(resolve), [Launch(add_kernel(1), 3000, (BufferRef(0),))] * 500,
        1)

        def keep_busy():
            buffer = Buffer(24000)
            while True:
                run_on(program, buffer)

        for _ in range(3):
            threading.Thread(target=keep_busy, daemon=True).start()
        time.sleep(0.1)
    """
    for _ in range(5):
        result = python(code, RUSHLIGHT_CACHE_DIR=str(tmp_path))
        assert (result.stdout, result.stderr, result.returncode) == ("", "", 0)


def test_programs_run_in_ieee_mode_whatever_the_caller_set(kernels: Kernels) -> None:
    """A library built with fast-math leaves denormals flushed to zero in its thread."""
    if not current_target().triple.startswith("x86_64"):
        pytest.skip("the mode word is read by an x86 instruction")
    get = "define void @get(ptr %a, i64 %b, i64 %e, ptr %s) {\n %p = load ptr, ptr %a\n"
    get += " call void @llvm.x86.sse.stmxcsr(ptr %p)\n ret void\n}"
    program = build(kernels, [Launch(KernelSource("get", get), 1, (BufferRef(0),))], 1)
    flush = (
        "define void @flush(ptr %p) {\n call void @llvm.x86.sse.ldmxcsr(ptr %p)\n ret void\n}"
    )
    address = kernels.address(KernelSource("flush", flush))
    set_mode = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
    mode, seen = np.array([0x9FC0], np.uint32), Buffer(64)
    set_mode(mode.ctypes.data)
    try:
        run_on(program, seen)
        tiny = np.float32(1e-38) * np.float32(0.1)
    finally:
        mode[0] = 0x1F80
        set_mode(mode.ctypes.data)
    assert seen.as_numpy(np.uint32, (1,))[0] & 0xFFC0 == 0x1F80
    assert tiny == 0  # the caller's mode was put back


def test_thousands_of_runs_do_not_grow(kernels: Kernels) -> None:
    resource = pytest.importorskip("resource")
    pool.set_num_threads(2)
    program = build(kernels, [Launch(add_kernel(1), 500, (BufferRef(0),))] * 5, 1)

    def spin(times: int) -> None:
        for _ in range(times):
            buffer = Buffer(4000)
            buffer.as_numpy(np.int64, (500,))
            run_on(program, buffer)

    spin(2000)
    gc.collect()
    start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    in_use = buffers.memory_counters().in_use
    spin(20_000)
    assert buffers.memory_counters().in_use == in_use
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start < 2000


def test_warnings_stay_quiet_in_ordinary_use(kernels: Kernels) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_cube(kernels)
