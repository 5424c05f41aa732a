"""Building the same module in Rushlight and in PyTorch, and comparing what they do."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch", reason="comparisons need PyTorch", exc_type=ImportError)

ROOMS = {"rushlight": rushlight, "torch": torch}


def array(value):
    """Tensors of either library, in any nesting, as NumPy arrays."""
    if isinstance(value, (rushlight.Tensor, torch.Tensor)):
        return np.array(value.detach().numpy())
    if isinstance(value, (list, tuple)):
        return [array(part) for part in value]
    if isinstance(value, dict):
        return {key: array(part) for key, part in value.items()}
    return value


def given(lib, value, grad=False):
    """NumPy arrays, in any nesting, as tensors of a library."""
    if isinstance(value, np.ndarray):
        tensor = lib.tensor(value)
        return tensor.requires_grad_(True) if grad and value.dtype.kind == "f" else tensor
    if isinstance(value, tuple):
        return tuple(given(lib, part, grad) for part in value)
    return value


def assert_same(got, expected, **tolerance):
    """Equal structure, and arrays equal up to rounding."""
    if isinstance(expected, list):
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e, **tolerance)
    elif isinstance(expected, dict):
        assert list(got) == list(expected)
        for key in expected:
            assert_same(got[key], expected[key], **tolerance)
    elif isinstance(expected, np.ndarray):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, **{"rtol": 1e-5, "atol": 1e-6, **tolerance})
    else:
        assert got == expected


def pair(build):
    """`build(library)` in both, the first with the second's parameters."""
    ours, theirs = build(rushlight), build(torch)
    state = {key: rushlight.tensor(array(value)) for key, value in theirs.state_dict().items()}
    ours.load_state_dict(state)
    return ours, theirs


def check_module(build, *inputs, eval_mode=False, **tolerance):
    """Text, state, output, gradients and state afterwards of a module in both libraries."""
    ours, theirs = pair(build)
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    results = []
    for lib, module in ((rushlight, ours), (torch, theirs)):
        module.train(not eval_mode)
        tensors = given(lib, inputs, grad=True)
        out = module(*tensors)
        loss = sum(_total(part) for part in _floats(out, lib))
        loss.backward()
        grads = [t.grad for t in _floats(tensors, lib)]
        weights = {name: p.grad for name, p in module.named_parameters()}
        results.append(array([out, grads, weights, dict(module.state_dict())]))
    assert_same(*results, **tolerance)


def _floats(value, lib):
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in _floats(part, lib)]
    return [value] if isinstance(value, lib.Tensor) and value.is_floating_point() else []


def _total(tensor):
    """A sum in which every element has another weight."""
    return (tensor * tensor).sum() + (tensor.cos()).sum()


def both_raise(build):
    """The error that `build(library)` raises in both: same type, same text."""
    errors = []
    for lib in ROOMS.values():
        with pytest.raises(Exception) as caught:
            build(lib)
        errors.append((type(caught.value).__name__, str(caught.value)))
    assert errors[0] == errors[1], errors
    return errors[0][1]
