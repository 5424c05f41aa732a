"""Compiling and caching, on small kernels."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from small_kernels import SOURCES, cube_kernel, python, resolve, run_cube

from rushlight.codegen import llvm, workers
from rushlight.codegen.cache import Bundle, ObjectCache
from rushlight.codegen.module import Kernels
from rushlight.codegen.target import AARCH64, current_target, named_target, target_names
from rushlight.loops.kernel import KernelSource
from rushlight.runtime.executor import executor_text


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


def test_counters_are_hidden_after_the_last_phi_of_a_block() -> None:
    text = """
loop:
  %i = phi i64 [0, %entry],
    [%next, %loop]
  ; a comment

  %x = phi float [0.0, %entry], [%y, %loop]
  %0 = phi i64 [1, %entry], [%0, %loop]
  %next = add i64 %i, 1"""
    hidden = """
loop:
  %i.phi = phi i64 [0, %entry],
    [%next, %loop]
  ; a comment

  %x = phi float [0.0, %entry], [%y, %loop]
  %0 = phi i64 [1, %entry], [%0, %loop]
  %i = call i64 @llvm.expect.i64(i64 %i.phi, i64 0)
  %next = add i64 %i, 1"""
    assert llvm.hide_counters(text) == hidden


def test_object_for_another_machine() -> None:
    image = llvm.compile_object(Kernels(resolve).module_text([cube_kernel(1)]), AARCH64)
    assert image[:4] == b"\x7fELF"
    assert int.from_bytes(image[18:20], "little") == 183  # EM_AARCH64


def test_executor_compiles_for_another_machine() -> None:
    assert llvm.compile_object(executor_text(AARCH64.triple), AARCH64)[:4] == b"\x7fELF"


def test_two_kernels_of_one_name_are_refused(kernels: Kernels) -> None:
    kernels.address(cube_kernel(1))
    with pytest.raises(llvm.CompileError, match="two different kernels are called cube_1"):
        kernels.address(KernelSource("cube_1", cube_kernel(2).text.replace("cube_2", "cube_1")))


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


@pytest.mark.parametrize("trouble", [None, "fails", "lies", "absent"])
def test_modules_compile_in_worker_processes(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch, trouble: str | None
) -> None:
    monkeypatch.setattr(workers, "_LINES_A_WORKER", 100)
    monkeypatch.setenv("RUSHLIGHT_COMPILE_WORKERS", "2")
    if trouble == "absent":
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    elif trouble is not None:
        script = {"fails": "raise SystemExit(3)", "lies": "print('OBJECT' + 'x' * 100)"}[
            trouble
        ]
        monkeypatch.setattr(workers, "_SCRIPT", script)
    sources = [cube_kernel(i) for i in range(10)]
    assert len(set(kernels.addresses(sources))) == 10
    assert kernels.counters.modules == 2
    assert run_cube(kernels).any()


def test_worker_makes_the_same_object() -> None:
    text, target = Kernels(resolve).module_text([cube_kernel(1)]), current_target()
    worker = workers._Worker(text, target)
    worker._thread.join()
    assert worker._answer[14:] == llvm.compile_object(text, target)


def test_small_batches_start_no_process() -> None:
    assert workers.worker_count(1000) == 1


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
        assert [kernels.address(cube_kernel(i)) for i in (1, 2)]
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
        from small_kernels import *
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


TROUBLED = """
    import resource, sys, warnings
    if sys.argv[1:] == ["full"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    import rushlight as torch
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        x = torch.arange(12.0).reshape(3, 4)
        first = (x @ x.T).softmax(-1).sum().item()
        second = torch.sort(x)[0].cumsum(0).sum().item()
    print(first, second, *[w.message for w in found], sep="|")
"""


@pytest.mark.parametrize("trouble", ("full", "missing", "no folder"))
def test_programs_without_a_cache_warn_once(tmp_path: Path, trouble: str) -> None:
    places = {"full": tmp_path, "missing": "/proc/missing", "no folder": "/dev/null/cache"}
    command = [sys.executable, "-c", textwrap.dedent(TROUBLED), trouble]
    paths = {"PYTHONPATH": str(SOURCES), "RUSHLIGHT_CACHE_DIR": str(places[trouble])}
    done = subprocess.run(
        command, env={**os.environ, **paths}, check=True, stdout=subprocess.PIPE, text=True
    )
    first, second, *warned = done.stdout.strip().split("|")
    assert (first, second) == ("3.0", "100.0")
    assert len(warned) == 1 and "its cache of compiled kernels" in warned[0]


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("RUSHLIGHT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", home)
    with pytest.warns(UserWarning, match="Could not determine home") as caught:
        assert Kernels(resolve).address(cube_kernel(1))
        assert Kernels(resolve).address(cube_kernel(2))
    assert len(caught) == 1


def test_long_compilation_is_announced_once(tmp_path: Path) -> None:
    code = """
        from small_kernels import *
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


def test_an_index_is_read_on_from_where_it_ended(tmp_path):
    reader, writer = ObjectCache(tmp_path), ObjectCache(tmp_path)
    keys = [f"{i:032x}" for i in range(3)]
    for key in keys:
        writer.keep(Bundle({key: f"kernel_{key}"}, b"code"))
        assert [list(b.symbols) for b in reader.find([key])] == [[key]]
    (tmp_path / "index").unlink()
    assert reader.find(keys) == []
    writer.keep(Bundle({keys[0]: "again"}, b"code"))
    assert [b.symbols for b in reader.find(keys)] == [{keys[0]: "again"}]


def test_a_folder_is_not_looked_through_after_every_write(tmp_path, monkeypatch):
    cache, scans = ObjectCache(tmp_path, bound=64_000), []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda folder: scans.append(folder) or scan(folder))
    for i in range(40):
        cache.keep(Bundle({f"{i:032x}": "kernel"}, bytes(100)))
    assert 1 < len(scans) < 15
    for i in range(40, 60):
        cache.keep(Bundle({f"{i:032x}": "kernel"}, bytes(8000)))
    held = sum(p.stat().st_size for p in tmp_path.glob("*.bundle"))
    assert held <= 64_000
