"""Order and membership at their edges: NaN, nothing, negative indices."""

from __future__ import annotations

import math

import numpy as np
import pytest
from parity import check, check_error

import rushlight

torch = pytest.importorskip("torch")

NAN = math.nan
NANS = np.array([[1.0, NAN, 2.0, NAN], [0.5, 3.0, 3.0, -1.0]])


@pytest.mark.parametrize("name", ["max", "min", "median", "nanmedian"])
def test_elements_that_equal_the_value_share_its_gradient(name):
    check(name, NANS, second=False)
    check(name, NANS[1], second=False)
    check(name, NANS[0, 1::2], second=False)


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min"])
def test_the_gradient_of_an_extreme_goes_to_nan(name):
    """PyTorch's amax has NaN everywhere in such a row; its max() shares as this does."""
    x = rushlight.tensor(NANS.tolist(), dtype=rushlight.float64, requires_grad=True)
    out = getattr(x, name)(1)
    values = out.values if hasattr(out, "values") else out
    values[0].backward()
    first_takes_all = name in ("max", "min")
    assert x.grad[0].tolist() == ([0, 1, 0, 0] if first_takes_all else [0, 0.5, 0, 0.5])


def test_the_median_of_nothing():
    for kind in ("int64", "int32", "int16", "int8", "uint8", "bool", "float32"):
        ours = rushlight.zeros(0, dtype=getattr(rushlight, kind)).median()
        theirs = torch.zeros(0, dtype=getattr(torch, kind)).median()
        assert str(ours.item()) == str(theirs.item()), kind
    check_error(NotImplementedError, "median", np.array([True, False]))


@pytest.mark.parametrize("values", [[NAN], [NAN, NAN], [2.0, NAN, 2.0], [1.0, NAN, NAN, 1.0]])
def test_the_mode_of_nan(values):
    found = rushlight.tensor(values).mode()
    assert str(found.values.item()) == str(torch.tensor(values).mode().values.item())
    assert str(values[found.indices.item()]) == str(found.values.item())
    number = rushlight.tensor(NAN).mode()
    assert math.isnan(number.values) and number.indices == 0


def test_places_in_sequences_of_nothing_and_of_nan():
    for side in (False, True):
        for shapes in (((0,), (3,)), ((3,), (0,)), ((2, 0), (2, 3)), ((0, 3), (0, 2))):
            check("searchsorted", *(np.zeros(s) for s in shapes), right=side, grad=False)
        values = np.array([[NAN, 0.5, 2.0], [1.0, NAN, 9.0]])
        check(
            "searchsorted", np.array([[1.0, 2.0], [1.0, 4.0]]), values, right=side, grad=False
        )
        check("bucketize", values, np.array([1.0, 2.0]), right=side, grad=False)


def test_boundaries_that_are_nan_are_the_last():
    found = rushlight.bucketize(
        rushlight.tensor([0.5, 2.0, 9.0]), rushlight.tensor([1.0, 2.0, NAN, NAN, NAN])
    )
    assert found.tolist() == [0, 1, 2]


def test_a_step_function_takes_nan_for_negative():
    check(
        "heaviside", np.array([NAN, 0.0, 1.0, -1.0]), np.array([5.0, NAN, NAN, NAN]), grad=False
    )


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_of_integers_exists_for_none_of_them(name):
    check(name, np.zeros((0, 3), "int64"), 1, grad=False)
    check_error(NotImplementedError, name, np.zeros(2, "int64"), 0)


NEGATIVE = {
    "index_select": (),
    "index_add": (np.ones(2),),
    "index_copy": (np.ones(2),),
    "index_reduce": (np.ones(2), "prod"),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("pending", [False, True])
def test_indices_of_a_dimension_do_not_count_from_its_end(name, pending):
    args = tuple(
        rushlight.tensor(a.tolist()) if isinstance(a, np.ndarray) else a for a in NEGATIVE[name]
    )
    index = rushlight.tensor([0, -1])
    index = index * 1 if pending else index
    with pytest.raises(IndexError, match=r"index.*out of range.*-1 at"):
        getattr(rushlight.ones(3), name)(0, index, *args).tolist()
    check_error(IndexError, name, np.ones(3), 0, np.array([0, -1]), *NEGATIVE[name])


def lib_of(x):
    return torch if isinstance(x, torch.Tensor) else rushlight


RANGES = {
    "index_select": lambda x, i: x.index_select(0, i),
    "index_add": lambda x, i: x.index_add(0, i, x[:1]),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:1]),
    "index_fill": lambda x, i: x.index_fill(0, i, 1.0),
    "index_reduce": lambda x, i: x.index_reduce(0, i, x[:1], "prod"),
    "index_put": lambda x, i: x.index_put((i,), x[:1]),
    "index": lambda x, i: x[i],
    "take": lambda x, i: x.take(i),
    "put": lambda x, i: x.clone().put_(i, x[0, :1]),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, i[:, None], x),
    "scatter_reduce": lambda x, i: x.scatter_reduce(0, i[:, None], x, "sum"),
    "scatter_reduce prod": lambda x, i: x.scatter_reduce(0, i[:, None], x, "prod"),
    "embedding": lambda x, i: lib_of(x).nn.functional.embedding(i, x),
    "embedding padded": lambda x, i: lib_of(x).nn.functional.embedding(i, x, padding_idx=0),
    "embedding_bag": lambda x, i: lib_of(x).nn.functional.embedding_bag(i[None], x),
    "embedding_bag max": lambda x, i: lib_of(x).nn.functional.embedding_bag(
        i[None], x, mode="max"
    ),
    "max_unpool": lambda x, i: lib_of(x).nn.functional.max_unpool1d(
        x[:1, :1], i[None], kernel_size=2
    ),
    "searchsorted": lambda x, i: lib_of(x).searchsorted(x[0, :1], x[:1, 0], sorter=i),
    "scatter_reduce alone": lambda x, i: x.scatter_reduce(
        0, i[:, None], x, "mean", include_self=False
    ),
}


