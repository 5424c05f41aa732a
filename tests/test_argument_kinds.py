"""Arguments of a wrong kind are refused as by PyTorch, and what stands for the right kind is
taken: the same calls with both libraries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight
import rushlight.masked
import rushlight.nn.functional
from rushlight import views

torch = pytest.importorskip("torch")

NOTHING = NotImplemented  # an object that is no value of any kind
REFUSED = [  # calls, and what their last argument may not be
    ("sum(x, 0, {})", ("a", None, 1, 1.5, [], NOTHING, np.bool_(True))),
    ("sum(x, {})", (True, 1.5, "a", {}, (True, 0), [1.5], range(1), NOTHING)),
    ("x.sum(0, keepdim={})", (1, None)),
    ("sum(x, dtype={})", ({}, [], "a", 1)),
    ("mean(x, 0, {})", ("a", 0)),
    ("amax(x, 0, {})", (1, "a")),
    ("x.var(0, {})", ("a", 1)),
    ("var(x, 0, keepdim={})", (1,)),
    ("max(x, 0, {})", (1, "a")),
    ("max(x, {})", (True, "a", 1.5, None)),
    ("all(x > 0, 0, {})", (1,)),
    ("softmax(x, {})", (True, 1.5, "a")),
    ("nn.functional.softmax(x, {})", (True, 1.5)),
    ("cumsum(x, {})", (True, 1.5, None)),
    ("flip(x, {})", ({}, True, [True], 1.5)),
    ("x.flip(0, dims={})", (0,)),
    ("roll(x, {}, 0)", (True, 1.5, "a")),
    ("permute(x, {})", ({}, "a", 1.5)),
    ("unique(x, {})", (NOTHING, 1)),
    ("where(x > 0, {})", (None, 1)),
    ("where(x > 0, other={})", (None,)),
    ("sort(x, 0, {})", (1, "a", None)),
    ("topk(x, {})", (True, 1.5)),
    ("zeros({})", (True, {}, "a", [True], 1.5, 2**63, range(2))),
    ("zeros(2, size={})", ((2,), None)),
    ("zeros(2, dtype={})", ({}, [], "a")),
    ("full({}, 1.0)", (2, [True], {}, 1.5)),
    ("randint(0, 4, {})", (2, True, {})),
    ("eye({})", (True, 1.5, "a")),
    ("arange(0, 4, 2, end={})", (3,)),
    ("x.expand({}, 3)", (1.5, "a")),
    ("x.view(2, 3, size={})", ()),
    ("reshape(x, {})", ("a", {}, [1.5])),
    ("x.repeat({}, 2)", (1.5, "a")),
    ("cat([x, x], {})", (True, 1.5, "a")),
    ("chunk(x, {})", (True, 1.5)),
    ("nn.functional.dropout(x, 0.5, {})", (1, "a", None)),
    ("nn.functional.conv2d(image, kernel, None, {})", (True, 1.5, [1.5], [True])),
    ("nn.functional.conv2d(image, kernel, None, 1, 0, 1, {})", (True, 1.5, "a")),
    ("nn.functional.max_pool2d(image, {})", (True, 1.5, "a", [1.5])),
    ("nn.functional.avg_pool2d(image, 2, ceil_mode={})", (1, "a", None)),
    ("nn.functional.one_hot(index, {})", (True, 1.5)),
    ("nn.functional.embedding(index, x, scale_grad_by_freq={})", (1, "a")),
    ("nn.functional.layer_norm(x, (3,), None, None, {})", (None,)),
    ("linalg.svd(x, {})", (1, "a", None)),
    ("linalg.qr(x, {})", (1, None)),
    ("linalg.vector_norm(x, 2, 0, {})", (1, "a")),
    ("fft.fft(x, {})", (True, 1.5, "a")),
    ("fft.fft(x, norm={})", (1,)),
    ("hann_window(5, {})", (1, "a", None)),
    ("dist(x, {})", (1, 1.5, None)),
    ("nn.functional.pairwise_distance(x, {})", (1, None)),
    ("nn.functional.kl_div({}, x, reduction='sum')", (1, 1.5)),
    ("nn.functional.poisson_nll_loss(x, {})", (1, 1.5)),
    ("nn.functional.soft_margin_loss(x, {})", (1,)),
    ("scatter_add(x, 0, index.view(1, 2), {})", (1, 1.5, None)),
    ("tensor([1.0], requires_grad={})", (1, "a")),
    ("ones(2, requires_grad={})", (1, "a")),
    ("narrow(x, 1, 0, {})", (True, 1.5)),
    ("ones(2).requires_grad_({})", (1, "a")),
    ("ones(2).uniform_(0, **{{'from': {}}})", (0,)),
]  # fmt: skip
WRONG = [(call, value) for call, values in REFUSED for value in values]


def called(lib: Any, call: str, value: Any) -> Any:
    """The result of a call with a value in its text."""
    names = {name: getattr(lib, name) for name in dir(lib) if not name.startswith("__")}
    names |= {
        "x": lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), "index": lib.tensor([0, 1]),
        "image": lib.ones(1, 1, 4, 4), "kernel": lib.ones(1, 1, 2, 2), "value": value,
    }  # fmt: skip
    return eval(call.format("value"), names)


@pytest.mark.parametrize(("call", "value"), WRONG, ids=[f"{c} {v!r}"[:60] for c, v in WRONG])
def test_another_kind_is_refused(call: str, value: Any) -> None:
    with pytest.raises(Exception) as expected:
        called(torch, call, value)
    assert isinstance(expected.value, TypeError)
    for _ in range(2):  # the first call of a kind is looked at more closely
        with pytest.raises(TypeError):
            called(rushlight, call, value)


@pytest.mark.parametrize("call", list(dict.fromkeys(c for c, _ in REFUSED if "(0," not in c)))
def test_refusing_does_not_depend_on_what_was_called_before(call: str) -> None:
    for value in dict(REFUSED)[call]:
        for good in (True, 1, 0, 1.0, None, (0, 1)):
            try:
                called(rushlight, call, good)
            except Exception:
                continue
        with pytest.raises(TypeError):
            called(rushlight, call, value)


TAKEN = [  # calls, and what stands for their last argument
    ("sum(x, {})", (np.int64(1), (0, np.int64(1)), (0, True), [0, 1], ())),
    ("amax(x, {})", (np.int64(1), (0, True))),
    ("prod(x, {})", (np.int64(1),)),
    ("cumsum(x, {})", (np.int64(1),)),
    ("squeeze(x, {})", (np.int64(1), (0, 1))),
    ("roll(x, {}, 0)", (np.int64(1),)),
    ("movedim(x, {}, 1)", (np.int64(0),)),
    ("linalg.norm(x, dim={})", (np.int64(0), (0, 1))),
    ("max(x, {})", (np.int64(1),)),
    ("zeros({})", (np.int64(2), (2, True), [np.int64(2)], [])),
    ("full((2,), {})", (np.int64(2), np.float32(1.5), True, 1j)),
    ("linspace({}, 1, 3)", (np.float64(0.5), np.int64(0))),
    ("hann_window({})", (np.int64(5),)),
    ("nn.functional.softplus(x, {})", (np.float64(1.5), True, 2)),
    ("nn.functional.max_pool2d(image, {})", (np.int64(2), (2, True))),
    ("nn.functional.conv2d(image, kernel, None, (1, {}))", (True, np.int64(1))),
    ("zeros(2, dtype={})", (float, int, bool, complex)),
    ("sum(x, dtype={})", (float, int)),
    ("nn.functional.relu(x, {})", (None, 0, "")),
    ("sort(x, dim=0, stable={})", (None, True)),
    ("ones(2, requires_grad={})", (None, False)),
    ("masked.sum(x, 0, keepdim={})", (1, "a")),
    ("nan_to_num(x, {})", (None, 1)),
    ("add(x, x, alpha={})", (np.float64(2), np.int64(2))),
    ("clamp(x, 2, {})", (np.float64(4), 4)),
]  # fmt: skip
RIGHT = [(call, value) for call, values in TAKEN for value in values]


@pytest.mark.parametrize(("call", "value"), RIGHT, ids=[f"{c} {v!r}"[:60] for c, v in RIGHT])
def test_what_stands_for_the_kind_is_taken(call: str, value: Any) -> None:
    expected = called(torch, call, value)
    for _ in range(2):
        found = called(rushlight, call, value)
        for one, other in zip(parts(expected), parts(found), strict=True):
            assert str(one.dtype) == str(other.dtype)
            assert np.allclose(np.asarray(one), np.asarray(other))


def parts(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("call", [
    "sum(x, number(1))", "x.cumsum(number(1))", "softmax(x, number(0))", "topk(x, number(2))",
    "hann_window(number(5))", "zeros(number(2), 2)", "sum(x, (number(0), number(1)))",
    "nn.functional.softplus(x, number(2))", "max(x, number(1), True)",
    "clamp(x, number(2), 4.0)", "nn.functional.max_pool2d(image, number(2))",
])  # fmt: skip
def test_tensors_of_one_element_stand_for_numbers(call: str) -> None:
    both = []
    for lib in (torch, rushlight):
        made = called(lib, call.replace("number", "tensor"), None)
        both.append(parts(made))
    for one, other in zip(*both, strict=True):
        assert np.allclose(np.asarray(one), np.asarray(other))


def test_the_message_names_function_argument_and_class() -> None:
    x = rushlight.ones(2, 3)
    for call, text in (
        (lambda: rushlight.sort(x, 0, 1), r"sort\(\): argument 'descending' \(position 3\) "),
        (lambda: x.sort(0, 1), r"sort\(\): argument 'descending' \(position 2\) must be bool"),
        (
            lambda: rushlight.sum(x, 0, "a"),
            r"sum\(\): argument 'keepdim' must be bool, not str",
        ),
        (lambda: rushlight.roll(x, (True, 1)), r"must be tuple of ints, not of \(bool, int\)"),
    ):
        with pytest.raises(TypeError, match=text):
            call()


@pytest.mark.parametrize("call", [
    "softmax(x, {})", "sum(x, {})", "x.transpose(0, {})", "x.unsqueeze({})", "x[{}]",
])  # fmt: skip
def test_whole_numbers_beyond_64_bits(call: str) -> None:
    for lib in (torch, rushlight):
        with pytest.raises((ValueError, TypeError, IndexError)) as found:
            called(lib, call, 2**63)
        assert lib is torch or not isinstance(found.value, OverflowError)


# -- out= in the memory of operands

OVERLAPS = [  # a call on x of 8 elements
    "add(x[1:], 1, out=x[:-1])", "add(x[:4], x[4:], out=x[2:6])", "exp(x[1:], out=x[:-1])",
    "cat([x[:2], x[2:4]], out=x[1:5])", "cat([x[:2], x[2:4]], out=x[:4])", "cat([x], out=x)",
    "stack([x[:2], x[2:4]], out=x[:4].view(2, 2))", "hstack([x[:2], x[2:4]], out=x[1:5])",
    "cumsum(x[1:], 0, out=x[:-1])", "gather(x, 0, zeros(8).long(), out=x)",
    "index_select(x, 0, zeros(8).long(), out=x)", "where(x[1:] > 2, x[1:], x[:-1], out=x[1:])",
    "sort(x[1:], out=(x[:-1], empty(0).long()))",
    "topk(x[1:], 3, out=(x[:3], empty(0).long()))",
    "addmm(x[:4].view(2, 2), eye(2), eye(2), out=x[1:5].view(2, 2))",
    "min(x.view(4, 2), 1, out=(x[:4], empty(0).long()))", "clamp(x[1:], 2, out=x[:-1])",
]  # fmt: skip
APART = [
    "add(x, 1, out=x)", "add(x[:4], 1, out=x[4:])", "add(x[::2], 1, out=x[1:5].clone())",
    "sort(x, out=(x, empty(0).long()))", "softmax(x[1:], 0, out=x[:-1])",
    "cat([x[:2], x[2:4]], out=x[4:])", "cumsum(x, 0, out=x)", "exp(x, out=x)",
]  # fmt: skip
READ_AFTER_WRITING = [  # where PyTorch takes such an output, and garbles it
    "sum(x.view(2, 4), 1, out=x[:2])", "matmul(eye(4), x[:4], out=x[2:6])",
    "tril(x[:4].view(2, 2), out=x[1:5].view(2, 2))",
]  # fmt: skip


def written(lib: Any, call: str) -> Any:
    names = {name: getattr(lib, name) for name in dir(lib) if not name.startswith("__")}
    x = lib.tensor([3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.0, 6.0])
    eval(call, names | {"x": x})
    return np.asarray(x)


@pytest.mark.parametrize("call", OVERLAPS)
def test_an_output_over_part_of_an_operand_is_refused(call: str) -> None:
    for lib in (torch, rushlight):
        with pytest.raises(RuntimeError, match="single memory location"):
            written(lib, call)


@pytest.mark.parametrize("call", APART)
def test_other_outputs_are_written(call: str) -> None:
    assert np.allclose(written(torch, call), written(rushlight, call))


@pytest.mark.parametrize("call", READ_AFTER_WRITING)
def test_operands_are_read_before_outputs_are_written(call: str) -> None:
    written(torch, call)
    apart = written(torch, call.replace("x[:4]", "x[:4].clone()").replace("x.v", "x.clone().v"))
    assert np.allclose(apart, written(rushlight, call))


@pytest.mark.parametrize(("one", "other", "expected"), [
    (((4,), (1,), 0), ((4,), (1,), 0), "ALL"),
    (((4,), (1,), 0), ((4,), (1,), 4), "NOTHING"),
    (((4,), (1,), 0), ((4,), (1,), 3), "PART"),
    (((2, 2), (2, 1), 0), ((2, 2), (1, 2), 0), "PART"),
    (((2,), (2,), 0), ((4,), (1,), 0), "NOTHING"),  # with gaps: PyTorch does not say
    (((0,), (1,), 0), ((4,), (1,), 0), "NOTHING"),
])  # fmt: skip
def test_what_two_views_share(one: Any, other: Any, expected: str) -> None:
    assert views.sharing(views.View(*one), views.View(*other), 4, 4).name == expected


WIDE = 2**70
ELEMENTS_TOO_WIDE: dict[str, Any] = {
    "add": lambda m, x: x + WIDE,
    "add alpha": lambda m, x: m.add(x, x, alpha=WIDE),
    "clamp": lambda m, x: x.clamp(0, WIDE),
    "clamp_max": lambda m, x: x.clamp_max(WIDE),
    "eq": lambda m, x: x == WIDE,
    "full": lambda m, x: m.full((2,), WIDE),
    "lerp": lambda m, x: m.lerp(x, x, WIDE),
    "pow": lambda m, x: x**WIDE,
    "where": lambda m, x: m.where(x > 0, x, WIDE),
}
COUNTS_TOO_WIDE: dict[str, Any] = {
    "bincount": lambda m, x: x.long().bincount(minlength=WIDE),
    "cumsum": lambda m, x: x.cumsum(WIDE),
    "sum": lambda m, x: x.sum(WIDE),
    "topk": lambda m, x: x.topk(WIDE),
    "unfold": lambda m, x: x.unfold(0, WIDE, 1),
}


@pytest.mark.parametrize("name", [*ELEMENTS_TOO_WIDE, *COUNTS_TOO_WIDE])
def test_whole_numbers_of_more_than_64_bits(name: str) -> None:
    is_element = name in ELEMENTS_TOO_WIDE
    call = (ELEMENTS_TOO_WIDE if is_element else COUNTS_TOO_WIDE)[name]
    wanted = OverflowError if is_element else ValueError
    for module in (torch, rushlight):
        with pytest.raises(wanted):
            call(module, module.ones(3))
