"""nn.Module: registration, walking, conversion, hooks, state, copies, messages."""

import copy
import gc
import pickle
import warnings
import weakref

import numpy as np
import pytest
from nn_parity import array, both_raise, pair, torch

import rushlight as rl
from rushlight import nn
from rushlight.nn.blame import calling_path


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(3, 4)
        self.register_buffer("scale", rl.ones(1))
        self.register_buffer("scratch", rl.zeros(1), persistent=False)

    def forward(self, x):
        return self.up(x) * self.scale


def model(lib):
    m = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.ModuleList([lib.nn.Linear(3, 2)]))
    m.register_buffer("kept", lib.ones(2))
    m.register_buffer("dropped", lib.ones(2), persistent=False)
    return m


# ---- registration


def test_assignment_registers_by_type():
    block = Block()
    assert [name for name, _ in block.named_parameters()] == ["up.weight", "up.bias"]
    assert [name for name, _ in block.named_buffers()] == ["scale", "scratch"]
    assert list(block.state_dict()) == ["scale", "up.weight", "up.bias"]


def test_reading_a_parameter_does_not_reach_getattr(monkeypatch):
    block = Block()
    monkeypatch.delattr(nn.Module, "__getattr__")
    assert block.up.weight is block.up._parameters["weight"]


def test_the_tables_are_the_truth():
    layer = nn.Linear(3, 4)
    layer._parameters["weight"] = new = nn.Parameter(rl.ones(4, 3))
    assert layer.weight is new
    del layer._parameters["bias"]
    assert not hasattr(layer, "bias")
    layer.bias = None
    assert layer.bias is None and "bias" not in layer._parameters


def test_reassignment_moves_between_tables():
    m = nn.Module()
    m.a = nn.Parameter(rl.ones(1))
    m.a = nn.Linear(1, 1)
    assert not m._parameters and list(m._modules) == ["a"]
    m.b = nn.Buffer(rl.ones(1))
    assert list(m._buffers) == ["b"]
    m.b = nn.Parameter(rl.ones(1))
    assert not m._buffers and list(m._parameters) == ["b"]
    del m.b
    assert not m._parameters and not hasattr(m, "b")


@pytest.mark.parametrize(
    "build",
    [
        lambda lib: setattr(lib.nn.Linear(1, 1), "weight", 3),
        lambda lib: setattr(lib.nn.Sequential(lib.nn.ReLU()), "0", 3),
        lambda lib: lib.nn.Module().register_parameter("a.b", None),
        lambda lib: lib.nn.Module().register_parameter("", None),
        lambda lib: lib.nn.Module().register_parameter("training", None),
        lambda lib: lib.nn.Module().register_buffer("x", 3),
        lambda lib: lib.nn.Module().register_buffer(3, None),
        lambda lib: lib.nn.Module().register_buffer("a.b", None),
        lambda lib: lib.nn.Module().add_module("x", 3),
        lambda lib: lib.nn.Module().add_module("a.b", None),
        lambda lib: lib.nn.Module().add_module(3, None),
        lambda lib: lib.nn.Module().get_submodule("a"),
        lambda lib: lib.nn.Linear(1, 1).get_submodule("weight"),
        lambda lib: lib.nn.Linear(1, 1).get_parameter("nothing"),
        lambda lib: lib.nn.Linear(1, 1).get_buffer("weight"),
        lambda lib: lib.nn.Module().missing,
        lambda lib: lib.nn.Linear(1, 1).to(lib.int32),
        lambda lib: lib.nn.Linear(1, 1).train("yes"),
        lambda lib: lib.nn.Linear(1, 1).load_state_dict(3),
        lambda lib: model(lib).load_state_dict({"0.weight": lib.ones(1), "x": lib.ones(1)}),
    ],
)
def test_messages_are_pytorchs(build):
    both_raise(build)


