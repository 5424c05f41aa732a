"""Wrong sizes given to attention modules: PyTorch's classes of errors, the module's name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight

torch = pytest.importorskip("torch")


def attention(lib: Any, *shapes: tuple[int, ...], **named: Any) -> Any:
    module = lib.nn.MultiheadAttention(8, 2, **named.pop("settings", {}))
    given = [lib.zeros(*shape) for shape in shapes]
    return module(*(given * 3)[: max(3, len(given))], **named)


X = (3, 2, 8)
CALLS: dict[str, Callable[[Any], Any]] = {
    "width": lambda lib: attention(lib, (3, 2, 7), X, X),
    "width of keys": lambda lib: attention(lib, X, (3, 2, 7), (3, 2, 7)),
    "width of keys and values": lambda lib: attention(
        lib, X, *[(3, 2, 7)] * 2, need_weights=False
    ),
    "one batch of keys": lambda lib: attention(lib, X, (3, 1, 8), (3, 1, 8)),
    "one batch of queries": lambda lib: attention(lib, (3, 1, 8), X, X),
    "length of values": lambda lib: attention(lib, X, X, (4, 2, 8)),
    "batch of keys": lambda lib: attention(lib, X, (3, 3, 8), (3, 3, 8)),
    "dimensions": lambda lib: attention(lib, (1, 3, 2, 8), X, X),
    "with and without batch": lambda lib: attention(lib, (2, 8), X, X),
    "mask": lambda lib: attention(lib, X, attn_mask=lib.zeros(2, 3)),
    "mask of heads": lambda lib: attention(lib, X, attn_mask=lib.zeros(2, 3, 3)),
    "mask of integers": lambda lib: attention(lib, X, attn_mask=lib.zeros(3, 3).int()),
    "padding": lambda lib: attention(lib, X, key_padding_mask=lib.zeros(3, 2)),
    "padding of one sample": lambda lib: attention(lib, X, key_padding_mask=lib.zeros(3)),
    "hint without mask": lambda lib: attention(lib, X, is_causal=True),
    "separate widths": lambda lib: attention(
        lib, X, X, (3, 2, 5), settings={"kdim": 6, "vdim": 5}
    ),
    "separate lengths": lambda lib: attention(
        lib, X, (4, 2, 6), (3, 2, 5), settings={"kdim": 6, "vdim": 5}
    ),
    "heads": lambda lib: lib.nn.MultiheadAttention(8, 3),
    "encoder layer": lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16)(lib.zeros(3, 2, 7)),
    "decoder layer": lambda lib: lib.nn.TransformerDecoderLayer(8, 2, 16)(
        lib.zeros(*X), lib.zeros(3, 2, 7)
    ),
    "transformer": lambda lib: lib.nn.Transformer(8, 2, 1, 1, 16)(
        lib.zeros(*X), lib.zeros(3, 3, 8)
    ),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("name", CALLS)
def test_the_class_is_pytorchs(name: str) -> None:
    with pytest.raises(Exception) as known:  # of whatever class
        CALLS[name](torch)
    with pytest.raises(known.type) as found:
        CALLS[name](rushlight)
    assert found.type is known.type


def test_the_module_is_named() -> None:
    with pytest.raises(AssertionError, match="embedding dimension of 8, but got 7") as found:
        CALLS["encoder layer"](rushlight)
    assert "MultiheadAttention" in "".join(found.value.__notes__)


def test_the_argument_is_named_that_has_the_wrong_width() -> None:
    with pytest.raises(RuntimeError, match=r"^multi_head_attention_forward: .* size 7 of key"):
        CALLS["width of keys"](rushlight)


def test_what_is_no_tensor_is_named() -> None:
    module, x = rushlight.nn.MultiheadAttention(8, 2), rushlight.zeros(3, 2, 8)
    with pytest.raises(TypeError, match="'key' must be Tensor, not NoneType"):
        module(x, None, x)


def test_keys_that_do_not_match_are_shown_as_in_pytorch() -> None:
    for strict, state in ((False, {}), (True, None)):
        texts = []
        for lib in (torch, rushlight):
            module = lib.nn.Linear(2, 2)
            given = module.state_dict() if state is None else state
            texts.append(repr(module.load_state_dict(given, strict=strict)))
        assert texts[0] == texts[1]


@pytest.mark.parametrize("shape", [(9, 9), (3, 9), (5, 3, 4), (2,)])
def test_a_mask_of_another_size_is_refused(shape):
    for lib in (rushlight, torch):
        query, key = lib.ones(2, 3, 4), lib.ones(2, 4, 4)
        with pytest.raises(RuntimeError):
            lib.nn.functional.scaled_dot_product_attention(
                query, key, key, attn_mask=lib.ones(*shape)
            )
