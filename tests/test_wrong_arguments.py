"""Arguments of a class that a function does not take: the message names function and class."""

import numpy as np
import pytest

import rushlight as rl

CALLS = [
    (lambda: rl.sum([1, 2]), r"sum\(\): argument 'input' \(position 1\) .* not list"),
    (lambda: rl.sum(input=[1]), r"sum\(\): argument 'input' \(position 1\) .* not list"),
    (lambda: rl.mean([1.0]), r"mean\(\): argument 'input' \(position 1\) .* not list"),
    (lambda: rl.softmax([1.0], 0), r"softmax\(\): argument 'input' .* not list"),
    (lambda: rl.matmul([1], [2]), r"matmul\(\): argument 'input' .* not list"),
    (lambda: rl.add([1], 2), r"add\(\): argument 'input' .* not list"),
    (
        lambda: rl.nn.Linear(2, 2)(np.ones((2, 2))),
        r"linear\(\): argument 'input' .* not ndarray",
    ),
    (lambda: rl.tensor([1, "a"]), "invalid data type 'str'"),
    (lambda: rl.tensor([[1], [b"a"]]), "invalid data type 'bytes'"),
    (lambda: rl.randn(2, generator=3), "'generator' must be Generator, not int"),
    (lambda: rl.ones(2).uniform_(generator=3), "'generator' must be Generator, not int"),
]


@pytest.mark.parametrize(("call", "message"), CALLS)
def test_wrong_arguments(call, message):
    with pytest.raises(TypeError, match=message):
        call()


# -- what PyTorch raises too

REFUSED = {
    "from_numpy": lambda t: t.from_numpy(np.arange(3, dtype=">f4")),
    "tensor": lambda t: t.tensor(np.arange(3, dtype=">i2")),
    "as_tensor": lambda t: t.as_tensor(np.arange(3, dtype=">c8")),
    "a list": lambda t: t.zeros(2, 2).__setitem__(0, [1, 2]),
    "a tuple": lambda t: t.zeros(2, 2).__setitem__(0, (1, 2)),
    "an array": lambda t: t.zeros(2, 2).__setitem__(0, np.ones(2)),
    "a list at a mask": lambda t: t.zeros(2).__setitem__(t.tensor([True, False]), [1.0]),
    "fill_": lambda t: t.zeros(2).fill_([1]),
    "a short row": lambda t: t.tensor([[1, 2], [3]]),
    "an empty row": lambda t: t.tensor([[1], []]),
    "a number among rows": lambda t: t.tensor([[1], 2]),
    "a row among numbers": lambda t: t.tensor([1, [2]]),
    "a tuple among numbers": lambda t: t.tensor([1, (2,)]),
    "a deep row among numbers": lambda t: t.tensor([[1], [[2]]]),
    "a number among deep rows": lambda t: t.tensor([[[1]], [2]]),
    "an array among numbers": lambda t: t.tensor([1.0, np.zeros(2)]),
    "searchsorted": lambda t: t.searchsorted(t.tensor([1j]), t.tensor([1j])),
    "bucketize": lambda t: t.bucketize(t.tensor([1.0]), t.tensor([1j])),
    "isin": lambda t: t.isin(t.tensor([1j]), t.tensor([1j])),
    "isin_number": lambda t: t.isin(t.tensor([1.0]), 1j),
    "max": lambda t: t.zeros(2).max(0, True, 1),
    **{
        f"{name} of nothing": lambda t, name=name: getattr(t.zeros(1, 1), name)()
        for name in (
            "repeat", "tile", "permute", "reshape", "view", "expand", "flip", "resize_",
            "new_zeros", "sum_to_size", "broadcast_to",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_class_of_an_error_is_pytorchs(name):
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as expected:
        REFUSED[name](torch)
    with pytest.raises(Exception) as found:
        REFUSED[name](rl)
    assert issubclass(found.type, expected.type), (found.value, expected.value)
    if " " not in name and name not in ("from_numpy", "tensor", "as_tensor", "bucketize"):
        assert str(found.value).startswith(name.partition("_number")[0])


def test_data_whose_first_part_is_empty_is_empty_as_in_pytorch():
    for data, shape in (([[], [1]], (2, 0)), ([[[]], []], (2, 1, 0)), ([[], 1], (2, 0))):
        assert tuple(rl.tensor(data).shape) == shape
