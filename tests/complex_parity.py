"""Functions of complex tensors of both libraries: their values, and their first and second
derivatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # tensors of two libraries

import numpy as np
import pytest

import rushlight as torch

oracle = pytest.importorskip("torch")

Function = Callable[..., Any]  # of a library and its tensors


def drawn(*shape: int, seed: int = 0) -> Any:
    draw = np.random.default_rng([seed, *shape])
    return draw.normal(size=shape) + 1j * draw.normal(size=shape)


def real(*shape: int, seed: int = 0) -> Any:
    return drawn(*shape, seed=seed).real


def array(x: Any) -> Any:
    return x.detach().resolve_conj().resolve_neg().numpy()


def results(function: Function, library: Any, arrays: tuple[Any, ...]) -> list[Any]:
    """What the function gives, its gradients and those of their sizes."""
    inputs = [library.from_numpy(a.copy()).requires_grad_() for a in arrays]
    out = function(library, *inputs)
    draw = np.random.default_rng(5)
    cotangent = draw.normal(size=tuple(out.shape))
    if out.dtype.is_complex:
        cotangent = cotangent + 1j * draw.normal(size=tuple(out.shape))
    given = library.from_numpy(np.asarray(cotangent))
    grads = library.autograd.grad(out, inputs, given, allow_unused=True, create_graph=True)
    size = sum((g * g.conj()).real.sum() for g in grads if g is not None)
    again = [None] * len(inputs)
    if size.requires_grad:
        again = library.autograd.grad(size, inputs, allow_unused=True)
    return [out, *grads, *again]


def check(function: Function, *arrays: Any, rtol: float = 1e-8) -> None:
    """Values, gradients and second derivatives are PyTorch's (no gradient may be zeros)."""
    got, wanted = results(function, torch, arrays), results(function, oracle, arrays)
    for ours, theirs in zip(got, wanted, strict=True):
        if ours is None or theirs is None:
            known = theirs if ours is None else ours
            assert known is None or not np.any(array(known))
            continue
        assert str(ours.dtype) == str(theirs.dtype)
        np.testing.assert_allclose(array(ours), array(theirs), rtol=rtol, atol=1e-9)
