"""Random graphs, compiled and interpreted: a few always, thousands in the second tier."""

from __future__ import annotations

import importlib
from typing import Any

import fuzz_graphs
import numpy as np
import pytest

from rushlight.compiled import CompiledGraph
from rushlight.ir.builder import Builder
from rushlight.loops import interpret

dt: Any = importlib.import_module("rushlight.dtypes")  # the name `rushlight.dtype` is a class


def check(first: int, count: int) -> None:
    for seed in range(first, first + count):
        assert not fuzz_graphs.trial(seed), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_graphs(first: int) -> None:
    check(first, 10)


def test_two_results_may_exchange_the_memory_of_two_leaves() -> None:
    k = Builder()
    a, b, c = (k.leaf(i, (5, 33), dt.float32) for i in range(3))
    arrays = [np.arange(165, dtype=np.float32).reshape(5, 33) + i for i in range(3)]
    first, second = b * c, b * a
    want = interpret.evaluate([first.node, second.node], lambda n: arrays[n.attrs[0]])
    graph = CompiledGraph(k, [first.node, second.node], {0: 0, 1: 1})
    graph.run([array.ctypes.data for array in arrays], [], [])
    for made, right in zip(arrays, want, strict=False):
        np.testing.assert_array_equal(made, right)


# Graphs that found faults: a sum of rows made early; a leaf overwritten and read afterwards.
@pytest.mark.parametrize("seed", [50206, 50800])
def test_graphs_that_once_failed(seed: int) -> None:
    check(seed, 1)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 250))
def test_many_random_graphs(first: int) -> None:
    check(first, 250)
