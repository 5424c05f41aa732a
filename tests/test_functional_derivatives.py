"""torch.autograd.functional against PyTorch: values, structures and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch

# PyTorch's own warning, when it first differentiates forward
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def square(x):
    return x * x


def cubes(x):
    return (x**3).sum()


def pair(x, y):
    return x * y, x.sum()


VALUES = {
    "vjp of a number": lambda t, f, x: f.vjp(cubes, x),
    "vjp": lambda t, f, x: f.vjp(square, x, x + 1),
    "vjp of tuples": lambda t, f, x: f.vjp(pair, (x, x + 1), (x, t.ones(()).to(x.dtype))),
    "vjp of a constant": lambda t, f, x: f.vjp(lambda x: t.ones(3), x, x),
    "jvp": lambda t, f, x: f.jvp(square, x, x + 1),
    "jvp of tuples": lambda t, f, x: f.jvp(pair, (x, x + 1), (x, x)),
    "jvp of a constant": lambda t, f, x: f.jvp(lambda x: t.ones(3), x, x),
    "vhp": lambda t, f, x: f.vhp(cubes, x, x),
    "hvp": lambda t, f, x: f.hvp(cubes, (x,), (x,)),
    "hvp of one element": lambda t, f, x: f.hvp(lambda x: x.sum().reshape(1), x, x),
    "jacobian": lambda t, f, x: f.jacobian(square, x),
    "jacobian of tuples": lambda t, f, x: f.jacobian(pair, (x, x + 1)),
    "jacobian of one": lambda t, f, x: f.jacobian(lambda x: (x,), (x,)),
    "jacobian of a constant": lambda t, f, x: f.jacobian(lambda x: t.ones(2), x),
    "rows together": lambda t, f, x: f.jacobian(pair, (x, x + 1), vectorize=True),
    "columns together": lambda t, f, x: f.jacobian(
        square, x, vectorize=True, strategy="forward-mode"
    ),
    "hessian": lambda t, f, x: f.hessian(cubes, x),
    "hessian of tuples": lambda t, f, x: f.hessian(lambda x, y: (x * y * y).sum(), (x, x + 1)),
    "hessian of a line": lambda t, f, x: f.hessian(lambda x: x.sum(), x),
    "hessian together": lambda t, f, x: f.hessian(cubes, x, vectorize=True),
    "hessian forward": lambda t, f, x: f.hessian(
        cubes, x, vectorize=True, outer_jacobian_strategy="forward-mode"
    ),
}


def arrays(tree):
    if isinstance(tree, list | tuple):
        return tuple(arrays(part) for part in tree)
    return tree.detach().numpy()


@pytest.mark.parametrize("name", VALUES)
def test_values_are_those_of_pytorch(name):
    oracle = pytest.importorskip("torch")
    given = np.array([1.0, 2.0, 3.0])
    found, expected = (
        arrays(VALUES[name](t, t.autograd.functional, t.from_numpy(given.copy())))
        for t in (torch, oracle)
    )
    _compare(found, expected)


def _compare(found, expected):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _compare(one, other)
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        assert found.shape == expected.shape


ERRORS = {
    "no vector": lambda t, f, x: f.vjp(square, x),
    "vector size": lambda t, f, x: f.vjp(square, x, t.ones(2)),
    "vector count": lambda t, f, x: f.vjp(pair, (x, x), x),
    "list": lambda t, f, x: f.vjp(square, [x], x),
    "number": lambda t, f, x: f.vjp(square, 3),
    "output": lambda t, f, x: f.vjp(lambda x: 3, x),
    "second output": lambda t, f, x: f.vjp(lambda x: (x, 3), x),
    "jvp without vector": lambda t, f, x: f.jvp(square, x),
    "integers": lambda t, f, x: f.jvp(lambda x: x.long(), x.long(), x),
    "vector for hvp": lambda t, f, x: f.hvp(square, x, x),
    "tuple for vhp": lambda t, f, x: f.vhp(lambda x: (cubes(x),), x, x),
    "hvp output": lambda t, f, x: f.hvp(lambda x: 3, x, x),
    "hessian of a vector": lambda t, f, x: f.hessian(square, x),
    "hessian of a tuple": lambda t, f, x: f.hessian(lambda x: (cubes(x),), x),
    "hessian output": lambda t, f, x: f.hessian(lambda x: 3, x),
    "jacobian output": lambda t, f, x: f.jacobian(lambda x: 3, x),
    "strategy": lambda t, f, x: f.jacobian(square, x, strategy="sideways"),
    "forward by rows": lambda t, f, x: f.jacobian(square, x, strategy="forward-mode"),
    "forward graph": lambda t, f, x: f.jacobian(
        square, x, True, vectorize=True, strategy="forward-mode"
    ),
    "strict together": lambda t, f, x: f.jacobian(square, x, strict=True, vectorize=True),
    "hessian strategy": lambda t, f, x: f.hessian(cubes, x, outer_jacobian_strategy="up"),
    "hessian forward by rows": lambda t, f, x: f.hessian(
        cubes, x, outer_jacobian_strategy="forward-mode"
    ),
    "strict vjp": lambda t, f, x: f.vjp(lambda x: t.ones(3), x, x, strict=True),
    "strict input": lambda t, f, x: f.vjp(lambda x, y: x * 2, (x, x), x, strict=True),
    "strict graph": lambda t, f, x: f.vjp(lambda x: x * 2, x, x, True, True),
    "strict jvp": lambda t, f, x: f.jvp(lambda x: t.ones(3), x, x, strict=True),
    "strict jvp input": lambda t, f, x: f.jvp(lambda x, y: x, (x, x), (x, x), strict=True),
    "strict jvp graph": lambda t, f, x: f.jvp(lambda x: x * 2, x, x, True, True),
    "strict vhp": lambda t, f, x: f.vhp(lambda x: x.sum(), x, x, strict=True),
    "strict hvp": lambda t, f, x: f.hvp(lambda x: x.sum(), x, x, strict=True),
    "strict hvp constant": lambda t, f, x: f.hvp(lambda x: t.ones(()), x, x, strict=True),
    "strict jacobian": lambda t, f, x: f.jacobian(lambda x: t.ones(2), x, strict=True),
    "strict jacobian input": lambda t, f, x: f.jacobian(lambda x, y: x, (x, x), strict=True),
    "strict jacobian graph": lambda t, f, x: f.jacobian(lambda x: x * 2, x, True, True),
    "strict hessian": lambda t, f, x: f.hessian(lambda x: x.sum(), x, strict=True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_wrong_is_refused_as_by_pytorch(name):
    oracle = pytest.importorskip("torch")
    with pytest.raises(Exception) as expected:
        ERRORS[name](oracle, oracle.autograd.functional, oracle.ones(3))
    with pytest.raises(expected.type):
        ERRORS[name](torch, torch.autograd.functional, torch.ones(3))


@pytest.mark.parametrize("name", ["vjp", "jvp", "vhp", "hvp"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_results_can_be_differentiated_if_a_graph_is_asked_for(name, create_graph):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    function = torch.square if name in ("vjp", "jvp") else cubes
    product = getattr(torch.autograd.functional, name)
    value, found = product(function, x, torch.ones(2), create_graph)
    assert value.requires_grad == found.requires_grad == create_graph
    if create_graph:
        found.sum().backward()
        assert x.grad.tolist() == ([2.0, 2.0] if name in ("vjp", "jvp") else [6.0, 6.0])


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobians_can_be_differentiated_if_a_graph_is_asked_for(vectorize):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    functional = torch.autograd.functional
    found = functional.jacobian(lambda x: x**3, x, create_graph=True, vectorize=vectorize)
    found.sum().backward()
    assert x.grad.tolist() == [6.0, 12.0]
    x.grad = None
    functional.hessian(cubes, x, create_graph=True, vectorize=vectorize).sum().backward()
    assert x.grad.tolist() == [6.0, 6.0]
    assert not functional.jacobian(square, x, vectorize=vectorize).requires_grad
