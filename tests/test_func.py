"""torch.func: derivatives of functions, nested to any depth."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import rushlight as torch
from rushlight.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from rushlight.nn import functional as F

# PyTorch's own warning, when it first differentiates forward
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def values(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def slope_forward(f):
    return lambda x: jvp(f, (x,), (torch.ones_like(x),))[1]


# -- nesting


@pytest.mark.parametrize("ways", [*itertools.product([slope_forward, grad], repeat=4)])
def test_any_nesting_of_modes_gives_the_fourth_derivative(ways):
    def f(x):
        return x.sin() * x

    x = torch.tensor(1.5, dtype=torch.float64)
    for way in ways:
        f = way(f)
    assert f(x).item() == pytest.approx(1.5 * math.sin(1.5) - 4 * math.cos(1.5), rel=1e-12)


@pytest.mark.parametrize("outer", [slope_forward, grad])
@pytest.mark.parametrize("inner", [slope_forward, grad])
def test_derivatives_of_nested_functions_are_not_mixed_up(outer, inner):
    one = torch.tensor(1.0, dtype=torch.float64)
    # d/dx [x * d/dy (x + y)] = d/dx [x * 1]
    assert outer(lambda x: x * inner(lambda y: x + y)(one))(one).item() == 1.0
    # the same tensor as both arguments: d/dy (x * y) at y = x is x, not 2x
    assert outer(lambda x: inner(lambda y: x * y)(x))(one * 3).item() == 1.0
    # an inner function that does not look at its argument
    assert outer(lambda x: x * inner(lambda y: x * x)(one))(one).item() == 0.0


def test_a_gradient_inside_does_not_see_what_is_outside():
    seen = []

    def f(x):
        def inner(y):
            seen.append((x.requires_grad, y.requires_grad, y.is_leaf))
            return (y * y * x).sum()

        return grad(inner)(x).sum()

    x = values(3)
    torch.testing.assert_close(grad(f)(x), 4 * x)
    assert seen == [(True, True, True)]


def test_results_of_plain_tensors_carry_no_history():
    x = values(3)
    for f in (jacrev(torch.sin), jacfwd(torch.sin), hessian(lambda x: x.sin().sum())):
        assert not f(x).requires_grad
        assert not vmap(f)(values(2, 3)).requires_grad
    gradient, value = grad_and_value(lambda x: x.sin().sum())(x)
    assert not gradient.requires_grad
    assert not value.requires_grad
    output, push = linearize(torch.sin, x)
    assert not output.requires_grad
    assert not push(x).requires_grad


def test_results_of_a_leaf_can_be_differentiated_outside():
    x = values(3).requires_grad_()
    grad(lambda x: (x**3).sum())(x).sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())
    x.grad = None
    jvp(lambda x: x**3, (x,), (torch.ones_like(x),))[1].sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())
    x.grad = None
    linearize(lambda x: x**3, x)[1](torch.ones_like(x)).sum().backward()
    torch.testing.assert_close(x.grad, 6 * x.detach())


@pytest.mark.parametrize(
    "derived",
    [
        lambda x: grad(lambda x: (x**3).sum())(x),
        lambda x: jvp(torch.sin, (x,), (x.cos(),))[1],
        lambda x: jacrev(lambda x: x.sin().sum())(x),
    ],
)
def test_what_leads_to_a_freed_graph_raises_outside(derived):
    x = values(3).requires_grad_()
    y = x.sin()
    y.sum().backward()
    found = derived(y.erf())
    assert found.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        found.sum().backward()


def test_a_captured_leaf_is_differentiated_outside_only():
    weight = values(3).requires_grad_()
    x = values(3, seed=1)
    found = grad(lambda x: (x * weight).sum())(x)
    torch.testing.assert_close(found, weight)
    (found * x).sum().backward()
    torch.testing.assert_close(weight.grad, x)


def test_no_grad_inside_makes_constants_and_outside_only_cuts_the_result():
    def f(x):
        with torch.no_grad():
            constant = x * x
        return (x - constant).sum()

    x = values(3).requires_grad_()
    torch.testing.assert_close(grad(f)(x).detach(), torch.ones(3, dtype=torch.float64))
    with torch.no_grad():
        found = grad(lambda x: (x * x).sum())(x)
    assert not found.requires_grad
    torch.testing.assert_close(found, 2 * x.detach())


def test_writes_inside_a_function_are_differentiated():
    def f(x):
        made = torch.zeros(4, dtype=x.dtype)
        made[1:] = x
        made[2:].mul_(x[1:])
        return made

    x = values(3)
    expected = torch.diag(torch.stack([torch.ones_like(x[0]), 2 * x[1], 2 * x[2]]))
    expected = torch.cat([torch.zeros(1, 3, dtype=x.dtype), expected])
    torch.testing.assert_close(jacrev(f)(x), expected)
    torch.testing.assert_close(jacfwd(f)(x), expected)


def test_an_input_may_not_be_written_to():
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        grad(lambda x: x.mul_(2).sum())(values(3))


# -- batches


def product(w, x):
    return (w * x).sin().sum()


@pytest.mark.parametrize("in_dims", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_derivatives_of_samples(transform, in_dims):
    w, x = (
        values(4, 3, seed=i) if d == 0 else values(3, seed=i) for i, d in enumerate(in_dims)
    )
    found = vmap(transform(product), in_dims)(w, x)
    rows = [
        transform(product)(w[i] if in_dims[0] == 0 else w, x[i] if in_dims[1] == 0 else x)
        for i in range(4)
    ]
    torch.testing.assert_close(found, torch.stack(rows))


def test_derivatives_of_what_is_computed_for_samples():
    w, x = values(3), values(4, 3, seed=1)

    def each(w):
        return vmap(product, (None, 0))(w, x)

    slope = torch.cos(w * x) * x
    torch.testing.assert_close(jacfwd(each)(w), slope)
    torch.testing.assert_close(jacrev(each)(w), slope)
    torch.testing.assert_close(grad(lambda w: each(w).sum())(w), slope.sum(0))
    second = torch.diag_embed(-torch.sin(w * x) * x * x)
    torch.testing.assert_close(jacfwd(jacrev(each))(w), second)
    torch.testing.assert_close(jacrev(jacfwd(each))(w), second)
    torch.testing.assert_close(
        vmap(lambda t: jvp(each, (w,), (t,))[1])(x), torch.einsum("ij,kj->ki", slope, x)
    )


def test_an_ensemble_of_modules():
    torch.manual_seed(0)
    models = [torch.nn.Linear(3, 2).double() for _ in range(4)]
    parameters, buffers = stack_module_state(models)
    assert buffers == {}
    assert all(p.is_leaf and p.requires_grad for p in parameters.values())
    x = values(5, 3)

    def loss(parameters):
        return functional_call(models[0], parameters, (x,)).square().mean()

    found = vmap(grad(loss))({name: p.detach() for name, p in parameters.items()})
    for i, model in enumerate(models):
        model.zero_grad()
        model(x).square().mean().backward()
        torch.testing.assert_close(found["weight"][i], model.weight.grad)
        torch.testing.assert_close(found["bias"][i], model.bias.grad)


# -- against PyTorch

FUNCTIONS = {
    "elementwise": lambda t, x, y: t.sin(x) * y.exp(),
    "matrix": lambda t, x, y: (x @ y.mT).softmax(-1),
    "reduction": lambda t, x, y: x.std() * y.logsumexp(0),
    "tree": lambda t, x, y: {"a": (x * y).sum(), "b": [x.cumsum(0), (y**2,)]},
    "indexing": lambda t, x, y: x[t.tensor([1, 0, 1])] * y[0],
    "complex": lambda t, x, y: (t.complex(x, y) * t.complex(y, x).exp()).imag,
    "modulus": lambda t, x, y: t.complex(x, y).abs() * t.view_as_real(t.complex(y, x))[..., 1],
    "constant": lambda t, x, y: t.ones(2),
    "sorting": lambda t, x, y: x.sort(dim=1).values + y.amax(),
}


def numbers(tree):
    """A tree of tensors of either library as NumPy arrays."""
    if isinstance(tree, dict):
        return {key: numbers(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(numbers(value) for value in tree)
    return tree.detach().numpy()


def assert_same(found, expected):
    found, expected = numbers(found), numbers(expected)
    np.testing.assert_equal(_structure(found), _structure(expected))
    for one, other in zip(_arrays(found), _arrays(expected), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


def _structure(tree):
    if isinstance(tree, dict):
        return {key: _structure(value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_structure(value) for value in tree)
    return tree.shape


def _arrays(tree):
    if isinstance(tree, dict | list | tuple):
        parts = tree.values() if isinstance(tree, dict) else tree
        return [array for part in parts for array in _arrays(part)]
    return [tree]


def both(function):
    """What a function of (library, x, y) gives in Rushlight and in PyTorch."""
    oracle = pytest.importorskip("torch")
    arrays = [np.random.default_rng(i).standard_normal((2, 3)) for i in range(2)]
    return [
        function(library, *(library.from_numpy(a.copy()) for a in arrays))
        for library in (torch, oracle)
    ]


@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1, 0), (0,)])
@pytest.mark.parametrize("transform", ["jacrev", "jacfwd"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_are_those_of_pytorch(name, transform, argnums):
    f = FUNCTIONS[name]
    assert_same(
        *both(lambda t, x, y: getattr(t.func, transform)(lambda *xy: f(t, *xy), argnums)(x, y))
    )


@pytest.mark.parametrize("transform", [grad, jacrev, jacfwd, hessian])
def test_negative_argnums_count_from_the_end(transform):
    def f(x, y):
        return (x * y * y).sum()

    x, y = values(3), values(3, seed=1)
    torch.testing.assert_close(transform(f, -1)(x, y), transform(f, 1)(x, y))
    torch.testing.assert_close(transform(f, (-2, 1))(x, y), transform(f, (0, 1))(x, y))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_products_with_jacobians_are_those_of_pytorch(name):
    f = FUNCTIONS[name]

    def forward(t, x, y):
        return t.func.jvp(lambda x, y: f(t, x, y), (x, y), (y, x + 1))

    def backward(t, x, y):
        output, pull = t.func.vjp(lambda x, y: f(t, x, y), x, y)
        return output, pull(output)

    assert_same(*both(forward))
    assert_same(*both(backward))


@pytest.mark.parametrize("argnums", [0, (0, 1)])
def test_hessians_are_those_of_pytorch(argnums):
    def f(x, y):
        return (x * y).sin().sum() + (x**3).sum()

    assert_same(*both(lambda t, x, y: t.func.hessian(f, argnums)(x, y)))


def test_a_linear_map_is_the_derivative_everywhere():
    x = {"a": values(3), "b": [values(2)]}

    def f(x):
        return x["a"].sin() * x["b"][0].sum(), 3, x["a"].long()

    output, push = linearize(f, x)
    assert output[1] == 3
    for seed in (1, 2):
        t = {"a": values(3, seed=seed), "b": [values(2, seed=seed)]}
        expected = jvp(lambda x: f(x)[0], (x,), (t,))[1]
        found = push(t)
        torch.testing.assert_close(found[0], expected)
        assert found[2].tolist() == [0, 0, 0]
    torch.testing.assert_close(
        vmap(linearize(torch.exp, x["a"])[1])(torch.eye(3, dtype=torch.float64)),
        torch.diag(x["a"].exp()),
    )


def test_what_a_function_returns_beside_its_output():
    x = values(3)

    def f(x):
        return (x * x).sum(), {"seen": x * 2}

    gradient, aux = grad(f, has_aux=True)(x)
    torch.testing.assert_close(gradient, 2 * x)
    torch.testing.assert_close(aux["seen"], 2 * x)
    assert not aux["seen"].requires_grad
    _, (value, aux) = grad_and_value(f, has_aux=True)(x)
    assert value.item() == pytest.approx((x * x).sum().item())
    for made in (jacrev, jacfwd):
        jacobian, aux = made(f, has_aux=True)(x)
        torch.testing.assert_close(jacobian, 2 * x)
        torch.testing.assert_close(aux["seen"], 2 * x)
    assert len(vjp(f, x, has_aux=True)) == 3
    assert len(jvp(f, (x,), (x,), has_aux=True)) == 3


@pytest.mark.parametrize("chunk_size", [None, 1, 2, 100])
def test_rows_may_be_computed_a_few_at_a_time(chunk_size):
    x = values(2, 3)
    found = jacrev(torch.sin, chunk_size=chunk_size)(x)
    expected = torch.diag(x.cos().flatten()).reshape(2, 3, 2, 3)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_empty_inputs_and_outputs_have_empty_jacobians():
    nothing = torch.zeros(0)
    for made in (jacrev, jacfwd):
        assert made(lambda x: nothing * x.sum())(torch.ones(3)).shape == (0, 3)
        assert made(lambda x: x.sum())(nothing).shape == (0,)


def test_keyword_arguments_are_constants_and_names_are_kept():
    def named(x, *, factor):
        return (x * factor).sum()

    found = grad(named)(torch.ones(2), factor=torch.tensor(3.0))
    assert found.tolist() == [3.0, 3.0]
    assert grad(named).__name__ == "named"


def test_a_vjp_can_be_asked_again_and_under_another_derivative():
    x = values(3)
    output, pull = vjp(lambda x: x**3, x)
    torch.testing.assert_close(pull(output)[0], pull(output)[0])
    rows = vmap(pull)(torch.eye(3, dtype=torch.float64))[0]
    torch.testing.assert_close(rows, torch.diag(3 * x**2))
    by_cotangent = grad(lambda v: (pull(v)[0] * x).sum())(output)
    torch.testing.assert_close(by_cotangent, 3 * x**3)


# -- errors: the classes that PyTorch raises

ERRORS = {
    "vector": lambda t, x: t.func.grad(lambda x: x)(x),
    "number": lambda t, x: t.func.grad(lambda x: 3)(x),
    "pair": lambda t, x: t.func.grad(lambda x: (x.sum(), x))(x),
    "integers": lambda t, x: t.func.grad(lambda x: x.sum())(t.arange(3)),
    "float": lambda t, x: t.func.grad(lambda x: x.sum())(3.0),
    "complex output": lambda t, x: t.func.grad(lambda x: (x * 1j).sum())(x),
    "argnum": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=2)(x),
    "negative argnum": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=-2)(x),
    "repeated": lambda t, x: t.func.grad(lambda x, y: x.sum(), argnums=(0, -2))(x, x),
    "argnum type": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=1.0)(x),
    "no argnums": lambda t, x: t.func.grad(lambda x: x.sum(), argnums=())(x),
    "aux": lambda t, x: t.func.grad(lambda x: x.sum(), has_aux=True)(x),
    "aux type": lambda t, x: t.func.grad(lambda x: (x.sum(), 3), has_aux=True)(x),
    "vjp output": lambda t, x: t.func.vjp(lambda x: (x, 3), x),
    "vjp nothing": lambda t, x: t.func.vjp(lambda x: None, x),
    "vjp aux": lambda t, x: t.func.vjp(lambda x: x, x, has_aux=True),
    "cotangent shape": lambda t, x: t.func.vjp(lambda x: x * 2, x)[1](t.ones(2)),
    "cotangent tree": lambda t, x: t.func.vjp(lambda x: x * 2, x)[1]((x,)),
    "cotangent type": lambda t, x: t.func.vjp(lambda x: x * 2, x)[1](3.0),
    "integer output": lambda t, x: t.func.vjp(lambda x: x.long(), x)[1](x),
    "primals": lambda t, x: t.func.jvp(lambda x: x, x, x),
    "tangents": lambda t, x: t.func.jvp(lambda x: x, (x,), x),
    "tangent shape": lambda t, x: t.func.jvp(lambda x: x, (x,), (t.ones(2),)),
    "tangent missing": lambda t, x: t.func.jvp(lambda x: x, (x,), (None,)),
    "no primals": lambda t, x: t.func.jvp(lambda: x, (), ()),
    "jvp float": lambda t, x: t.func.jvp(lambda x: x, (3.0,), (x,)),
    "jvp output": lambda t, x: t.func.jvp(lambda x: 3, (x,), (x,)),
    "jvp integers": lambda t, x: t.func.jvp(lambda x: x, (t.arange(3),), (t.arange(3),)),
    "independent": lambda t, x: t.func.jvp(lambda x: t.ones(2), (x,), (x,), strict=True),
    "jacrev output": lambda t, x: t.func.jacrev(lambda x: 3)(x),
    "jacrev integers": lambda t, x: t.func.jacrev(lambda x: x.long())(x),
    "jacfwd output": lambda t, x: t.func.jacfwd(lambda x: 3)(x),
    "jacfwd integers": lambda t, x: t.func.jacfwd(lambda x: x)(t.arange(3)),
    "chunk_size": lambda t, x: t.func.jacrev(lambda x: x, chunk_size=0),
    "randomness": lambda t, x: t.func.jacfwd(lambda x: x * t.rand(()))(x),
    "direction shape": lambda t, x: t.func.linearize(t.sin, x)[1](t.ones(2)),
    "direction dtype": lambda t, x: t.func.linearize(t.sin, x)[1](x.float()),
    "directions": lambda t, x: t.func.linearize(t.sin, x)[1](x, x),
    "no models": lambda t, x: t.func.stack_module_state([]),
    "models": lambda t, x: t.func.stack_module_state([t.nn.Tanh(), t.nn.Linear(1, 1)]),
    "modes": lambda t, x: t.func.stack_module_state([t.nn.Tanh(), t.nn.Tanh().eval()]),
}


@pytest.mark.filterwarnings("ignore")  # PyTorch's own, while it traces
@pytest.mark.parametrize("name", ERRORS)
def test_what_is_wrong_is_refused_as_by_pytorch(name):
    oracle = pytest.importorskip("torch")
    with pytest.raises(Exception) as expected:
        ERRORS[name](oracle, oracle.ones(3, dtype=oracle.float64))
    with pytest.raises(expected.type) as found:
        ERRORS[name](torch, torch.ones(3, dtype=torch.float64))
    assert found.type is expected.type


@pytest.mark.parametrize("transform", [grad, jacrev])
def test_a_network_trains_by_functions_alone(transform):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    x = torch.randn(64, 2)
    y = x[:, :1] * x[:, 1:]

    def loss(parameters):
        return F.mse_loss(functional_call(model, parameters, (x,)), y)

    before = loss(parameters).item()
    for _ in range(30):
        slopes = transform(loss)(parameters)
        parameters = {name: p - 0.1 * slopes[name] for name, p in parameters.items()}
    assert loss(parameters).item() < 0.8 * before


# -- the rest of the namespace

PATTERNS = {
    "turn": ("a b c -> c a b", {}),
    "merge": ("a b c -> (a b) c", {}),
    "split": ("a b (c d) -> a b c d", {"d": 2}),
    "any": ("a ... -> ... a", {}),
    "any merged": ("a ... -> (a ...)", {}),
    "ones": ("(a) b c -> a 1 b c ()", {}),
    "missing": ("a b c -> a b", {}),
    "dimensions": ("a b -> b a", {}),
    "unknown": ("a b (c d) -> a b c d", {}),
    "uneven": ("a b (c d) -> a b c d", {"d": 3}),
    "unused": ("a b c -> a b c", {"d": 3}),
    "arrow": ("a b c", {}),
    "twice": ("a a c -> a c", {}),
    "right alone": ("a b c -> a ... b c", {}),
    "name": ("_a b c -> _a b c", {}),
    "any inside": ("(a ...) -> a ...", {"a": 2}),
    "number": ("a b 2 -> a b 2", {}),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_rearranging_by_a_pattern(name):
    oracle = pytest.importorskip("torch")
    pattern, lengths = PATTERNS[name]
    array = np.arange(24.0).reshape(2, 3, 4)
    try:
        expected = oracle.func.rearrange(oracle.from_numpy(array), pattern, **lengths)
    except Exception as error:
        refused = ValueError if isinstance(error, ValueError) else RuntimeError
        with pytest.raises(refused):
            torch.func.rearrange(torch.from_numpy(array), pattern, **lengths)
    else:
        found = torch.func.rearrange(torch.from_numpy(array), pattern, **lengths)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_batch_norms_can_do_without_running_statistics():
    model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 1))
    assert torch.func.replace_all_batch_norm_modules_(model) is model
    x = torch.randn(4, 2, 3)
    assert vmap(model)(x).shape == (4, 2, 1)
    assert model[0].running_mean is None


def test_derivatives_of_what_a_freed_graph_made_still_have_a_history():
    weight = torch.tensor([0.5, 1.0], requires_grad=True)
    x = weight * weight
    x.sum().backward()
    inner = torch.func.grad(lambda a: a.sin())
    found = torch.func.grad(inner)(x.sum())
    assert found.requires_grad
    with pytest.raises(RuntimeError, match="second time"):
        found.backward()


def test_a_functional_form_writes_to_what_it_is_given():
    x = torch.zeros(2)
    torch.func.functionalize(lambda x: x.add_(1))(x)
    assert x.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="remove='all'"):
        torch.func.functionalize(lambda x: x, remove="all")


def test_the_namespace_is_that_of_pytorch():
    oracle = pytest.importorskip("torch")
    assert set(oracle.func.__all__) <= set(torch.func.__all__)
    for name in ("forward_ad", "functional"):
        theirs = getattr(oracle.autograd, name)
        ours = getattr(torch.autograd, name)
        assert [n for n in getattr(theirs, "__all__", []) if not hasattr(ours, n)] == []
