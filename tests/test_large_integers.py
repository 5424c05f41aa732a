"""Python integers that int64 does not hold: unsigned numbers, as in PyTorch."""

import pytest

import rushlight

CALLS = [
    lambda t: t.ones(1) + 2**63,
    lambda t: 2**63 - t.ones(1),
    lambda t: t.ones(1, dtype=t.float64) * (2**64 - 1),
    lambda t: t.ones(1, dtype=t.int64) + 2**63,
    lambda t: t.ones(1, dtype=t.uint8) + 2**63,
    lambda t: t.ones(1) < 2**63,
    lambda t: t.ones(1, dtype=t.int64) < 2**63,
    lambda t: t.where(t.tensor([True]), 2**63, 1.0),
    lambda t: t.add(t.ones(1), t.ones(1), alpha=2**63),
    lambda t: t.ones(1).mul_(2**63),
]


@pytest.mark.parametrize("call", CALLS)
def test_numbers_beyond_int64_are_unsigned(call):
    torch = pytest.importorskip("torch")
    theirs, ours = call(torch), call(rushlight)
    assert ours.tolist() == theirs.tolist()
    assert repr(ours.dtype) == repr(theirs.dtype)


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1])
def test_numbers_beyond_64_bits_are_refused(number):
    with pytest.raises(OverflowError, match="does not fit in 64 bits"):
        rushlight.ones(1) + number
