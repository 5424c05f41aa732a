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
