"""Compiling, caching and running: the layers below the loop writers, on small kernels."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

from rushlight.codegen import llvm
from rushlight.codegen.cache import Bundle, ObjectCache
from rushlight.codegen.module import Kernels
from rushlight.codegen.target import AARCH64, current_target, named_target, target_names
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.runtime import buffers, pool
from rushlight.runtime.buffers import Buffer, rounded_size, wrap_array
from rushlight.runtime.program import HostCall, Program

SOURCES = str(Path(__file__).resolve().parents[1] / "src")


def add_kernel(amount: int) -> KernelSource:
    """For each chunk i: out[i] += amount, with i64 elements."""
    name = f"add_{amount}"
    text = f"""
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %out = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %at = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, {amount}
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %out.done
out.done:
  ret void
}}
"""
    return KernelSource(name, text)


CUBE = """
define <16 x float> @cube(<16 x float> %x) alwaysinline {
  %square = fmul <16 x float> %x, %x
  %cube = call <16 x float> @llvm.fma.v16f32(
    <16 x float> %square, <16 x float> %x, <16 x float> splat (float 0.125))
  %half = call <16 x float> @halve(<16 x float> %cube)
  ret <16 x float> %half
}
"""
HALVE = """
define <16 x float> @halve(<16 x float> %x) alwaysinline {
  %half = fmul <16 x float> %x, splat (float 0.5)
  ret <16 x float> %half
}
"""


def resolve(name: str) -> tuple[str, tuple[str, ...]]:
    return {"cube": (CUBE, ("halve", "llvm.fma.v16f32")), "halve": (HALVE, ())}[name]


def cube_kernel(number: int) -> KernelSource:
    """out = cube(x) + number, 16 elements a chunk; the table gives each chunk's place."""
    name = f"cube_{number}"
    text = f"""
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %x = load ptr, ptr %args
  %out.at = getelementptr i64, ptr %args, i64 1
  %out = load ptr, ptr %out.at
  %table.at = getelementptr i64, ptr %args, i64 2
  %table = load ptr, ptr %table.at
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %where = getelementptr i64, ptr %table, i64 %i
  %place = load i64, ptr %where
  %from = getelementptr float, ptr %x, i64 %place
  %to = getelementptr float, ptr %out, i64 %place
  %v = load <16 x float>, ptr %from, align 4
  %c = call <16 x float> @cube(<16 x float> %v)
  store <16 x float> %c, ptr %scratch, align 64
  %kept = load <16 x float>, ptr %scratch, align 64
  %r = fadd <16 x float> %kept, splat (float {float(number)})
  store <16 x float> %r, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return KernelSource(name, text, frozenset({"cube", "llvm.fma.v16f32"}))


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


def build(kernels: Kernels, items: list, buffer_count: int) -> Program:
    launches = [item for item in items if isinstance(item, Launch)]
    entries = kernels.addresses([launch.source for launch in launches])
    return Program(items, entries, buffer_count)


def run_on(program: Program, *memory: Buffer) -> None:
    table = program.new_table()
    table[:] = [buffer.address for buffer in memory]
    program.run(table)


def run_cube(kernels: Kernels, chunks: int = 37) -> np.ndarray:
    x = np.linspace(-2, 2, 16 * chunks, dtype=np.float32)
    memory, out = wrap_array(x), Buffer(4 * 16 * chunks)
    places = np.arange(chunks, dtype=np.int64)[::-1] * 16
    launch = Launch(
        cube_kernel(3),
        chunks,
        (BufferRef(0), BufferRef(1)),
        tables=(places.copy(),),
        scratch=64,
    )
    run_on(build(kernels, [launch], 2), memory, out)
    return out.as_numpy(np.float32, (16 * chunks,)).copy()


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": f"{SOURCES}:{Path(__file__).parent}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# Targets


def test_unknown_cpu_is_refused_with_the_good_names() -> None:
    with pytest.raises(
        ValueError, match=r"RUSHLIGHT_CPU='pdp11' is not known here: use one of host, generic"
    ):
        named_target("pdp11")


def test_environment_chooses_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUSHLIGHT_CPU", "generic")
    assert current_target().kind == "generic"
    monkeypatch.delenv("RUSHLIGHT_CPU")
    assert current_target() == named_target("host")


def test_every_target_of_this_machine_gives_the_same_bits(cache: ObjectCache) -> None:
    results = [run_cube(Kernels(resolve, named_target(name), cache)) for name in target_names()]
    assert len({result.tobytes() for result in results}) == 1
    x = np.linspace(-2, 2, results[0].size, dtype=np.float32)
    np.testing.assert_allclose(
        results[0], (x**3 + np.float32(0.125)) / 2 + 3, rtol=1e-6, atol=1e-6
    )


def test_host_code_uses_the_widest_registers() -> None:
    text = Kernels(resolve).module_text([cube_kernel(1)])
    registers = {"avx512": "zmm", "avx2": "ymm"}
    target = current_target()
    if target.kind in registers:
        assert registers[target.kind] in llvm.assembly(text, target)
    if "haswell" in target_names():
        haswell = llvm.assembly(text, named_target("haswell"))
        assert "ymm" in haswell and "zmm" not in haswell and "vfmadd" in haswell


def test_multiply_and_add_are_fused_only_where_the_text_says_so() -> None:
    text = """
