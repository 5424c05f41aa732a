"""Python numbers that a dtype cannot hold, and those it can hold although few bits are left."""

from __future__ import annotations

import math

import pytest

import rushlight

torch = pytest.importorskip("torch")

DTYPES = ("int64", "int32", "int16", "int8", "uint8", "bool", "float16", "float32", "float64")
VALUES = (
    2**63, -(2**63) - 1, 2**64, 10**30, 1e40, 300, -1, -300, 2**31, 1e10, 70000.0, 2.9, True,
    math.nan, math.inf, -math.inf,
)  # fmt: skip
HALF = [True, False]
FILLS = {
    "full": lambda m, kind, v: m.full((2,), v, dtype=kind),
    "full_like": lambda m, kind, v: m.full_like(m.zeros(2, dtype=kind), v),
    "new_full": lambda m, kind, v: m.zeros(1, dtype=kind).new_full((2,), v),
    "fill_": lambda m, kind, v: m.zeros(2, dtype=kind).fill_(v),
    "masked_fill": lambda m, kind, v: m.zeros(2, dtype=kind).masked_fill(m.tensor(HALF), v),
    "scatter": lambda m, kind, v: m.zeros(2, dtype=kind).scatter(0, m.tensor([1]), v),
    "index_fill": lambda m, kind, v: m.zeros(2, dtype=kind).index_fill(0, m.tensor([1]), v),
    "tensor": lambda m, kind, v: m.tensor(v, dtype=kind),
    "tensor_of_list": lambda m, kind, v: m.tensor([v, 0], dtype=kind),
}  # fmt: skip


def outcome(module, fill, kind, value):
    """The elements, or the class of what is raised."""
    try:
        return fill(module, getattr(module, kind), value).tolist()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("kind", DTYPES)
def test_a_number_is_held_or_refused_as_pytorch_does(name, kind):
    for value in VALUES:
        ours = outcome(rushlight, FILLS[name], kind, value)
        theirs = outcome(torch, FILLS[name], kind, value)
        assert str(ours) == str(theirs), (value, ours, theirs)


@pytest.mark.parametrize(
    "data", [2**63, [1, 2**64], [True, 2**63], [1, 2**63], [[2**63], [0]]], ids=str
)
def test_integers_of_more_than_64_bits_are_refused(data):
    with pytest.raises(ValueError, match="Overflow when unpacking long long"):
        rushlight.tensor(data)


def test_long_integers_among_floats_are_floats():
    for data in ([1.0, 2**64], [2**64, 1.0], [0.5, 2**63]):
        assert rushlight.tensor(data).tolist() == torch.tensor(data).tolist()
        wide = rushlight.tensor(data, dtype=rushlight.float64)
        assert wide.tolist() == [float(v) for v in data]


def test_complex_data_is_no_data_of_a_real_dtype():
    with pytest.raises(TypeError, match="complex"):
        rushlight.tensor(1 + 2j, dtype=rushlight.float32)
    with pytest.raises(RuntimeError, match="without overflow"):
        rushlight.full((2,), 1 + 2j, dtype=rushlight.float32)
    assert rushlight.full((2,), 1 + 0j, dtype=rushlight.float32).tolist() == [1.0, 1.0]


def test_assigning_and_padding_with_a_number_that_does_not_fit():
    x = rushlight.zeros(2, dtype=rushlight.int8)
    with pytest.raises(RuntimeError, match=r"without overflow: 300"):
        x[0] = 300
    with pytest.raises(RuntimeError, match=r"without overflow: 300"):
        rushlight.nn.functional.pad(x, (1, 1), value=300)
    assert x.tolist() == [0, 0]


BOUNDS = {
    "clamp": lambda m, x, v: x.clamp(max=v), "clamp of both": lambda m, x, v: m.clip(x, -v, v),
    "clamp_": lambda m, x, v: x.clamp_(min=-v), "clamp_min": lambda m, x, v: x.clamp_min(v),
    "clamp_max": lambda m, x, v: m.clamp_max(x, v),
    "where": lambda m, x, v: m.where(x > 0, v, x),
    "where method": lambda m, x, v: x.where(x > 0, v),
    "hardtanh": lambda m, x, v: m.nn.functional.hardtanh(x, -v, v),
    "threshold": lambda m, x, v: m.threshold(x, v, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("kind", ["int64", "int32", "int8", "uint8", "float16", "float32"])
def test_a_bound_that_the_dtype_cannot_hold_is_refused_as_in_pytorch(name, kind):
    if kind.startswith("float") and name in ("hardtanh", "threshold"):
        return  # PyTorch says that these numbers are infinite
    for value in (3, 300, 2**31, 1e30, 2.5):
        outcomes = []
        for lib in (rushlight, torch):
            x = lib.tensor([1, 5], dtype=getattr(lib, kind))
            try:
                outcomes.append(BOUNDS[name](lib, x, value).tolist())
            except RuntimeError:
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1], value


def test_a_0d_bfloat16_tensor_is_a_number():
    assert rushlight.tensor(1.5, dtype=rushlight.bfloat16).tolist() == 1.5
