"""Unsigned integers of 16 to 64 bits and floats of 8: made, converted, compared, moved, told.

PyTorch is the oracle throughout. Unsigned arithmetic goes further here than on its CPU.
"""

import numpy as np
import pytest

import rushlight as rl
from rushlight import float8

torch = pytest.importorskip("torch")

UNSIGNED = ["uint16", "uint32", "uint64"]
FLOAT8 = list(float8.NAMES)
OTHERS = [
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int64",
    "int32",
    "int8",
    "uint8",
    "bool",
]
ALL = [*OTHERS, "int16", "complex64", *UNSIGNED, *FLOAT8]


def outcome(call, lib):
    """The result of a call as values and dtype, or the class of what it raised."""
    try:
        made = call(lib)
    except Exception as error:
        return type(error)
    if not isinstance(made, lib.Tensor):
        return str(made)
    values = made.tolist()
    return repr(values), str(made.dtype), tuple(made.shape)


def same(call):
    ours, theirs = outcome(call, rl), outcome(call, torch)
    assert ours == theirs


NUMBERS = [0.0, 1.0, -1.0, 1.5, 2.5, 3.5, 0.3, 100.0, 240.0, 448.0, 57344.0, 1e-3, 2.0**-9]


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("name", [*UNSIGNED, *FLOAT8])
def test_conversions(name, other):
    same(lambda t: t.tensor([0, 1, 2, 3, 100]).to(getattr(t, name)).to(getattr(t, other)))
    same(lambda t: t.tensor([0, 1, 2, 3, 100]).to(getattr(t, other)).to(getattr(t, name)))


@pytest.mark.parametrize("name", FLOAT8)
def test_rounding_to_eight_bits(name):
    rng = np.random.default_rng(3)
    data = np.concatenate([
        np.array([*NUMBERS, 464, 480, 61440, 61441, 247, 248, 1e9, np.inf, -np.inf, -0.0], "f"),
        (rng.standard_normal(2000) * np.exp2(rng.integers(-20, 20, 2000))).astype("f"),
    ])  # fmt: skip
    ours = rl.from_numpy(data.copy()).to(getattr(rl, name))
    theirs = torch.from_numpy(data).to(getattr(torch, name))
    assert ours.view(rl.uint8).tolist() == theirs.view(torch.uint8).tolist()
    assert rl.tensor([float("nan")]).to(getattr(rl, name)).isnan().tolist() == [True]


@pytest.mark.parametrize("name", FLOAT8)
def test_all_patterns_of_eight_bits_are_the_numbers_of_pytorch(name):
    theirs = torch.arange(256, dtype=torch.uint8).view(getattr(torch, name)).float().numpy()
    ours = rl.arange(256, dtype=rl.uint8).view(getattr(rl, name)).float().numpy()
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", [*UNSIGNED, *FLOAT8])
@pytest.mark.parametrize(
    "call",
    [
        lambda t, d: t.tensor([1, 2], dtype=d),
        lambda t, d: t.zeros(2, dtype=d),
        lambda t, d: t.full((2,), 2, dtype=d),
        lambda t, d: t.tensor([1, 2, 4]).to(d) == 2,
        lambda t, d: t.tensor([1, 2, 4]).to(d) != t.tensor([1, 4, 4]).to(d),
        lambda t, d: t.cat([t.ones(2).to(d), t.ones(1).to(d)]),
        lambda t, d: t.stack([t.ones(2).to(d), t.ones(2).to(d)]),
        lambda t, d: t.tensor([1, 2, 4, 8]).to(d)[1:3],
        lambda t, d: t.tensor([1, 2, 4, 8]).to(d)[t.tensor([3, 0])],
        lambda t, d: t.tensor([1, 2, 4, 8]).to(d).reshape(2, 2).t().contiguous(),
        lambda t, d: t.tensor([1, 2, 4, 8]).to(d)[t.tensor([True, False, True, False])],
        lambda t, d: t.where(t.tensor([True, False]), t.ones(2).to(d), t.zeros(2).to(d)),
        lambda t, d: t.zeros(2, dtype=d).copy_(t.tensor([1, 2])),
        lambda t, d: t.zeros(2, dtype=d).fill_(2),
        lambda t, d: t.ones(2).to(d).repeat(2),
        lambda t, d: t.tensor([1, 2, 4]).to(d).roll(1),
        lambda t, d: t.nn.functional.pad(t.ones(2).to(d), (-1, 0)),
        lambda t, d: t.ones(1).to(d).expand(3),
        lambda t, d: t.tensor([1, 2]).to(d).clone(),
        lambda t, d: t.zeros_like(t.ones(2).to(d)),
        lambda t, d: t.tensor([4]).to(d).item(),
        lambda t, d: repr(t.tensor([1, 2, 4]).to(d)),
        lambda t, d: t.ones(1).to(d).type(),
        lambda t, d: t.ones(1).to(d).is_floating_point(),
        lambda t, d: t.ones(1).to(d).is_signed(),
        lambda t, d: t.ones(1).to(d).element_size(),
        lambda t, d: t.ones(2).to(d) + t.ones(2, dtype=t.int32),
        lambda t, d: t.ones(2).to(d) + t.ones(2, dtype=t.uint8),
        lambda t, d: t.result_type(t.ones(2).to(d), 1),
        lambda t, d: t.result_type(t.ones(2).to(d), 1.0),
        lambda t, d: t.result_type(t.ones(2).to(d), t.tensor(1.0)),
        lambda t, d: t.iinfo(d),
        lambda t, d: t.finfo(d),
    ],
)
def test_what_can_be_done_with_them(name, call):
    same(lambda t: call(t, getattr(t, name)))


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + x, lambda x: x * 2, lambda x: -x, lambda x: x.sum(), lambda x: x < x,
        lambda x: x.exp(), lambda x: x.add_(1), lambda x: x.cumsum(0), lambda x: x.clamp(0, 1),
        lambda x: x.max(), lambda x: x.sort(),
    ],
)  # fmt: skip
def test_there_is_no_arithmetic_of_eight_bits(name, call):
    with pytest.raises(NotImplementedError):
        call(torch.ones(2).to(getattr(torch, name)))
    with pytest.raises(NotImplementedError):
        call(rl.ones(2).to(getattr(rl, name)))


