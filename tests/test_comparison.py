"""`assert_close` and `make_tensor`: what counts as close, and what the message says."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.testing import assert_allclose, assert_close, default_tolerances, make_tensor

nan, inf = float("nan"), float("inf")


def message(*args, **options):
    with pytest.raises(AssertionError) as caught:
        assert_close(*args, **options)
    return str(caught.value)


def test_the_message_counts_and_locates():
    got = message(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 2.5, 4.0]))
    assert got == (
        "Tensor-likes are not close!\n\n"
        "Mismatched elements: 2 / 3 (66.7%)\n"
        "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
        "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)"
    )


def test_exact_comparison_says_equal():
    got = message(torch.tensor([1, 2]), torch.tensor([1, 3]))
    assert got.startswith("Tensor-likes are not equal!\n\nMismatched elements: 1 / 2 (50.0%)\n")
    assert "Greatest absolute difference: 1 at index (1,)\n" in got


def test_scalars_have_a_message_of_their_own():
    assert message(torch.tensor(1.0), torch.tensor(2.0)) == (
        "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
        "Absolute difference: 1.0 (up to 1e-05 allowed)\n"
        "Relative difference: 0.5 (up to 1.3e-06 allowed)"
    )
    assert "Expected 2 but got 1." in message(1, 2)
    assert message(True, False) == "Booleans mismatch: True is not False"
    assert "do not match: <class 'int'> != <class 'float'>" in message(1, 1.0)


def test_the_tolerance_follows_the_dtype():
    one = torch.ones(1, dtype=torch.float64)
    assert_close(one, one + 1e-8)
    assert "up to 1e-07 allowed" in message(one, one + 1e-5)
    assert_close(torch.ones(1), torch.ones(1) + 1e-6)
    assert default_tolerances(torch.bfloat16, torch.float32) == (1.6e-2, 1e-5)


@pytest.mark.parametrize(
    ("other", "options", "text"),
    [
        (lambda: torch.ones(1, 2), {}, "attribute 'shape' do not match"),
        (lambda: torch.ones(2, dtype=torch.float64), {}, "attribute 'dtype' do not match"),
        (lambda: torch.ones(2, 2)[:, 0], {"check_stride": True}, r"'stride\(\)' do not match"),
    ],
)
def test_attributes_are_compared_first(other, options, text):
    with pytest.raises(AssertionError, match=text):
        assert_close(torch.zeros(2), other(), **options)


def test_checks_can_be_switched_off():
    assert_close(torch.ones(2), torch.ones(2, dtype=torch.float64), check_dtype=False)
    assert_allclose(torch.tensor([nan]), torch.tensor([nan], dtype=torch.float64))


def test_nan_and_infinity():
    assert_close(torch.tensor([inf, -inf]), torch.tensor([inf, -inf]))
    assert "nan at index (0,)" in message(torch.tensor([nan]), torch.tensor([nan]))
    assert_close(torch.tensor([nan]), torch.tensor([nan]), equal_nan=True)
    assert "inf at index (0,)" in message(torch.tensor([inf]), torch.tensor([1.0]))


def test_containers_name_the_item():
    good = [torch.ones(1), {"x": [torch.ones(1)]}]
    bad = [torch.ones(1), {"x": [torch.zeros(1)]}]
    assert_close(good, tuple(good))
    assert message(good, bad).endswith("The failure occurred for item [1]['x'][0]")
    assert message([1], [1, 2]) == "The length of the sequences mismatch: 1 != 2"
    assert "Missing keys in the actual mapping: ['b']" in message({"a": 1}, {"b": 1})


def test_arrays_compare_like_tensors():
    assert_close(np.ones(2), np.ones(2))
    assert "Mismatched elements: 1 / 2" in message(np.ones(2), np.array([1.0, 2.0]))


def test_types_that_do_not_go_together():
    for pair in ((torch.ones(1), [1.0]), (torch.ones(1), np.ones(1)), ("a", "a"), ({1}, {1})):
        with pytest.raises(TypeError, match="No comparison pair"):
            assert_close(*pair)
    with pytest.raises(TypeError, match="Parameter"):
        assert_close(torch.ones(1), torch.nn.Parameter(torch.ones(1)), allow_subclasses=False)


def test_tolerances_come_together():
    with pytest.raises(ValueError, match="but got no atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(ValueError, match="negative"):
        assert_close(1.0, 1.0, rtol=0.1, atol=-1)
    assert_close(1.0, 1.5, rtol=0, atol=0.5)


def test_the_message_can_be_replaced_or_changed():
    assert message(1, 2, msg="no") == "no"
    assert message(1, 2, msg=lambda text: "so: " + text).startswith("so: Scalars")


def test_differences_of_large_integers_do_not_wrap():
    low, high = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
    got = message(torch.tensor([low]), torch.tensor([high]))
    assert f"Greatest absolute difference: {high - low} at" in got


KINDS = ["float32", "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool"]


@pytest.mark.parametrize("name", KINDS)
def test_made_tensors_keep_to_their_range(name):
    dtype = getattr(torch, name)
    made = make_tensor(500, dtype=dtype, device="cpu")
    assert made.dtype == dtype
    values = made.to(torch.float64).numpy()
    low, high = {"uint8": (0, 9), "bool": (0, 1)}.get(name, (-9, 9))
    assert low <= values.min() < values.max() <= high
    if dtype.is_floating_point:
        assert values.max() < high


def test_made_tensors_have_the_asked_layout():
    made = make_tensor(2, 3, dtype=torch.float32, device="cpu", noncontiguous=True)
    assert tuple(made.shape) == (2, 3)
    assert not made.is_contiguous()
    assert make_tensor(
        (2,), dtype=torch.float32, device="cpu", requires_grad=True
    ).requires_grad


def test_made_tensors_can_avoid_zero():
    made = make_tensor(200, dtype=torch.int8, device="cpu", low=0, high=2, exclude_zero=True)
    assert int(made.min()) == 1


def test_impossible_ranges_are_refused():
    for low, high in ((5, 5), (6, 5), (nan, 1)):
        with pytest.raises(ValueError, match="low"):
            make_tensor(1, dtype=torch.int8, device="cpu", low=low, high=high)


@pytest.mark.parametrize("seed", range(5))
def test_random_comparisons_agree_with_pytorch(seed):
    oracle = pytest.importorskip("torch")
    rng = np.random.default_rng(seed)
    for _ in range(100):
        kind = rng.choice(["float32", "float64", "float16", "int32", "uint8", "bool"])
        shape = tuple(rng.integers(0, 4, size=rng.integers(0, 4)))
        scale = 10.0 ** rng.uniform(-9, 1)
        first = rng.normal(size=shape) * 10
        second = first + rng.normal(size=shape) * scale * (rng.random(shape) < 0.5)
        if kind in ("uint8", "bool"):
            first, second = np.abs(first), np.abs(second)
        pair = [np.asarray(array).astype(kind) for array in (first, second)]
        options = {"rtol": 1e-3, "atol": 0.5} if rng.random() < 0.3 else {}
        expected = _outcome(oracle.testing.assert_close, oracle, pair, options)
        assert _outcome(assert_close, torch, pair, options) == expected


def _outcome(compare, torch, pair, options):
    try:
        compare(*(torch.from_numpy(array.copy()) for array in pair), **options)
    except AssertionError as error:
        return str(error)
    return "close"
