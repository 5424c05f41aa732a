"""Contraction kernels against NumPy in float64: shapes, views, dtypes, epilogues, and equal
bits whatever the tiling.
"""

from __future__ import annotations

import ctypes
import itertools
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from rushlight.codegen.target import named_target
from rushlight.loops.contract import Epilogue, Operand, plan_contraction
from rushlight.loops.kernel import BufferRef, KernelSource, Launch

# ---- a driver: compile a launch's kernel, call it on NumPy memory

CPUS = {
    "avx512": "skylake-avx512", "avx2": "haswell", "generic": "x86-64",
    "matrix": "sapphirerapids",
}  # fmt: skip


@cache
def _machine(target: str):
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = "-prefer-256-bit" if target in ("avx512", "matrix") else ""
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=CPUS[target], features=features, opt=2, jit=True
    )


def host_targets() -> list[str]:
    has = llvm.get_host_cpu_features()
    found = [name for name, flag in (("avx512", "avx512bw"), ("avx2", "fma")) if has.get(flag)]
    return found or ["generic"]


@cache
def _entry(source: KernelSource, target: str):
    module = llvm.parse_assembly(source.text)
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
    """A function of (begin, end) that runs some chunks of a launch on memory at these
    addresses.
    """
    entry, _ = _entry(launch.source, target)
    slots = [addresses[ref.buffer] + ref.offset for ref in launch.pointers]
    slots += [table.ctypes.data for table in launch.tables]
    block = np.array(slots + list(launch.ints), np.int64)
    memory = np.full(launch.scratch + 64, 0xFF, np.uint8)
    scratch = memory.ctypes.data + -memory.ctypes.data % 64

    def call(begin: int, end: int, keep=(block, memory)) -> None:
        entry(block.ctypes.data, begin, end, scratch)

    return call


def run(
    launches: list[Launch], addresses: list[int], target: str, cut: int | None = None
) -> None:
    for launch in launches:
        call = prepare(launch, addresses, target)
        step = cut or max(launch.chunks, 1)
        for begin in reversed(range(0, launch.chunks, step)):
            call(begin, min(begin + step, launch.chunks))


# ---- problems as einsum-like views


