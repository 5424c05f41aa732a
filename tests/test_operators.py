"""Python's operators with every kind of operand: numbers of Python's and NumPy's, and objects
that are none.
"""

from __future__ import annotations

import operator
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import rushlight

torch = pytest.importorskip("torch")

BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
    "rshift", "matmul",
)  # fmt: skip
IN_PLACE = tuple(f"__i{name}__" for name in BINARY if name != "matmul")
REFLECTED = tuple(f"__r{name}__" for name in BINARY)
COMPARED = tuple(f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne"))
OPERATORS = tuple(f"__{name}__" for name in BINARY) + REFLECTED + IN_PLACE + COMPARED
LEFT = {
    "float32": lambda module: module.tensor([4.0, 9.0]),
    "int64": lambda module: module.tensor([4, 9]),
    "bool": lambda module: module.tensor([True, False]),
    "0-d": lambda module: module.tensor(3.0),
}
NUMBERS: tuple[Any, ...] = (
    2, 1.5, True, np.float64(1.5), np.float32(1.5), np.int64(3), np.int8(3), np.uint8(3),
    np.bool_(True), np.bool_(False),
)  # fmt: skip


class Stranger:
    """An object that no operator knows."""


STRANGERS: tuple[Any, ...] = (
    None, "a", b"a", [1, 2], (1.0, 2.0), {1}, range(2), Fraction(1, 2), Stranger(),
)  # fmt: skip


def outcome(module: Any, kind: str, name: str, operand: Any) -> tuple[Any, ...]:
    """What a method gives: the result's type and elements, or the class of its error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch's deprecation of __pow__ and others
            made = getattr(LEFT[kind](module), name)(operand)
            if made is NotImplemented:
                return ("NotImplemented",)
            elements = np.asarray(made.tolist(), "float64")
    except RuntimeError:  # NotImplementedError is one
        return ("error",)
    return (str(made.dtype).rpartition(".")[2], made.shape, elements.round(4).tolist())


@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_numbers(name: str, kind: str) -> None:
    for number in NUMBERS:
        expected = outcome(torch, kind, name, number)
        assert repr(outcome(rushlight, kind, name, number)) == repr(expected), repr(number)


@pytest.mark.parametrize("name", [*OPERATORS, "__div__", "__rdiv__", "__idiv__"])
def test_operators_leave_strangers_to_the_other_operand(name: str) -> None:
    for stranger in STRANGERS:
        assert getattr(rushlight.ones(2), name)(stranger) is NotImplemented, repr(stranger)


def test_the_exponent_has_its_name() -> None:
    for module in (torch, rushlight):
        x = module.tensor([2.0, 3.0])
        assert x.__ipow__(exponent=2) is x and x.tolist() == [4.0, 9.0]
        assert x.__pow__(exponent=2).tolist() == [16.0, 81.0]


def test_truth_values_of_numpy_are_numbers_everywhere() -> None:
    for module in (torch, rushlight):
        x, yes = module.tensor([3, 4]), np.bool_(True)
        assert module.full((2,), yes).dtype is module.float32
        assert module.result_type(x, yes) is module.float32
        assert module.add(x, x.float(), alpha=yes).tolist() == [6, 8]
        assert module.clamp(x, max=yes).tolist() == [1, 1]
        assert module.where(x > 3, x, yes).tolist() == [1, 4]
        assert x.masked_fill(x > 3, yes).tolist() == [3, 1]
        assert module.zeros(2).fill_(yes).tolist() == [1, 1]
        assert module.tensor([yes]).dtype is module.bool


@pytest.mark.parametrize("module", (torch, rushlight))
@pytest.mark.parametrize("convert", (int, float, complex))
def test_only_one_number_converts(module: Any, convert: Any) -> None:
    with pytest.raises(ValueError, match="only one element tensors"):
        convert(module.ones(2))
    assert convert(module.ones(1, 1)) == 1


@pytest.mark.parametrize("module", (torch, rushlight))
@pytest.mark.parametrize("element", ("a", b"a", None, [1.0], np.ones(1), np.bool_(True)))
def test_only_numbers_and_tensors_can_be_contained(module: Any, element: Any) -> None:
    with pytest.raises(RuntimeError, match="only supports Tensor or scalar"):
        _ = element in module.ones(2)
    assert 1 in module.ones(2) and module.tensor(2.0) not in module.ones(2)


@pytest.mark.parametrize("module", (torch, rushlight))
def test_inversion_is_for_integers(module: Any) -> None:
    with pytest.raises(TypeError, match="integer and Boolean"):
        operator.invert(module.ones(2))
    with pytest.raises(NotImplementedError):
        module.bitwise_not(module.ones(2))
    assert (~module.tensor([1, -1])).tolist() == [-2, 0]


@pytest.mark.parametrize("module", (torch, rushlight))
@pytest.mark.parametrize("number", (2, 1.5, np.float64(2), np.int64(2), np.bool_(True)))
def test_matrix_products_have_no_numbers(module: Any, number: Any) -> None:
    for left, right in ((module.ones(2), number), (number, module.ones(2))):
        with pytest.raises(TypeError, match="@"):
            operator.matmul(left, right)


@pytest.mark.parametrize("module", (torch, rushlight))
@pytest.mark.parametrize("index", ("a", "", b"a", ("a",)))
def test_text_is_no_index(module: Any, index: Any) -> None:
    with pytest.raises(TypeError):
        module.arange(200)[index]
