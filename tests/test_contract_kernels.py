"""Contraction kernels against NumPy in float64: shapes, views, dtypes, epilogues, and equal bits whatever the tiling."""

from __future__ import annotations

import ctypes
import itertools
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from rushlight.loops.contract import Epilogue, Operand, plan_contraction
from rushlight.loops.contract_text import declaration
from rushlight.loops.kernel import BufferRef, KernelSource, Launch

# ---- a driver: compile a launch's kernel, call it on NumPy memory ----

CPUS = {"avx512": "skylake-avx512", "avx2": "haswell", "generic": "x86-64"}


@cache
def _machine(target: str):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = "-prefer-256-bit" if target == "avx512" else ""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=CPUS[target], features=features, opt=2, jit=True
    )


def host_targets() -> list[str]:
    has = llvm.get_host_cpu_features()
    found = [name for name, flag in (("avx512", "avx512bw"), ("avx2", "fma")) if has.get(flag)]
    return found or ["generic"]


@cache
def _entry(source: KernelSource, target: str):
    text = source.text + "\n".join(declaration(name) for name in sorted(source.needs))
    module = llvm.parse_assembly(text)
    module.verify()
    builder = llvm.create_pass_builder(_machine(target), llvm.create_pipeline_tuning_options(1))
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
    engine = llvm.create_mcjit_compiler(module, _machine(target))
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )
    return kind(engine.get_function_address(source.name)), engine


def prepare(launch: Launch, addresses: list[int], target: str):
    """A function of (begin, end) that runs some chunks of a launch on memory at these addresses."""
    entry, _ = _entry(launch.source, target)
    slots = [addresses[ref.buffer] + ref.offset for ref in launch.pointers]
    slots += [table.ctypes.data for table in launch.tables]
    block = np.array(slots + list(launch.ints), np.int64)
    memory = np.full(launch.scratch + 64, 0xFF, np.uint8)
    scratch = memory.ctypes.data + -memory.ctypes.data % 64

    def call(begin: int, end: int, keep=(block, memory)) -> None:
        entry(block.ctypes.data, begin, end, scratch)

    return call


def run(launches: list[Launch], addresses: list[int], target: str, cut: int | None = None) -> None:
    for launch in launches:
        call = prepare(launch, addresses, target)
        step = cut or max(launch.chunks, 1)
        for begin in reversed(range(0, launch.chunks, step)):
            call(begin, min(begin + step, launch.chunks))


# ---- problems as einsum-like views ----


def strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def as_operand(number: int, array: np.ndarray, dtype: str, batch: int, rows: int) -> Operand:
    steps = strides(array)
    return Operand(
        BufferRef(number), dtype, steps[:batch], steps[batch : batch + rows], steps[batch + rows :]
    )


def contract(
    a: np.ndarray, b: np.ndarray, counts=(0, 1, 1, 1), *, target=None, cut=None, out=None, epilogue=None,
    extra=(), dtype=None, out_dtype=None, workers=1,
) -> np.ndarray:  # fmt: skip
    """Contract a (batch, m, k) with b (batch, k, n), where each stands for counts of dimensions."""
    target = target or host_targets()[0]
    nb, nm, nn, nk = counts
    batch, m, k, n = a.shape[:nb], a.shape[nb : nb + nm], a.shape[nb + nm :], b.shape[nb + nk :]
    dtype = dtype or a.dtype.name
    if out is None:
        out = np.full(batch + m + n, -7, a.dtype if out_dtype is None else out_dtype)
    launches = plan_contraction(
        batch, m, n, k, as_operand(0, a, dtype, nb, nm), as_operand(1, b, dtype, nb, nk),
        as_operand(2, out, dtype if out_dtype is None else out_dtype, nb, nm),
        epilogue=epilogue, target=target, workers=workers,
    )  # fmt: skip
    arrays = [a, b, out, *extra]
    run(launches, [array.ctypes.data for array in arrays], target, cut)
    return out


def rand(*shape: int, dtype="float32", seed=0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(got: np.ndarray, a: np.ndarray, b: np.ndarray, tolerance=2e-6) -> None:
    """Compare a plain matrix product (leading dimensions broadcast) with NumPy's in float64."""
    wide_a, wide_b = a.astype("float64"), b.astype("float64")
    scale = np.abs(wide_a) @ np.abs(wide_b) + 1e-30
    assert np.all(np.abs(got - wide_a @ wide_b) <= tolerance * scale)


SIZES = [
    (1, 1, 1), (1, 300, 1), (13, 16, 32), (8, 32, 8), (64, 64, 64), (5, 7, 100), (100, 513, 3),
    (130, 256, 70), (27, 600, 47), (1, 64, 1000), (1000, 64, 1), (300, 31, 33),
]  # fmt: skip


@pytest.mark.parametrize("target", host_targets())
@pytest.mark.parametrize("m,k,n", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matrix_product_in_every_layout(m, k, n, dtype, target):
    for left, right in itertools.product((False, True), repeat=2):
        a = rand(k, m, dtype=dtype).T if left else rand(m, k, dtype=dtype)
        b = rand(n, k, dtype=dtype, seed=1).T if right else rand(k, n, dtype=dtype, seed=1)
        got = contract(a, b, target=target)
        check(got, a, b, 2e-6 if dtype == "float32" else 1e-14)
