"""One operation on every tensor of a list, against PyTorch."""

from __future__ import annotations

import numpy as np
import pytest
from parity import numbers

import rushlight

torch = pytest.importorskip("torch")

CALLS = {
    "add": (1.5,), "sub": ([[3.0, 1.0], [2.0]],), "mul": ([2.0, 3.0],), "div": (2.0,),
    "pow": (2,),
    "clamp_min": (1.0,), "maximum": ([[3.0, 1.0], [2.0]],), "minimum": (1.5,),
    "addcmul": ([[3.0, 1.0], [2.0]], [[1.0, 4.0], [2.0]], 0.5),
    "addcdiv": ([[3.0, 1.0], [2.0]], [[1.0, 4.0], [2.0]], [0.5, 2.0]),
    "lerp": ([[3.0, 1.0], [2.0]], 0.25), "norm": (), "max": (), "sqrt": (), "exp": (),
    "neg": (), "round": (), "sigmoid": (),
}  # fmt: skip


def tensors(library, values):
    is_nested = isinstance(values, list) and isinstance(values[0], list)
    return [library.tensor(v) for v in values] if is_nested else values


@pytest.mark.parametrize("name", CALLS)
def test_results_and_writes(name):
    found = []
    for library in (rushlight, torch):
        lists = [tensors(library, a) for a in CALLS[name]]
        x = tensors(library, [[1.0, 2.5], [4.0]])
        parts = list(getattr(library, f"_foreach_{name}")(x, *lists))
        if name not in ("norm", "max"):
            getattr(library, f"_foreach_{name}_")(x, *lists)
        found.append([numbers(t) for t in (*parts, *x)])
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, 1e-6)


def test_writes_of_other_tensors_and_of_zeros():
    x, y = (
        [rushlight.ones(2), rushlight.ones(1)],
        [rushlight.zeros(2), rushlight.full((1,), 5.0)],
    )
    rushlight._foreach_copy_(x, y)
    assert [t.tolist() for t in x] == [[0.0, 0.0], [5.0]]
    rushlight._foreach_zero_(x)
    assert [t.tolist() for t in x] == [[0.0, 0.0], [0.0]]


def test_gradients_go_to_each_tensor():
    x = [rushlight.ones(2, requires_grad=True), rushlight.ones(1, requires_grad=True)]
    first, second = rushlight._foreach_mul(x, [2.0, 3.0])
    (first.sum() + second.sum()).backward()
    assert [t.grad.tolist() for t in x] == [[2.0, 2.0], [3.0]]


def test_lists_that_do_not_fit():
    x = [rushlight.ones(2)]
    with pytest.raises(RuntimeError, match="same number"):
        rushlight._foreach_add(x, [1.0, 2.0])
    with pytest.raises(RuntimeError, match="at least one"):
        rushlight._foreach_add([], 1.0)
    with pytest.raises(AttributeError, match="_foreach_nothing"):
        assert rushlight._foreach_nothing
