"""Second derivatives of custom Functions whose backward reads what forward computed."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.autograd import Function


class Fourth(Function):
    """4 x ** 2, by way of 2 x, which stays on ctx in the way that `keep` says."""

    @staticmethod
    def forward(ctx, x, keep):
        double = x * 2
        keep(ctx, double)
        return double**2

    @staticmethod
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors or [ctx.kept]
        while isinstance(kept, list | dict):
            kept = kept["inner"] if isinstance(kept, dict) else kept[0]
        return g * 4 * kept, None


def _as_attribute(ctx, double):
    ctx.kept = double


def _as_saved(ctx, double):
    ctx.save_for_backward(double)


def _in_containers(ctx, double):
    ctx.kept = [{"inner": double, "n": 3}]


def _as_view(ctx, double):
    ctx.kept = double[:]


def _written_in_place(ctx, double):
    kept = torch.zeros_like(double)
    kept[:1] = double[:1]
    kept[1:] = double[1:] * 2
    kept[1:].mul_(0.5)
    ctx.kept = kept


WAYS = [_as_attribute, _as_saved, _in_containers, _as_view, _written_in_place]


def _orders(x, keep):
    """The first three derivatives of the sum of (4 x ** 2) ** 2."""
    y = Fourth.apply(x, keep)
    (first,) = torch.autograd.grad((y * y).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), x)
    return first, second, third


@pytest.mark.parametrize("keep", WAYS)
def test_an_intermediate_of_forward_is_differentiated_again(keep):
    x = torch.tensor([3.0, -1.0], requires_grad=True)
    first, second, third = _orders(x, keep)
    assert first.tolist() == [64 * 27.0, -64.0]
    assert second.tolist() == [192 * 9.0, 192.0]
    assert third.tolist() == [384 * 3.0, -384.0]


def test_an_intermediate_of_a_view_of_another_tensor():
    base = torch.tensor([5.0, 3.0, -1.0], requires_grad=True)
    _, second, _ = _orders(base[1:], _as_attribute)
    assert second.tolist() == [192 * 9.0, 192.0]


def test_a_view_of_the_input_taken_in_forward():
    class FirstTwice(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.part = x[:1]
            return ctx.part**2

        @staticmethod
        def backward(ctx, g):
            return torch.cat([2 * g * ctx.part, torch.zeros(1)])

    x = torch.tensor([3.0, 7.0], requires_grad=True)
    (first,) = torch.autograd.grad(FirstTwice.apply(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [2.0, 0.0]


def test_ctx_is_as_it_was_after_a_second_derivative():
    seen = []

    def keep(ctx, double):
        ctx.kept = double
        seen.append((ctx, double))

    x = torch.tensor([3.0], requires_grad=True)
    y = Fourth.apply(x, keep)
    torch.autograd.grad(y.sum(), x, create_graph=True)
    ctx, double = seen[0]
    assert ctx.kept is double and not double.requires_grad


def test_masks_and_detached_tensors_stay_constant():
    class Gate(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mask = (x > 0).float()
            ctx.frozen = x.detach()
            return x * ctx.mask

        @staticmethod
        def backward(ctx, g):
            return g * ctx.mask * ctx.frozen

    x = torch.tensor([2.0, -2.0], requires_grad=True)
    (first,) = torch.autograd.grad(Gate.apply(x).sum() ** 2, x, create_graph=True)
    assert first.tolist() == [8.0, 0.0]  # 2 * x[0] * mask * frozen
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [8.0, 0.0]  # d (2 * sum) / dx * frozen, itself through the gate


@pytest.mark.parametrize("when", ["in forward", "after forward"])
def test_an_intermediate_that_was_computed_in_between_is_refused(when):
    def keep(ctx, double):
        ctx.kept = double
        if when == "in forward":
            double.sum().item()

    x = torch.tensor([3.0], requires_grad=True)
    y = Fourth.apply(x, keep)
    if when == "after forward":
        y.sum().item()
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [24.0]
    with pytest.raises(RuntimeError, match=r"Fourth.*save_for_backward"):
        torch.autograd.grad(first.sum(), x)


def test_a_result_that_is_saved_has_its_history():
    class Exp(Function):
        @staticmethod
        def forward(ctx, x):
            out = x.exp()
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx, g):
            (out,) = ctx.saved_tensors
            return g * out

    x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    y = Exp.apply(x)
    expected = y.tolist()
    y.add_(1)  # the saved result is as it was, and so is its history
    (first,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert first.tolist() == expected and second.tolist() == expected
