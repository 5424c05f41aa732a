"""nn.init and nn.utils: initial values, clipping, vectors, parametrisations, other tensors."""

import copy
import importlib
import math

import numpy as np
import pytest
from nn_parity import array, assert_same, both_raise, pair, torch

import rushlight as rl
from rushlight import nn

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)


# ---- init


def test_init_bounds_and_spreads():
    w = rl.empty(200, 300)
    assert abs(float(nn.init.kaiming_normal_(w, nonlinearity="relu").std()) - 0.0816) < 0.002
    assert float(nn.init.xavier_uniform_(w).abs().max()) <= math.sqrt(6 / 500)
    assert abs(float(nn.init.trunc_normal_(w, std=2.0, a=-1, b=1).abs().max())) <= 1
    zeros = (array(nn.init.sparse_(w, 0.25)) == 0).sum(0)
    np.testing.assert_array_equal(zeros, np.full(300, 50))


def test_init_of_fixed_values_is_pytorchs():
    results = []
    for lib in (rl, torch):
        make = [
            lib.nn.init.eye_(lib.empty(3, 4)),
            lib.nn.init.dirac_(lib.empty(4, 2, 3), groups=2),
            lib.nn.init.constant_(lib.empty(2), 0.3),
        ]
        gains = [lib.nn.init.calculate_gain(n) for n in ("tanh", "relu", "leaky_relu", "selu")]
        results.append([array(make), gains])
    assert_same(*results)


def test_orthogonal_rows():
    w = array(nn.init.orthogonal_(rl.empty(3, 5), gain=2.0))
    np.testing.assert_allclose(w @ w.T, 4 * np.eye(3), atol=1e-5)


@pytest.mark.parametrize(
    "build",
    [
        lambda lib: lib.nn.init.eye_(lib.empty(3)),
        lambda lib: lib.nn.init.xavier_uniform_(lib.empty(3)),
        lambda lib: lib.nn.init.calculate_gain("sine"),
        lambda lib: lib.nn.init.dirac_(lib.empty(3, 3)),
    ],
)
def test_init_messages_are_pytorchs(build):
    both_raise(build)


# ---- gradients and vectors


def with_gradients(lib):
    params = [lib.nn.Parameter(lib.tensor(X)), lib.nn.Parameter(lib.tensor(X[0]))]
    sum((p * p).sum() for p in params).backward()
    return params


@pytest.mark.parametrize("norm_type", [1.0, 2.0, math.inf])
def test_clipping_by_norm(norm_type):
    results = []
    for lib in (rl, torch):
        params = with_gradients(lib)
        total = lib.nn.utils.clip_grad_norm_(params, 0.5, norm_type)
        results.append(array([total, [p.grad for p in params]]))
    assert_same(*results)


def test_clipping_by_value_and_vectors():
    results = []
    for lib in (rl, torch):
        params = with_gradients(lib)
        lib.nn.utils.clip_grad_value_(params, 0.25)
        vector = lib.nn.utils.parameters_to_vector(params)
        lib.nn.utils.vector_to_parameters(vector * 2, params)
        results.append(array([vector, params, [p.grad for p in params]]))
    assert_same(*results)


# ---- parametrisations


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
def test_parametrizations(name):
    def build(lib):
        return getattr(lib.nn.utils.parametrizations, name)(lib.nn.Linear(3, 4))

    ours, theirs = pair(build)
    assert repr(ours) == repr(theirs)
    for module in (ours, theirs):
        module.eval()
    assert_same(array(ours(rl.tensor(X))), array(theirs(torch.tensor(X))))
    twin = copy.deepcopy(ours)
    assert_same(array(twin(rl.tensor(X))), array(ours(rl.tensor(X))))
    before = array(ours.weight)
    nn.utils.parametrize.remove_parametrizations(ours, "weight")
    assert type(ours) is nn.Linear
    assert_same(array(ours.weight), before)


def test_a_parametrization_of_ones_own():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    layer = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    w = array(layer.weight)
    np.testing.assert_array_equal(w, w.T)
    assert list(layer.state_dict()) == ["bias", "parametrizations.weight.original"]
    with nn.utils.parametrize.cached():
        assert layer.weight is layer.weight


def test_functional_call_puts_everything_back():
    layer = nn.Linear(3, 2)
    before = layer.weight
    out = nn.utils.stateless.functional_call(
        layer, {"weight": rl.zeros(2, 3), "bias": rl.ones(2)}, (rl.tensor(X),)
    )
    np.testing.assert_array_equal(array(out), np.ones((5, 2), np.float32))
    assert layer.weight is before and layer._parameters["weight"] is before


