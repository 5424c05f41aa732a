"""Multi-head attention (Vaswani et al., 2017)."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.attention import attend
from rushlight.tensor import Tensor


class MultiheadAttention(Module):
    """Attention of `query` over `key` and `value` in several heads.

    Shapes are (L, N, E), or (N, L, E) with `batch_first`, or (L, E) without a batch.
    """

    __constants__ = ["batch_first"]
    bias_k: Tensor | None
    bias_v: Tensor | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} "
                f"and num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == embed_dim and self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        if self.head_dim * num_heads != embed_dim:
            raise AssertionError("embed_dim must be divisible by num_heads")
        where = {"device": device, "dtype": dtype}
        self._register_projections(where)
        size = 3 * embed_dim
        in_bias = Parameter(rl.empty(size, **where)) if bias else None
        self.register_parameter("in_proj_bias", in_bias)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, **where
        )
        if add_bias_kv:
            self.bias_k = Parameter(rl.empty((1, 1, embed_dim), **where))
            self.bias_v = Parameter(rl.empty((1, 1, embed_dim), **where))
        else:
            self.bias_k = self.bias_v = None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _register_projections(self, where: dict[str, Any]) -> None:
        """One matrix for query, key and value where they are equally wide, else three."""
        n = self.embed_dim
        shapes = {
            "q_proj_weight": (n, n),
            "k_proj_weight": (n, self.kdim),
            "v_proj_weight": (n, self.vdim),
            "in_proj_weight": (3 * n, n),
        }
        for name, shape in shapes.items():
            used = (name == "in_proj_weight") == self._qkv_same_embed_dim
            value = Parameter(rl.empty(shape, **where)) if used else None
            self.register_parameter(name, value)

    def _reset_parameters(self) -> None:
        if self._qkv_same_embed_dim:
            init.xavier_uniform_(self.in_proj_weight)
        else:
            for weight in (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.constant_(self.in_proj_bias, 0.0)
            init.constant_(self.out_proj.bias, 0.0)
        if self.bias_k is not None:
            init.xavier_normal_(self.bias_k)
        if self.bias_v is not None:
            init.xavier_normal_(self.bias_v)

    def __setstate__(self, state: dict[str, Any]) -> None:
        state.setdefault("_qkv_same_embed_dim", True)
        super().__setstate__(state)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        _check_dims(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        is_batched = query.dim() == 3
        q, k, v = self._project(query, key, value)
        q, k, v = (self._batch_first(t, is_batched) for t in (q, k, v))
        if key_padding_mask is not None and not is_batched:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        mask = self._mask(q, k, attn_mask, key_padding_mask, is_causal, need_weights)
        k, v, mask = self._extend(k, v, mask)
        q, k, v = (self._split_heads(t) for t in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            masks, scale = () if mask is None else (mask,), math.sqrt(1.0 / q.size(-1))
            out, weights = attend(q, k, v, masks, dropout, scale)
        else:
            causal = is_causal and mask is None
            out = F.scaled_dot_product_attention(q, k, v, mask, dropout, causal)
        out = self._join(out, is_batched)
        if weights is not None:
            weights = weights.mean(dim=1) if average_attn_weights else weights
            weights = weights if is_batched else weights.squeeze(0)
        return out, weights

    # ---- steps of forward

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        n, bias = self.embed_dim, self.in_proj_bias
        if not self._qkv_same_embed_dim:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
            biases = (None, None, None) if bias is None else bias.chunk(3)
            triples = zip((query, key, value), weights, biases, strict=True)
            return tuple(F.linear(x, w, b) for x, w, b in triples)
        weight = self.in_proj_weight
        if query is key and key is value:
            return F.linear(query, weight, bias).chunk(3, -1)
        q = F.linear(query, weight[:n], None if bias is None else bias[:n])
        if key is value:
            both = F.linear(key, weight[n:], None if bias is None else bias[n:])
            return (q, *both.chunk(2, -1))
        k = F.linear(key, weight[n : 2 * n], None if bias is None else bias[n : 2 * n])
        v = F.linear(value, weight[2 * n :], None if bias is None else bias[2 * n :])
        return q, k, v

    def _batch_first(self, x: Tensor, is_batched: bool) -> Tensor:
        """(N, L, E), whatever the layout outside."""
        if not is_batched:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _mask(
        self,
        q: Tensor,
        k: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool,
        need_weights: bool,
    ) -> Tensor | None:
        """Both masks as one to add to the scores, (N or 1, heads or 1, L, S)."""
        if is_causal and attn_mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if is_causal and key_padding_mask is None and not need_weights:
            return None  # the hint alone says all
        masks = []
        if attn_mask is not None:
            added = _added_mask(attn_mask, q.dtype, "attn_mask")
            batch, heads = q.size(0), self.num_heads
            if added.dim() == 3:
                added = added.view(batch, heads, added.size(1), added.size(2))
            _check_mask_shape(added, q.size(1), k.size(1))
            masks.append(added)
        if key_padding_mask is not None:
            added = _added_mask(key_padding_mask, q.dtype, "key_padding_mask")
            masks.append(added.view(k.size(0), 1, 1, k.size(1)))
        return sum(masks[1:], masks[0]) if masks else None

    def _extend(
        self, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keys and values with the learned and the zero entry after the last."""
        batch, extra = k.size(0), 0
        if self.bias_k is not None and self.bias_v is not None:
            shape = (batch, 1, self.embed_dim)
            k = rl.cat([k, self.bias_k.expand(shape)], dim=1)
            v = rl.cat([v, self.bias_v.expand(shape)], dim=1)
            extra += 1
        if self.add_zero_attn:
            zero = k.new_zeros((batch, 1, self.embed_dim))
            k, v = rl.cat([k, zero], dim=1), rl.cat([v, zero], dim=1)
            extra += 1
        return k, v, mask if mask is None or not extra else F.pad(mask, (0, extra))

    def _split_heads(self, x: Tensor) -> Tensor:
        """(N, L, E) as (N, heads, L, E / heads)."""
        shape = (x.size(0), x.size(1), self.num_heads, self.head_dim)
        return x.reshape(shape).transpose(1, 2)

    def _join(self, x: Tensor, is_batched: bool) -> Tensor:
        """(N, heads, L, E / heads) projected, in the layout of the input."""
        x = x.transpose(1, 2)
        x = x.reshape(x.size(0), x.size(1), self.embed_dim)
        if not is_batched:
            x = x.squeeze(0)
        elif not self.batch_first:
            x = x.transpose(0, 1)
        return self.out_proj(x)

    def merge_masks(
        self, attn_mask: Tensor | None, key_padding_mask: Tensor | None, query: Tensor
    ) -> tuple[Tensor | None, int | None]:
        """One mask for both kinds, and which kind it is: 0 attention, 1 padding, 2 both."""
        if attn_mask is None:
            return key_padding_mask, None if key_padding_mask is None else 1
        batch, length = query.shape[:2]
        merged = attn_mask
        if attn_mask.dim() != 3:
            merged = attn_mask.view(1, 1, length, length).expand(
                batch, self.num_heads, length, length
            )
        else:
            merged = attn_mask.view(batch, self.num_heads, length, length)
        if key_padding_mask is None:
            return merged, 0 if attn_mask.dim() == 2 else 2
        padding = key_padding_mask.view(batch, 1, 1, length)
        return merged + padding.expand(-1, self.num_heads, -1, -1), 2


