"""torch.autograd: grad, backward, Function, gradcheck, anomaly detection."""

from __future__ import annotations

import gc
import weakref

import pytest

import rushlight as torch
from rushlight.autograd import Function, GradcheckError, gradcheck, gradgradcheck
from rushlight.trace.trace import local


class Square(Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor, x + 1

    @staticmethod
    def backward(ctx, g, h):
        (x,) = ctx.saved_tensors
        return 2 * ctx.factor * x * g + h, None


class Wrong(Function):
    @staticmethod
    def forward(x):
        return x * 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.count = len(inputs)

    @staticmethod
    def backward(ctx, g):
        return g * 3


def leaf(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def test_a_function_has_the_gradient_it_says():
    x = leaf(3)
    y, z = Square.apply(x, 3.0)
    assert y.grad_fn.name() == "SquareBackward"
    (y.sum() + z.sum()).backward()
    torch.testing.assert_close(x.grad, 6 * x.detach() + 1)


def test_gradcheck_accepts_right_rules_and_names_wrong_ones():
    x = leaf(3)
    assert gradcheck(lambda x: Square.apply(x, 2.0), (x,))
    assert gradgradcheck(lambda x: Square.apply(x, 2.0), (x,))
    with pytest.raises(GradcheckError, match="output 0 with respect to input 0"):
        gradcheck(Wrong.apply, (x,))
    assert not gradcheck(Wrong.apply, (x,), raise_exception=False, fast_mode=True)


def test_a_wrong_number_of_gradients_is_refused():
    class Few(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(
        RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"
    ):
        Few.apply(leaf(2), leaf(2)).sum().backward()


def test_in_place_functions_change_the_history_of_their_input():
    class Increment(Function):
        @staticmethod
        def forward(ctx, x):
            x.add_(1)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 5

    x = leaf(2)
    y = x * 1
    z = Increment.apply(y)
    assert z is y
    z.sum().backward()
    assert x.grad.tolist() == [5, 5]


def test_saved_tensors_keep_their_values():
    x = leaf(3)
    y = x * 1
    z, _ = Square.apply(y, 1.0)
    y.detach().zero_()
    z.sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())


def test_grad_of_several_orders():
    x = torch.tensor(3.0, requires_grad=True)
    y = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(x**3 * y, x, create_graph=True)
    assert first.item() == 54
    assert [g.item() for g in torch.autograd.grad(first, (x, y))] == [36, 27]


def test_unused_inputs():
    x, y = leaf(1), leaf(1)
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad(x.sum(), y)
    assert torch.autograd.grad(x.sum(), y, allow_unused=True) == (None,)
    assert torch.autograd.grad(x.sum(), y, materialize_grads=True)[0].item() == 0


def test_backward_of_several_roots():
    x = torch.ones(2, requires_grad=True)
    torch.autograd.backward([x.sum(), (x * x).sum()])
    assert x.grad.tolist() == [3, 3]


def test_functional_derivatives():
    x = torch.tensor([1.0, 2.0])
    f = torch.autograd.functional
    assert f.jacobian(lambda x: x**2, x).tolist() == [[2, 0], [0, 4]]
    assert f.hessian(lambda x: (x**3).sum(), x).tolist() == [[6, 0], [0, 12]]
    assert f.jvp(lambda x: x**2, x, torch.ones(2))[1].tolist() == [2, 4]
    assert f.hvp(lambda x: (x**3).sum(), x, torch.ones(2))[1].tolist() == [6, 12]


def test_anomaly_detection_names_the_line():
    x = torch.ones(223, requires_grad=True)  # a size that no other test records this with
    expected = r"'MulBackward0' returned nan values.*test_autograd_api.*zero_times_x = x \* 0"
    with pytest.raises(RuntimeError, match=expected), torch.autograd.detect_anomaly():
        zero_times_x = x * 0
        zero_times_x.sqrt().sum().backward()  # infinity times zero


def test_anomaly_detection_finds_the_birth_of_a_nan_of_the_forward_pass():
    x = torch.ones(227, requires_grad=True)
    expected = r"sqrt made it.*test_autograd_api.*first_nan = torch.sqrt\(x - 2\)"
    with pytest.raises(RuntimeError, match=expected), torch.autograd.detect_anomaly():
        first_nan = torch.sqrt(x - 2)
        later = torch.log(first_nan) * 2
        later.sum().backward()


def test_anomaly_detection_remembers_across_flushes_and_names_the_module():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    model[0].register_forward_hook(lambda module, args, out: (out * 0) / 0)
    with torch.autograd.detect_anomaly():
        out = model(torch.ones(1, 2))
        assert torch.isnan(out).all().item()
        with pytest.raises(RuntimeError, match=r"div made it of numbers in Sequential"):
            (out + 1).sum().backward()


def test_anomaly_detection_of_an_input_and_of_a_loss_that_was_not_watched():
    x = torch.tensor([float("nan"), 1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="an input"), torch.autograd.detect_anomaly():
        (x * 2).sum().backward()
    loss = torch.log(-torch.ones(1, requires_grad=True)).sum()
    assert loss.item() != loss.item()
    with pytest.raises(RuntimeError, match="not watched"), torch.autograd.detect_anomaly():
        loss.backward()


def test_anomaly_detection_lets_a_dropped_nan_be():
    x = torch.tensor([-1.0, 4.0], requires_grad=True)
    with torch.autograd.detect_anomaly():
        torch.where(x > 0, x.sqrt(), 0).sum().backward()
    assert x.grad.tolist() == [0.0, 0.25]


def test_a_second_backward_names_the_line_of_the_shared_part():
    w = torch.ones(211, requires_grad=True)  # a size that no other test records this with
    shared = w * w
    (shared * 2).sum().backward()
    with pytest.raises(RuntimeError, match=r"MulBackward0 \(recorded at .*test_autograd_api"):
        (shared * 3).sum().backward()


def test_a_running_sum_of_losses_keeps_no_graph() -> None:
    made = []

    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            made.append(weakref.ref(ctx))
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    w = torch.ones(2, requires_grad=True)
    total = 0
    for _ in range(4):
        loss = Twice.apply(w).sum()
        loss.backward()
        total = total + loss
        del loss
    gc.collect()
    assert not any(r() for r in made)
    assert total.item() == 16
    with pytest.raises(RuntimeError, match="second time"):
        total.backward()


def test_remembered_passes_list_only_the_nodes_that_they_freed() -> None:
    w = torch.ones(3, requires_grad=True)
    w.sum().item()  # so that the passes share one trace
    for _ in range(20):
        w.square().sum().backward()
    edge, counts = local.trace.edge, []
    while edge is not None:
        counts += [len(memo.freed) for memo in (edge.memos or {}).values()]
        edge = edge.parent
    assert counts and max(counts) <= 3
    assert w.grad.tolist() == [40.0] * 3


def _hooked_gradients(lib, wanted, retains=False):
    """The gradients of what `wanted` names in x -> hooked y -> z, and what y retained."""
    x = lib.tensor([2.0], requires_grad=True)
    y = x * 3
    y.register_hook(lambda g: g * 10)
    if retains:
        y.retain_grad()
    named = {"x": x, "y": y}
    given = lib.autograd.grad((y * 5).sum(), [named[name] for name in wanted])
    return [g.item() for g in given], y.grad.item() if retains else None


@pytest.mark.parametrize(
    ("wanted", "expected"), [("x", [150.0]), ("y", [50.0]), ("yx", [5.0, 150.0])]
)
@pytest.mark.parametrize("retains", [False, True])
def test_a_gradient_asked_for_is_what_hooks_leave_only_where_the_walk_ends(
    wanted, expected, retains
):
    found = _hooked_gradients(torch, wanted, retains)
    assert found == (expected, 50.0 if retains else None)
    assert found == _hooked_gradients(pytest.importorskip("torch"), wanted, retains)


def test_backward_by_a_result_retains_its_gradient():
    def grads(lib):
        x = lib.tensor([2.0], requires_grad=True)
        y = x * 3
        y.register_hook(lambda g: g * 10)
        z = (y * 5).sum()
        z.backward(inputs=[y, x], retain_graph=True)
        z.backward(inputs=[y], retain_graph=True)
        assert y.retains_grad
        return y.grad.item(), x.grad.item()

    assert grads(torch) == (100.0, 150.0) == grads(pytest.importorskip("torch"))


@pytest.mark.parametrize("again", range(3))
def test_gradients_have_memory_of_their_own(again):
    layer = torch.nn.LSTM(5, 2)
    x = torch.arange(60.0).reshape(3, 4, 5) / 60
    parameters = list(layer.parameters())
    gradients = torch.autograd.grad(layer(x)[0].sum(), parameters)
    before = gradients[3].tolist()
    gradients[2].mul_(0)
    assert gradients[3].tolist() == before
    a, b = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    first, second = torch.autograd.grad((a + b).exp().sum(), [a, b], create_graph=True)
    first.detach().zero_()
    assert second.tolist() == pytest.approx([7.389056] * 3)
