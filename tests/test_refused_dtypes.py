"""Dtypes that an operation has no results for are refused where it is called, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight

torch = pytest.importorskip("torch")

PLACES = [0, 0]
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "adaptive_max_pool1d": lambda lib, x: lib.nn.functional.adaptive_max_pool1d(x, 2),
    "adaptive_max_pool2d": lambda lib, x: lib.nn.functional.adaptive_max_pool2d(x, 1),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x, x, x),
}
OF_REAL_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "poisson": lambda lib, x: lib.poisson(x),
    "binomial": lambda lib, x: lib.binomial(x, x),
    **{
        f"index_reduce {how}": lambda lib, x, how=how: x.index_reduce(
            0, lib.tensor(PLACES), x, how
        )
        for how in ("amax", "amin")
    },
    "scatter_reduce amax": lambda lib, x: x.scatter_reduce(
        0, lib.tensor(PLACES)[:, None, None], x, "amax"
    ),
}


def raised(call: Callable[[Any, Any], Any], lib: Any, kind: str) -> type[Exception] | None:
    """The class of the error, PyTorch's or ours, before anything is computed."""
    x = lib.ones(2, 2, 4).to(getattr(lib, kind))
    try:
        call(lib, x)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("kind", ["bool", "int64", "complex64", "float32"])
@pytest.mark.parametrize("name", CALLS)
def test_dtypes_other_than_floating_ones(name: str, kind: str) -> None:
    expected = raised(CALLS[name], torch, kind)
    assert (expected is None) == (kind == "float32")
    assert raised(CALLS[name], rushlight, kind) is expected


@pytest.mark.filterwarnings("ignore")  # PyTorch's, about index_reduce
@pytest.mark.parametrize("name", OF_REAL_NUMBERS)
def test_complex_numbers(name: str) -> None:
    expected = raised(OF_REAL_NUMBERS[name], torch, "complex64")
    assert expected is not None
    assert raised(OF_REAL_NUMBERS[name], rushlight, "complex64") is expected
