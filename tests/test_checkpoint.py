"""Checkpointed parts give the gradients of plain ones and keep less; hooks on saved tensors."""

import functools
import warnings

import pytest

import rushlight as torch
from rushlight.autograd import graph
from rushlight.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    set_checkpoint_early_stop,
)

nn, F = torch.nn, torch.nn.functional


def block(width=6, dropout=0.5):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(width, width), nn.Tanh(), nn.LayerNorm(width), nn.Dropout(dropout)
    )


def run(layers, wrap, steps=3):
    """Losses and gradients of a few steps; wrap calls a layer."""
    torch.manual_seed(1)
    x = torch.linspace(-1, 1, 24).reshape(4, 6).requires_grad_()
    trail = []
    for _ in range(steps):
        x.grad = None
        layers.zero_grad()
        out = x
        for layer in layers:
            out = wrap(layer, out)
        loss = out.square().sum()
        loss.backward()
        trail.append([loss.item(), x.grad.tolist()])
        trail[-1].extend(p.grad.tolist() for p in layers.parameters())
    return trail


WRAPS = {
    "without reentry": lambda layer, x: checkpoint(layer, x, use_reentrant=False),
    "with reentry": lambda layer, x: checkpoint(layer, x, use_reentrant=True),
    "whole second run": lambda layer, x: checkpoint(
        layer, x, use_reentrant=False, early_stop=False
    ),
    "nested": lambda layer, x: checkpoint(
        lambda x: checkpoint(layer, x.sin(), use_reentrant=False).cos(),
        x,
        use_reentrant=False,
    ),
}


@pytest.mark.parametrize("name", WRAPS)
def test_gradients_and_random_numbers_are_those_of_the_plain_function(name):
    layers = nn.ModuleList([block() for _ in range(3)])
    plain = (lambda layer, x: layer(x.sin()).cos()) if name == "nested" else (lambda f, x: f(x))
    assert run(layers, WRAPS[name]) == run(layers, plain)


def test_the_second_run_happens_once_in_backward_and_stops_early():
    calls = []

    def part(x):
        calls.append("start")
        y = x.exp().sin()
        calls.append("end")
        return y + 1

    x = torch.ones(3, requires_grad=True)
    out = checkpoint(part, x, use_reentrant=False)
    assert calls == ["start", "end"]
    out.sum().backward()
    assert calls == ["start", "end", "start"]
    with set_checkpoint_early_stop(False):
        checkpoint(part, x, use_reentrant=False).sum().backward()
    assert calls[3:] == ["start", "end"] * 2


def test_graphs_may_be_kept_and_differentiated_again():
    x = torch.tensor([0.5, 1.0], requires_grad=True)
    y = checkpoint(lambda x: x.exp() * x, x, use_reentrant=False).sum()
    (first,) = torch.autograd.grad(y, x, retain_graph=True)
    (again,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(again.sum(), x)
    assert first.tolist() == again.tolist()
    expected = (x.exp() * (x + 2)).detach()
    torch.testing.assert_close(second, expected)


def test_arguments_by_name_several_results_and_closures():
    w = torch.full((2,), 3.0, requires_grad=True)

    def part(x, *, scale, flag):
        assert flag == "kept"
        return {"a": x * scale * w, "b": (x.exp(), 5)}

    x, scale = torch.ones(2, requires_grad=True), torch.full((2,), 2.0, requires_grad=True)
    out = checkpoint(part, x, scale=scale, flag="kept", use_reentrant=False)
    assert out["b"][1] == 5
    (out["a"].sum() + out["b"][0].sum()).backward()
    assert scale.grad.tolist() == [3.0, 3.0]
    assert w.grad.tolist() == [2.0, 2.0]


def test_autocast_holds_in_the_second_run():
    layer = nn.Linear(4, 4)
    x = torch.linspace(-1, 1, 8).reshape(2, 4)
    grads = []
    for wrap in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False)):
        layer.zero_grad()
        with torch.autocast("cpu"):
            out = wrap(lambda x: layer(layer(x).sin()), x)
        assert out.dtype is torch.bfloat16
        out.float().sum().backward()
        grads.append(layer.weight.grad.tolist())
    assert grads[0] == grads[1]


def test_inner_values_of_one_part_exist_at_a_time():
    """Without checkpoints all inner values wait for backward; with them one part's do."""
    weights = [torch.ones(1, requires_grad=True) for _ in range(12)]
    kept = []

    def part(w):
        def run(x):
            for _ in range(4):
                x = (x * w).sin()
            return x

        return run

    for wrap in (lambda f, x: f(x), lambda f, x: checkpoint(f, x, use_reentrant=False)):
        x = torch.ones(1 << 12)
        for w in weights:
            x = wrap(part(w), x)
        nodes, count = [x.sum().grad_fn], 0
        seen = set()
        while nodes:
            node = nodes.pop()
            if node in seen or not hasattr(node, "saved"):
                continue
            seen.add(node)
            nodes.extend(n for n, _ in node.next_functions if n is not None)
            count += sum(type(v).__name__ == "Value" and v.type.numel > 1 for v in node.values)
        kept.append(count)
    assert kept[0] > 48
    assert kept[1] == 0


