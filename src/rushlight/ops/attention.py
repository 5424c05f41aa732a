"""Scaled dot-product attention: one op forward and one backward.

The forward op also gives the log of the row sums, from which backward rebuilds the weights.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import Op, TensorType, public, recorder


def attention_type(
    q: TensorType,
    key: TensorType,
    value: TensorType,
    *mask: TensorType,
    scale: float,
    is_causal: bool,
) -> tuple[TensorType, TensorType]:
    if q.dtype.is_complex:
        raise errors.not_for_complex("scaled_dot_product_attention", q.dtype)
    if not q.dtype.is_floating_point:
        raise errors.wrong_dtype("scaled_dot_product_attention", q.dtype, "a floating dtype")
    rows = q.shape[:-1]
    return TensorType((*rows, value.shape[-1]), q.dtype), TensorType(rows, _row_dtype(q.dtype))


def _row_dtype(kind: dt.dtype) -> dt.dtype:
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


def four(k: Any, x: Any) -> Any:
    """(..., length, width) as (batch, heads, length, width)."""
    lead = x.shape[:-2]
    heads = lead[-1] if lead else 1
    return k.reshape(x, (views.numel(lead[:-1]), heads, *x.shape[-2:]))


def _mask_four(k: Any, mask: tuple[Any, ...], q: Any, key: Any) -> Any:
    if not mask:
        return None
    return four(k, k.expand(mask[0], (*q.shape[:-1], key.shape[-2])))


def attention_lower(
    k: Any, q: Any, key: Any, value: Any, *mask: Any, scale: float, is_causal: bool
) -> tuple[Any, Any]:
    """Rows that see nothing give zeros (and -inf for the log of their sum)."""
    operands = (four(k, q), four(k, key), four(k, value), _mask_four(k, mask, q, key))
    out, rows = k.attention(*operands, scale, is_causal)
    return k.reshape(out, (*q.shape[:-1], value.shape[-1])), k.reshape(rows, q.shape[:-1])


def attention_vjp(
    g: Any,
    out: Any,
    q: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    scale: float,
    is_causal: bool,
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
    k: Any,
    g: Any,
    out: Any,
    rows: Any,
    q: Any,
    key: Any,
    value: Any,
    *mask: Any,
    scale: float,
    is_causal: bool,
) -> tuple[Any, Any, Any]:
    operands = [four(k, x) for x in (q, key, value)]
    given = (four(k, g), four(k, out), k.reshape(rows, operands[0].shape[:-1]))
    made = k.attention_grad(*given, *operands, _mask_four(k, mask, q, key), scale, is_causal)
    return tuple(k.reshape(x, y.shape) for x, y in zip(made, (q, key, value), strict=True))


ATTENTION_GRAD = Op(  # gradients of query, key and value
    "attention_grad",
    attrs=("scale", "is_causal"),
    type=lambda g, out, rows, q, key, value, *mask, scale, is_causal: (q, key, value),
    lower=attention_grad_lower,
    vjp=None,
)


def _masked_scores(
    q: Any, key: Any, masks: tuple[Any, ...], scale: float, is_causal: bool
) -> Any:
    scores = q.matmul(key.transpose(-2, -1)) * scale
    if is_causal:
        scores = WHERE(_causal(scores.shape[-2], scores.shape[-1]), scores, float("-inf"))
    for mask in masks:
        added = scores if mask.dtype is dt.bool_ else scores + mask
        scores = WHERE(_allowed(mask), added, float("-inf"))
    return scores


def _allowed(mask: Any) -> Any:
    """Where a mask of either kind lets a pair take part."""
    return mask if mask.dtype is dt.bool_ else mask != float("-inf")


def _seen(key: Any, value: Any, masks: tuple[Any, ...]) -> tuple[Any, Any]:
    """Zeros for keys and values that no query sees, so that what they hold does not matter."""
    for mask in masks:
        if mask.ndim < 2:
            mask = mask.unsqueeze(0)
        is_seen = _allowed(mask).any(-2).unsqueeze(-1)
        key, value = WHERE(is_seen, key, 0), WHERE(is_seen, value, 0)
    return key, value


def _causal(rows: int, columns: int) -> Any:
    from rushlight.ops.ranges import ARANGE  # a later family

    here = ARANGE(0, 1, length=rows, dtype=dt.int64).reshape(-1, 1)
    return ARANGE(0, 1, length=columns, dtype=dt.int64).reshape(1, -1) <= here


def attention_weights(
    q: Any, key: Any, masks: tuple[Any, ...], scale: float, is_causal: bool
) -> Any:
    """The softmax weights as a tensor; rows that see nothing are zero."""
    scores = _masked_scores(q, key, masks, scale, is_causal)
    is_blind = (scores == float("-inf")).all(-1, keepdim=True)
    return WHERE(is_blind, 0, WHERE(is_blind, 0, scores).softmax(-1))


def _formula(
    g: Any, q: Any, key: Any, value: Any, masks: tuple[Any, ...], scale: float, is_causal: bool
) -> tuple[Any, Any, Any]:
    key, value = _seen(key, value, masks)
    weights = attention_weights(q, key, masks, scale, is_causal)
    slopes = g.matmul(value.transpose(-2, -1))
    scores = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * scale
    return (
        scores.matmul(key),
        scores.transpose(-2, -1).matmul(q),
        weights.transpose(-2, -1).matmul(g),
    )


def _takes_both(query: Any, key: Any, value: Any, mask: Any, dropout_p: float) -> bool:
    """Whether PyTorch takes a mask and is_causal for these: where its flash kernel does."""
    return (
        query.ndim == key.ndim == value.ndim == 4
        and query.shape[:2] == key.shape[:2] == value.shape[:2]
        and value.shape[-1] == query.shape[-1]
        and mask.ndim in (2, 4)
        and not mask.requires_grad
        and dropout_p == 0
    )


def _check(query: Any, key: Any, value: Any, mask: Any) -> None:
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
    if query.shape[-1] != key.shape[-1]:
        raise errors.cannot_multiply(
            op, query.shape, key.shape, query.shape[-1], key.shape[-1],
            names=("query", "key"), is_turned=True,
        )  # fmt: skip
    if key.shape[-2] != value.shape[-2]:
        raise RuntimeError(
            f"{op}: key {list(key.shape)} and value {list(value.shape)} must have as many "
            f"positions: {key.shape[-2]} and {value.shape[-2]}"
        )
    scores = (*query.shape[:-1], key.shape[-2])
    if mask is not None and any(
        size not in (1, own) and (own != 1 or place < 2)
        for place, (size, own) in enumerate(zip(mask.shape[::-1], scores[::-1], strict=False))
    ):
        raise RuntimeError(
            f"{op}: attn_mask {list(mask.shape)} must broadcast to the scores {list(scores)} "
            f"of query {list(query.shape)} and key {list(key.shape)}"
        )
    if mask is not None and mask.dtype not in (dt.bool_, query.dtype, dt.float32):
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

    attn_mask: True where a pair takes part, or numbers added to the scores. With `is_causal`
    too, pairs must pass both; RuntimeError where PyTorch has no kernel for that: for other than
    four dimensions, with dropout, with a mask that requires gradients.
    enable_gqa: key and value have fewer heads; each serves a group of query heads.

    >>> q, v = torch.ones(1, 2, 4), torch.tensor([[[1.0], [3.0]]])
    >>> torch.nn.functional.scaled_dot_product_attention(q, q, v, is_causal=True)
    tensor([[[1.],
             [2.]]])
    """
    _check(query, key, value, attn_mask)
    if enable_gqa:
        key, value = _grouped(query, key, "key"), _grouped(query, value, "value")
    has_both = is_causal and attn_mask is not None
    if has_both and not _takes_both(query, key, value, attn_mask, dropout_p):
        raise RuntimeError(
            "scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True"
        )
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0
    shapes = (query.shape[:-2], key.shape[:-2], value.shape[:-2])
    batch = views.broadcast_shapes("scaled_dot_product_attention", *shapes)
    query, key, value = (
        x if x.shape[:-2] == batch else x.expand(*batch, *x.shape[-2:])
        for x in (query, key, value)
    )
    mask = () if attn_mask is None else (attn_mask,)
    is_mask_constant = attn_mask is None or not (
        (config.scopes.grad_enabled and attn_mask.requires_grad)
        or recorder.has_tangent(attn_mask)
    )
    if dropout_p > 0 or not is_mask_constant:
        return attend(query, key, value, mask, dropout_p, scale, is_causal)[0]
    if attn_mask is not None and attn_mask.ndim > query.ndim:
        raise errors.cannot_broadcast(
            "scaled_dot_product_attention", (attn_mask.shape, query.shape), -1
        )
    return ATTENTION(query, key, value, *mask, scale=float(scale), is_causal=bool(is_causal))[0]


def attend(
    query: Any,
    key: Any,
    value: Any,
    masks: tuple[Any, ...],
    dropout_p: float,
    scale: float,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """Attention in plain ops: the result and its weights (after dropout)."""
    key, value = _seen(key, value, masks)
    weights = attention_weights(query, key, masks, scale, is_causal)
    if dropout_p > 0:
        from rushlight.ops.dropout import dropout  # only when asked for

        weights = dropout(weights, dropout_p)
    return weights.matmul(value), weights


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
