"""The recorder's hit path: what is recorded again makes no new edge, whatever numbers it is
given.
"""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.trace.trace import flush, local


def step(x: rl.Tensor, y: rl.Tensor, rate: float) -> rl.Tensor:
    hidden = (x * rate + y).tanh()
    return rl.addcmul(hidden, x, y, value=rate).exp().sum()


def edges_made(rate: float, with_gradients: bool) -> int:
    flush()
    before = local.trace.edges
    x = rl.tensor([1.0, 2.0], requires_grad=with_gradients)
    y = rl.tensor([0.5, 0.25])
    out = step(x, y, rate)
    if with_gradients:
        out.backward()
    made = local.trace.edges - before
    flush()
    return made


@pytest.mark.parametrize("with_gradients", [False, True])
def test_a_second_step_makes_no_edges(with_gradients: bool) -> None:
    edges_made(0.1, with_gradients)
    assert edges_made(0.2, with_gradients) == 0


def test_a_number_of_another_kind_is_another_step() -> None:
    edges_made(0.1, False)
    assert edges_made(2, False) > 0


def test_numbers_saved_for_backward_survive_a_flush() -> None:
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    y = 3.0 * x * 0.5
    flush()
    y.sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]


def test_only_what_a_rule_reads_is_saved() -> None:
    x = rl.tensor([1.0, 2.0], requires_grad=True)
    assert x.exp().grad_fn.values == (None,)  # its rule reads the result
    assert x.sin().grad_fn.values[0] is not None
    assert (x + x).grad_fn.values == (None, None)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(TypeError):
        rl.mul(rl.tensor([1.0]), "2")
    with pytest.raises(TypeError):
        rl.addcmul(rl.tensor([1.0]), rl.tensor([1.0]), rl.tensor([1.0]), value="2")
