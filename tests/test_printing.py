"""The text of tensors: what people's notebooks, doctests and logs hold."""

import random

import numpy as np
import pytest

import rushlight as torch
from rushlight import printing
from rushlight.printing import format_array, tensor_repr

nan, inf = float("nan"), float("inf")


@pytest.fixture(autouse=True)
def _default_options():
    printing.set_printoptions(profile="default")
    yield
    printing.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.5, nan], "[1.5000,    nan]"),
        ([-inf, 1.0], "[-inf, 1.]"),
        ([0.0, 0.0], "[0., 0.]"),
        ([1e-5, 1.0], "[1.0000e-05, 1.0000e+00]"),
        ([1.0, 20000.0], "[1.0000e+00, 2.0000e+04]"),
        ([1 + 2j, 3 - 4j], "[1.+2.j, 3.-4.j]"),
        (
            [1.5 + 2j, 3 - 4.25j, complex(nan, 1)],
            "[1.5000+2.0000j, 3.0000-4.2500j,    nan+1.0000j]",
        ),
        ([3, -12], "[  3, -12]"),
        ([True, False], "[ True, False]"),
        (3.0, "3."),
        (7, "7"),
    ],
)
def test_one_notation_is_chosen_for_all_values(values, text):
    assert format_array(np.array(values)) == text


def test_blocks_of_a_three_dimensional_tensor_are_parted_by_an_empty_line():
    assert format_array(np.zeros((2, 1, 2))) == "[[[0., 0.]],\n\n        [[0., 0.]]]"


def test_a_large_tensor_is_summarised():
    text = "[   0,    1,    2,  ..., 1998, 1999, 2000]"
    assert format_array(np.arange(2001)) == text


def test_a_large_matrix_is_summarised_in_both_dimensions():
    printing.set_printoptions(edgeitems=1)
    text = "[[1.,  ..., 1.],\n        ...,\n        [1.,  ..., 1.]]"
    assert format_array(np.ones((40, 40))) == text


def test_a_long_row_wraps_at_the_line_width():
    with printing.printoptions(linewidth=20):
        assert format_array(np.arange(6)) == "[0, 1, 2, 3,\n        4, 5]"
    assert format_array(np.arange(6)) == "[0, 1, 2, 3, 4, 5]"


def test_bfloat16_bits_print_as_numbers():
    bits = np.array([0x3FC0, 0xC000], dtype=np.uint16)
    assert format_array(bits, "bfloat16") == "[ 1.5000, -2.0000]"


def test_forced_notation_and_precision():
    printing.set_printoptions(sci_mode=True, precision=2)
    assert format_array(np.array([1.0, 2.0])) == "[1.00e+00, 2.00e+00]"


def test_profiles():
    printing.set_printoptions(profile="full")
    assert printing.get_printoptions()["threshold"] == inf
    printing.set_printoptions(profile="short")
    assert (printing.get_printoptions()["precision"], 2) == (2, 2)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (lambda: torch.empty(0, 3), "tensor([], size=(0, 3))"),
        (lambda: torch.empty(0, dtype=torch.int64), "tensor([], dtype=torch.int64)"),
        (
            lambda: torch.tensor([1, 2], dtype=torch.int32),
            "tensor([1, 2], dtype=torch.int32)",
        ),
        (
            lambda: torch.ones(2, dtype=torch.bfloat16),
            "tensor([1., 1.], dtype=torch.bfloat16)",
        ),
        (lambda: torch.tensor(2.0, requires_grad=True), "tensor(2., requires_grad=True)"),
        (
            lambda: torch.ones(2, requires_grad=True) * 2,
            "tensor([2., 2.], grad_fn=<MulBackward0>)",
        ),
        (
            lambda: torch.nn.Parameter(torch.ones(2)),
            "tensor([1., 1.], requires_grad=True)",
        ),
        (
            lambda: torch.zeros(12, dtype=torch.float64) + 0.25,
            f"tensor([{', '.join(['0.2500'] * 9)},\n        0.2500, 0.2500, 0.2500], "
            "dtype=torch.float64)",
        ),
    ],
)
def test_text_of_a_tensor(make, text):
    assert tensor_repr(make()) == text


def _random_values(rng, shape):
    draw = rng.randrange(5)
    values = np.array([rng.gauss(0, 1) for _ in range(int(np.prod(shape)))]).reshape(shape)
    values *= 10.0 ** rng.uniform(-8, 10) if draw == 1 else 1.0
    values = np.round(values * 100) if draw == 2 else values
    values = np.exp(values * 5) if draw == 3 else values
    values = values * (values > 0) if draw == 4 else values
    if values.size and rng.random() < 0.3:
        values.reshape(-1)[rng.randrange(values.size)] = rng.choice([nan, inf, -inf, -0.0])
    return values


def _random_options(rng):
    return {
        "precision": rng.choice([None, 0, 2, 8]),
        "threshold": rng.choice([None, 0, 20]),
        "edgeitems": rng.choice([None, 0, 1, 2]),
        "linewidth": rng.choice([None, 20, 120]),
        "profile": rng.choice(["default", "full", "short"]),
        "sci_mode": rng.choice([None, None, True, False]),
    }


@pytest.mark.parametrize("seed", range(8))
def test_random_tensors_print_as_in_pytorch(seed):
    oracle = pytest.importorskip("torch")
    rng = random.Random(seed)
    kinds = ["float32", "float16", "float64", "int64", "uint8", "bool", "complex64"]
    try:
        for _ in range(100):
            shape = tuple(rng.choice([0, 1, 2, 3, 5, 9]) for _ in range(rng.randrange(4)))
            values, kind = _random_values(rng, shape), rng.choice(kinds)
            whole = kind in ("int64", "uint8", "bool")
            values = (
                np.abs(np.nan_to_num(values, posinf=9, neginf=9)) % 250 if whole else values
            )
            with np.errstate(over="ignore"):
                array = values.astype(kind)
            if kind == "complex64" and array.ndim:
                array = (array.real + 1j * np.nan_to_num(array[::-1].real)).astype(kind)
            options = _random_options(rng)
            oracle.set_printoptions(**options)
            printing.set_printoptions(**options)
            expected = repr(oracle.from_numpy(np.array(array)))
            assert tensor_repr(torch.from_numpy(np.array(array))) == expected, options
    finally:
        oracle.set_printoptions(profile="default")
