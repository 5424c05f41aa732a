"""Quantiles, covariances, differences and parts of complex numbers against PyTorch."""

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

torch = pytest.importorskip("torch")

X = normal(3, 5)
NANS = np.where(X > 1, np.nan, X)
INTERPOLATIONS = ["linear", "lower", "higher", "midpoint", "nearest"]


@pytest.mark.parametrize("interpolation", INTERPOLATIONS)
@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
def test_quantiles(name, interpolation):
    for q in (0.3, 1.0):
        check(name, X, q, interpolation=interpolation, second=False)
        check(name, X, q, 1, True, interpolation=interpolation, second=False)
        check(name, NANS, q, 1, interpolation=interpolation, second=False)
    ranks = np.array([0.0, 0.25, 0.6])
    check(name, X, ranks, 0, interpolation=interpolation, second=False)
    check(name, np.array(2.5), ranks, interpolation=interpolation, second=False)


def test_quantiles_of_rows_of_nan_are_nan():
    x = rushlight.tensor([[float("nan")] * 3, [1.0, 2.0, 3.0]])
    assert str(rushlight.nanquantile(x, 0.5, dim=1).tolist()) == "[nan, 2.0]"


def test_wrong_quantiles_raise_what_pytorch_raises():
    for q in (1.5, -0.1, np.array([1.5]), np.ones((1, 1)), np.ones(2, "float32")):
        check_error(RuntimeError, "quantile", X, q)
    check_error(RuntimeError, "quantile", np.arange(3), 0.5)
    check_error(RuntimeError, "quantile", np.zeros(0), 0.5)
    check_error(RuntimeError, "quantile", X, 0.5, interpolation="cubic")
    check_error(IndexError, "quantile", X, 0.5, 2)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_covariances(correction):
    check("cov", X, correction=correction, second=False)
    check("cov", X[0], correction=correction, second=False)
    check("cov", X[:1], correction=correction, second=False)
    counts, weights = np.array([1, 2, 0, 1, 3]), np.array([0.5, 1.0, 2.0, 0.0, 1.0])
    check("cov", X, correction=correction, fweights=counts, second=False)
    check("cov", X, correction=correction, fweights=counts, aweights=weights, second=False)


def test_covariances_of_integers():
    check("cov", np.array([[1, 2, 4], [3, 1, 0]]))
    check("corrcoef", np.array([[1, 2, 4], [3, 1, 0]]))


def test_correlations():
    check("corrcoef", X, second=False)
    check("corrcoef", X[0], second=False)


def test_wrong_weights_raise_what_pytorch_raises():
    check_error(RuntimeError, "cov", normal(2, 2, 2))
    check_error(RuntimeError, "cov", X > 0)
    check_error(RuntimeError, "cov", X, fweights=np.ones(5))
    check_error(RuntimeError, "cov", X, fweights=np.array([1, 2]))
    check_error(RuntimeError, "cov", X, fweights=np.array([1, 2, -1, 0, 1]))
    check_error(RuntimeError, "cov", X, aweights=np.zeros(5))


@pytest.mark.parametrize("n", [0, 1, 2, 9])
def test_differences(n):
    check("diff", X, n)
    check("diff", X, n, 0, normal(1, 5, seed=1), normal(2, 5, seed=2))
    check("diff", np.array([[3, 1], [2, 9]]), n)


def test_differences_of_bools_and_copies():
    check("diff", X > 0)
    x = rushlight.ones(2)
    rushlight.diff(x, 0).zero_()
    assert x.tolist() == [1.0, 1.0]


def test_wrong_differences_raise_what_pytorch_raises():
    check_error(RuntimeError, "diff", X, -1)
    check_error(RuntimeError, "diff", np.array(1.0))
    check_error(RuntimeError, "diff", X, 1, -1, np.ones(3))
    check_error(RuntimeError, "diff", X, 1, -1, np.ones((2, 1)))


@pytest.mark.parametrize("p", [0.5, 1, 2, float("inf")])
def test_renormalised_parts(p):
    check("renorm", X, p, 0, 1.0, second=False)
    check("renorm", normal(2, 3, 4), p, -1, 0.5, second=False)


def test_small_names():
    check("trace", X)
    check("trace", np.arange(6).reshape(2, 3))
    check("unravel_index", np.array([[3, 5], [0, -1]]), (2, 3))
    check("unravel_index", np.array(4), 6)
    check_error(RuntimeError, "trace", X[0])
    check_error(TypeError, "unravel_index", X, (2, 3))
    check_error(RuntimeError, "renorm", X, -1, 0, 1.0)


