"""Tensors without elements: their results, and whether these have a history, as PyTorch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

Call = Callable[..., Any]  # of a library, a tensor of no elements with a history, an index

CALLS: dict[str, Call] = {
    "cat of nothing": lambda m, e, i: m.cat([e.detach(), e]),
    "cat of nothing first": lambda m, e, i: m.cat([e, m.zeros(3, 5)]),
    "cat of nothing last": lambda m, e, i: m.cat([m.zeros(2), e]),
    "hstack": lambda m, e, i: m.hstack([m.zeros(2), e]),
    "index_add": lambda m, e, i: m.zeros(2).index_add(0, i, e),
    "index_put": lambda m, e, i: m.zeros(2).index_put((i,), e),
    "masked_scatter": lambda m, e, i: m.zeros(0).masked_scatter(m.zeros(0) > 0, e),
    "masked_scatter_": lambda m, e, i: m.zeros(2).masked_scatter_(m.zeros(2) > 0, e),
    "median": lambda m, e, i: e.median(),
    "nanmedian": lambda m, e, i: e.nanmedian(),
    "scatter": lambda m, e, i: m.zeros(2).scatter(0, i, e),
    "scatter_": lambda m, e, i: m.zeros(2).scatter_(0, i, e),
    "scatter_add": lambda m, e, i: m.zeros(2).scatter_add(0, i, e),
    "scatter_reduce": lambda m, e, i: m.zeros(2).scatter_reduce(0, i, e, "amax"),
    "matrix_rank": lambda m, e, i: m.linalg.matrix_rank(m.zeros(5, 0), hermitian=True),
    "pinv": lambda m, e, i: m.linalg.pinv(m.zeros(0, 5), hermitian=True),
    "tensorsolve": lambda m, e, i: m.linalg.tensorsolve(m.zeros(0, 3, 0), m.zeros(0, 3)),
    "cross_entropy of no classes": lambda m, e, i: m.nn.functional.cross_entropy(
        m.zeros(0, 0), m.zeros(0, 0)
    ),
    "smoothed cross_entropy of no classes": lambda m, e, i: m.nn.functional.cross_entropy(
        m.zeros(0, 0), i, label_smoothing=0.1
    ),
    "linear_cross_entropy of no features": lambda m, e, i: m.nn.functional.linear_cross_entropy(
        m.zeros(3, 0), m.zeros(5, 0), m.zeros(3, dtype=m.int64)
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_of_no_elements(name: str) -> None:
    found = []
    for lib in (torch, rushlight):
        empty = lib.zeros(0, requires_grad=True)
        made = CALLS[name](lib, empty, lib.zeros(0, dtype=lib.int64))
        if made.requires_grad:
            made.sum().backward()
            assert empty.grad.shape == (0,)
        found.append((np.asarray(made.detach()), made.requires_grad))
    (wanted, has_history), (got, ours) = found
    assert got.shape == wanted.shape
    assert ours is has_history
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("function", ["matrix_rank", "pinv"])
def test_hermitian_matrices_are_square(function: str) -> None:
    for lib in (torch, rushlight):
        with pytest.raises(RuntimeError, match="must be batches of square matrices"):
            getattr(lib.linalg, function)(lib.zeros(5, 3), hermitian=True)