@pytest.mark.parametrize("name", RANGES)
@pytest.mark.parametrize("pending", [False, True])
def test_an_index_out_of_range_is_an_error_of_the_function_that_was_called(name, pending):
    with pytest.raises(Exception) as expected:
        RANGES[name](torch.ones(3, 2), torch.tensor([9]))
    index = rushlight.tensor([9])
    with pytest.raises(expected.type, match=rf"^{name.split()[0]}: index out of range.* 9 at"):
        RANGES[name](rushlight.ones(3, 2), index * 1 if pending else index).tolist()


KINDS = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool")
EXTREMES = [NAN, -NAN, math.inf, -math.inf, 0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38]


def _mixed(kind, *shape):
    """Many equal values, with all the special ones that a dtype has, in both libraries."""
    rng = np.random.default_rng(5)
    values = rng.integers(0, 2 if kind == "bool" else 9, shape).astype(np.float64)
    if "float" in kind:
        values = np.where(rng.random(shape) < 0.4, rng.choice(EXTREMES, shape), values)
    if kind == "int64":
        values = values * 2.0**50  # too far apart for keys
    theirs = torch.from_numpy(values.astype(np.float32 if "float" in kind else np.int64))
    theirs = theirs.to(getattr(torch, kind))
    ours = rushlight.tensor(values.tolist(), dtype=rushlight.float64)
    return ours.to(getattr(rushlight, kind)), theirs


def _assert_equal(ours, theirs):
    ours, theirs = (t.float() if t.is_floating_point() else t for t in (ours, theirs))
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_equal_values_and_nan_are_sorted_by_position(kind, descending):
    for shape, dim in (((7, 33), 1), ((33, 2, 3), 0)):
        ours, theirs = _mixed(kind, *shape)
        values, places = torch.sort(theirs, dim=dim, descending=descending, stable=True)
        found = rushlight.sort(ours, dim=dim, descending=descending)
        _assert_equal(found.values, values)
        _assert_equal(found.indices, places)
        for count in () if kind == "bool" else (4, 11):  # as minima, and by a partition
            found = rushlight.topk(ours, count, dim=dim, largest=descending)
            _assert_equal(found.values, values.narrow(dim, 0, count))
            _assert_equal(found.indices, places.narrow(dim, 0, count))


@pytest.mark.parametrize("name", ["median", "nanmedian"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "bool"])
def test_medians_of_rows_with_equal_values_and_nan(kind, name):
    ours, theirs = _mixed(kind, 9, 31)
    values, places = getattr(ours, name)(1)
    _assert_equal(values, getattr(theirs, name)(1).values)
    _assert_equal(ours.gather(1, places.unsqueeze(1)).squeeze(1), values)


def test_topk_of_none_and_of_all():
    x = rushlight.tensor([3.0, NAN, 1.0])
    assert x.topk(0).indices.tolist() == []
    assert x.topk(3, largest=False).indices.tolist() == [2, 0, 1]


def test_a_long_row_has_its_first_elements_and_its_median():
    values = np.random.default_rng(0).standard_normal(200_000).astype(np.float32)
    x = rushlight.tensor(values)
    order = np.argsort(-values, kind="stable")
    assert x.topk(7).indices.tolist() == order[:7].tolist()
    assert x.topk(50).indices.tolist() == order[:50].tolist()
    assert x.median().item() == np.sort(values)[99_999]


def test_a_permutation_has_every_number_once():
    for n in (0, 1, 2, 5, 1000):
        assert sorted(rushlight.randperm(n).tolist()) == list(range(n))


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int32", "int64", "uint64"])
@pytest.mark.parametrize("count", [2000, 40_000])
def test_integers_close_to_each_other(kind: str, count: int) -> None:
    info = np.iinfo(kind)
    width = min(1900, int(info.max) - int(info.min))
    for low in (int(info.min), int(info.max) - width, max(int(info.min), -700)):
        rng = np.random.default_rng(count)
        steps = rng.integers(0, width, (2, count), endpoint=True)
        values = (steps.astype(object) + low).astype(kind)
        x = rushlight.tensor(values)
        found, inverse, counts = x.unique(return_inverse=True, return_counts=True)
        expected = np.unique(values, return_inverse=True, return_counts=True)
        for got, want in zip((found, inverse, counts), expected, strict=True):
            assert np.array_equal(got.numpy(), want)
        assert found.dtype is x.dtype and inverse.dtype is counts.dtype is rushlight.int64
        assert np.array_equal(x.unique().numpy(), expected[0])
        assert np.array_equal(x.unique(return_counts=True)[1].numpy(), expected[2])
        if kind != "uint64":
            assert np.array_equal(x.argsort(1).numpy(), np.argsort(values, 1, "stable"))
            reverse = np.argsort(-values.astype(object), 1, "stable")
            assert np.array_equal(x.argsort(1, True).numpy(), reverse)
