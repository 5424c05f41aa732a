"""Attention in several heads with its projections (Vaswani et al., 2017), as a function.

`nn.MultiheadAttention` keeps the parameters and calls `attended`, which takes either layout.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight.advice import warn_caller
from rushlight.ops.attention import attend, scaled_dot_product_attention
from rushlight.ops.contract import linear
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import check_tensors
from rushlight.ops.joining import cat
from rushlight.ops.rearrange import constant_pad_nd
from rushlight.ops.registry import public


@public("F")
def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """The output (L, N, E) and, if needed, the weights (N, L, S) of attention with projections.

    query: (L, N, E); key, value: (S, N, E); all without N if there is no batch.
    in_proj_weight: the three projections in one matrix, unless `use_separate_proj_weight`.
    static_k, static_v: (N * num_heads, S, E / num_heads) in place of the projected ones.

    >>> x, inner = torch.eye(2)[:, None], torch.cat([torch.eye(2)] * 3)
    >>> settings = None, None, None, False, 0.0, torch.eye(2), None
    >>> attend = torch.nn.functional.multi_head_attention_forward
    >>> attend(x, x, x, 2, 1, inner, *settings)[0][:, 0]
    tensor([[0.6698, 0.3302],
            [0.3302, 0.6698]])
    """
    _check_width(query, embed_dim_to_check)
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    return attended(
        query,
        key,
        value,
        num_heads,
        weights=separate if use_separate_proj_weight else (in_proj_weight,),
        bias=in_proj_bias,
        out=(out_proj_weight, out_proj_bias),
        extra=(bias_k, bias_v, add_zero_attn),
        static=(static_k, static_v),
        dropout_p=dropout_p if training else 0.0,
        key_padding_mask=key_padding_mask,
        need_weights=need_weights,
        attn_mask=attn_mask,
        average=average_attn_weights,
        is_causal=is_causal,
        batch_first=False,
    )


def attended(
    query: Any,
    key: Any,
    value: Any,
    num_heads: int,
    *,
    weights: Sequence[Any],
    bias: Any,
    out: tuple[Any, Any],
    extra: tuple[Any, Any, bool],
    dropout_p: float,
    key_padding_mask: Any,
    need_weights: bool,
    attn_mask: Any,
    average: bool,
    is_causal: bool,
    batch_first: bool,
    static: tuple[Any, Any] = (None, None),
) -> tuple[Any, Any]:
    """Project, attend, project back. `weights` is one packed matrix or three; `extra` are a key
    and a value to append, and whether to append zeros too.
    """
    _check_dims(query, key, value, key_padding_mask, attn_mask, num_heads)
    _check_weights(weights, extra)
    width = weights[0].shape[0] // (3 if len(weights) == 1 else 1)
    _check_sizes(query, key, value, num_heads, width, len(weights) == 3)
    is_batched = query.ndim == 3
    projected = _projected(query, key, value, weights, bias)
    q, k, v = (_batch_first(t, is_batched, batch_first) for t in projected)
    for name, own, given in (("key", k, static[0]), ("value", v, static[1])):
        if given is None and own.shape[0] != q.shape[0]:
            raise RuntimeError(
                f"{_OP}: {name} has a batch of {own.shape[0]}, but query one of {q.shape[0]}"
            )
    if key_padding_mask is not None and not is_batched:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    k, v, count = _extended(k, v, extra)
    hint = is_causal and key_padding_mask is None and not need_weights
    mask = _merged_mask(q, k, num_heads, attn_mask, key_padding_mask, is_causal, hint, count)
    q = _heads(q, num_heads)
    k, v = (
        _heads(t, num_heads) if given is None else _static(given, q, name)
        for t, given, name in ((k, static[0], "static_k"), (v, static[1], "static_v"))
    )
    found = None
    if need_weights:
        masks, scale = () if mask is None else (mask,), math.sqrt(1.0 / q.shape[-1])
        made, found = attend(q, k, v, masks, dropout_p, scale)
    else:
        causal = is_causal and mask is None
        made = scaled_dot_product_attention(q, k, v, mask, dropout_p, causal)
    made = linear(_joined(made, is_batched, batch_first), *out)
    if found is not None:
        found = found.mean(dim=1) if average else found
        found = found if is_batched else found.squeeze(0)
    return made, found


# -- steps


def _projected(query: Any, key: Any, value: Any, weights: Sequence[Any], bias: Any) -> Any:
    """Queries, keys and values; those of one tensor in one product."""
    if len(weights) == 3:
        _check_separate(query.shape[-1], (query, key, value), weights)
        biases = (None, None, None) if bias is None else bias.chunk(3)
        triples = zip((query, key, value), weights, biases, strict=True)
        return tuple(linear(x, w, b) for x, w, b in triples)
    (weight,) = weights
    n = weight.shape[0] // 3
    if query is key and key is value:
        return linear(query, weight, bias).chunk(3, -1)
    q = linear(query, weight[:n], None if bias is None else bias[:n])
    if key is value:
        both = linear(key, weight[n:], None if bias is None else bias[n:])
        return (q, *both.chunk(2, -1))
    k = linear(key, weight[n : 2 * n], None if bias is None else bias[n : 2 * n])
    v = linear(value, weight[2 * n :], None if bias is None else bias[2 * n :])
    return q, k, v


def _batch_first(x: Any, is_batched: bool, batch_first: bool) -> Any:
    """(N, L, E), whatever the layout outside."""
    if not is_batched:
        return x.unsqueeze(0)
    return x if batch_first else x.transpose(0, 1)


def _extended(k: Any, v: Any, extra: tuple[Any, Any, bool]) -> tuple[Any, Any, int]:
    """Keys and values with the learned and the zero entry after the last, and how many."""
    bias_k, bias_v, add_zero = extra
    shape = (k.shape[0], 1, k.shape[2])
    ends = []
    if bias_k is not None and bias_v is not None:
        ends.append((bias_k.expand(shape), bias_v.expand(shape)))
    if add_zero:
        zero = FULL(shape=shape, value=0, dtype=k.dtype)
        ends.append((zero, zero))
    for end_k, end_v in ends:
        k, v = cat([k, end_k], 1), cat([v, end_v], 1)
    return k, v, len(ends)


def _merged_mask(
    q: Any, k: Any, heads: int, attn_mask: Any, key_padding_mask: Any, is_causal: bool,
    hint_says_all: bool, count: int,
) -> Any:  # fmt: skip
    """Both masks as one to add to the scores, (N or 1, heads or 1, L, S), with zeros for the
    last `count` keys.
    """
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    if hint_says_all:
        return None
    _check_kinds(attn_mask, key_padding_mask)
    masks = []
    keys = k.shape[1] - count
    if attn_mask is not None:
        added = _added_mask(attn_mask, q.dtype, "attn_mask")
        _check_mask_shape(added, q.shape[0] * heads, q.shape[1], keys)
        if added.ndim == 3:
            added = added.reshape(q.shape[0], heads, *added.shape[1:])
        masks.append(added)
    if key_padding_mask is not None:
        added = _added_mask(key_padding_mask, q.dtype, "key_padding_mask")
        if tuple(added.shape) != (k.shape[0], keys):
            raise AssertionError(
                f"{_OP}: expecting key_padding_mask shape of {(k.shape[0], keys)}, but got "
                f"{tuple(added.shape)}"
            )
        masks.append(added.reshape(k.shape[0], 1, 1, keys))
    if not masks:
        return None
    mask = sum(masks[1:], masks[0])
    return constant_pad_nd(mask, (0, count)) if count else mask


def _heads(x: Any, heads: int) -> Any:
    """(N, L, E) as (N, heads, L, E / heads)."""
    shape = (x.shape[0], x.shape[1], heads, x.shape[2] // heads)
    return x.reshape(shape).transpose(1, 2)


def _static(given: Any, q: Any, name: str) -> Any:
    """(N * heads, S, E / heads) as (N, heads, S, E / heads)."""
    batch, heads, _, width = q.shape
    if given.shape[0] != batch * heads or given.shape[2] != width:
        raise AssertionError(
            f"expecting {name} of sizes ({batch * heads}, S, {width}), but got "
            f"{list(given.shape)}"
        )
    return given.reshape(batch, heads, given.shape[1], width)


def _joined(x: Any, is_batched: bool, batch_first: bool) -> Any:
    """(N, heads, L, E / heads) in the layout of the input."""
    x = x.transpose(1, 2)
    x = x.reshape(x.shape[0], x.shape[1], x.shape[2] * x.shape[3])
    if not is_batched:
        return x.squeeze(0)
    return x if batch_first else x.transpose(0, 1)


# -- checks

_OP = "multi_head_attention_forward"


def _added_mask(mask: Any, kind: dt.dtype, name: str) -> Any:
    """A mask to add to scores: minus infinity where a boolean mask is true."""
    if mask.dtype is dt.bool_:
        zeros = FULL(shape=tuple(mask.shape), value=0, dtype=kind)
        return zeros.masked_fill(mask, -math.inf)
    if not mask.dtype.is_floating_point:
        raise AssertionError(f"{_OP}: only bool and floating types of {name} are supported")
    return mask


def _check_kinds(attn_mask: Any, key_padding_mask: Any) -> None:
    has_both = attn_mask is not None and key_padding_mask is not None
    if has_both and attn_mask.dtype is not key_padding_mask.dtype:
        warn_caller(
            f"{_OP}: masks of different dtypes are deprecated: key_padding_mask is "
            f"{key_padding_mask.dtype!r}, attn_mask {attn_mask.dtype!r}"
        )


def _check_mask_shape(mask: Any, heads: int, rows: int, columns: int) -> None:
    wanted = (heads, rows, columns) if mask.ndim == 3 else (rows, columns)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(
            f"{_OP}: The shape of the {mask.ndim}D attn_mask is {tuple(mask.shape)}, but "
            f"should be {wanted}."
        )


def _check_weights(weights: Sequence[Any], extra: tuple[Any, Any, bool]) -> None:
    names = ("in_proj",) if len(weights) == 1 else ("q_proj", "k_proj", "v_proj")
    for name, weight in zip(names, weights, strict=True):
        if weight is None:
            is_separate = len(weights) == 3
            raise AssertionError(
                f"{_OP}: use_separate_proj_weight is {is_separate} but {name}_weight is None"
            )
    bias_k, bias_v, _ = extra
    if (bias_k is None) is not (bias_v is None):
        missing, given = ("bias_k", "bias_v") if bias_k is None else ("bias_v", "bias_k")
        raise AssertionError(f"{_OP}: {given} is set but {missing} is None")


def _check_separate(width: int, inputs: Sequence[Any], weights: Sequence[Any]) -> None:
    for name, x, weight in zip(("query", "key", "value"), inputs, weights, strict=True):
        wanted = (width, x.shape[-1])
        if tuple(weight.shape) != wanted:
            raise AssertionError(
                f"{_OP}: expecting {name} weights shape of {wanted}, but got "
                f"{tuple(weight.shape)}"
            )


def _check_width(query: Any, width: int) -> None:
    if query.shape[-1] != width:
        raise AssertionError(
            f"{_OP}: was expecting embedding dimension of {width}, but got {query.shape[-1]}"
        )


def _check_sizes(
    query: Any, key: Any, value: Any, num_heads: int, width: int, is_separate: bool
) -> None:
    _check_width(query, width)
    if width % num_heads:
        raise AssertionError(f"{_OP}: embed_dim {width} not divisible by num_heads {num_heads}")
    if is_separate and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"{_OP}: key's sequence and batch dims {tuple(key.shape[:2])} do not match value's "
            f"{tuple(value.shape[:2])}"
        )
    if not is_separate and key.shape != value.shape:
        raise AssertionError(
            f"{_OP}: key shape {tuple(key.shape)} does not match value shape "
            f"{tuple(value.shape)}"
        )
    if not is_separate and key.shape[-1] != width:
        raise RuntimeError(
            f"{_OP}: mat1 and mat2 shapes cannot be multiplied: the last size "
            f"{key.shape[-1]} of key and value {tuple(key.shape)} must equal embed_dim "
            f"{width}, unless there are kdim and vdim"
        )


def _check_dims(
    query: Any,
    key: Any,
    value: Any,
    key_padding_mask: Any,
    attn_mask: Any,
    num_heads: int,
) -> None:
    check_tensors(_OP, query=query, key=key, value=value)
    dims = query.ndim
    if dims not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query "
            "tensor"
        )
    kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    if key.ndim != dims or value.ndim != dims:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found "
            f"{key.ndim}-D and {value.ndim}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.ndim != dims - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but "
            f"found {key_padding_mask.ndim}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.ndim not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.ndim}-D tensor instead"
        )
    if attn_mask is not None and dims == 2 and attn_mask.ndim == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