@pytest.mark.parametrize("size", [(), (5,), (1, 5), (3, 1), (3, 5)])
def test_sums_to_the_size_that_broadcasting_came_from(size):
    x = rushlight.tensor(X.tolist(), dtype=rushlight.float64)
    expanded = rushlight.zeros(size, dtype=rushlight.float64, requires_grad=True)
    (expanded.expand(3, 5) * x).sum().backward()
    assert rushlight.allclose(x.sum_to_size(size), expanded.grad)
    assert x.sum_to_size(3, 5) is x
    with pytest.raises(RuntimeError):
        x.sum_to_size(2)


def test_statistics_of_native_norms():
    check("native_layer_norm", X, (5,), normal(5), normal(5, seed=1), 1e-5, second=False)
    x = normal(2, 4, 3)
    check("native_group_norm", x, normal(4), normal(4, seed=1), 2, 4, 3, 2, 1e-5, second=False)
    means = (np.zeros(4), np.ones(4))
    for training in (True, False):
        check(
            "native_batch_norm", x, normal(4), normal(4, seed=1), *means, training, 0.1, 1e-5,
            grad=False,
        )  # fmt: skip


@pytest.mark.parametrize("parameters", [None, "bfloat16", "float32"])
def test_statistics_come_in_the_dtype_of_the_parameters(parameters):
    def dtypes(lib):
        x = lib.tensor(X.tolist()).reshape(1, 3, 5).to(lib.bfloat16)
        kind = parameters and getattr(lib, parameters)
        w = None if kind is None else lib.ones(3, dtype=kind)
        last = None if kind is None else lib.ones(5, dtype=kind)
        made = (
            lib.native_layer_norm(x, (5,), last, last, 1e-5),
            lib.native_group_norm(x, w, w, 1, 3, 5, 1, 1e-5),
            lib.native_batch_norm(x, w, w, None, None, True, 0.1, 1e-5),
            lib.native_batch_norm(x, w, w, lib.zeros(3), lib.ones(3), False, 0.1, 1e-5)
            if parameters != "bfloat16"
            else (),
        )
        return [str(part.dtype) for parts in made for part in parts]

    assert dtypes(rushlight) == dtypes(torch)


# -- complex numbers


def test_parts_of_real_tensors():
    x = rushlight.tensor(X.tolist())
    assert x.real is x
    for name in ("real", "conj", "resolve_conj", "resolve_neg", "conj_physical"):
        assert getattr(rushlight, name)(x) is x
    check("angle", np.array([1.0, -1.0, 0.0, -0.0, np.nan, -np.inf]), second=False)
    check("angle", np.array([3, -3]))
    with pytest.raises(RuntimeError):
        x.imag


def test_complex_numbers_and_their_parts():
    real, imag = rushlight.tensor([1.0, -2.0]), rushlight.tensor([0.5, float("inf")])
    z = rushlight.complex(real, imag)
    assert z.dtype is rushlight.complex64
    assert z.real.tolist() == real.tolist()
    assert z.imag.tolist() == imag.tolist()
    assert z.conj().imag.tolist() == (-imag).tolist()
    turned = rushlight.polar(rushlight.tensor([2.0]), rushlight.tensor([np.pi / 2]))
    assert turned.angle().item() == pytest.approx(np.pi / 2)
    assert turned.imag.item() == pytest.approx(2.0)
    check_error(RuntimeError, "complex", X, X.astype("float32"))


def test_gradients_of_complex_parts():
    leaves = [
        rushlight.tensor(X[i].tolist(), dtype=rushlight.float64, requires_grad=True)
        for i in (0, 1)
    ]

    def part(a, b):
        z = rushlight.complex(a, b)
        return z.real * 2 + z.conj().imag * 3 + z.angle()

    assert rushlight.autograd.gradcheck(part, leaves)


@pytest.mark.parametrize("edge_order", [1, 2])
def test_slopes_of_samples(edge_order):
    check("gradient", X, edge_order=edge_order)
    check("gradient", X, dim=1, spacing=0.5, edge_order=edge_order)
    for library in (torch, rushlight):
        x = library.tensor(X.tolist(), dtype=library.float64)
        at = [library.tensor(np.cumsum(np.arange(1.0, n + 1)).tolist(), dtype=x.dtype)
              for n in X.shape]  # fmt: skip
        found = library.gradient(x, spacing=at, edge_order=edge_order)
        if library is torch:
            expected = found
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours.tolist(), theirs.tolist(), atol=1e-12)


def test_slopes_of_two_samples_and_errors():
    check("gradient", X[:, :2])
    check_error(RuntimeError, "gradient", X[:, :1])
    check_error(RuntimeError, "gradient", X, edge_order=3)
    check_error(RuntimeError, "gradient", X, dim=(0, 0))
    check_error(RuntimeError, "gradient", X, spacing=(1.0, 2.0, 3.0))
