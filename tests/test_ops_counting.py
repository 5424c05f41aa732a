"""Histograms, segments and windows against PyTorch: values, gradients, what is refused."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from parity import given, numbers

import rushlight

torch = pytest.importorskip("torch")

POINTS = np.array([[1.0, 2.0], [0.0, 5.0], [1.5, 2.0], [3.0, 4.0]])
WEIGHTS = np.array([1.0, 2.0, 0.5, 1.0])
TENTHS = np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0], "float32")


def outcome(library, name, *args, **kwargs):
    """Results as nested lists, or the class of what is raised."""
    convert = [given(library, a, False) for a in args]
    named = {k: given(library, v, False) for k, v in kwargs.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return plain(getattr(library, name)(*convert, **named))
    except Exception as error:
        return type(error)


def plain(result):
    if isinstance(result, tuple | list):
        return [plain(r) for r in result]
    return result.dtype.itemsize, result.tolist()


def same(name, *args, **kwargs):
    ours, theirs = (outcome(lib, name, *args, **kwargs) for lib in (rushlight, torch))
    assert str(ours) == str(theirs), (args, kwargs)


EDGES = [np.array([0.0, 1.0, 3.0]), np.array([2.0, 4.0])]


@pytest.mark.parametrize(
    "case",
    [
        ([2, 3], {}),
        (2, {}),
        ([2, 3], {"weight": WEIGHTS}),
        ([2, 3], {"density": True}),
        ([2, 3], {"range": (0.0, 1.0, 2.0, 4.0)}),
        ([2, 3], {"range": (0.0, 0.0, 2.0, 2.0)}),
        (EDGES, {}),
        (EDGES, {"weight": WEIGHTS, "density": True}),
        ([2], {}),
        ([2, 0], {}),
        ([2, 3], {"range": (0.0, 1.0)}),
        ([2, 3], {"range": (1.0, 0.0, 2.0, 4.0)}),
        ([2, 3], {"weight": WEIGHTS.astype("float32")}),
        ([2, 3], {"weight": WEIGHTS[:2]}),
        ([e.astype("float32") for e in EDGES], {}),
    ],
    ids=str,
)
def test_histograms_of_points(case):
    bins, named = case
    same("histogramdd", POINTS, bins, **named)


def test_edges_that_are_given_come_back():
    for library in (torch, rushlight):
        points = library.ones(3, 2, requires_grad=True)
        edges = library.tensor([0.0, 1.0, 2.0])
        found = library.histogramdd(points, [edges, edges]).bin_edges
        assert not any(t.requires_grad for t in found)
        edges += 1
        assert found[1].tolist() == [1.0, 2.0, 3.0]


def test_histograms_of_other_points():
    for points in (POINTS[:0], POINTS.reshape(2, 2, 2), POINTS[0], POINTS.astype("int64")):
        same("histogramdd", points, [2, 3])
    same("histogramdd", np.array([[math.nan, 1.0]]), [2, 2])


@pytest.mark.parametrize(
    "case",
    [
        (4, {}),
        (np.array([0.0, 2.0, 5.0]), {}),
        (np.array([0.0, 2.0, 2.0, 5.0]), {}),
        (np.array([3.0, 2.0, 1.0]), {}),
        (3, {"range": (0.0, 2.0)}),
        (3, {"range": (2.0, 2.0)}),
        (3, {"weight": POINTS}),
        (3, {"density": True}),
        (0, {}),
        (3, {"range": (3.0, 2.0)}),
        (3, {"weight": WEIGHTS}),
        (3, {"weight": POINTS.astype("float32")}),
        (np.ones((2, 2)), {}),
        (np.ones(3, "float32"), {}),
        (np.ones(1), {}),
        (np.ones(0), {}),
    ],
    ids=str,
)
def test_histograms(case):
    bins, named = case
    same("histogram", POINTS, bins, **named)


def test_histograms_of_other_data():
    for data in (POINTS[:0], POINTS.astype("int64"), np.array([math.inf, 1.0])):
        same("histogram", data, 3)
    same("histogram", TENTHS, 7)


@pytest.mark.parametrize(
    "args", [(), (4,), (4, 0, 3), (4, 2, 2), (4, 3, 2), (0,), (-1,)], ids=str
)
def test_counts_of_equal_intervals(args):
    same("histc", POINTS, *args)
    same("histc", POINTS.astype("int64"), *args)


def test_counts_at_the_edges_of_intervals():
    same("histc", TENTHS, 10, 0, 1)
    same("histc", np.array([math.nan, 1.0, 2.0]), 4, 0, 3)
    same("histc", np.array([math.nan, 1.0, 2.0]), 4)
    same("histc", POINTS[:0], 4)


# -- segments

DATA = np.array([[1.0, 2.0], [3.0, 3.0], [3.0, -1.0], [0.0, 5.0]])
BOUNDS = [
    {"lengths": [1, 3]},
    {"lengths": [2, 0, 2]},
    {"lengths": [2, 0, 2], "initial": 2.0},
    {"offsets": [0, 1, 4]},
    {"offsets": [1, 1, 3]},
    {"offsets": [0, 2, 4], "initial": 1.5},
    {"lengths": [[1, 1], [2, 0], [0, 2], [1, 1]], "axis": 1},
    {"offsets": [[0, 1, 2]] * 4, "axis": 1},
]


def segments(library, reduce, **named):
    for name in ("lengths", "offsets"):
        if name in named:
            named[name] = library.tensor(named[name])
    x = library.tensor(DATA.tolist(), dtype=library.float64, requires_grad=True)
    out = library.segment_reduce(x, reduce, **named)
    weights = library.arange(1.0, out.numel() + 1, dtype=library.float64)
    (out * weights.reshape(tuple(out.shape))).sum().backward()
    return numbers(out), numbers(x.grad)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
@pytest.mark.parametrize("named", BOUNDS, ids=str)
def test_segments_and_their_gradients(reduce, named):
    ours, theirs = (segments(lib, reduce, **named) for lib in (rushlight, torch))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b)


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"lengths": np.array([1, 2])},
        {"lengths": np.array([5, -1])},
        {"lengths": np.array([1.0, 3.0])},
        {"lengths": np.array([1, 3]), "axis": 1},
        {"lengths": np.array([1, 3]), "axis": 2},
        {"indices": np.array([0, 0, 1, 1])},
        {"offsets": np.array([0, 3, 2, 4])},
    ],
    ids=str,
)
def test_wrong_segments_raise_what_pytorch_raises(named):
    same("segment_reduce", DATA, "sum", **named)


def test_wrong_reductions_of_segments():
    same("segment_reduce", DATA, "median", lengths=np.array([4]))
    same("segment_reduce", DATA.astype("int64"), "sum", lengths=np.array([4]))


# -- windows

WINDOWS = ["hann", "hamming", "blackman", "bartlett", "kaiser"]


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("periodic", [True, False])
def test_windows(name, periodic):
    for length in (0, 1, 2, 7, 12):
        ours = getattr(rushlight, name + "_window")(length, periodic, dtype=rushlight.float64)
        theirs = getattr(torch, name + "_window")(length, periodic, dtype=torch.float64)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), 1e-12, 1e-14)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_ends_of_blackman_windows_are_zero(dtype):
    made = rushlight.blackman_window(7, False, dtype=getattr(rushlight, dtype))
    assert made[[0, -1]].tolist() == [0, 0]


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_that_there_are_not(name):
    for args, named in (((-1,), {}), ((4.0,), {}), ((4,), {"dtype": "dtype:int64"})):
        same(name + "_window", *args, **named)


def test_windows_of_other_shapes():
    ours = rushlight.kaiser_window(9, beta=3.0), rushlight.hamming_window(9, True, 0.6, 0.4)
    theirs = torch.kaiser_window(9, True, 3.0), torch.hamming_window(9, True, 0.6, 0.4)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6, 1e-7)
    assert rushlight.hann_window(4, requires_grad=True).is_leaf