def test_a_function_that_changes_between_runs_is_found_out():
    calls = []

    def part(x):
        calls.append(1)
        return (x[: 3 - len(calls)].exp()).sum() if len(calls) < 3 else x.sum()

    x = torch.ones(3, requires_grad=True)
    with pytest.raises(CheckpointError, match="different metadata"):
        checkpoint(part, x, use_reentrant=False).backward()

    def shorter(x):
        calls.append(1)
        return x.exp().sin().sum() if len(calls) == 1 else x.exp().sum()

    calls.clear()
    with pytest.raises(CheckpointError, match="different number of tensors"):
        checkpoint(shorter, x, use_reentrant=False).backward()


def test_what_reentry_cannot_do_is_refused():
    x = torch.ones(3, requires_grad=True)
    out = checkpoint(torch.exp, x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="incompatible with .grad"):
        torch.autograd.grad(out, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(torch.exp, x, use_reentrant=True, scale=1)
    with pytest.warns(UserWarning, match="None of the inputs"):
        checkpoint(torch.exp, torch.ones(3), use_reentrant=True)
    with pytest.warns(UserWarning, match="should be passed explicitly"):
        checkpoint(torch.exp, x)


def test_without_gradients_the_function_just_runs():
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not checkpoint(torch.exp, x, use_reentrant=False).requires_grad


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_sequences_in_segments(segments, reentrant):
    model = nn.Sequential(*(block(dropout=0.0) for _ in range(5)))
    grads = []
    for call in (model, lambda x: checkpoint_sequential(model, segments, x, reentrant)):
        x = torch.linspace(-1, 1, 12).reshape(2, 6).requires_grad_()
        model.zero_grad()
        call(x).sum().backward()
        grads.append([x.grad.tolist(), *(p.grad.tolist() for p in model.parameters())])
    assert grads[0] == grads[1]


# ---- hooks


def test_saved_tensors_pass_through_hooks():
    packed, unpacked = [], []

    def pack(x):
        packed.append(x.tolist())
        return len(packed) - 1

    def unpack(i):
        unpacked.append(i)
        return torch.tensor(packed[i])

    a = torch.tensor([2.0, 3.0], requires_grad=True)
    b = torch.tensor([5.0, 7.0], requires_grad=True)
    for _ in range(2):  # remembered steps call hooks too
        a.grad = b.grad = None
        packed.clear()
        with graph.saved_tensors_hooks(pack, unpack):
            y = (a * b).exp()
        y.sum().backward()
        assert packed == [[2.0, 3.0], [5.0, 7.0], y.tolist()]
        torch.testing.assert_close(a.grad, (y * b).detach())
    assert sorted(unpacked) == [0, 0, 1, 1, 2, 2]


def test_hooks_may_change_what_is_kept():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t.numpy() * 10, torch.from_numpy):
        y = x * x
    y.sum().backward()
    assert x.grad.tolist() == [20.0, 40.0]


def test_custom_functions_save_through_hooks():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * g * x

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t + 1, lambda t: t):
        y = Square.apply(x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_views_are_unpacked_as_they_were_read():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    with graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = x.t() * x.t()[:, :1]
    y.sum().backward()
    expected = x.detach().clone().requires_grad_()
    (expected.t() * expected.t()[:, :1]).sum().backward()
    assert x.grad.tolist() == expected.grad.tolist()


def test_hooks_that_return_no_tensor_are_named():
    x = torch.ones(2, requires_grad=True)
    with graph.saved_tensors_hooks(lambda t: t, lambda t: "lost"):
        y = x.exp()
    with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got .* str"):
        y.sum().backward()


def test_hooks_can_be_forbidden():
    with (
        graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        graph.save_on_cpu(),
    ):
        pass
    with graph.save_on_cpu():
        x = torch.ones(2, requires_grad=True)
        y = x.exp()
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())


@pytest.mark.parametrize("mode", ["all", "any"])
def test_one_hook_for_several_gradients(mode):
    calls = []
    a, b, c = (torch.tensor(v, requires_grad=True) for v in (1.0, 2.0, 3.0))
    handle = graph.register_multi_grad_hook((a, b, c), calls.append, mode=mode)
    for _ in range(2):
        (a * b).backward()
    if mode == "all":
        assert [[None if g is None else g.item() for g in gs] for gs in calls] == [
            [2.0, 1.0, None]
        ] * 2
    else:
        assert len(calls) == 2
        assert calls[0].item() in (1.0, 2.0)
    handle.remove()
    (a * c).backward()
    assert len(calls) == 2


def test_edges_name_gradients():
    x = torch.tensor(2.0, requires_grad=True)
    y = x.exp()
    edge = graph.get_gradient_edge(y)
    assert edge.node is y.grad_fn
    assert edge.output_nr == 0
    (found,) = torch.autograd.grad(y * 3, [edge])
    assert found.item() == 3.0
    with pytest.raises(RuntimeError, match="does not require gradients"):
        graph.get_gradient_edge(torch.ones(1))


# ---------------------------------------------------------------- selective checkpoints


