"""Scaled dot-product attention: one op forward and one backward.

The forward op also gives the log of the row sums, from which backward rebuilds the weights.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight import dtype as dt
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import Op, TensorType, public


def attention_type(
    q: TensorType, key: TensorType, value: TensorType, *mask: TensorType, scale: float, is_causal: bool
) -> tuple[TensorType, TensorType]:
    rows = q.shape[:-1]
    return TensorType((*rows, value.shape[-1]), q.dtype), TensorType(rows, _row_dtype(q.dtype))


def _row_dtype(kind: dt.dtype) -> dt.dtype:
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


def _scores(k: Any, q: Any, key: Any, mask: tuple[Any, ...], scale: float, is_causal: bool) -> Any:
    """q @ key.T * scale in the row dtype, -inf where a pair is masked out."""
    batch = "abcdefg"[: len(q.shape) - 2]
    kind = _row_dtype(q.dtype)
    scores = k.contract(f"{batch}le,{batch}se->{batch}ls", q, key, kind) * scale
    if is_causal:
        last = len(scores.shape) - 1
        later = k.iota(scores.shape, last) > k.iota(scores.shape, last - 1)
        scores = k.select(later, float("-inf"), scores)
    if mask:
        (m,) = mask
        if m.dtype is dt.bool_:
            return k.select(k.expand(m, scores.shape), scores, float("-inf"))
        return scores + k.cast(m, kind)
    return scores


def attention_lower(
    k: Any, q: Any, key: Any, value: Any, *mask: Any, scale: float, is_causal: bool
) -> tuple[Any, Any]:
    """Rows that see nothing give zeros (and -inf for the log of their sum)."""
    scores = _scores(k, q, key, mask, scale, is_causal)
    batch = "abcdefg"[: len(q.shape) - 2]
    last = len(scores.shape) - 1
    if 0 in scores.shape:
        rows = k.full(q.shape[:-1], float("-inf"), scores.dtype)
        return k.full((*q.shape[:-1], value.shape[-1]), 0, q.dtype), rows
    top = k.reduce("max", scores, (last,), True)
    top = k.select(top.equals(float("-inf")), 0.0, top)
    weights = k.exp(scores - top)
    total = k.reduce("sum", weights, (last,), True)
    inverse = k.select(total.equals(0), 0.0, 1.0 / total)
    out = k.contract(f"{batch}ls,{batch}sv->{batch}lv", weights * inverse, k.cast(value, weights.dtype))
    rows = k.reshape(top + k.log(total), q.shape[:-1])
    return k.cast(out, q.dtype), rows


def attention_vjp(
    g: Any, out: Any, q: Any, key: Any, value: Any, mask: Any = None, *, scale: float, is_causal: bool
) -> Any:
    """With gradients recorded, the formula in tensors (for higher orders); otherwise one op."""
    masks = () if mask is None else (mask,)
    if config.scopes.grad_enabled:
        grads = _formula(g[0], q, key, value, masks, scale, is_causal)
    else:
        grads = ATTENTION_GRAD(
            g[0], out[0], out[1], q, key, value, *masks, scale=scale, is_causal=is_causal
        )
    return (*grads, *(None for _ in masks))


ATTENTION = Op(
    "attention",
    attrs=("scale", "is_causal"),
    type=attention_type,
    lower=attention_lower,
    vjp=attention_vjp,
)


def attention_grad_lower(
    k: Any, g: Any, out: Any, rows: Any, q: Any, key: Any, value: Any, *mask: Any, scale: float, is_causal: bool
) -> tuple[Any, Any, Any]:
    kind = _row_dtype(q.dtype)
    batch = "abcdefg"[: len(q.shape) - 2]
    scores = _scores(k, q, key, mask, scale, is_causal)
    wide = k.cast(g, kind)
    lost = k.reshape(rows, (*rows.shape, 1))
    lost = k.select(lost.equals(float("-inf")), 0.0, lost)
    weights = k.exp(scores - lost)
    value_grad = k.contract(f"{batch}ls,{batch}lv->{batch}sv", weights, wide)
    slopes = k.contract(f"{batch}lv,{batch}sv->{batch}ls", wide, k.cast(value, kind))
    inner = k.reduce("sum", wide * k.cast(out, kind), (len(g.shape) - 1,), True)
    score_grad = weights * (slopes - inner) * scale
    q_grad = k.contract(f"{batch}ls,{batch}se->{batch}le", score_grad, k.cast(key, kind))
    key_grad = k.contract(f"{batch}ls,{batch}le->{batch}se", score_grad, k.cast(q, kind))
    made = (q_grad, key_grad, value_grad)
    return tuple(k.cast(x, q.dtype) for x in made)  # type: ignore[return-value]


ATTENTION_GRAD = Op(  # gradients of query, key and value
    "attention_grad",
    attrs=("scale", "is_causal"),
    type=lambda g, out, rows, q, key, value, *mask, scale, is_causal: (q, key, value),
    lower=attention_grad_lower,
    vjp=None,
)


def _masked_scores(q: Any, key: Any, masks: tuple[Any, ...], scale: float, is_causal: bool) -> Any:
    scores = q.matmul(key.transpose(-2, -1)) * scale
    if is_causal:
        scores = WHERE(_causal(scores.shape[-2], scores.shape[-1]), scores, float("-inf"))
    for mask in masks:
        is_bool = mask.dtype is dt.bool_
        scores = WHERE(mask, scores, float("-inf")) if is_bool else scores + mask
    return scores


def _causal(rows: int, columns: int) -> Any:
    from rushlight.ops.creation import ARANGE  # a later family

    here = ARANGE(0, 1, length=rows, dtype=dt.int64).reshape(-1, 1)
    return ARANGE(0, 1, length=columns, dtype=dt.int64).reshape(1, -1) <= here


def attention_weights(q: Any, key: Any, masks: tuple[Any, ...], scale: float, is_causal: bool) -> Any:
    """The softmax weights as a tensor; rows that see nothing are zero."""
    scores = _masked_scores(q, key, masks, scale, is_causal)
    is_blind = (scores == float("-inf")).all(-1, keepdim=True)
    return WHERE(is_blind, 0, WHERE(is_blind, 0, scores).softmax(-1))


def _formula(
    g: Any, q: Any, key: Any, value: Any, masks: tuple[Any, ...], scale: float, is_causal: bool
) -> tuple[Any, Any, Any]:
    weights = attention_weights(q, key, masks, scale, is_causal)
    slopes = g.matmul(value.transpose(-2, -1))
    scores = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * scale
    return (
        scores.matmul(key),
        scores.transpose(-2, -1).matmul(q),
        weights.transpose(-2, -1).matmul(g),
    )


def _check(query: Any, key: Any, value: Any, mask: Any, is_causal: bool) -> None:
    op = "scaled_dot_product_attention"
    for name, other in (("key", key), ("value", value)):
        if other.dtype is not query.dtype:
            raise RuntimeError(
                f"{op}: Expected query, key, and value to have the same dtype, but got "
                f"query.dtype: {query.dtype!r} and {name}.dtype: {other.dtype!r} instead."
            )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise RuntimeError(
            f"{op}: Expected query, key, and value to all be at least 2 dimensional, but got "
            f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise errors.cannot_multiply(
            op, query.shape, key.shape, query.shape[-1], key.shape[-1]
        )
    if mask is not None:
        if is_causal:
            raise RuntimeError(f"{op}: Explicit attn_mask should not be set when is_causal=True")
        if mask.dtype is not dt.bool_ and mask.dtype is not query.dtype and mask.dtype is not dt.float32:
            raise RuntimeError(
                f"{op}: Expected attn_mask dtype to be bool or float or to match query dtype, but "
                f"got attn_mask.dtype: {mask.dtype!r} and  query.dtype: {query.dtype!r} instead."
            )


@public("F")
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(query @ key.T * scale + mask) @ value over the last two dimensions.

    attn_mask: True where a pair takes part, or numbers added to the scores.
    enable_gqa: key and value have fewer heads; each serves a group of query heads.
    """
    _check(query, key, value, attn_mask, is_causal)
    if enable_gqa:
        key, value = _grouped(query, key, "key"), _grouped(query, value, "value")
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    shapes = (query.shape[:-2], key.shape[:-2], value.shape[:-2])
    batch = views.broadcast_shapes("scaled_dot_product_attention", *shapes)
    query, key, value = (
        x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:]) for x in (query, key, value)
    )
    mask = () if attn_mask is None else (attn_mask,)
    needs_mask_grad = attn_mask is not None and attn_mask.requires_grad
    if dropout_p > 0 or (needs_mask_grad and config.scopes.grad_enabled):
        weights = attention_weights(query, key, mask, scale, is_causal)
        if dropout_p > 0:
            from rushlight.ops.dropout import dropout  # only when asked for

            weights = dropout(weights, dropout_p)
        return weights.matmul(value)
    if attn_mask is not None and attn_mask.ndim > query.ndim:
        raise errors.cannot_broadcast("scaled_dot_product_attention", (attn_mask.shape, query.shape), -1)
    return ATTENTION(query, key, value, *mask, scale=float(scale), is_causal=bool(is_causal))[0]


def _grouped(query: Any, x: Any, name: str) -> Any:
    """Heads repeated so that there are as many as of the query."""
    heads, own = query.shape[-3], x.shape[-3]
    if own == heads:
        return x
    if own == 0 or heads % own:
        raise RuntimeError(
            f"scaled_dot_product_attention: Number of heads in {name} ({own}) must divide the "
            f"number of heads in query ({heads})"
        )
    each = x.unsqueeze(-3).expand(*x.shape[:-2], heads // own, *x.shape[-2:])
    return each.reshape(*x.shape[:-3], heads, *x.shape[-2:])


