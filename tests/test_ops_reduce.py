"""Reductions, scans and statistics against PyTorch."""

import math

import numpy as np
import pytest
from parity import check, check_error, normal

import rushlight

X = normal(3, 4, 5)
ZEROS = np.array([[1.0, 0.0, 3.0, 0.5], [0.0, 0.0, 2.0, -1.0], [2.0, 3.0, -4.0, 0.25]])
TIES = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
INTEGERS = np.array([[3, 0, 2], [5, 5, 1]])
BOOLS = np.array([[True, False], [True, True]])
NANS = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "logsumexp", "var", "std", "nansum"]
)
@pytest.mark.parametrize("dim", [0, -1, (0, 2), [1]])
def test_reductions_over_dims(name, dim):
    check(name, X, dim)
    check(name, X, dim=dim, keepdim=True)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "prod", "var", "std", "max", "min", "norm"]
)
def test_full_reductions(name):
    check(name, X)
    check(name, np.array(2.5), second=False)


@pytest.mark.parametrize(
    "name", ["sum", "prod", "all", "any", "max", "argmax", "count_nonzero", "amin"]
)
def test_integers(name):
    check(name, INTEGERS)
    check(name, INTEGERS, dim=1)


@pytest.mark.parametrize("name", ["sum", "prod", "all", "any", "max", "count_nonzero", "amin"])
def test_bools(name):
    check(name, BOOLS)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_with_indices(name):
    check(name, X, 1)
    check(name, TIES, dim=1, keepdim=True)
    check(name, X, normal(3, 4, 5, seed=1))


def test_ties_share_the_gradient_of_amax():
    check("amax", TIES, 1)
    check("aminmax", X, dim=1)


def test_products_with_zeros():
    check("prod", ZEROS, 1)
    check("prod", ZEROS, 0, keepdim=True)
    check("cumprod", ZEROS, 1)
    check("cumprod", ZEROS, 0)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_scans(name, dim):
    check(name, X, dim)


def test_scans_of_nan_and_ties():
    check("cummax", NANS, 1, grad=False)
    check("cummax", TIES, 1)
    check("cumsum", INTEGERS, 0)
    check("logcumsumexp", np.array([-1000.0, 1000.0, -np.inf, 3.0]), 0, second=False)


def test_nan_forms():
    check("nansum", NANS, 1)
    check("nanmean", np.array([[1.0, np.nan], [2.0, 5.0]]), 0)


@pytest.mark.parametrize("correction", [0, 1, 2])
def test_variances(correction):
    check("var", X, 1, correction=correction)
    check("std", X, (0, 1), correction=correction, keepdim=True)
    check("var_mean", X, 1, correction=correction)
    check("std_mean", X, correction=correction)


def test_old_forms_of_variance():
    check("var", X, False)
    check("std", X, 1, False, True)
    check("var", X, [0, 1], unbiased=False)


def test_variance_far_from_zero_keeps_its_digits():
    x = (normal(200, seed=3) * 0.1 + 10000.0).astype("float32")
    import rushlight

    found = rushlight.tensor(x.tolist()).var().item()
    assert abs(found - x.astype("float64").var(ddof=1)) < 1e-6 * found


@pytest.mark.parametrize("order", [0, 1, 2, 3, 0.5, 1.5, -1, -2, float("inf"), -float("inf")])
def test_vector_norms(order):
    check("linalg.vector_norm", X, order, 1, second=order in (2, 3))
    check("norm", X, order, (0, 1), True, second=False)


def test_norm_of_large_float32_is_finite():
    import rushlight

    assert rushlight.tensor([3e30, 4e30]).norm().item() == np.float32(5e30)


def test_norm_of_zeros_has_zero_gradient():
    check("norm", np.zeros(3), second=False)


@pytest.mark.parametrize("name", ["sum", "prod", "all", "any", "count_nonzero"])
def test_empty(name):
    check(name, np.zeros((0, 3)))
    check(name, np.zeros((0, 3)), dim=0)
    check(name, np.zeros((0, 3)), dim=1)


def test_errors():
    check_error(RuntimeError, "max", np.zeros(0))
    check_error(RuntimeError, "amax", np.zeros(0))
    check_error(IndexError, "amax", np.zeros((2, 0)), 1)
    check_error(IndexError, "max", np.zeros((2, 0)), 1)
    check_error(IndexError, "argmax", np.zeros(0))
    check_error(IndexError, "sum", X, 3)
    check_error(RuntimeError, "sum", X, (0, 0))
    check_error(RuntimeError, "mean", INTEGERS)
    check_error(RuntimeError, "var", INTEGERS)
    check_error(RuntimeError, "argmax", BOOLS)
    check_error(TypeError, "prod", X, (0, 1))


def test_extremes_of_numbers_are_refused():
    for name in ("max", "min"):
        check_error(TypeError, name, 2, INTEGERS)


def test_counts_do_not_change():
    check("norm", X, 0, 1, second=False)


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 48, 49, 63, 64, 65, 127, 128, 129, 200])
def test_columns_of_any_number(columns):
    values = np.random.default_rng(columns).standard_normal((2, 70, columns)).astype("f")
    x = rushlight.tensor(values)
    exact = values.astype(np.float64).sum(1).astype(np.float32)
    assert np.array_equal(x.sum(1).numpy(), exact)
    assert np.array_equal(x.amax(1).numpy(), values.max(1))
    assert np.array_equal(x.argmin(1).numpy(), values.argmin(1))


@pytest.mark.parametrize("length", [1, 15, 16, 31, 32, 33, 47, 48, 49, 64, 65, 1000, 65_537])
def test_rows_of_any_length(length):
    values = np.random.default_rng(length).standard_normal((3, length)).astype("f")
    x = rushlight.tensor(values)
    exact = [math.fsum(row) for row in values.tolist()]
    np.testing.assert_allclose(x.sum(1).tolist(), exact, rtol=6e-8, atol=1e-12)
    assert np.array_equal(x.amax(1).numpy(), values.max(1))
    assert np.array_equal(x.argmin(1).numpy(), values.argmin(1))
