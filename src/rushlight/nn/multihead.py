"""Multi-head attention (Vaswani et al., 2017)."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.nn import init
from rushlight.nn.linear import NonDynamicallyQuantizableLinear
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.ops.multihead import attended
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
        separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        return attended(
            query,
            key,
            value,
            self.num_heads,
            weights=(self.in_proj_weight,) if self._qkv_same_embed_dim else separate,
            bias=self.in_proj_bias,
            out=(self.out_proj.weight, self.out_proj.bias),
            extra=(self.bias_k, self.bias_v, self.add_zero_attn),
            dropout_p=self.dropout if self.training else 0.0,
            key_padding_mask=key_padding_mask,
            need_weights=need_weights,
            attn_mask=attn_mask,
            average=average_attn_weights,
            is_causal=is_causal,
            batch_first=self.batch_first,
        )

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
