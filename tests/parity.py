"""The same call on PyTorch and on Rushlight: results, gradients and second derivatives
compared.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any  # both libraries' tensors

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import rushlight  # noqa: E402 - after the skip

TOLERANCE = {
    "float64": (1e-9, 1e-9), "float32": (2e-5, 2e-5), "float16": (2e-2, 2e-2),
    "bfloat16": (5e-2, 5e-2),
}  # fmt: skip


def resolve(library: Any, name: str) -> Callable[..., Any]:
    """A function by its dotted name: 'sum', 'F.linear', 'linalg.vector_norm'."""
    if name.startswith("F."):
        if library is rushlight:
            import rushlight.nn.functional as functional
        else:
            import torch.nn.functional as functional
        return getattr(functional, name[2:])
    for part in name.split("."):
        library = getattr(library, part)
    return library


def given(library: Any, value: Any, grad: bool) -> Any:
    """Arrays as tensors, dtype names as dtypes; everything else as it is."""
    if isinstance(value, np.ndarray):
        tensor = library.tensor(value.tolist(), dtype=getattr(library, value.dtype.name))
        tensor = tensor.reshape(value.shape)
        if grad and value.dtype.kind == "f":
            tensor = tensor.detach().requires_grad_()
        return tensor
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        return [given(library, v, grad) for v in value]
    if isinstance(value, str) and value.startswith("dtype:"):
        return getattr(library, value[6:])
    return value


def numbers(tensor: Any) -> Any:
    out = np.array(tensor.detach().tolist())
    return out.reshape(tuple(tensor.shape))


def flat(results: Any) -> list[Any]:
    if isinstance(results, tuple | list):
        return [r for part in results for r in flat(part)]
    return [results]


def check(name: str, *args: Any, grad: bool = True, second: bool = True, **kwargs: Any) -> None:
    """Compare values, gradients (fixed random cotangents) and gradients of gradients."""
    with warnings.catch_warnings():
        # PyTorch's, about deprecated forms that are tested here
        warnings.simplefilter("ignore")
        outcomes = [_run(lib, name, args, kwargs, grad, second) for lib in (torch, rushlight)]
    expected, found = outcomes
    assert len(expected) == len(found), (name, len(expected), len(found))
    for label, ours in zip(expected, found, strict=True):
        _compare(f"{name}{args!r} {label[0]}", label[1], ours[1])


def _compare(label: str, expected: Any, found: Any) -> None:
    if expected is None or found is None:
        zero = expected if found is None else found
        assert zero is None or not np.any(zero[1]), f"{label}: a gradient is missing"
        return
    if not isinstance(expected, tuple):
        assert expected == found, label
        return
    assert expected[0] == found[0], f"{label}: dtype {found[0]}, PyTorch has {expected[0]}"
    assert expected[1].shape == found[1].shape, (
        f"{label}: shape {found[1].shape} {expected[1].shape}"
    )
    rtol, atol = TOLERANCE.get(expected[0].replace("torch.", ""), (0, 0))
    np.testing.assert_allclose(found[1], expected[1], rtol, atol, err_msg=label)


def _run(
    library: Any, name: str, args: Any, kwargs: Any, grad: bool, second: bool
) -> list[Any]:
    function = resolve(library, name)
    inputs = [given(library, a, grad) for a in args]
    named = {k: given(library, v, grad) for k, v in kwargs.items()}
    results = flat(function(*inputs, **named))
    out: list[Any] = [
        (f"result {i}", (repr(r.dtype), numbers(r)) if hasattr(r, "dtype") else r)
        for i, r in enumerate(results)
    ]
    leaves = [x for x in flat([*inputs, *named.values()]) if getattr(x, "requires_grad", False)]
    if not grad or not leaves:
        return out
    rng = np.random.default_rng(7)
    total = None
    for r in results:
        if hasattr(r, "dtype") and r.dtype.is_floating_point and r.requires_grad:
            part = (
                r * given(library, rng.standard_normal(tuple(r.shape)), False).to(r.dtype)
            ).sum()
            total = part if total is None else total + part
    if total is None:
        return out
    total.backward(create_graph=second)
    grads = [x.grad for x in leaves]
    out += [
        (f"grad {i}", None if g is None else (repr(g.dtype), numbers(g)))
        for i, g in enumerate(grads)
    ]
    if second:
        out += _second_order(library, leaves, grads, rng)
    return out


def _second_order(library: Any, leaves: list[Any], grads: list[Any], rng: Any) -> list[Any]:
    total = None
    for g in grads:
        weights = rng.standard_normal(() if g is None else tuple(g.shape))
        if g is not None and g.requires_grad:
            part = (g * given(library, weights, False).to(g.dtype)).sum()
            total = part if total is None else total + part
    if total is None:
        return [(f"second {i}", None) for i, _ in enumerate(leaves)]
    for x in leaves:
        x.grad = None
    total.backward()
    return [
        (f"second {i}", None if x.grad is None else (repr(x.grad.dtype), numbers(x.grad)))
        for i, x in enumerate(leaves)
    ]


def check_error(kind: type[BaseException], name: str, *args: Any, **kwargs: Any) -> None:
    """Both libraries raise an exception of this class."""
    for library in (torch, rushlight):
        inputs = [given(library, a, False) for a in args]
        named = {k: given(library, v, False) for k, v in kwargs.items()}
        with pytest.raises(kind):
            for r in flat(resolve(library, name)(*inputs, **named)):
                r.tolist()


def normal(*shape: int, seed: int = 0, dtype: str = "float64") -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
