"""Prefixes under associative operations."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight._higher_order_ops.associative_scan import associative_scan


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans_of_sums_and_products_are_cumulative(count, reverse, dim):
    rl.manual_seed(0)
    x = rl.randn(count, count, count, dtype=rl.float64)

    def cumulative(function):
        return function(x.flip(dim), dim).flip(dim) if reverse else function(x, dim)

    for combine, name in ((lambda a, b: a + b, rl.cumsum), (rl.mul, rl.cumprod)):
        found = associative_scan(combine, x, dim, reverse=reverse)
        assert rl.allclose(found, cumulative(name), rtol=1e-12, atol=1e-12)


def test_a_linear_recurrence_is_that_of_a_loop_with_its_gradients():
    rl.manual_seed(0)
    a = (rl.rand(3, 7, dtype=rl.float64) * 0.9).requires_grad_()
    b = rl.randn(3, 7, dtype=rl.float64, requires_grad=True)

    def combine(x, y):
        return {"a": x["a"] * y["a"], "b": y["a"] * x["b"] + y["b"]}

    scanned = associative_scan(combine, {"a": a, "b": b}, dim=1)["b"]
    state, states = rl.zeros(3, dtype=rl.float64), []
    for t in range(7):
        state = a[:, t] * state + b[:, t]
        states.append(state)
    looped = rl.stack(states, 1)
    assert rl.allclose(scanned, looped, rtol=1e-12)
    for ours, theirs in zip(
        rl.autograd.grad(scanned.pow(2).sum(), (a, b)),
        rl.autograd.grad(looped.pow(2).sum(), (a, b)),
        strict=True,
    ):
        assert rl.allclose(ours, theirs, rtol=1e-10)


def test_what_cannot_be_scanned_is_refused():
    x = rl.ones(3)
    with pytest.raises(ValueError, match="must be a callable"):
        associative_scan(3, x, 0)
    with pytest.raises(ValueError, match="Combine_mode"):
        associative_scan(rl.add, x, 0, combine_mode="fast")
    with pytest.raises(ValueError, match="at least one dimension"):
        associative_scan(rl.add, [], 0)
    with pytest.raises(ValueError, match="sizes along dim 0 differ"):
        associative_scan(lambda a, b: a, (x, rl.ones(4)), 0)
    with pytest.raises(RuntimeError, match="another tree"):
        associative_scan(lambda a, b: (a, b), x, 0)