@pytest.mark.parametrize("a", ALL)
@pytest.mark.parametrize("b", [*UNSIGNED, "float8_e4m3fn", "float8_e5m2"])
def test_promotion_and_casting_rules(a, b):
    for first, second in ((a, b), (b, a)):
        same(lambda t, f=first, s=second: t.promote_types(getattr(t, f), getattr(t, s)))
        same(lambda t, f=first, s=second: t.can_cast(getattr(t, f), getattr(t, s)))


@pytest.mark.parametrize("name", UNSIGNED)
def test_unsigned_arithmetic_wraps(name):
    kind, bits = getattr(rl, name), np.dtype(name)
    top = np.iinfo(name).max
    data = np.array([0, 1, 2, 7, top - 1, top], name)
    x = rl.from_numpy(data.copy())
    assert x.dtype is kind and x.tolist() == data.tolist()
    for ours, theirs in (
        (x + x, data + data), (x * x, data * data), (x - 1, data - bits.type(1)),
        (x // 2, data // bits.type(2)), (x % 5, data % bits.type(5)),
        (x.flip(0) > x, data[::-1] > data), (x >> 1, data >> bits.type(1)),
        (x.max(), data.max()), (x.min(), data.min()), (x.sort().values, np.sort(data)),
        (rl.maximum(x, x.flip(0)), np.maximum(data, data[::-1])),
        (x.double(), data.astype("float64")),
    ):  # fmt: skip
        assert ours.tolist() == theirs.tolist()


def test_the_upper_half_of_64_bits():
    values = [2.0**63, 2.0**63 + 2.0**40, 2.0**64 - 2.0**11, 3.0]
    same(lambda t: t.tensor(values, dtype=t.float64).to(t.uint64))
    same(lambda t: t.full((2,), 2**64 - 1, dtype=t.uint64))
    same(lambda t: t.tensor([2**64 - 1, 5], dtype=t.uint64))


@pytest.mark.parametrize("kind", ["bfloat16", "float16", "float32"])
def test_the_least_mean_square_is_of_the_dtype_that_is_computed_in(kind):
    torch = pytest.importorskip("torch")
    found = [
        lib.rms_norm(lib.tensor([[0.001, 0.001]], dtype=getattr(lib, kind)), (2,)).tolist()
        for lib in (torch, rl)
    ]
    assert found[1][0] == pytest.approx(found[0][0], rel=1e-2)


@pytest.mark.parametrize("create_graph", [False, True])
def test_gradients_are_finite_where_the_slope_alone_is_not(create_graph):
    """1 / x of the smallest float16 is beyond its range, a part of that is not."""
    x = rl.tensor([2.2e-6, 0.5], dtype=rl.float16, requires_grad=True)
    (slope,) = rl.autograd.grad(x.log().mean() / 6, x, create_graph=create_graph)
    assert slope.tolist() == [37792.0, 0.1666259765625]
