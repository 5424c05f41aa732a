"""Attention with a formula of the user's for each score (`torch.nn.attention.flex_attention`).

The formula is mapped over all pairs by `vmap`, and what it records is compiled together with
the rest, so it may use any tensor of the program, and gradients flow to all of them. Scores are
held for all pairs, also of blocks that a mask leaves out.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn.attention.block_mask import (
    BlockMask,
    Mod,
    and_masks,
    at_every_place,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)
from rushlight.tensor import Tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_score_mod_signature = _mask_mod_signature = Mod
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class AuxRequest(NamedTuple):
    """Which further results `flex_attention` is to return."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Further results: the logarithm of each row's sum, and its greatest score."""

    lse: Tensor | None = None
    max_scores: Tensor | None = None


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Mod | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: dict[str, Any] | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """softmax(score_mod(query @ key.T * scale) where block_mask allows) @ value.

    query, key, value: (B, heads, length, width). score_mod(score, b, h, q, k) takes single
    elements and indices. Rows in which no key is allowed give zeros. With `return_lse`, or
    what `return_aux` asks for, the result is a tuple. kernel_options are accepted.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention.flex_attention import flex_attention
    >>> x = torch.ones(1, 2, 3, 4)
    >>> flex_attention(x, x, x, lambda score, b, h, q, k: score - (q - k).abs()).shape
    torch.Size([1, 2, 3, 4])
    """
    _check(query, key, value, block_mask, enable_gqa)
    batches, heads = query.shape[:2]
    key, value = (_for_heads(x, batches, heads) for x in (key, value))
    mask = None if block_mask is None else block_mask.pairs(batches, heads)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    wanted = return_aux or AuxRequest(lse=return_lse)
    if score_mod is None and not any(wanted):
        return F.scaled_dot_product_attention(query, key, value, mask, scale=factor)
    out, scores, is_blind = _dense(query, key, value, score_mod, mask, factor)
    if not any(wanted):
        return out
    found = AuxOutput(
        _lse(scores, is_blind) if wanted.lse else None,
        scores.amax(-1) if wanted.max_scores else None,
    )
    return (out, found) if return_aux is not None else (out, found.lse)


def _check(
    query: Tensor, key: Tensor, value: Tensor, block_mask: BlockMask | None, enable_gqa: bool
) -> None:
    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if not query.ndim == key.ndim == value.ndim == 4:
        raise NotImplementedError(f"flex_attention: expected 4 dimensions each, got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            "flex_attention: expected one dtype, got query "
            f"{query.dtype}, key {key.dtype}, value {value.dtype}"
        )
    heads, own = query.shape[1], key.shape[1]
    if heads != own and not enable_gqa:
        raise ValueError(
            f"flex_attention: {heads} heads of queries need enable_gqa=True for {own} of keys"
        )
    if heads % own:
        raise ValueError(f"flex_attention: {heads} heads of queries cannot share {own} of keys")
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ValueError(f"flex_attention: sizes do not fit: {shapes}")
    if query.shape[0] != key.shape[0] != 1:
        raise ValueError(f"flex_attention: batches do not fit: {shapes}")
    _check_mask(query, key, block_mask)


def _check_mask(query: Tensor, key: Tensor, block_mask: BlockMask | None) -> None:
    if block_mask is None:
        return
    lengths = (query.shape[-2], key.shape[-2])
    batches, heads = block_mask.shape[:2]
    fits = batches in (1, query.shape[0]) and heads in (1, query.shape[1])
    if block_mask.seq_lengths != lengths or not fits:
        wanted = (*query.shape[:2], *lengths)
        raise ValueError(
            f"flex_attention: block_mask {block_mask.shape} does not fit pairs {wanted}"
        )


def _for_heads(x: Tensor, batches: int, heads: int) -> Tensor:
    """Keys or values for every head and batch of the queries."""
    x = x.expand(batches, *x.shape[1:])
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _dense(
    query: Tensor, key: Tensor, value: Tensor, score_mod: Mod | None, mask: Any, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The result, all scores, and which rows see nothing."""
    wide = rl.promote_types(query.dtype, rl.float32)
    scores = query.to(wide) @ key.to(wide).transpose(-2, -1) * scale
    if score_mod is not None:
        scores = at_every_place(score_mod, tuple(scores.shape), scores).to(wide)
    if mask is not None:
        scores = rl.where(mask, scores, -math.inf)
    is_blind = (scores == -math.inf).all(-1, keepdim=True)
    seen = rl.where(is_blind, 0, scores).softmax(-1)
    weights = rl.where(is_blind, 0, seen)
    return (weights @ value.to(wide)).to(query.dtype), scores, is_blind


def _lse(scores: Tensor, is_blind: Tensor) -> Tensor:
    """log(sum(exp(scores))) of each row; -inf where it sees nothing."""
    rows = rl.where(is_blind, 0, scores).logsumexp(-1)
    return rl.where(is_blind.squeeze(-1), -math.inf, rows)
