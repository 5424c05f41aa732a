"""Scatter and scan kernels against their definition in NumPy, and the promise that their bits
depend on inputs and sizes only.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

from rushlight import views
from rushlight.compiled import CheckFailed, CompiledGraph
from rushlight.ir.builder import Builder
from rushlight.ir.ref import Ref
from rushlight.loops import interpret
from rushlight.runtime import buffers
from rushlight.runtime.pool import get_num_threads, set_num_threads
from rushlight.views import View

dt: Any = importlib.import_module("rushlight.dtypes")  # the name `rushlight.dtype` is a class
DTYPES = (
    dt.float32, dt.float64, dt.float16, dt.bfloat16, dt.int8, dt.uint8, dt.int32, dt.int64,
    dt.bool_,
)  # fmt: skip


def sample(rng: np.random.Generator, shape: tuple[int, ...], kind: Any) -> np.ndarray:
    """Values of a dtype in its compute type."""
    if kind is dt.bool_:
        return rng.random(shape) < 0.4
    if kind.is_floating_point:
        return interpret.round_to(rng.standard_normal(shape), kind)
    return rng.integers(0, 7, shape).astype(kind.compute)


def stored(x: np.ndarray, kind: Any) -> np.ndarray:
    if kind is dt.bfloat16:
        return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(x, kind.storage)


class Case:
    """A graph under construction, with the contents of its leaves."""

    def __init__(self, seed: int = 0) -> None:
        self.k = Builder()
        self.rng = np.random.default_rng(seed)
        self.leaves: list[tuple[np.ndarray, Any]] = []

    def leaf(self, array: np.ndarray, kind: Any) -> Ref:
        self.leaves.append((np.asarray(array), kind))
        return self.k.leaf(len(self.leaves) - 1, self.leaves[-1][0].shape, kind)

    def random(self, shape: tuple[int, ...], kind: Any = dt.float32) -> Ref:
        return self.leaf(sample(self.rng, shape, kind), kind)

    def index(self, size: int, shape: tuple[int, ...]) -> Ref:
        return self.leaf(self.rng.integers(0, size, shape), dt.int64)

    def expected(self, out: Ref) -> np.ndarray:
        node = self.k.node("cast", [out.arg], (), out.shape, out.dtype)
        return interpret.evaluate([node], lambda n: self.leaves[n.attrs[0]][0])[0]

    def compiled(self, out: Ref) -> np.ndarray:
        node = self.k.node("cast", [out.arg], (), out.shape, out.dtype)
        graph = CompiledGraph(self.k, [node], {})
        arrays = [stored(*self.leaves[p]) for p in graph.leaves]
        made = buffers.Buffer(max(node.numel * node.dtype.itemsize, 1))
        graph.run([a.ctypes.data for a in arrays], [], [made.address] if graph.own else [])
        got = made.as_numpy(node.dtype.storage, node.shape).copy()
        if node.dtype is dt.bfloat16:
            return (got.astype(np.uint32) << 16).view(np.float32)
        return got.astype(node.dtype.compute)

    def check(self, out: Ref, exact: bool = True) -> None:
        got, want = self.compiled(out), self.expected(out)
        if exact:
            np.testing.assert_array_equal(got, want)
        else:
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def scatter_rows(case: Case, kind: str, base: Ref, source: Ref, index: Ref) -> Ref:
    """Rows of source combined into rows of base."""
    count, width = base.shape
    view = View((*index.shape, width), (0,) * len(index.shape) + (1,), 0)
    rows = case.k.reshape(index, (*index.shape, 1))
    return case.k.scatter(kind, base, source, view, [(rows, width, count)])


def scatter_along(case: Case, kind: str, base: Ref, dim: int, index: Ref, source: Ref) -> Ref:
    """What torch's scatter_reduce does."""
    strides = list(views.contiguous_strides(base.shape))
    step, strides[dim] = strides[dim], 0
    view = View(index.shape, tuple(strides), 0)
    return case.k.scatter(kind, base, source, view, [(index, step, base.shape[dim])])


