"""Writes that a tensor's gradient history does not know of: right gradients, or an error."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F


def _through_detach(y):
    y.detach().zero_()


def _through_a_view_of_detach(y):
    y.detach().view(-1)[0:1].mul_(2)


def _under_no_grad(y):
    with torch.no_grad():
        y.add_(1)


def _a_view_under_no_grad(y):
    with torch.no_grad():
        y[1:].add_(1)


WRITES = [_through_detach, _through_a_view_of_detach, _under_no_grad, _a_view_under_no_grad]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("flush", [False, True])
def test_a_gradient_through_overwritten_contents_raises(write, flush):
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    if flush:
        y.sum().item()
    write(y)
    expected = r"ExpBackward0.*modified by an inplace operation: \w+_ at .*test_hidden_writes"
    with pytest.raises(RuntimeError, match=expected):
        y.sum().backward()
    with pytest.raises(RuntimeError, match=expected):
        (y[0] * 2).backward()


@pytest.mark.parametrize("write", WRITES)
def test_what_was_computed_before_has_its_right_gradient(write):
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = x.exp()
    total = (y * y).sum()
    expected = (2 * y * y).tolist()
    write(y)
    total.backward()
    assert x.grad.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("write", WRITES)
def test_a_history_that_does_not_need_the_contents_stands(write):
    x = torch.ones(2, requires_grad=True)
    y = x * 3
    write(y)
    y.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_data_promises_to_hide_the_write():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    expected = y.tolist()
    y.data.zero_()
    y.sum().backward()
    assert x.grad.tolist() == expected


def test_a_write_in_the_open_is_part_of_the_history():
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    expected = (y * 2).tolist()
    y.detach()
    y.mul_(2)
    y.sum().backward()
    assert x.grad.tolist() == expected


def test_parameters_may_be_written_between_forward_and_backward():
    weight = torch.tensor([2.0, 3.0], requires_grad=True)
    loss = (weight * weight).sum()
    with torch.no_grad():
        weight.zero_()
    weight.detach().add_(1)
    loss.backward()
    assert weight.grad.tolist() == [4.0, 6.0]


def test_results_that_a_function_saved_are_watched_too():
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    y = Exp.apply(torch.ones(2, requires_grad=True))
    y.detach().zero_()
    with pytest.raises(RuntimeError, match="ExpBackward"):
        y.sum().backward()


def test_the_same_recording_without_the_write_still_works():
    def step(hidden: bool):
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
        if hidden:
            y.detach().copy_(torch.zeros(2))
        else:
            torch.zeros(2)
        y.sum().backward()
        return x.grad.tolist()

    for _ in range(3):
        assert step(False) == pytest.approx([2.7182818] * 2)
        with pytest.raises(RuntimeError, match="copy_"):
            step(True)


POSITIONS = {  # values found at a place: their derivative reads the place alone
    "adaptive_max_pool1d": lambda x: F.adaptive_max_pool1d(x.reshape(1, 1, 4), 2),
    "cummax": lambda x: x.cummax(0).values,
    "embedding_bag": lambda x: F.embedding_bag(
        torch.tensor([[0, 1]]), x.reshape(4, 1), mode="max"
    ),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.reshape(1, 1, 2, 2), 1, 1),
    "frexp": lambda x: torch.frexp(x).mantissa,
    "max": lambda x: x.max(0).values,
    "max_pool1d": lambda x: F.max_pool1d(x.reshape(1, 1, 4), 2),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_values_found_at_a_place_may_be_written_to(name):
    gradients = []
    for is_written in (False, True):
        x = torch.tensor([1.0, 3.0, 2.0, 5.0], requires_grad=True)
        found = POSITIONS[name](x * 1)
        if is_written:
            found.detach().add_(0.5)
        found.sum().backward()
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]
