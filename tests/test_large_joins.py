"""Large data joined by programs of their own: the same elements that NumPy joins."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight import config, large_joins

ROWS = 600  # with 500 columns of float32 above large_joins._LEAST_BYTES

pytestmark = pytest.mark.skipif(
    config.process.backend == "reference", reason="the reference backend joins with NumPy"
)


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(large_joins, "_programs", {})


def made() -> int:
    return sum(program is not None for program in large_joins._programs.values())


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_the_second_join_of_a_kind_makes_a_program(dim: int) -> None:
    arrays = [numbers(ROWS, 50, 10), numbers(ROWS, 50, 10)[::-1] * 2]
    parts = [torch.tensor(a) for a in arrays]
    for programs in (0, 1, 1):
        assert np.array_equal(torch.cat(parts, dim).numpy(), np.concatenate(arrays, dim))
        assert made() == programs


def test_parts_cut_elsewhere_use_the_same_program() -> None:
    whole = numbers(4 * ROWS, 1000)
    data = torch.tensor(whole)
    for start in (0, 7, 500):
        stop = start + ROWS
        parts = [data[start:stop, ::2], data[stop : stop + ROWS, 1::2]]
        expected = np.concatenate([whole[start:stop, ::2], whole[stop : stop + ROWS, 1::2]])
        assert np.array_equal(torch.cat(parts).numpy(), expected)
    assert made() == 1


def test_parts_written_between_two_joins() -> None:
    x, y = torch.zeros(ROWS, 500), torch.ones(ROWS, 500)
    for value in range(3):
        x.fill_(value)
        joined = torch.cat([x.t(), y.t(), x.t()])
        assert (joined[:500] == value).all() and (joined[-500:] == value).all()
        assert (joined[500:1000] == 1).all()


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "int64", "bool", "uint8"])
def test_dtypes(kind: str) -> None:
    x = torch.tensor(numbers(2 * ROWS, 1000) * 100).to(getattr(torch, kind))
    y = x.flip(0).clone()
    assert x.data_ptr() and y.data_ptr()  # both are in memory
    for _ in range(2):
        joined = torch.stack([x, y], -1)
    assert made() == 1
    assert joined.dtype is x.dtype
    assert torch.equal(joined[..., 0], x) and torch.equal(joined[..., 1], y)


def test_what_is_left_to_numpy() -> None:
    x = torch.tensor(numbers(ROWS, 1000))
    z = torch.complex(x, x).conj()
    many = [x[i::20] for i in range(20)]
    for _ in range(3):
        assert torch.equal(torch.cat(many)[: len(many[0])], many[0])
        assert torch.equal(torch.cat([x[:0], x]), x)
        assert torch.equal(torch.cat([z.imag, x])[:ROWS], -x)  # negated by a mark
        assert torch.equal(torch.cat([z, z])[ROWS:], z)
        assert torch.cat([x[:2], x[:2]]).shape == (4, 1000)
    assert made() == 0