@pytest.mark.parametrize("kind", ["set", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_rows(kind: str, dtype: Any) -> None:
    for width in (1, 3, 16, 37):
        case = Case(width)
        base, source = case.random((11, width), dtype), case.random((4, 9, width), dtype)
        case.check(scatter_rows(case, kind, base, source, case.index(11, (4, 9))))


@pytest.mark.parametrize("kind", ["set", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize(
    "dtype", [dt.float32, dt.bfloat16, dt.bool_, dt.uint8], ids=lambda d: d.name
)
def test_along_a_dimension(kind: str, dim: int, dtype: Any) -> None:
    case = Case(dim)
    index = case.index((4, 5, 6)[dim], (4, 5, 6))
    base, source = case.random((4, 5, 6), dtype), case.random((4, 5, 6), dtype)
    case.check(scatter_along(case, kind, base, dim, index, source))


def test_zeros_as_base_and_a_producer_after() -> None:
    case = Case()
    zeros = case.k.full((50, 70), 0.0, dt.float32)
    out = scatter_rows(case, "add", zeros, case.random((33, 70)) * 2.0, case.index(50, (33,)))
    case.check(case.k.reduce("sum", out * 0.5, [1]), exact=False)


def test_computed_base() -> None:
    case = Case()
    base = case.random((50, 20)) * case.random((20,)) + 1.0
    case.check(scatter_rows(case, "add", base, case.random((9, 20)), case.index(50, (9,))))


def test_contraction_as_base() -> None:
    case = Case()
    base = case.k.contract("ik,kj->ij", case.random((8, 5)), case.random((5, 20))) + 1.0
    out = scatter_rows(case, "add", base, case.random((9, 20)), case.index(8, (9,)))
    case.check(out, exact=False)


def test_scatter_into_scatter_and_base_still_read() -> None:
    case = Case()
    base = case.random((12, 20))
    first = scatter_rows(case, "add", base, case.random((9, 20)), case.index(12, (9,)))
    second = scatter_rows(case, "max", first, case.random((5, 20)), case.index(12, (5,)))
    case.check(second - first + base * 3.0)


def test_two_indices_meeting() -> None:
    """Two indices of one stride: everything may meet, so everything is in order."""
    case = Case()
    a, b = case.index(5, (40,)), case.index(5, (40,))
    base, source = case.random((9,)), case.random((40,))
    view = View((40,), (0,), 0)
    case.check(case.k.scatter("add", base, source, view, [(a, 1, 5), (b, 1, 5)]))


def test_overlapping_view() -> None:
    case = Case()
    base, source, index = case.random((40,)), case.random((6, 30)), case.index(5, (6, 1))
    view = View((6, 30), (1, 1), 0)
    case.check(case.k.scatter("add", base, source, view, [(index, 1, 5)]))


def test_negative_strides_and_transposed_sources() -> None:
    case = Case()
    base, source, index = case.random((10, 24)), case.random((24, 7)), case.index(10, (7, 1))
    flipped = View((7, 24), (0, -1), 23)
    moved = case.k.permute(case.k.flip(source, [0]), [1, 0])
    case.check(case.k.scatter("add", base, moved, flipped, [(index, 24, 10)]))


def test_plain_view_without_indices() -> None:
    case = Case()
    out = case.k.scatter(
        "add", case.random((6, 8)), case.random((3, 4)), View((3, 4), (16, 2), 1), []
    )
    case.check(out)


def test_broadcast_source_and_histogram() -> None:
    case = Case()
    one = case.k.full((1000,), 1, dt.int64)
    zeros = case.k.full((17,), 0, dt.int64)
    out = case.k.scatter(
        "add", zeros, one, View((1000,), (0,), 0), [(case.index(17, (1000,)), 1, 17)]
    )
    case.check(out)


def test_empty() -> None:
    case = Case()
    base = case.random((5, 4))
    case.check(scatter_rows(case, "add", base, case.random((0, 4)), case.index(5, (0,))))


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
@pytest.mark.parametrize("width", [1, 20])
def test_index_out_of_range(bad: int, width: int) -> None:
    case = Case()
    index = case.leaf(np.array([0, 4, bad, 1]), dt.int64)
    out = scatter_rows(case, "add", case.random((5, width)), case.random((4, width)), index)
    with pytest.raises(CheckFailed):
        case.compiled(out)
    with pytest.raises(interpret.IndexOutOfRange):
        case.expected(out)


def same_on_any_threads(case: Case, out: Ref) -> None:
    before = get_num_threads()
    try:
        found = []
        for count in (1, 2, 3):
            set_num_threads(count)
            found.append(case.compiled(out).tobytes())
        assert found[0] == found[1] == found[2]
    finally:
        set_num_threads(before)


def test_scatter_bits_on_any_threads() -> None:
    case = Case()
    zeros = case.k.full((20, 300), 0.0, dt.float32)
    out = scatter_rows(case, "add", zeros, case.random((900, 300)), case.index(20, (900,)))
    case.check(out)
    same_on_any_threads(case, out)
    case.check(
        scatter_along(
            case,
            "add",
            case.random((300, 70)),
            1,
            case.index(70, (300, 50)),
            case.random((300, 50)),
        )
    )


# -- scans


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_scan(kind: str, dtype: Any) -> None:
    for shape in ((1,), (15,), (16,), (100,), (3, 40), (40, 3), (4, 5, 33), (2, 70, 19)):
        for dim in range(len(shape)):
            case = Case(dim)
            x = case.random(shape, dtype)
            if dtype in (dt.float16, dt.bfloat16):  # both round once, from float64
                x = case.k.wide(x)
            case.check(case.k.scan(kind, x, dim), exact=not dtype.is_floating_point)


def test_scan_of_views() -> None:
    for dim in (0, 1, 2):
        case = Case(dim)
        x = case.random((6, 20, 18))
        k = case.k
        case.check(k.scan("sum", k.permute(x, [2, 0, 1]), dim), exact=False)
        case.check(k.scan("sum", k.flip(x, [dim]), dim), exact=False)
        case.check(k.scan("sum", k.slice(x, 1, 1, 9, 2), dim), exact=False)
        case.check(k.scan("sum", k.expand(case.random((20, 1)), (6, 20, 18)), dim), exact=False)
        case.check(k.scan("sum", x * 2.0, dim) + x, exact=False)


def test_scan_with_special_values() -> None:
    case = Case()
    x = np.random.default_rng(0).standard_normal((40, 40)).astype(np.float32)
    x[3, 5], x[7, 30], x[20, :], x[:, 33] = np.nan, np.inf, -0.0, -np.inf
    for kind in ("sum", "max", "min"):
        for dim in (0, 1):
            case.check(case.k.scan(kind, case.leaf(x, dt.float32), dim), exact=False)


def test_scan_to_another_dtype_and_empty() -> None:
    case = Case()
    case.check(case.k.scan("sum", case.random((9, 40), dt.int32), 1, dt.float32))
    case.check(case.k.scan("sum", case.random((0, 4)), 0))
    case.check(case.k.scan("sum", case.random((4, 0)), 0))


def test_scan_bits_on_any_threads_and_in_any_batch() -> None:
    case = Case()
    x = case.random((50, 700), dt.float64)
    whole = case.k.scan("sum", x, 1)
    same_on_any_threads(case, whole)
    one = case.compiled(case.k.scan("sum", case.k.slice(x, 0, 7, 1), 1))
    assert one.tobytes() == case.compiled(whole)[7:8].tobytes()
    same_on_any_threads(case, case.k.scan("prod", x, 0))


# -- in place


def run_written(case: Case, out: Ref, leaf: int) -> tuple[CompiledGraph, np.ndarray]:
    """Compute `out` into the memory of a leaf, and compare."""
    want = case.expected(out)
    graph = CompiledGraph(case.k, [out.node], {0: leaf})
    memory = {p: stored(*case.leaves[p]).copy() for p in graph.leaves}
    graph.run([memory[p].ctypes.data for p in graph.leaves], [], [])
    np.testing.assert_allclose(memory[leaf], want, rtol=1e-6, atol=1e-6)
    return graph, memory[leaf]


def test_writes_to_parts_of_a_leaf_copy_nothing() -> None:
    case = Case()
    x = case.random((30, 40))
    for row in (3, 3, 9):
        part = case.k.slice(x, 0, row, 2) * 0.5 + 1.0
        x = case.k.update(x, [(part, View((2, 40), (40, 1), row * 40))], (30, 40), dt.float32)
    graph, _ = run_written(case, x, 0)
    assert len(graph.units) == 3
    assert graph.arena == 0


def test_parts_that_read_elsewhere_in_the_leaf_are_copied() -> None:
    case = Case()
    x = case.random((30, 40))
    moved = case.k.slice(x, 0, 0, 29)
    out = case.k.update(x, [(moved, View((29, 40), (40, 1), 40))], (30, 40), dt.float32)
    run_written(case, out, 0)


def test_a_refused_index_leaves_the_leaf_as_it_was() -> None:
    case = Case()
    x = case.random((30, 40))
    ones = case.k.full((1, 40), 1.0, dt.float32)
    out = case.k.update(x, [(ones, View((1, 40), (40, 1), 0))], (30, 40), dt.float32)
    index = case.leaf(np.array([30]), dt.int64)
    out = scatter_rows(case, "add", out, ones, index)
    graph = CompiledGraph(case.k, [out.node], {0: 0})
    memory = {p: stored(*case.leaves[p]).copy() for p in graph.leaves}
    with pytest.raises(CheckFailed):
        graph.run([memory[p].ctypes.data for p in graph.leaves], [], [])
    assert memory[0].tobytes() == stored(*case.leaves[0]).tobytes()


def test_scatter_overwrites_an_intermediate() -> None:
    case = Case()
    base = case.k.reduce("sum", case.random((9, 30, 20)), [0])
    out = scatter_rows(case, "add", base, case.random((9, 20)), case.index(30, (9,)))
    case.check(out * 2.0, exact=False)
    assert CompiledGraph(case.k, [out.node], {}).arena == 0
