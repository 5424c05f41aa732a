"""`torch.nn.attention.bias`: causal masks for queries and keys of different number."""

from __future__ import annotations

import enum
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor, disabled_torch_function

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(enum.IntEnum):
    """Which corner of a mask its diagonal starts from."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(Tensor):
    """A causal mask: True where a query may see a key."""

    __torch_function__ = disabled_torch_function  # operations give plain tensors

    variant: CausalVariant
    seq_len_q: int
    seq_len_kv: int

    def __new__(cls, variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> CausalBias:
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"CausalBias: expected a CausalVariant, got {variant!r}")
        is_lower = variant == CausalVariant.LOWER_RIGHT
        mask: Any = rl.ones(seq_len_q, seq_len_kv, dtype=rl.bool)
        made = mask.tril(seq_len_kv - seq_len_q if is_lower else 0).as_subclass(cls)
        made.variant, made.seq_len_q, made.seq_len_kv = variant, seq_len_q, seq_len_kv
        return made

    def __init__(self, *_: Any) -> None:
        """All is made by `__new__`."""


def causal_upper_left(*size: int) -> CausalBias:
    """The mask whose first query sees the first key alone: `is_causal=True` as a tensor.

    >>> from rushlight.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3).tolist()
    [[True, False, False], [True, True, False]]
    """
    rows, columns = _of_two("causal_upper_left", size)
    return CausalBias(CausalVariant.UPPER_LEFT, rows, columns)


def causal_lower_right(*size: int) -> CausalBias:
    """The mask whose last query sees every key: queries that come after earlier keys.

    >>> from rushlight.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3).tolist()
    [[True, True, False], [True, True, True]]
    """
    rows, columns = _of_two("causal_lower_right", size)
    return CausalBias(CausalVariant.LOWER_RIGHT, rows, columns)


def _of_two(name: str, size: tuple[int, ...]) -> tuple[int, int]:
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors, got {len(size)} sizes")
    return size[0], size[1]