def strides(array: np.ndarray) -> tuple[int, ...]:
    return tuple(step // array.itemsize for step in array.strides)


def as_operand(number: int, array: np.ndarray, dtype: str, batch: int, rows: int) -> Operand:
    steps = strides(array)
    return Operand(
        BufferRef(number),
        dtype,
        steps[:batch],
        steps[batch : batch + rows],
        steps[batch + rows :],
    )


def contract(
    a: np.ndarray, b: np.ndarray, counts=(0, 1, 1, 1), *, target=None, cut=None, out=None,
    epilogue=None,
    extra=(), dtype=None, out_dtype=None, workers=1,
) -> np.ndarray:  # fmt: skip
    """Contract a (batch, m, k) with b (batch, k, n), where each stands for counts of
    dimensions.
    """
    target = target or host_targets()[0]
    nb, nm, _, nk = counts
    batch, m, k, n = a.shape[:nb], a.shape[nb : nb + nm], a.shape[nb + nm :], b.shape[nb + nk :]
    dtype = dtype or a.dtype.name
    if out is None:
        out = np.full(batch + m + n, 7, a.dtype if out_dtype is None else out_dtype)
    launches = plan_contraction(
        batch, m, n, k, as_operand(0, a, dtype, nb, nm), as_operand(1, b, dtype, nb, nk),
        as_operand(2, out, dtype if out_dtype is None else out_dtype, nb, nm),
        epilogue=epilogue, target="avx512" if target == "matrix" else target, workers=workers,
        has_matrix_unit=target == "matrix",
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


@pytest.mark.parametrize("target", host_targets())
@pytest.mark.parametrize("dtype,tolerance", [("float16", 2e-3), ("bfloat16", 1e-2)])
def test_half_precision_accumulates_in_float32(dtype, tolerance, target):
    a, b = rand(37, 300), rand(300, 45, seed=1)
    for product in (a, b):
        product[:] = round_half(product, dtype)
    stored_a, stored_b = to_half(a, dtype), to_half(b, dtype)
    got = contract(stored_a, stored_b, target=target, dtype=dtype)
    check(from_half(got, dtype), a, b, tolerance)
    exact = contract(a, b, target=target)
    assert np.array_equal(got, to_half(exact, dtype))


def to_half(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float16":
        return array.astype("float16")
    bits = array.astype("float32").view("uint32").astype("uint64")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("int16")


def from_half(array: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "float16":
        return array.astype("float32")
    return (array.view("uint16").astype("uint32") << 16).view("float32")


def round_half(array: np.ndarray, dtype: str) -> np.ndarray:
    return from_half(to_half(array, dtype), dtype)


needs_matrix_unit = pytest.mark.skipif(
    not named_target("host").has_amx, reason="no matrix unit in this machine"
)


@needs_matrix_unit
@pytest.mark.parametrize("m,k,n", [*SIZES, (17, 33, 40), (100, 1100, 90), (48, 520, 16)])
def test_matrix_unit_in_every_layout(m, k, n):
    for left, right in itertools.product((False, True), repeat=2):
        a = rand(k, m).T if left else rand(m, k)
        b = rand(n, k, seed=1).T if right else rand(k, n, seed=1)
        stored_a, stored_b = to_half(a, "bfloat16"), to_half(b, "bfloat16")
        got = np.empty((m, n), "float32")
        contract(stored_a, stored_b, target="matrix", dtype="bfloat16", out=got,
                 out_dtype="float32")  # fmt: skip
        a, b = from_half(stored_a, "bfloat16"), from_half(stored_b, "bfloat16")
        check(got, a, b, 1e-5)
        assert np.array_equal(got, matrix_unit_sums(a, b))


def matrix_unit_sums(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the matrix unit is defined to compute: even and odd products of each 32 of k."""
    total = np.zeros((len(a), b.shape[1]), "float32")
    for start in range(0, a.shape[1], 32):
        parts = []
        for parity in (0, 1):
            part = np.zeros_like(total)
            for k in range(start + parity, min(start + 32, a.shape[1]), 2):
                exact = part.astype("float64") + a[:, k : k + 1].astype("float64") * b[k]
                part = exact.astype("float32")
            parts.append(part)
        total = total + (parts[0] + parts[1])
    return total


@needs_matrix_unit
@pytest.mark.parametrize("m,k,n", [(70, 700, 66), (9, 513, 200), (40, 64, 10)])
def test_matrix_unit_bits_do_not_depend_on_batch_layout_or_cut(m, k, n):
    a, b = to_half(rand(m, k), "bfloat16"), to_half(rand(k, n, seed=1), "bfloat16")

    def product(a, b, counts=(0, 1, 1, 1), **options):
        out = np.empty((*a.shape[:-1], b.shape[-1]), "float32")
        return contract(a, b, counts, target="matrix", dtype="bfloat16", out=out,
                        out_dtype="float32", **options)  # fmt: skip

    want = product(a, b)
    for workers, cut in itertools.product((1, 8), (None, 1)):
        assert np.array_equal(want, product(a, b, workers=workers, cut=cut))
    assert np.array_equal(want.T, product(b.T, a.T))
    for row in (0, m - 1):
        assert np.array_equal(want[row : row + 1], product(a[row : row + 1], b))
    for column in (0, n - 1):
        one = product(a, b[:, column:][:, :1])
        assert np.array_equal(want[:, column : column + 1], one)
    both = product(np.stack([a[::-1], a]), np.stack([b, b]), (1, 1, 1, 1))
    assert np.array_equal(want, both[1])


@needs_matrix_unit
@pytest.mark.parametrize("seed", range(40))
def test_matrix_unit_on_random_views(seed):
    """Small integers, so that every sum is exact whatever its order."""
    random = np.random.default_rng(seed)
    counts = [int(random.integers(0, 3))] + [int(random.integers(1, 4)) for _ in range(3)]
    sizes = []
    for count, limit in zip(counts, [4, 70, 90, 700], strict=True):
        side = max(2, int(limit ** (1 / max(count, 1)) * 1.7))
        sizes.append([int(random.integers(1, side + 1)) for _ in range(count)])
        if count and random.random() < 0.5:
            sizes[-1][-1] = int(random.choice([4, 8, 16, 32]))
    b, m, n, k = sizes
    left = random_view(random, b + m + k, "int32")
    right = random_view(random, b + k + n, "int32")
    out = np.zeros(b + m + n, "float32")
    contract(
        as_bfloat16(left), as_bfloat16(right), tuple(counts), target="matrix",
        dtype="bfloat16", out=out, out_dtype="float32",
        workers=int(random.choice([1, 4])), cut=int(random.choice([1, 3])),
    )  # fmt: skip
    letters = "abcdefghijklmnop"
    names = [letters[4 * place : 4 * place + len(dims)] for place, dims in enumerate(sizes)]
    rule = (
        f"{names[0]}{names[1]}{names[3]},{names[0]}{names[3]}{names[2]}->{''.join(names[:3])}"
    )
    want = np.einsum(rule, left.astype("int64"), right.astype("int64"), optimize=True)
    assert np.array_equal(out, want), (rule, sizes)


def as_bfloat16(view: np.ndarray) -> np.ndarray:
    """The same small integers in the same layout, as the upper halves of float32 memory."""
    memory = view
    while memory.base is not None and isinstance(memory.base, np.ndarray):
        memory = memory.base
    halves = to_half(memory, "bfloat16")
    start = (view.ctypes.data - memory.ctypes.data) // memory.itemsize
    steps = tuple(2 * step for step in strides(view))
    flat = np.lib.stride_tricks.as_strided
    shifted = halves.reshape(-1)[start:]
    return flat(shifted, view.shape, steps)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "int16"])
def test_integers_wrap_around(dtype):
    random = np.random.default_rng(0)
    a = random.integers(0, 100, (21, 270)).astype(dtype)
    b = random.integers(0, 100, (270, 35)).astype(dtype)
    assert np.array_equal(contract(a, b), a @ b)
    assert np.array_equal(contract(a[:, ::2].T, a[:, :35]), a[:, ::2].T @ a[:, :35])


@pytest.mark.parametrize("target", host_targets())
def test_strided_reversed_and_expanded_views(target):
    a, b = rand(60, 140), rand(140, 90, seed=1)
    for left, right in [
        (a[::-2, ::3], b[:47, ::-1]), (a[:, ::-1], b[::-1, 5:60]), (a[:1].repeat(9, 0), b),
        (np.broadcast_to(a[0], (30, 140)), b), (a, np.broadcast_to(b[:, :1], (140, 40))),
    ]:  # fmt: skip
        check(contract(left, right, target=target), left, right)
        out = np.full((2 * len(left), 3 * right.shape[1]), -7, "float32")
        check(contract(left, right, target=target, out=out[::2, ::-3]), left, right)
        assert np.all(out[1::2] == -7)
        turned = np.full((right.shape[1], len(left)), -7, "float32").T
        check(contract(left, right, target=target, out=turned), left, right)


def test_batches_and_shared_operands():
    a, b = rand(3, 4, 9, 33), rand(3, 4, 33, 20, seed=1)
    check(contract(a, b, (2, 1, 1, 1)), a, b)
    shared = np.broadcast_to(b[:1, 1:2], b.shape)
    check(contract(a, shared, (2, 1, 1, 1)), a, shared)
    check(contract(a, np.broadcast_to(b[:, :1], b.shape), (2, 1, 1, 1)), a, b[:, :1])
    left = np.broadcast_to(a[:1, :1], a.shape)
    check(contract(left, b, (2, 1, 1, 1)), left, b)


def test_composite_dimensions_follow_einsum():
    a = rand(2, 5, 3, 7, 4).transpose(1, 3, 0, 2, 4)  # (m m) (k k k)
    b = rand(3, 6, 4, 9, 2, seed=1).transpose(4, 0, 2, 1, 3)  # (k k k) (n n)
    got = contract(a, b, (0, 2, 2, 3))
    want = np.einsum("abkij,kijcd->abcd", a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", host_targets())
@pytest.mark.parametrize("row", [4, 8, 16, 32])
def test_rows_and_columns_in_short_runs(row, target):
    a = rand(50, 9, row + 3)[:, :, :row].transpose(1, 2, 0)  # (m m) k
    b = rand(50, 7, row + 5, seed=1)[:, :, :row]  # k (n n)
    got = contract(a, b, (0, 2, 2, 1), target=target)
    want = np.einsum("abk,kcd->abcd", a.astype("float64"), b.astype("float64"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", host_targets())
@pytest.mark.parametrize("size,channels", [(16, 5), (8, 19), (4, 6), (7, 6), (6, 33)])
def test_convolution_and_its_weight_gradient(size, channels, target):
    x, w = rand(3, channels, size + 2, size + 2), rand(14, channels, 3, 3, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))  # n c h w i j
    y = np.empty((3, 14, size, size), "float32")
    columns = windows.transpose(1, 4, 5, 0, 2, 3)
    contract(w, columns, (0, 1, 3, 3), target=target, out=y.transpose(1, 0, 2, 3))
    want = np.einsum("ocij,nchwij->nohw", w.astype("float64"), windows.astype("float64"))
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-4)
    gradient = contract(
        y.transpose(1, 0, 2, 3),
        windows.transpose(0, 2, 3, 1, 4, 5),
        (0, 1, 3, 3),
        target=target,
    )
    want = np.einsum("nohw,nchwij->ocij", y.astype("float64"), windows.astype("float64"))
    np.testing.assert_allclose(gradient, want, rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("size,before,after", [(32, 6, 64), (24, 3, 40), (33, 4, 100)])
def test_windows_read_in_place_give_the_bits_of_packed_ones(monkeypatch, size, before, after):
    x, g = rand(2, before, size + 2, size + 2), rand(2, after, size, size, seed=1)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    views = g.transpose(1, 0, 2, 3), windows.transpose(0, 2, 3, 1, 4, 5)
    got = contract(*views, (0, 1, 3, 3), workers=2)
    want = np.einsum("nohw,nchwij->ocij", g.astype("float64"), windows.astype("float64"))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=5e-3)
    monkeypatch.setattr("rushlight.loops.contract.FEW_COLUMNS", 0)
    assert np.array_equal(got, contract(*views, (0, 1, 3, 3)))


def test_weights_that_stay_make_one_product_of_a_batch():
    w, x = rand(20, 150), rand(6, 150, 16, seed=1)
    shared = np.broadcast_to(w, (6, 20, 150))
    got = contract(shared, x, (1, 1, 1, 1))
    check(got, shared, x)
    for each in range(6):
        assert np.array_equal(got[each], contract(w, x[each]))


def test_no_products_gives_zero_and_no_outputs_gives_no_launch():
    assert np.array_equal(contract(rand(5, 0), rand(0, 40)), np.zeros((5, 40), "float32"))
    assert contract(rand(0, 5), rand(5, 4)).shape == (0, 4)
    assert contract(rand(4, 5), rand(5, 0)).shape == (4, 0)


# ---- the same bits


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("m,k,n", [(70, 700, 66), (9, 513, 200), (40, 64, 10)])
def test_bits_do_not_depend_on_tile_target_batch_layout_or_cut(m, k, n, dtype):
    a, b = rand(m, k, dtype=dtype), rand(k, n, dtype=dtype, seed=1)
    want = contract(a, b)
    for target, workers, cut in itertools.product(host_targets(), (1, 8), (None, 1)):
        assert np.array_equal(want, contract(a, b, target=target, workers=workers, cut=cut))
    assert np.array_equal(want, contract(a.T.copy().T, b.T.copy().T))
    assert np.array_equal(want.T, contract(b.T, a.T))
    for row in (0, m - 1):
        assert np.array_equal(want[row : row + 1], contract(a[row : row + 1], b))
        along = contract(a[row : row + 1], b.T.copy().T)
        assert np.array_equal(want[row : row + 1], along)
    for rows in (3, 4, 7):
        assert np.array_equal(want[:rows], contract(a[:rows], b.T.copy().T))
    for column in (0, n - 1):
        assert np.array_equal(want[:, column:][:, :1], contract(a, b[:, column:][:, :1]))
    both = contract(np.stack([a[::-1], a]), np.stack([b, b]), (1, 1, 1, 1))
    assert np.array_equal(want, both[1])


def test_sums_are_fma_in_order_within_blocks():
    a, b = rand(1, 600, dtype="float64"), rand(600, 1, dtype="float64", seed=1)
    from math import fsum

    got = contract(a, b)[0, 0]
    assert abs(got - fsum((a[0] * b[:, 0]).tolist())) < 1e-12
    ones = np.full((1, 300), 1.0, "float32")
    small = np.full((300, 1), 2.0**-24, "float32")
    small[0] = (
        1.0  # the first block's sum stays at 1, the second's 44 small ones are added at once
    )
    assert contract(ones, small)[0, 0] == np.float32(1 + 44 * 2.0**-24)


def test_bits_do_not_depend_on_threads_or_table_limit(monkeypatch):
    a, b = rand(6, 9, 70, 40).transpose(0, 2, 1, 3), rand(9, 40, 64, 3, seed=1)
    a, b = a[:, :, 0], b[0].transpose(0, 2, 1)  # (m m) k, k (n n)
    want = contract(a, b, (0, 2, 2, 1))
    np.testing.assert_allclose(want, np.einsum("abk,kcd->abcd", a, b), rtol=1e-4, atol=1e-4)
    monkeypatch.setattr("rushlight.loops.contract.LARGEST_TABLE", 16)
    assert np.array_equal(want, contract(a, b, (0, 2, 2, 1)))
    a, b, out = rand(600, 300), rand(300, 700, seed=1), np.empty((600, 700), "float32")
    (launch,) = plan_contraction(
        (), (600,), (700,), (300,), as_operand(0, a, "float32", 0, 1),
        as_operand(1, b, "float32", 0, 1), as_operand(2, out, "float32", 0, 1), workers=4,
        target=host_targets()[0],
    )  # fmt: skip
    memory = [array.ctypes.data for array in (a, b, out)]
    with ThreadPoolExecutor(3) as pool:
        cuts = [launch.chunks * part // 3 for part in range(4)]
        calls = [prepare(launch, memory, host_targets()[0]) for _ in range(3)]
        list(pool.map(lambda call, begin, end: call(begin, end), calls, cuts, cuts[1:]))
    assert launch.chunks > 3
    assert np.array_equal(out, contract(a, b))


# ---- epilogues


def bias_relu(k, value: str) -> str:
    bias, residual = k.load(0), k.load(1)
    total = k.let(f"fadd <16 x float> {value}, {bias}")
    total = k.let(f"fadd <16 x float> {total}, {residual}")
    k.store(2, total)
    positive = k.let(f"fcmp ogt <16 x float> {total}, zeroinitializer")
    scale = k.let(f"fptrunc <16 x double> {k.load(3)} to <16 x float>")
    kept = k.let(
        f"select <16 x i1> {positive}, <16 x float> {total}, <16 x float> zeroinitializer"
    )
    return k.let(f"fmul <16 x float> {kept}, {scale}")


@pytest.mark.parametrize("target", host_targets())
@pytest.mark.parametrize("m,k,n", [(30, 40, 50), (1, 20, 64), (70, 300, 1), (5, 0, 9)])
@pytest.mark.parametrize("by_row", [False, True])
def test_epilogue_reads_and_writes_operands_once_per_output(m, k, n, by_row, target):
    a, b = rand(2, m, k), rand(2, k, n, seed=1)
    bias = rand(m if by_row else n, seed=2)
    residual, saved, scale = (
        rand(2, m, n, seed=3),
        np.zeros((2, m, n), "float32"),
        np.array([1.5]),
    )
    steps = ((0,), (1,), (0,)) if by_row else ((0,), (0,), (1,))
    operands = (
        Operand(BufferRef(3), "float32", *steps),
        as_operand(4, residual, "float32", 1, 1),
        as_operand(5, saved, "float32", 1, 1),
        Operand(BufferRef(6), "float64", (0,), (0,), (0,)),
    )
    got = contract(
        a, b, (1, 1, 1, 1), target=target, epilogue=Epilogue("bias_relu", bias_relu, operands),
        extra=(bias, residual, saved, scale),
    )  # fmt: skip
    plain = contract(a, b, (1, 1, 1, 1), target=target)
    total = plain + (bias[:, None] if by_row else bias) + residual
    assert np.array_equal(saved, total)
    assert np.array_equal(got, np.where(total > 0, total, np.float32(0)) * np.float32(1.5))


def test_epilogue_may_return_another_dtype_and_ask_for_offsets():
    def parity(k, value: str) -> str:
        odd = k.let(f"and <16 x i64> {k.offsets(0)}, splat (i64 1)")
        return k.let(f"trunc <16 x i64> {odd} to <16 x i8>")

    a, b, out = rand(7, 20), rand(20, 41, seed=1), np.full((7, 41), 9, "uint8")
    operand = Operand(BufferRef(3), "float32", (), (41,), (1,))
    contract(
        a, b, out=out, out_dtype="bool", dtype="float32",
        epilogue=Epilogue("parity", parity, (operand,), "bool"),
        extra=(a,),
    )  # fmt: skip
    assert np.array_equal(out, np.arange(7 * 41, dtype="uint8").reshape(7, 41) & 1)


def test_epilogue_may_make_blocks():
    def count(k, value: str) -> str:
        first = k.let(f"extractelement <16 x float> {value}, i32 0")
        low = k.let(f"fcmp olt float {first}, 0.0")
        tag = k.name()[1:]
        k.line(f"br i1 {low}, label %low{tag}, label %join{tag}")
        k.text.label(f"low{tag}")
        k.line(f"br label %join{tag}")
        k.text.label(f"join{tag}")
        return k.let(f"fneg <16 x float> {value}")

    a, b = rand(9, 20), rand(20, 70, seed=1)
    got = contract(a, b, epilogue=Epilogue("count", count))
    assert np.array_equal(got, -contract(a, b))


# ---- costs


def test_new_sizes_reuse_kernels():
    names = set()
    for m, n, k in itertools.product((128, 256, 1000), (128, 512, 700), (64, 300)):
        a, b = rand(m, k), rand(k, n)
        launches = plan_contraction(
            (), (m,), (n,), (k,), as_operand(0, a, "float32", 0, 1),
            as_operand(1, b, "float32", 0, 1), Operand(BufferRef(2), "float32", (), (n,), (1,)),
        )  # fmt: skip
        names |= {launch.source.name for launch in launches}
    assert len(names) <= 4


# ---- everything at once


def random_view(random: np.random.Generator, shape: list[int], dtype: str) -> np.ndarray:
    """Values in memory laid out anyhow: permuted, sliced, reversed and expanded dimensions."""
    order = random.permutation(len(shape))
    pads = random.integers(0, 2, len(shape)) * random.integers(0, 4, len(shape))
    steps = random.choice([1, 1, 1, 2, -1], len(shape))
    sizes = [shape[axis] * abs(steps[axis]) + pads[axis] for axis in order]
    memory = random.integers(-8, 8, sizes).astype(dtype).transpose(np.argsort(order))
    cuts = [slice(None, None, int(step)) for step in steps]
    view = memory[tuple(cuts)][tuple(slice(size) for size in shape)]
    for axis in range(len(shape)):
        if random.random() < 0.1:
            one = view[(slice(None),) * axis + (slice(1),)]
            view = np.broadcast_to(one, view.shape)
    return view


@pytest.mark.parametrize("seed", range(40))
def test_random_contractions(seed):
    """Small integers, so that every sum is exact whatever its order."""
    random = np.random.default_rng(seed)
    counts = [int(random.integers(0, 3))] + [int(random.integers(1, 4)) for _ in range(3)]
    most = [4, 40, 60, 400]
    sizes = []
    for count, limit in zip(counts, most, strict=True):
        side = max(2, int(limit ** (1 / max(count, 1)) * 1.7))
        sizes.append([int(random.integers(1, side + 1)) for _ in range(count)])
        if count and random.random() < 0.5:
            sizes[-1][-1] = int(random.choice([4, 8, 16, 32]))
    b, m, n, k = sizes
    dtype = str(random.choice(["float32", "float64", "int32", "float32"]))
    left = random_view(random, b + m + k, dtype)
    right = random_view(random, b + k + n, dtype)
    out = random_view(random, b + m + n, dtype)
    out = out.copy() if 0 in strides(out) else out
    target = str(random.choice(host_targets()))
    got = contract(
        left, right, tuple(counts), target=target, out=out, workers=int(random.choice([1, 4])),
        cut=int(random.choice([1, 3])),
    )  # fmt: skip
    letters = "abcdefghijklmnop"
    names = [letters[4 * place : 4 * place + len(dims)] for place, dims in enumerate(sizes)]
    rule = (
        f"{names[0]}{names[1]}{names[3]},{names[0]}{names[3]}{names[2]}->{''.join(names[:3])}"
    )
    want = np.einsum(rule, left.astype("int64"), right.astype("int64"), optimize=True)
    assert np.array_equal(got, want), (rule, sizes, dtype, target)
