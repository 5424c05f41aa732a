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
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (4,)),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x, 1),
    "native_group_norm": lambda lib, x: lib.native_group_norm(x, None, None, 2, 2, 4, 1, 1e-5),
    "instance_norm": lambda lib, x: lib.nn.functional.instance_norm(x),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    "mse_loss": lambda lib, x: lib.nn.functional.mse_loss(x, x),
    "smooth_l1_loss": lambda lib, x: lib.nn.functional.smooth_l1_loss(x, x),
    "huber_loss": lambda lib, x: lib.nn.functional.huber_loss(x, x),
    "kl_div": lambda lib, x: lib.nn.functional.kl_div(x, x, reduction="sum"),
    "nll_loss": lambda lib, x: lib.nn.functional.nll_loss(x[0], lib.tensor(PLACES)),
    "multi_margin_loss": lambda lib, x: lib.nn.functional.multi_margin_loss(
        x[0], lib.tensor(PLACES)
    ),
    "multilabel_margin_loss": lambda lib, x: lib.nn.functional.multilabel_margin_loss(
        x[0], lib.tensor([PLACES * 2] * 2)
    ),
}
OF_REAL_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "poisson": lambda lib, x: lib.poisson(x),
    "binomial": lambda lib, x: lib.binomial(x, x),
    "bernoulli": lambda lib, x: lib.bernoulli(x),
    "bernoulli_": lambda lib, x: x.bernoulli_(0.5),
    "normal": lambda lib, x: lib.normal(0.0, x),
    "random_": lambda lib, x: x.random_(),
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


OF_TWO_DTYPES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "cosine_similarity": lambda lib, x, y: lib.cosine_similarity(x, y),
    "cross": lambda lib, x, y: lib.linalg.cross(x, y),
    "vecdot": lambda lib, x, y: lib.linalg.vecdot(x, y),
    "mse_loss": lambda lib, x, y: lib.nn.functional.mse_loss(x, y),
    "smooth_l1_loss": lambda lib, x, y: lib.nn.functional.smooth_l1_loss(x, y),
    "probabilities": lambda lib, x, y: lib.nn.functional.cross_entropy(x, y),
    "probabilities and weights": lambda lib, x, y: lib.nn.functional.cross_entropy(
        x, x, y[0] + 1
    ),
    "weights": lambda lib, x, y: lib.nn.functional.cross_entropy(
        x, lib.tensor(PLACES), y[0] + 1
    ),
    "nll_loss": lambda lib, x, y: lib.nn.functional.nll_loss(x, lib.tensor(PLACES), y[0] + 1),
    "normal": lambda lib, x, y: lib.normal(x, y),
}


@pytest.mark.parametrize("first", ["float16", "float32", "int64"])
@pytest.mark.parametrize("second", ["float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("name", OF_TWO_DTYPES)
def test_operands_of_two_dtypes(name: str, first: str, second: str) -> None:
    found: list[Any] = []
    for lib in (torch, rushlight):
        x, y = (
            lib.tensor([[1, 0, 1], [0, 1, 1]]).to(getattr(lib, kind))
            for kind in (first, second)
        )
        try:
            found.append(repr(OF_TWO_DTYPES[name](lib, x, y).dtype))
        except RuntimeError:
            found.append(RuntimeError)
    assert found[0] == found[1]


OF_MATRICES: dict[str, Callable[[Any, Any], Any]] = {
    "cholesky": lambda lib, x: lib.cholesky(x),
    "geqrf": lambda lib, x: lib.geqrf(x),
    "linalg.eigh": lambda lib, x: lib.linalg.eigh(x),
    "linalg.lu_factor": lambda lib, x: lib.linalg.lu_factor(x),
    "linalg.householder_product": lambda lib, x: lib.linalg.householder_product(x, x[0]),
    "linalg.solve_triangular": lambda lib, x: lib.linalg.solve_triangular(x, x, upper=True),
}


@pytest.mark.parametrize("kind", ["bool", "int64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", OF_MATRICES)
@pytest.mark.filterwarnings("ignore")  # PyTorch's, about cholesky
def test_matrices_that_lapack_does_not_know(name: str, kind: str) -> None:
    for lib in (torch, rushlight):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            OF_MATRICES[name](lib, lib.ones(3, 3).to(getattr(lib, kind)))


def test_complex_normal_numbers_have_half_the_variance_in_each_part() -> None:
    rushlight.manual_seed(0)
    mean = rushlight.full((40_000,), 1 + 2j)
    for made in (rushlight.normal(mean, 2.0), rushlight.normal(mean, mean.real * 2)):
        for part, middle in ((made.real, 1), (made.imag, 2)):
            assert abs(part.mean().item() - middle) < 0.04
            assert abs(part.std().item() - 2**0.5) < 0.03


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