def _added_mask(mask: Tensor, dtype: Any, name: str) -> Tensor:
    """A mask to add to scores: minus infinity where a boolean mask is true."""
    if mask.dtype == rl.bool:
        return rl.zeros_like(mask, dtype=dtype).masked_fill_(mask, float("-inf"))
    if not mask.is_floating_point():
        raise AssertionError(f"only bool and floating types of {name} are supported")
    return mask


def _check_mask_shape(mask: Tensor, rows: int, columns: int) -> None:
    if tuple(mask.shape[-2:]) != (rows, columns):
        raise RuntimeError(
            f"The shape of the 2D attn_mask is {mask.shape}, but should be {(rows, columns)}."
        )


def _check_dims(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> None:
    dims = query.dim()
    if dims not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {dims}-D query "
            "tensor"
        )
    kind = "batched (3-D)" if dims == 3 else "unbatched (2-D)"
    if key.dim() != dims or value.dim() != dims:
        raise AssertionError(
            f"For {kind} `query`, expected `key` and `value` to be {dims}-D but found "
            f"{key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != dims - 1:
        raise AssertionError(
            f"For {kind} `query`, expected `key_padding_mask` to be `None` or {dims - 1}-D but "
            f"found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
            f"{attn_mask.dim()}-D tensor instead"
        )
    if attn_mask is not None and dims == 2 and attn_mask.dim() == 3:
        expected = (num_heads, query.shape[0], key.shape[0])
        if tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {attn_mask.shape}"
            )