def noisy(x):
    """A function whose second run makes other numbers, unless they are kept."""
    return (x * torch.rand_like(x)).sin()


@pytest.mark.parametrize("keeps", [True, False])
def test_what_a_policy_keeps_is_not_computed_again(keeps):
    def policy(ctx, op, *args, **kwargs):
        assert ctx.op_output is not None and not ctx.is_recompute
        is_noise = op is torch.ops.aten.rand_like.default
        return CheckpointPolicy.MUST_SAVE if is_noise and keeps else False

    torch.manual_seed(0)
    x = torch.full((50,), 0.5, requires_grad=True)
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    y = checkpoint(noisy, x, use_reentrant=False, context_fn=contexts, preserve_rng_state=False)
    y.sum().backward()
    noise = y.detach().asin() / 0.5
    same = torch.allclose(x.grad, noise * (noise * 0.5).cos(), atol=1e-6)
    assert same == keeps


def selected(lib, choose):
    """Gradients of a function under a policy, and the operations that the policy saw."""
    module = __import__(f"{lib.__name__}.utils.checkpoint", fromlist=["checkpoint"])
    seen = []

    def policy(ctx, op, *args, **kwargs):
        seen.append(op.__name__)
        return choose(op.__name__)

    def f(x, y):
        return lib.sigmoid(lib.matmul(lib.matmul(x, y), y)) * y

    x = (lib.arange(9.0, dtype=lib.float64).reshape(3, 3) / 10).requires_grad_()
    y = lib.ones(3, 3, dtype=lib.float64, requires_grad=True)
    contexts = functools.partial(module.create_selective_checkpoint_contexts, policy)
    module.checkpoint(f, x, y, use_reentrant=False, context_fn=contexts).sum().backward()
    return x.grad.flatten().tolist(), y.grad.flatten().tolist(), seen


@pytest.mark.parametrize(
    "choose",
    [
        lambda name: False,
        lambda name: True,
        lambda name: name == "mm.default",
        lambda name: name == "sigmoid.default",
    ],
)
def test_policies_see_pytorchs_operations_and_change_no_gradient(choose):
    found, want = (selected(lib, choose) for lib in (torch, pytest.importorskip("torch")))
    assert found[2] == want[2]
    for a, b in zip(found[:2], want[:2], strict=True):
        assert a == pytest.approx(b, rel=1e-12)


def test_policies_are_functions_or_lists_of_overloads():
    for given, error in (
        ([torch.mm], ValueError),
        ([torch.ops.aten.mm], ValueError),
        (3, TypeError),
    ):
        with pytest.raises(error, match="list"):
            create_selective_checkpoint_contexts(given)
    first, second = create_selective_checkpoint_contexts([torch.ops.aten.mm.default])
    with pytest.raises(RuntimeError, match="not made in the forward pass"):
        _second_without_first(second)


def _second_without_first(context):
    x = torch.ones(2, 2, requires_grad=True)
    pair = (first_of_nothing(), context)
    checkpoint(
        lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=lambda: pair
    ).sum().backward()


def first_of_nothing():
    return warnings.catch_warnings()


def _pulled_back(x):
    _, pull = torch.func.vjp(torch.func.vmap(lambda a: a.sin() * a), x)
    return pull(x.cos())[0]


BATCHED = {
    "vmap": torch.func.vmap(lambda a: a.sin() * a),
    "vmap of vmap": lambda x: torch.func.vmap(torch.func.vmap(lambda a: a.sin() * a))(
        x.reshape(2, 2)
    ),
    "two": lambda x: torch.func.vmap(torch.sin)(x) * torch.func.vmap(torch.exp)(x),
    "jacfwd": lambda x: torch.func.jacfwd(lambda a: a.sin() * a)(x).sum(0),
    "jacrev": lambda x: torch.func.jacrev(lambda a: a.sin() * a)(x).sum(0),
    "vjp of vmap": _pulled_back,
}


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("name", BATCHED)
def test_batches_inside_are_those_of_the_first_run(name, is_nested):
    gradients = []
    for wraps in (False, True):
        function = BATCHED[name]
        for _ in range(wraps * (1 + is_nested)):
            function = functools.partial(checkpoint, function, use_reentrant=False)
        x = torch.tensor([-0.6, -0.5, 0.3, 0.4], requires_grad=True)
        kept = torch.func.vmap(lambda a: a * 2)(x)  # the number of its batch is in use
        function(x * 1).square().sum().backward()
        gradients.append(x.grad.tolist())
        assert kept.requires_grad
    assert gradients[0] == pytest.approx(gradients[1])


@pytest.mark.parametrize("of_part", [torch.func.jacfwd, torch.func.jacrev])
def test_functions_are_derived_twice_through_a_checkpoint(of_part):
    x = torch.tensor([-0.6, -0.5, 0.3, 0.4], requires_grad=True)
    gradients = []
    for function in (torch.sin, lambda a: checkpoint(torch.sin, a, use_reentrant=False)):
        gradients += torch.autograd.grad(of_part(function)(x).square().sum(), x)
    assert gradients[0].tolist() == pytest.approx(gradients[1].tolist())
