"""Writes to what chunk, split and unbind return: refused under gradients, as in PyTorch."""

from __future__ import annotations

import pytest

import rushlight as torch

CALLS = {
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split(2),
    "split_with_sizes": lambda x: x.split_with_sizes([2, 2]),
    "unbind": lambda x: x.unbind(),
    "iter": lambda x: tuple(x),
}
several = pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)


def doubled():
    x = torch.ones(4, requires_grad=True)
    return x, x * 2


@several
def test_a_write_to_one_output_raises(call):
    _, y = doubled()
    with pytest.raises(RuntimeError, match="multiple views"):
        call(y)[0].mul_(3)


@several
def test_a_write_to_a_view_of_one_output_raises(call):
    _, y = doubled()
    with pytest.raises(RuntimeError, match="multiple views"):
        call(y)[0].view(-1)[:1].mul_(3)


@several
def test_writing_what_has_history_raises_too(call):
    with pytest.raises(RuntimeError, match="multiple views"):
        call(torch.ones(4))[0].mul_(torch.tensor(3.0, requires_grad=True))


@several
def test_an_output_is_lost_once_its_base_was_written(call):
    _, y = doubled()
    first, *_ = call(y)
    y.mul_(3)
    assert first.requires_grad
    with pytest.raises(RuntimeError, match="its base or another view"):
        first * 1


@several
def test_without_gradients_outputs_are_written_like_any_view(call):
    x = torch.ones(4)
    call(x)[0].mul_(3)
    assert x[0] == 3
    x, y = doubled()
    with torch.no_grad():
        call(y)[0].mul_(3)
    y.sum().backward()
    assert y[0] == 6
    assert x.grad.tolist() == [2.0] * 4


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.tensor_split(2),
        lambda x: x.unsafe_split(2),
        lambda x: x.unsafe_chunk(2),
        lambda x: torch.unsafe_split_with_sizes(x, [2, 2]),
    ],
)
def test_slices_may_be_written(call):
    x, y = doubled()
    call(y)[0].mul_(3)
    y.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 2.0, 2.0]


def test_a_view_of_a_leaf_made_without_gradients_is_not_written_with_them():
    x = torch.ones(4, requires_grad=True)
    with torch.no_grad():
        part = x[:2]
    with pytest.raises(RuntimeError, match="leaf"):
        part.mul_(3)


def test_a_view_keeps_its_history_when_it_is_asked_for_without_gradients():
    x, y = doubled()
    part = y[:2]
    y.mul_(3)
    with torch.no_grad():
        assert part.grad_fn is not None
    part.sum().backward()
    assert x.grad.tolist() == [6.0, 6.0, 0.0, 0.0]