def test_assignment_before_init_is_refused():
    class Hasty(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Hasty()


# ---- walking


def test_walks_agree_with_pytorch():
    ours, theirs = pair(model)
    for walk in ("named_parameters", "named_buffers", "named_modules", "named_children"):
        names = [[name for name, _ in getattr(m, walk)()] for m in (ours, theirs)]
        assert names[0] == names[1]


def test_shared_modules_are_walked_once_unless_asked():
    layer = nn.Linear(2, 2)
    m = nn.Sequential(layer, layer)
    assert len(list(m.parameters())) == 2
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    assert len(list(m.named_modules(remove_duplicate=False))) == 3


def test_repr_agrees_with_pytorch():
    ours, theirs = pair(model)
    assert repr(ours) == repr(theirs)


def test_dir_lists_what_is_registered():
    names = dir(Block())
    assert {"up", "scale", "forward"} <= set(names)


# ---- calls


def test_plain_call_looks_at_one_flag():
    block = Block()
    handle = block.register_forward_hook(lambda *a: None)
    assert block._hooked
    handle.remove()
    block(rl.ones(2, 3))
    assert not block._hooked


def hooked(lib):
    """What hooks of every kind saw and changed."""
    m, log = lib.nn.Sequential(lib.nn.Linear(3, 3), lib.nn.Tanh()), []
    with lib.no_grad():
        for p in m.parameters():
            p.fill_(0.25)
    m.register_forward_pre_hook(lambda m, a: log.append("pre"))
    m.register_forward_pre_hook(lambda m, a: (a[0] * 2,), prepend=True)
    m.register_forward_hook(lambda m, a, k, y: y + 1, with_kwargs=True)
    m.register_full_backward_pre_hook(lambda m, g: (g[0] * 3,))
    m[0].register_full_backward_hook(
        lambda m, gi, go: log.append([float(gi[0].sum()), float(go[0].sum())])
    )
    x = lib.ones(2, 3, requires_grad=True)
    m(x).sum().backward()
    return log, array([x.grad, m[0].weight.grad])


def test_hooks_see_and_change_what_pytorchs_do():
    (log, grads), (their_log, their_grads) = hooked(rl), hooked(torch)
    assert log[0] == their_log[0] == "pre"
    np.testing.assert_allclose(log[1], their_log[1], rtol=1e-5)
    for g, t in zip(grads, their_grads, strict=True):
        np.testing.assert_allclose(g, t, rtol=1e-5)


def test_always_called_hooks_run_after_an_error():
    log, layer = [], nn.Linear(3, 3)
    layer.register_forward_hook(lambda *a: log.append("always"), always_call=True)
    layer.register_forward_hook(lambda *a: log.append("never"))
    with pytest.raises(RuntimeError):
        layer(rl.ones(2, 2))
    assert log == ["always"]


def test_global_hooks_reach_every_module_and_go_away():
    log = []
    call = nn.Module.__call__
    register = nn.hooks.register_module_forward_hook
    handle = register(lambda m, a, y: log.append(type(m).__name__))
    m = nn.Sequential(nn.ReLU(), nn.Tanh())
    m(rl.ones(1))
    assert log == ["ReLU", "Tanh", "Sequential"]
    handle.remove()
    m(rl.ones(1))
    assert len(log) == 3 and nn.Module.__call__ is call


def test_errors_name_the_path_of_the_module():
    m = nn.Sequential(nn.ModuleDict({"mlp": Block()}))
    m.forward = lambda x: m[0]["mlp"](x)
    with pytest.raises(RuntimeError) as caught:
        m(rl.ones(2, 2))
    assert caught.value.__notes__ == [
        "in 0.mlp.up: Linear(in_features=3, out_features=4, bias=True)"
    ]


def test_the_path_of_the_running_module_can_be_asked_for():
    found = []

    class Probe(nn.Module):
        def forward(self, x):
            found.append(calling_path())
            return x

    nn.Sequential(nn.Sequential(nn.ReLU(), Probe()))(rl.ones(1))
    assert found == ["0.1"]


# ---- state


def test_state_goes_out_and_in():
    ours, theirs = pair(model)
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    assert state._metadata == theirs.state_dict()._metadata
    again = model(rl)
    assert str(again.load_state_dict(state)) == "<All keys matched successfully>"
    for a, b in zip(array(again.state_dict()).values(), array(state).values(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_not_strict_reports_what_did_not_match():
    keys = nn.Linear(1, 1).load_state_dict({"weight": rl.ones(1, 1), "x": rl.ones(1)}, False)
    assert keys.missing_keys == ["bias"] and keys.unexpected_keys == ["x"]


def test_assign_takes_the_tensors_themselves():
    layer, weight = nn.Linear(1, 1, bias=False), nn.Parameter(rl.ones(1, 1))
    layer.load_state_dict({"weight": weight}, assign=True)
    assert layer.weight is weight


def test_extra_state_round_trips():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    first, second = Counter(), Counter()
    first.count = 5
    second.load_state_dict(first.state_dict())
    assert second.count == 5
    assert list(first.state_dict()) == ["_extra_state"]


def test_state_hooks_run_in_order():
    log, layer = [], nn.Linear(1, 1)
    layer.register_state_dict_pre_hook(lambda m, prefix, keep: log.append("save"))
    layer.register_state_dict_post_hook(lambda m, state, prefix, meta: log.append("saved"))
    layer.register_load_state_dict_pre_hook(lambda m, *rest: log.append("load"))
    layer.register_load_state_dict_post_hook(lambda m, keys: log.append("loaded"))
    layer.load_state_dict(layer.state_dict())
    assert log == ["save", "saved", "load", "loaded"]


# ---- copies and conversion


def test_deep_copies_are_independent():
    first = Block()
    second = copy.deepcopy(first)
    with rl.no_grad():
        second.up.weight.fill_(7.0)
    assert second.up._parameters["weight"] is second.up.weight
    assert not np.any(array(first.up.weight) == 7.0)


def test_pickles_hold_plain_tables():
    first = nn.Linear(2, 3)
    state = first.__getstate__()
    assert type(state["_parameters"]) is dict and "weight" not in state
    second = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(array(second.weight), array(first.weight))
    second.weight = nn.Parameter(rl.ones(3, 2))
    assert second.weight is second._parameters["weight"]


def test_a_model_is_freed_without_the_collector():
    gc.disable()
    try:
        m = nn.Sequential(Block(), Block())
        gone = weakref.ref(m[0].up)
        del m
        assert gone() is None
    finally:
        gc.enable()


def test_conversion_keeps_parameters_identity():
    block = Block()
    weight = block.up.weight
    block.double()
    assert block.up.weight is weight and weight.dtype == rl.float64
    assert block.scale.dtype == rl.float64
    assert block.to(rl.float32).scale.dtype == rl.float32


def test_zero_grad_drops_or_clears():
    layer = nn.Linear(2, 1)
    layer(rl.ones(1, 2)).sum().backward()
    layer.zero_grad(set_to_none=False)
    np.testing.assert_array_equal(array(layer.weight.grad), np.zeros((1, 2), np.float32))
    layer.zero_grad()
    assert layer.weight.grad is None


# ---- containers


def container_tour(lib):
    n = lib.nn
    s = n.Sequential(n.ReLU(), n.Tanh(), n.Sigmoid())
    s.insert(1, n.GELU())
    s.append(n.SiLU())
    del s[0]
    s += n.Sequential(n.Softplus())
    items = n.ModuleList([n.ReLU(), n.ReLU()]) + [n.Tanh()]
    items.insert(0, n.Identity())
    names = n.ModuleDict({"a": n.ReLU()})
    names.update([("b", n.Tanh())])
    pl = n.ParameterList([lib.ones(2), lib.ones(1, 3)])
    pd = n.ParameterDict({"b": lib.ones(1), "a": lib.ones(2)})
    return [repr(m) for m in (s, s[1:3], s * 2, items, items[1:], items.pop(0), names, pl, pd)]


def test_containers_agree_with_pytorch():
    assert container_tour(rl) == container_tour(torch)


@pytest.mark.parametrize(
    "build",
    [
        lambda lib: lib.nn.ModuleList([lib.nn.ReLU()])[3],
        lambda lib: lib.nn.Sequential(lib.nn.ReLU())[-2],
        lambda lib: lib.nn.ModuleList().extend(3),
        lambda lib: lib.nn.ModuleDict().update(3),
        lambda lib: lib.nn.Sequential(3),
        lambda lib: lib.nn.ModuleDict({"pop": lib.nn.ReLU()}),
    ],
)
def test_container_messages_are_pytorchs(build):
    both_raise(build)


class _Plain(nn.Module):
    def __init__(self, kind: type, frozen: bool = False) -> None:
        super().__init__()
        layer = nn.Linear(2, 2).requires_grad_(not frozen)
        self.head = nn.Linear(2, 1)
        self.layers = {"a": layer} if kind is dict else kind([layer])


@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_layers_in_a_plain_container_are_announced_once(kind: type) -> None:
    net = nn.Sequential(_Plain(kind))
    with pytest.warns(UserWarning, match=r"Sequential\.0\.layers .* 2 parameters .*nn\.Module"):
        assert len(list(net.parameters())) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(net.parameters())


def test_the_announcement_points_at_the_line_that_made_the_optimizer() -> None:
    with pytest.warns(UserWarning, match="plain list") as seen:
        rl.optim.SGD(_Plain(list).parameters(), 0.1)
    assert [warning.filename for warning in seen] == [__file__]


def test_layers_that_are_registered_too_or_frozen_are_not_announced() -> None:
    net = _Plain(list)
    net.registered = nn.ModuleList(net.layers)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(list(net.parameters())) == 4
        assert len(list(_Plain(list, frozen=True).parameters())) == 2
