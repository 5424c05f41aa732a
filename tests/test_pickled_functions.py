"""What programs keep in settings and modules besides tensors: the round trip of a pickle, and a
deep copy, give the same object.
"""

from __future__ import annotations

import copy
import pickle
from types import FunctionType
from typing import Any

import pytest

import rushlight as rl
from rushlight.surface import NAMESPACES

METHODS = {n: f for n, f in vars(rl.Tensor).items() if isinstance(f, FunctionType)}
FUNCTIONS = {**NAMESPACES, "Tensor": METHODS}
UNIQUE: tuple[Any, ...] = (
    *(d for d in vars(rl).values() if isinstance(d, rl.dtype)),
    rl.strided, rl.channels_last, rl.contiguous_format, rl.preserve_format, rl.Tensor, rl.Size,
    rl.nn.Linear, rl.nn.Parameter, rl.compile, rl.no_grad, rl.nn.init.normal_, rl.optim.Adam,
    rl.nn.utils.clip_grad_norm, rl.func.vmap, rl.cat, rl.ops.aten.add, rl.ops.aten.add.Tensor,
)  # fmt: skip
EQUAL: tuple[Any, ...] = (
    rl.device("cpu"), rl.Size((2, 3)), rl.finfo(rl.float32), rl.iinfo(rl.int8),
    rl.ones(1).shape,
)  # fmt: skip


def trips(value: Any) -> list[Any]:
    """A value after each way to keep it."""
    protocols = range(2, pickle.HIGHEST_PROTOCOL + 1)
    kept = [pickle.loads(pickle.dumps(value, protocol)) for protocol in protocols]
    return [*kept, copy.copy(value), copy.deepcopy(value)]


@pytest.mark.parametrize("place", FUNCTIONS)
def test_public_functions_stay_themselves(place: str) -> None:
    assert len(FUNCTIONS[place]) > 10
    for name, function in FUNCTIONS[place].items():
        assert all(kept is function for kept in trips(function)), f"{place}.{name}"


@pytest.mark.parametrize("value", UNIQUE, ids=lambda value: getattr(value, "__name__", None))
def test_what_there_is_one_of_stays_itself(value: Any) -> None:
    assert all(kept is value for kept in trips(value))


@pytest.mark.parametrize("value", EQUAL, ids=repr)
def test_descriptions_stay_equal(value: Any) -> None:
    assert all(kept == value and type(kept) is type(value) for kept in trips(value))


def test_limits_are_equal_by_dtype() -> None:
    assert rl.finfo(rl.float32) == rl.finfo(rl.float32) != rl.finfo(rl.float64)
    assert rl.iinfo(rl.int8) != rl.iinfo(rl.uint8) and rl.iinfo(rl.int8) != 8
    with pytest.raises(TypeError, match="unhashable"):
        hash(rl.finfo(rl.float32))


def test_a_generator_goes_on_where_it_was() -> None:
    generator = rl.Generator().manual_seed(3)
    rl.rand(5, generator=generator)
    kept = pickle.loads(pickle.dumps(generator))
    assert rl.rand(4, generator=kept).tolist() == rl.rand(4, generator=generator).tolist()


def test_bound_methods_keep_their_tensor() -> None:
    kept = pickle.loads(pickle.dumps(rl.tensor([1.0, 2.0]).add))
    assert kept(1).tolist() == [2.0, 3.0]


class Gated(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = rl.nn.Linear(2, 2)
        self.activation = rl.nn.functional.gelu
        self.gates = [rl.sigmoid, rl.Tensor.tanh]


def test_modules_may_hold_functions() -> None:
    for made in (pickle.loads(pickle.dumps(Gated())), copy.deepcopy(Gated())):
        assert made.activation is rl.nn.functional.gelu
        assert made.gates == [rl.sigmoid, rl.Tensor.tanh]


def test_names_are_those_that_users_write() -> None:
    assert (rl.relu.__module__, rl.relu.__qualname__) == ("rushlight", "relu")
    gelu = rl.nn.functional.gelu
    assert (gelu.__module__, gelu.__qualname__) == ("rushlight.nn.functional", "gelu")
    assert rl.Tensor.add_.__qualname__ == "Tensor.add_"
