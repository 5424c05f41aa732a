"""Tensors of both libraries side by side: what the elementwise tests compare with."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any  # both libraries' objects

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

FLOATS = ("float32", "float64", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
KINDS = (*FLOATS, *INTEGERS, "bool")


def ours_of(t: Any, requires_grad: bool = False) -> Any:
    """A rushlight tensor with the elements of a torch tensor."""
    kind = getattr(rl, str(t.dtype).removeprefix("torch."))
    plain = t.detach().to(torch.float64) if t.dtype.is_floating_point else t.detach()
    made = rl.tensor(plain.numpy().copy(), dtype=kind)
    return made.requires_grad_() if requires_grad else made


def array_of(t: Any) -> Any:
    """The elements of either library's tensor as float64 (or as they are, for integers)."""
    if isinstance(t, rl.Tensor):
        numbers = t.detach()._numbers()
        return numbers.astype(np.float64) if t.dtype.is_floating_point else np.array(numbers)
    t = t.detach()
    return (t.double() if t.dtype.is_floating_point else t).numpy()


EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def agree(ours: Any, theirs: Any, ulp: float = 8, absolute: float = 0.0) -> None:
    """Same dtype, shape and elements, floats to within `ulp` steps of the largest neighbour."""
    name = str(theirs.dtype).removeprefix("torch.")
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    a, b = array_of(ours), array_of(theirs)
    if name in EPS:
        np.testing.assert_allclose(a, b, rtol=ulp * EPS[name], atol=absolute or 2 * EPS[name])
    else:
        np.testing.assert_array_equal(a, b)


def both(function: Any, *theirs: Any, **named: Any) -> tuple[Any, Any]:
    """`function(library, *operands)` in both; raises together, with the same class."""
    operands = [ours_of(t) if isinstance(t, torch.Tensor) else t for t in theirs]
    try:
        expected = function(torch, *theirs, **named)
    except Exception as error:
        with pytest.raises(type(error)):
            array_of(function(rl, *operands, **named))
        return None, None
    return function(rl, *operands, **named), expected


def check(function: Any, *theirs: Any, ulp: float = 8, **named: Any) -> None:
    ours, expected = both(function, *theirs, **named)
    if expected is not None:
        agree(ours, expected, ulp)


def check_gradients(function: Any, *theirs: Any, ulp: float = 64, second: bool = True) -> None:
    """First and second derivatives with random cotangents, in float64."""
    mine = [ours_of(t, t.dtype.is_floating_point) for t in theirs]
    yours = [t.clone().requires_grad_(t.dtype.is_floating_point) for t in theirs]
    with contextlib.suppress(AttributeError):
        torch.manual_seed(1)
    first_ours, first_theirs = function(rl, *mine), function(torch, *yours)
    seed = torch.randn(first_theirs.shape, dtype=first_theirs.dtype)
    first_ours.backward(ours_of(seed), create_graph=second)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of the cycle that this makes
        first_theirs.backward(seed, create_graph=second)
    for a, b in zip(mine, yours, strict=True):
        if b.grad is not None:
            agree(a.grad, b.grad, ulp, 1e-12)
    if not second:
        return
    wanted = [i for i, t in enumerate(yours) if t.grad is not None and t.grad.requires_grad]
    if not wanted:
        return
    squares_ours = sum(((mine[i].grad * mine[i].grad).sum() for i in wanted), start=0)
    squares_theirs = sum(((yours[i].grad * yours[i].grad).sum() for i in wanted), start=0)
    for a, b in zip(mine, yours, strict=True):
        a.grad, b.grad = None, None
    squares_theirs.backward()
    if squares_ours.requires_grad:
        squares_ours.backward()
    for a, b in zip(mine, yours, strict=True):
        if a.grad is not None:
            agree(a.grad, b.grad, ulp * 16, 1e-10)
        elif b.grad is not None:  # a second derivative that is zero need not be recorded
            assert not b.grad.any()