define void @plain(ptr %p) {
  %x = load float, ptr %p
  %square = fmul float %x, %x
  %sum = fadd float %square, %x
  store float %sum, ptr %p
  ret void
}
"""
    assert "fmadd" not in llvm.assembly(text, current_target())


def test_object_for_another_machine() -> None:
    image = llvm.compile_object(Kernels(resolve).module_text([cube_kernel(1)]), AARCH64)
    assert image[:4] == b"\x7fELF"
    assert int.from_bytes(image[18:20], "little") == 183  # EM_AARCH64


def test_executor_compiles_for_another_machine() -> None:
    from rushlight.runtime.executor import executor_text

    assert llvm.compile_object(executor_text(AARCH64.triple), AARCH64)[:4] == b"\x7fELF"


def test_bad_text_is_a_compile_error(kernels: Kernels) -> None:
    with pytest.raises(llvm.CompileError, match="LLVM cannot read a kernel"):
        kernels.address(KernelSource("bad", "define void @bad( {"))


# Kernels and their cache


def test_kernels_compile_once_in_one_module(kernels: Kernels) -> None:
    sources = [cube_kernel(i) for i in range(10)]
    first = kernels.addresses(sources + sources[:3])
    assert first[:3] == first[10:]
    assert kernels.addresses(sources) == first[:10]
    assert (kernels.counters.modules, kernels.counters.kernels) == (1, 10)


def test_declarations_shared_by_kernels_are_written_once(kernels: Kernels) -> None:
    declaration = (
        "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n"
    )
    sources = [
        KernelSource(k.name, declaration + k.text, k.needs)
        for k in (cube_kernel(1), cube_kernel(2))
    ]
    assert kernels.module_text(sources).count("declare") == 1
    assert all(kernels.addresses(sources))


def test_another_process_finds_kernels_on_disk(cache: ObjectCache) -> None:
    Kernels(resolve, cache=cache).addresses([cube_kernel(i) for i in range(10)])
    second = Kernels(resolve, cache=ObjectCache(cache.folder))
    second.addresses([cube_kernel(i) for i in range(5, 12)])
    assert second.counters.disk_hits == 5
    assert second.counters.kernels == 2
    assert run_cube(second).any()


def test_changed_text_or_library_is_not_found_on_disk(cache: ObjectCache) -> None:
    Kernels(resolve, cache=cache).address(cube_kernel(1))

    def other(name: str) -> tuple[str, tuple[str, ...]]:
        text, needs = resolve(name)
        return text.replace("0.5", "0.25"), needs

    changed = Kernels(other, cache=cache)
    changed.address(cube_kernel(1))
    assert changed.counters.disk_hits == 0


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "index", "missing"])
def test_damaged_files_are_compiled_again(cache: ObjectCache, damage: str) -> None:
    Kernels(resolve, cache=cache).address(cube_kernel(3))
    (bundle,) = cache.folder.glob("*.bundle")
    data = bundle.read_bytes()
    if damage == "truncate":
        bundle.write_bytes(data[: len(data) // 2])
    elif damage == "flip":
        bundle.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:])
    elif damage == "empty":
        bundle.write_bytes(b"")
    elif damage == "missing":
        bundle.unlink()
    else:
        (cache.folder / "index").write_bytes(b"\xff\x00 nonsense\n" * 50)
    again = Kernels(resolve, cache=ObjectCache(cache.folder))
    assert np.isfinite(run_cube(again)).all()
    assert again.counters.kernels == 1
    third = Kernels(resolve, cache=ObjectCache(cache.folder))
    third.address(cube_kernel(3))
    assert third.counters.disk_hits == 1


class _FullDisk(ObjectCache):
    def _write(self, name: str, data: bytes) -> None:
        raise OSError(28, "No space left on device")


def test_full_disk_warns_once_and_compiles(tmp_path: Path) -> None:
    kernels = Kernels(resolve, cache=_FullDisk(tmp_path))
    with pytest.warns(
        UserWarning, match="cannot write its cache of compiled kernels"
    ) as caught:
        kernels.address(cube_kernel(1))
        kernels.address(cube_kernel(2))
    assert len(caught) == 1
    assert kernels.counters.kernels == 2


def test_folder_that_is_a_file_is_harmless(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kernels = Kernels(resolve, cache=ObjectCache(tmp_path / "file"))
    with pytest.warns(UserWarning, match="RUSHLIGHT_CACHE_DIR"):
        assert kernels.address(cube_kernel(1))


def test_read_only_folder_still_serves(cache: ObjectCache) -> None:
    Kernels(resolve, cache=cache).address(cube_kernel(1))
    cache.folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        second = Kernels(resolve, cache=ObjectCache(cache.folder))
        second.address(cube_kernel(1))
        assert second.counters.disk_hits == 1
    finally:
        cache.folder.chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_folder_that_everybody_can_write_is_not_trusted(cache: ObjectCache) -> None:
    Kernels(resolve, cache=cache).address(cube_kernel(1))
    cache.folder.chmod(0o777)
    second = Kernels(resolve, cache=ObjectCache(cache.folder))
    with pytest.warns(UserWarning, match="can be written by every user"):
        second.address(cube_kernel(1))
    assert second.counters.disk_hits == 0


def test_least_recently_used_bundles_are_evicted(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, bound=3500)
    keys = [f"{i:032x}" for i in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.keep(Bundle({key: "k"}, bytes(1000)))
        (path,) = (
            p for p in tmp_path.glob("*.bundle") if key in p.read_bytes().decode("latin1")
        )
        os.utime(path, (1000 + age, 1000 + age))
    assert len(cache.find(keys[:1])) == 1  # the oldest is used, so now it is the newest
    cache.keep(Bundle({keys[3]: "k"}, bytes(1000)))
    left = {key for key in keys if ObjectCache(tmp_path).find([key])}
    assert left == {keys[0], keys[2], keys[3]}
    assert (tmp_path / "index").read_text().count("\n") == 3


def test_two_processes_fill_the_cache_at_once(tmp_path: Path) -> None:
    code = """
        from test_runtime import *
        kernels = Kernels(resolve)
        for i in range(12):
            kernels.address(cube_kernel(i))
        print(run_cube(kernels).sum())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    paths = {
        "PYTHONPATH": f"{SOURCES}:{Path(__file__).parent}",
        "RUSHLIGHT_CACHE_DIR": str(tmp_path),
    }
    both = [
        subprocess.Popen(command, env={**os.environ, **paths}, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert outputs[0] == outputs[1] != b""
    assert len(list(tmp_path.glob("*.bundle"))) in (12, 13)
    third = Kernels(resolve, cache=ObjectCache(tmp_path))
    third.addresses([cube_kernel(i) for i in range(12)])
    assert third.counters.disk_hits == 12


def test_long_compilation_is_announced_once(tmp_path: Path) -> None:
    code = """
        from test_runtime import *
        from rushlight.codegen import module
        module._PATIENCE_SECONDS = 0.0
        kernels = Kernels(resolve)
        module._PATIENCE_SECONDS = 60.0  # both compilations belong to one burst
        kernels.addresses([cube_kernel(i) for i in range(60)])
    """
    loud = python(
        code.replace("0.0", "0.02").replace("60.0", "0.02"),
        RUSHLIGHT_VERBOSE="1",
        RUSHLIGHT_CACHE_DIR=str(tmp_path / "a"),
    )
    assert loud.stderr == "rushlight: compiling 60 kernels ...\n"
    quiet = python(code, RUSHLIGHT_CACHE_DIR=str(tmp_path / "b"))
    assert quiet.stderr == ""


def test_dump_writes_each_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: Kernels
) -> None:
    monkeypatch.setenv("RUSHLIGHT_DUMP", f"llvm:{tmp_path / 'texts'}")
    kernels.address(cube_kernel(1))
    (path,) = (tmp_path / "texts").iterdir()
    assert "define internal <16 x float> @halve" in path.read_text()


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


@pytest.mark.parametrize("count", [0, -1, 10_000, 1.5, True, "2"])
def test_bad_thread_counts_are_refused(count: object) -> None:
    with pytest.raises((TypeError, ValueError), match="set_num_threads expects"):
        pool.set_num_threads(count)  # type: ignore[arg-type]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_child_after_fork_has_a_pool_of_its_own(tmp_path: Path) -> None:
    code = """
        from test_runtime import *
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
        from test_runtime import *
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
    import ctypes

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
