"""Plans scaled-dot-product attention and its gradient: launches of two kernels that never make
the whole score matrix.

    out = softmax(scale * q k^T + mask) v          over the keys, for every query of every head

What decides a result's bits: its own query and mask row, the keys and the values.
Keys are visited in tiles of 64 in order; each tile's products are chains of multiply-adds.
Which thread, batch or tile of queries a row is in, and the width of the machine's vectors,
change nothing. A pair of a row and a tile in which the mask blocks everything adds exactly
nothing, so such tiles are left out where causality makes them certain.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.loops.attention_backward import (
    BACKWARD_INTS,
    QUERY_TILE,
    backward_kernel,
    backward_pointers,
)
from rushlight.loops.attention_entry import KEY_TILE
from rushlight.loops.attention_forward import FORWARD_INTS, forward_kernel, forward_pointers
from rushlight.loops.entry import Strided, launch_of, round_up
from rushlight.loops.kernel import BufferRef, Launch
from rushlight.loops.writer import LANES, arithmetic_of

DTYPES = ("float32", "float64", "float16", "bfloat16")
KEPT_BYTES = 8 << 20  # of scratch that a thread may keep copies of a head's keys and values in
FORWARD_VECTORS = (4, 2, 1)  # sizes of a tile of queries, in vectors


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes: q is (batch, heads, queries, width), k and v are (batch, key_heads, keys, width or
    value_width).

    Query head h uses key head h // (heads // key_heads).
    """

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    width: int
    value_width: int

    def __post_init__(self) -> None:
        assert self.key_heads == 0 or self.heads % self.key_heads == 0, self


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask read as (batch, heads, queries, keys): added to the scores, or for dtype 'bool'
    False blocks.
    """

    operand: Strided
    dtype: str

    def __post_init__(self) -> None:
        assert self.dtype in ("bool", *DTYPES), self.dtype


def plan_attention_forward(
    *,
    shape: AttentionShape,
    dtype: str,
    q: Strided,
    k: Strided,
    v: Strided,
    out: Strided,
    lse: BufferRef,
    mask: Mask | None = None,
    causal: bool,
    scale: float,
    target: str,
) -> list[Launch]:
    """Launches that fill `out` and `lse`, the log-sum-exp of each row of scores.

    `lse` is contiguous (batch, heads, queries), float64 for float64 and float32 for the rest. A
    row whose keys are all blocked gives zeros and -inf. `causal` blocks keys s > t for query t,
    counted from the first of each.
    """
    operands = _operands(dtype, mask, q=q, k=k, v=v, out=out)
    launches, kept = [], _kept_keys(shape, dtype)
    for first, tiles, vectors in _query_tiles(shape.queries):
        sizes = _forward_scratch(shape, vectors * LANES, kept)
        source = forward_kernel(dtype, target, vectors, causal, mask.dtype if mask else None)
        values = _common(shape, scale, operands) | {
            "first": first,
            "tiles": tiles,
            "kept": kept,
        }
        launches.append(
            launch_of(
                source,
                shape.batch * shape.heads * tiles,
                {name: operand.place for name, operand in operands.items()} | {"lse": lse},
                values,
                pointers=forward_pointers(mask.dtype if mask else None),
                ints=FORWARD_INTS,
                sizes=sizes,
                arithmetic=arithmetic_of(dtype),
            )
        )
    return [launch for launch in launches if launch.chunks]


def plan_attention_backward(
    *,
    shape: AttentionShape,
    dtype: str,
    q: Strided,
    k: Strided,
    v: Strided,
    out: Strided,
    lse: BufferRef,
    dout: Strided,
    dq: Strided,
    dk: Strided,
    dv: Strided,
    mask: Mask | None = None,
    causal: bool,
    scale: float,
    target: str,
) -> list[Launch]:
    """Launches that fill `dq`, `dk` and `dv` from the gradient of `out` and what the forward
    left.
    """
    operands = _operands(dtype, mask, q=q, k=k, v=v, out=out, dout=dout, dq=dq, dk=dk, dv=dv)
    launch = launch_of(
        backward_kernel(dtype, target, causal, mask.dtype if mask else None),
        shape.batch * shape.key_heads,
        {name: operand.place for name, operand in operands.items()} | {"lse": lse},
        _common(shape, scale, operands),
        pointers=backward_pointers(mask.dtype if mask else None),
        ints=BACKWARD_INTS,
        sizes=_backward_scratch(shape),
        arithmetic=arithmetic_of(dtype),
    )
    return [launch] if launch.chunks else []


def _query_tiles(queries: int) -> list[tuple[int, int, int]]:
    """Cover the queries: (first query, tiles, vectors a tile), the widest tiles first and a
    narrower one for the rest.
    """
    widest = FORWARD_VECTORS[0] * LANES
    covered, plan = queries - queries % widest, []
    if covered:
        plan.append((0, covered // widest, FORWARD_VECTORS[0]))
    if queries > covered:
        plan.append(
            (covered, 1, min(n for n in FORWARD_VECTORS if n * LANES >= queries - covered))
        )
    return plan


def _common(
    shape: AttentionShape, scale: float, operands: Mapping[str, Strided]
) -> dict[str, int]:
    """The integer arguments that both kernels have."""
    values = {
        "heads": shape.heads,
        "group": shape.heads // max(shape.key_heads, 1),
        "queries": shape.queries,
        "keys": shape.keys,
        "width": shape.width,
        "value_width": shape.value_width,
        "wide": round_up(shape.width, LANES),
        "value_wide": round_up(shape.value_width, LANES),
        "scale": struct.unpack("<q", struct.pack("<d", scale))[0],
    }
    values |= dict.fromkeys(("mask_b", "mask_h", "mask_t", "mask_d"), 0)
    for name, operand in operands.items():
        for axis, stride in zip("bhtd", operand.strides, strict=True):
            values[f"{name}_{axis}"] = stride
    return values


def _operands(dtype: str, mask: Mask | None, **operands: Strided) -> dict[str, Strided]:
    assert dtype in DTYPES, dtype
    assert mask is None or "float64" not in {mask.dtype} - {dtype}, (mask, dtype)
    return operands | ({"mask": mask.operand} if mask else {})


def _kept_keys(shape: AttentionShape, dtype: str) -> int:
    """How many keys the forward kernel's scratch holds: all of a head's while they are few."""
    row = round_up(shape.width, LANES) + round_up(shape.value_width, LANES)
    keys = round_up(shape.keys, KEY_TILE)
    return keys if 0 < keys * row * arithmetic_of(dtype).size <= KEPT_BYTES else KEY_TILE


def _forward_scratch(shape: AttentionShape, lanes: int, kept: int) -> dict[str, int]:
    """The elements of each scratch array of the forward kernel."""
    wide, value_wide = round_up(shape.width, LANES), round_up(shape.value_width, LANES)
    return {
        "queries_laned": wide * lanes,
        "keys_natural": kept * wide,
        "values_natural": kept * value_wide,
        "scores": KEY_TILE * lanes,
        "sums": value_wide * lanes,
        "peak": lanes,
        "total": lanes,
        "fade": lanes,
    }


def _backward_scratch(shape: AttentionShape) -> dict[str, int]:
    """The elements of each scratch array of the backward kernel."""
    wide, value_wide = round_up(shape.width, LANES), round_up(shape.value_width, LANES)
    queries, keys = round_up(shape.queries, QUERY_TILE), round_up(shape.keys, KEY_TILE)
    return {
        "keys_natural": KEY_TILE * wide,
        "values_natural": KEY_TILE * value_wide,
        "scores": KEY_TILE * QUERY_TILE,
        "slopes": KEY_TILE * QUERY_TILE,
        "grad_keys": keys * wide,
        "grad_values": keys * value_wide,
        "grad_queries": queries * wide,
        "queries_natural": queries * wide,
        "queries_laned": queries * wide,
        "douts_natural": queries * value_wide,
        "douts_laned": queries * value_wide,
        "levels": queries,
        "deltas": queries,
    }
