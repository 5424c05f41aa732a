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


def _scores(lib: Any) -> Any:
    return lib.arange(20.0).reshape(4, 5)


OF_INDICES: dict[str, Callable[[Any, Any], Any]] = {
    "cross_entropy": lambda lib, i: lib.nn.functional.cross_entropy(_scores(lib), i),
    "cross_entropy of images": lambda lib, i: lib.nn.functional.cross_entropy(
        _scores(lib).reshape(4, 5, 1), i[:, None]
    ),
    "nll_loss": lambda lib, i: lib.nn.functional.nll_loss(_scores(lib), i),
    "multi_margin_loss": lambda lib, i: lib.nn.functional.multi_margin_loss(_scores(lib), i),
    "multilabel_margin_loss": lambda lib, i: lib.nn.functional.multilabel_margin_loss(
        _scores(lib)[:, :4], i.expand(4, 4)
    ),
    "embedding": lambda lib, i: lib.nn.functional.embedding(i, _scores(lib)),
    "embedding_bag": lambda lib, i: lib.nn.functional.embedding_bag(i, _scores(lib), i[:1]),
    "getitem": lambda lib, i: _scores(lib)[i],
    "index_select": lambda lib, i: _scores(lib).index_select(0, i),
    "index_copy": lambda lib, i: _scores(lib).index_copy(0, i, _scores(lib)),
    "index_add": lambda lib, i: _scores(lib).index_add(0, i, _scores(lib)),
    "gather": lambda lib, i: _scores(lib).gather(0, i[:, None]),
    "take": lambda lib, i: _scores(lib).take(i),
}


@pytest.mark.parametrize("kind", ["int64", "int32", "int16", "int8", "uint8"])
@pytest.mark.parametrize("name", OF_INDICES)
def test_dtypes_of_indices_and_targets(name: str, kind: str) -> None:
    found: list[type[Exception] | None] = []
    for lib in (torch, rushlight):
        try:
            OF_INDICES[name](lib, lib.tensor([0, 1, 2, 3], dtype=getattr(lib, kind)))
            found.append(None)
        except Exception as error:
            found.append(type(error))
    assert found[0] is found[1]


def test_views_of_conjugates_and_negatives_under_another_dtype() -> None:
    for lib in (torch, rushlight):
        conjugate = lib.ones(2, dtype=lib.complex64).conj()
        negative = conjugate.imag
        for x, kinds in (
            (conjugate, (lib.complex64, lib.complex128, lib.float32)),
            (negative, (lib.float32, lib.int32)),
        ):
            for kind in kinds:
                with pytest.raises(RuntimeError, match="view"):
                    x.view(kind)


@pytest.mark.parametrize("name", ["topk", "kthvalue"])
def test_places_among_bools(name: str) -> None:
    found = []
    for lib in (torch, rushlight):
        with pytest.raises((RuntimeError, NotImplementedError)) as error:
            getattr(lib.tensor([True, False]), name)(1)
        found.append(error.type)
    assert found[0] is found[1]