def test_fused_batch_norm_computes_the_same():
    m = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    m(rl.tensor(X))
    m.eval()
    fused = nn.utils.fuse_linear_bn_eval(m[0], m[1])
    assert_same(array(fused(rl.tensor(X))), array(m(rl.tensor(X))))


@pytest.mark.parametrize("use_trivialization", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_maps(orthogonal_map, shape, use_trivialization):
    start = torch.linalg.qr(torch.randn(5, 5, dtype=torch.float64))[0][: shape[0], : shape[1]]

    def run(lib, weight, base=None):
        layer = lib.nn.Linear(shape[1], shape[0], bias=False, dtype=lib.float64)
        with lib.no_grad():
            layer.weight.copy_(weight)
        lib.nn.utils.parametrizations.orthogonal(
            layer, orthogonal_map=orthogonal_map, use_trivialization=use_trivialization
        )
        made = layer.parametrizations.weight
        with lib.no_grad():
            if base is not None:
                made[0].base.copy_(base)
            steps = lib.arange(15, dtype=lib.float64).reshape(shape) / 50 if 5 in shape else 0.1
            made.original.sub_(steps * (made.original != -1) * (made.original != 1))
        scale = lib.arange(weight.numel(), dtype=lib.float64).reshape(shape)
        (layer.weight * scale).sum().backward()
        return layer.weight, made.original.grad, getattr(made[0], "base", None)

    theirs = run(torch, start)
    base = None if theirs[2] is None else rl.tensor(theirs[2].numpy())
    ours = run(rl, rl.tensor(start.numpy()), base)
    tall = ours[0].mT if shape[0] < shape[1] else ours[0]
    assert rl.allclose(tall.mT @ tall, rl.eye(3, dtype=rl.float64))
    for mine, want in zip(ours[:2], theirs[:2], strict=True):
        np.testing.assert_allclose(array(mine), want.detach().numpy(), atol=1e-9)


def test_orthogonal_keeps_and_refuses():
    layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3), orthogonal_map="cayley")
    turn = rl.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    layer.weight = turn
    assert rl.equal(layer.weight, turn)
    plain = nn.utils.parametrizations.orthogonal(
        nn.Linear(3, 3), orthogonal_map="cayley", use_trivialization=False
    )
    with pytest.raises(NotImplementedError, match="use_trivialization"):
        plain.weight = turn
    with pytest.raises(ValueError, match="complex"):
        nn.utils.parametrizations.orthogonal(
            nn.Linear(3, 3, dtype=rl.complex64), orthogonal_map="householder"
        )


def test_functional_call_with_names_the_module_does_not_have():
    layer = nn.Linear(1, 1)
    x = rl.ones(1, 1)
    assert rl.equal(rl.func.functional_call(layer, {"w": x}, x), layer(x))
    assert not hasattr(layer, "w")
    with pytest.raises(RuntimeError, match="w"):
        rl.func.functional_call(layer, {"w": x}, x, strict=True)
    with pytest.raises(TypeError, match="in_features"):
        rl.func.functional_call(layer, {"in_features": x}, x)
    assert layer.in_features == 1


def test_targets_out_of_range_at_the_flush_name_the_loss():
    loss = nn.functional.cross_entropy(rl.randn(4, 3), rl.arange(4))
    with pytest.raises(IndexError, match=r"nll_loss: Target 3 at \[3\] is out of bounds"):
        loss.item()


def test_tools_are_where_pytorch_keeps_them():
    for place, name in (
        ("convert_parameters", "vector_to_parameters"),
        ("init", "skip_init"),
        ("memory_format", "convert_conv2d_weight_memory_format"),
    ):
        module = importlib.import_module(f"rushlight.nn.utils.{place}")
        assert getattr(module, name) is getattr(nn.utils, name)


@pytest.mark.parametrize("name", ["short", "char", "byte", "int", "long", "half", "double"])
def test_packed_sequences_in_another_dtype(name):
    found = []
    for lib in (rl, torch):
        packed = lib.nn.utils.rnn.pack_sequence([lib.tensor([1.0, 2.0]), lib.tensor([3.0])])
        found.append(getattr(packed, name)().data)
    assert str(found[0].dtype) == str(found[1].dtype)
    assert found[0].tolist() == found[1].tolist()
