"""Calls with something else than a tensor where one is needed: a TypeError that names the
public function and the argument, whatever the function asks of it first.
"""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import rushlight as rl
from rushlight.nn import functional as F

x, square, index = rl.ones(2), rl.ones(2, 2), rl.tensor([0, 1])

# name of the function, what it is called with, the argument that is wrong and its place
CALLS = [
    ("cross_entropy", lambda w: F.cross_entropy(square, w), "target", 2),
    ("cross_entropy", lambda w: F.cross_entropy(w, index), "input", 1),
    ("nll_loss", lambda w: F.nll_loss(square, w), "target", 2),
    ("hinge_embedding_loss", lambda w: F.hinge_embedding_loss(x, w), "target", 0),
    ("linear", lambda w: F.linear(square, w), "weight", 2),
    ("linear", lambda w: F.linear(w, square), "input", 1),
    ("conv2d", lambda w: F.conv2d(rl.ones(1, 1, 2, 2), w), "weight", 2),
    ("embedding", lambda w: F.embedding(index, w), "weight", 2),
    ("layer_norm", lambda w: F.layer_norm(w, (2,)), "input", 1),
    ("batch_norm", lambda w: F.batch_norm(w, x, x), "input", 1),
    ("softmax", lambda w: F.softmax(w, 0), "input", 1),
    ("scaled_dot_product_attention",
     lambda w: F.scaled_dot_product_attention(square, w, square), "key", 2),
    ("addmm", lambda w: rl.addmm(x, square, w), "mat2", 3),
    ("gather", lambda w: rl.gather(square, 0, w), "index", 3),
    ("gather", lambda w: square.gather(0, w), "index", 2),
    ("index_add_", lambda w: square.clone().index_add_(0, index, w), "source", 3),
    ("masked_fill", lambda w: square.masked_fill(w, 0), "mask", 1),
    ("matmul", lambda w: square.matmul(w), "other", 2),
    ("permute", lambda w: rl.permute(w, (0, 1)), "input", 1),
    ("reshape", lambda w: rl.reshape(w, (1,)), "input", 1),
    ("solve", lambda w: rl.linalg.solve(square, w), "B", 2),
    ("fftshift", lambda w: rl.fft.fftshift(w), "input", 1),
    ("conj", lambda w: rl.conj(w), "input", 1),
    ("dropout", lambda w: F.dropout(w, 0.5, False), "input", 1),
    ("sum", lambda w: rl.masked.sum(w), "input", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "call", "argument", "place"), CALLS)
@pytest.mark.parametrize("wrong", [None, "abc", [1.0, 2.0], object()], ids=type)
def test_the_argument_is_named(name, call, argument, place, wrong) -> None:
    at = rf" \(position {place}\)" if place else ""
    kind = type(wrong).__name__
    text = rf"^{name}\(\): argument '{argument}'{at} must be Tensor, not {kind}$"
    with pytest.raises(TypeError, match=text):
        call(wrong)
    assert (square + 1).tolist() == [[2, 2], [2, 2]]  # the process goes on


@pytest.mark.parametrize(("name", "call", "argument", "place"), CALLS)
def test_tensors_of_pytorch_are_named(name, call, argument, place) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        TypeError, match=rf"^{name}\(\): argument '{argument}'.*rushlight.from_"
    ):
        call(torch.ones(2, 2))


def test_operators_with_tensors_of_pytorch() -> None:
    torch = pytest.importorskip("torch")
    other = torch.ones(2)
    for call in (
        lambda: x + other, lambda: other * x, lambda: x @ other, lambda: x == other,
        lambda: rl.add(x, other), lambda: rl.cat([x, other]), lambda: rl.where(other, x, x),
        lambda: x.copy_(other), lambda: F.relu(other), lambda: rl.nn.Linear(2, 2)(other),
    ):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_elements_of_lists_are_named() -> None:
    for call, name in (
        (lambda: rl.cat([x, None]), "cat"),
        (lambda: rl.meshgrid(x, None), "meshgrid"),
        (lambda: rl.block_diag(square, None), "block_diag"),
    ):
        with pytest.raises(TypeError, match=rf"^{name}\b.*element 1.*NoneType"):
            call()


def test_python_says_the_public_name() -> None:
    """Of a call with too few arguments."""
    for space in (rl, F, rl.linalg, rl.special, rl.fft):
        for name, function in vars(space).items():
            if name.startswith("_") or not inspect.isfunction(function):
                continue
            parameters = inspect.signature(function).parameters.values()
            if all(p.default is not p.empty or p.kind is p.VAR_POSITIONAL for p in parameters):
                continue
            with pytest.raises((TypeError, RuntimeError)) as found:
                function()
            assert re.match(rf"{name}\b", str(found.value)), (name, found.value)


MESSAGES = {
    "only size 3 of a must equal the second-to-last size 4 of b": lambda: (
        rl.ones(3) @ rl.ones(4, 5)
    ),
    "last size 3 of a must equal the only size 4 of b": lambda: rl.ones(2, 3) @ rl.ones(4),
    r"batches of a \[2, 4, 5\] and b \[3, 5, 2\] cannot": lambda: (
        rl.ones(2, 4, 5) @ rl.ones(3, 5, 2)
    ),
    r"input \[2, 5\] and weight \[4, 3\]": lambda: rl.nn.Linear(3, 4)(rl.ones(2, 5)),
    "last size 4 of query must equal the last size 5 of key": lambda: (
        rl.nn.functional.scaled_dot_product_attention(
            rl.ones(2, 4), rl.ones(3, 5), rl.ones(3, 4)
        )
    ),
    "as many positions: 3 and 2": lambda: rl.nn.functional.scaled_dot_product_attention(
        rl.ones(2, 4), rl.ones(3, 4), rl.ones(2, 4)
    ),
    r"setitem: shapes \[3\] and \[2, 2\]": lambda: rl.zeros(4, 2).__setitem__(
        slice(0, 2), rl.ones(3)
    ),
}


@pytest.mark.parametrize("said", MESSAGES)
def test_messages_name_what_does_not_fit(said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        MESSAGES[said]()


DATA = [["a"], "a", [1.0, None], None, [[1, 2], [3]], [1, [2]], [[2], 1], {}, [{}]]


@pytest.mark.parametrize("data", DATA, ids=str)
def test_data_that_makes_no_tensor(data: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(Exception) as theirs:  # whichever it is
        torch.tensor(data)
    with pytest.raises(theirs.type):
        rl.tensor(data)


def test_gradcheck_warns_of_few_bits() -> None:
    x = rl.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="input #0 requires a gradient and is"):
        rl.autograd.gradcheck(lambda x: x * 2, x, eps=1e-2, atol=1e-2)


def test_what_is_wrong_otherwise_stays_as_it_is() -> None:
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rl.matmul(rl.ones(2, 3), rl.ones(2, 3))
    with pytest.raises(IndexError, match="Dimension out of range"):
        rl.permute(square, (0, 5))
    with pytest.raises(AttributeError, match="object has no attribute 'missing'"):
        rl.ones(2).apply_(lambda value: value.missing)


@pytest.mark.parametrize("shape", [(3, 2, 2), (2, 3, 2)])
def test_batches_that_do_not_fit_are_named(shape):
    with pytest.raises(RuntimeError, match=r"bmm: expected \[2, 2\].*\[2, 4, 2\].*batch2 has"):
        rl.bmm(rl.ones(2, 4, 2), rl.ones(shape))
