"""Long rows of keys are sorted digit by digit, as NumPy sorts them."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.runtime import radix

KEYS = {
    "any": lambda r, n: r.integers(-(1 << 63), (1 << 63) - 1, n),
    "few": lambda r, n: r.integers(-5, 5, n),
    "equal": lambda r, n: np.full(n, -7),
    "small": lambda r, n: r.integers(0, 1 << 40, n),
    "falling": lambda r, n: np.arange(n)[::-1] - n // 2,
}


@pytest.mark.parametrize("length", [radix.SHORTEST - 1, radix.SHORTEST, 20_011])
@pytest.mark.parametrize("kind", KEYS)
def test_keys_are_in_order(kind: str, length: int) -> None:
    keys = KEYS[kind](np.random.default_rng(0), length).astype(np.int64)
    before = keys.copy()
    assert np.array_equal(radix.sorted_rows(keys, 0), np.sort(keys))
    with_positions = keys >> 32 << 32 | np.arange(length)
    assert np.array_equal(radix.sorted_rows(with_positions, 32), np.sort(with_positions))
    assert np.array_equal(radix.argsorted_rows(keys), np.argsort(keys, kind="stable"))
    assert np.array_equal(keys, before), "what is given is overwritten"


def test_rows_are_sorted_by_themselves() -> None:
    keys = np.random.default_rng(0).integers(-99, 99, (2, 3, 9001)) * (1 << 40)
    strided = keys[:, ::-1]
    assert np.array_equal(radix.sorted_rows(strided, 0), np.sort(strided, -1))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "int32", "int64", "uint8", "bool"]
)
def test_long_tensors_are_sorted_stably(dtype: str, descending: bool) -> None:
    x = np.random.default_rng(0).integers(-40, 40, 10_000).astype(dtype)
    if dtype.startswith("float"):
        x[::7], x[::11], x[::13] = np.nan, -0.0, 0.0
    values, places = torch.tensor(x).sort(stable=True, descending=descending)
    rank = np.where(x != x, np.inf, x.astype(np.float64)) + 0.0
    expected = np.argsort(-rank if descending else rank, kind="stable")
    assert places.tolist() == expected.tolist()
    assert np.array_equal(values.numpy(), x[expected], equal_nan=dtype.startswith("float"))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", ["int64", "uint64", "float64"])
def test_long_rows_of_wide_numbers(dtype: str, descending: bool) -> None:
    x = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, (2, 9000)).astype(dtype)
    found = torch.tensor(x).argsort(1, stable=True, descending=descending).numpy()
    expected = np.argsort(x, 1, kind="stable")  # all are different
    assert np.array_equal(found, expected[:, ::-1] if descending else expected)


def test_a_long_permutation_holds_every_number() -> None:
    torch.manual_seed(0)
    found = torch.randperm(50_000)
    assert sorted(found.tolist()) == list(range(50_000))
    torch.manual_seed(0)
    assert torch.equal(torch.randperm(50_000), found)
