"""The forward attention kernel: one task is one tile of queries of one head, which visits the keys in fixed tiles.

Scores are kept transposed, queries along lanes and a row for each key, so that every step of the softmax is a plain
vector operation, the keys and values are read by element, and a query's result cannot depend on its neighbours.
"""

from __future__ import annotations

from rushlight.loops.attention_tiles import (
    KEY_TILE,
    emit_add_mask,
    emit_causal,
    emit_product,
    emit_read_laned,
    emit_read_natural,
    emit_write_laned,
    register_tiles,
)
from rushlight.loops.attention_weights import emit_weight
from rushlight.loops.attention_writer import (
    LANES,
    NEGATIVE_INFINITY,
    STORAGE,
    Arithmetic,
    Writer,
    arithmetic_of,
)
from rushlight.loops.kernel import KernelSource

AXES = ("b", "h", "t", "d")


def strides_of(*operands: str) -> tuple[str, ...]:
    """The names of the stride arguments of these operands."""
    return tuple(f"{operand}_{axis}" for operand in operands for axis in AXES)


FORWARD_TILES = (
    "queries_laned",
    "keys_tile",
    "values_tile",
    "scores",
    "sums",
    "peak",
    "total",
    "fade",
)
FORWARD_INTS = (
    *("heads", "group", "queries", "keys", "width", "value_width", "wide", "value_wide"),
    *("first", "tiles", "scale"),
    *strides_of("q", "k", "v", "out", "mask"),
    *FORWARD_TILES,
)


def forward_pointers(mask: str | None) -> tuple[str, ...]:
    """The forward kernel's pointer arguments, in order."""
    return ("q", "k", "v", *(("mask",) if mask else ()), "out", "lse")


def forward_kernel(
    dtype: str, target: str, vectors: int, causal: bool, mask: str | None
) -> KernelSource:
    """The kernel for tiles of `vectors` * 16 queries; `mask` is the dtype of the mask, if there is one."""
    arithmetic = arithmetic_of(dtype)
    order = "causal" if causal else "full"
    name = f"attention_forward_{dtype}_{target}_q{vectors}_{order}_{mask or 'unmasked'}"
    tiles = register_tiles(arithmetic, target)
    across = max(count for count in tiles if count <= vectors)
    shape = {across: tiles[across], 1: tiles[1]}
    parts = [
        emit_product(f"{name}_scores", arithmetic, shape, "set"),
        emit_product(f"{name}_sums", arithmetic, shape, "rescale"),
        emit_read_laned(f"{name}_queries", arithmetic, dtype),
        emit_read_natural(f"{name}_rows", arithmetic, dtype),
        emit_write_laned(f"{name}_write", arithmetic, dtype),
        _emit_softmax_step(f"{name}_softmax", arithmetic, vectors),
        _emit_finish(f"{name}_finish", arithmetic, vectors),
    ]
    if causal:
        parts.append(emit_causal(f"{name}_causal", arithmetic))
    if mask:
        parts.append(emit_add_mask(f"{name}_mask", arithmetic, mask))
    parts.append(_emit_entry(name, arithmetic, vectors, causal, mask, dtype))
    needs = frozenset({arithmetic.fma, arithmetic.log})
    return KernelSource(name, "\n".join(parts), needs)


def emit_arguments(
    w: Writer, pointers: tuple[str, ...], ints: tuple[str, ...]
) -> dict[str, str]:
    """Load the argument block: a value for every name."""
    kinds = ["ptr"] * len(pointers) + ["i64"] * len(ints)
    values = {}
    for slot, (name, kind) in enumerate(zip(pointers + ints, kinds, strict=True)):
        place = w.at("%args", str(slot), "i64")
        values[name] = w.let(f"load {kind}, ptr {place}, align 8")
    return values


def emit_scale(w: Writer, bits: str) -> str:
    """The scale, which travels as the bits of a float64, in the arithmetic type."""
    scale = w.let(f"bitcast i64 {bits} to double")
    if w.arithmetic.scalar == "double":
        return scale
    return w.let(f"fptrunc double {scale} to {w.arithmetic.scalar}")


def emit_head(
    w: Writer, v: dict[str, str], operand: str, batch: str, head: str, dtype: str
) -> str:
    """The address of one head of an operand."""
    offset = w.dot((batch, v[f"{operand}_b"]), (head, v[f"{operand}_h"]))
    return w.at(v[operand], offset, STORAGE[dtype])


def _emit_entry(
    name: str, arithmetic: Arithmetic, vectors: int, causal: bool, mask: str | None, dtype: str
) -> str:
    w = Writer(arithmetic)
    v = emit_arguments(w, forward_pointers(mask), FORWARD_INTS)
    tile = {part: w.at("%scratch", v[part]) for part in FORWARD_TILES}
    scale, lanes, number = emit_scale(w, v["scale"]), vectors * LANES, arithmetic.scalar
    with w.loop("%end", start="%begin") as task:
        row, place = w.div(task.index, v["tiles"]), w.rem(task.index, v["tiles"])
        if causal:  # the longest tasks first
            place = w.sub(w.sub(v["tiles"], 1), place)
        batch, head = w.div(row, v["heads"]), w.rem(row, v["heads"])
        key_head = w.div(head, v["group"])
        query = w.add(v["first"], w.mul(place, lanes))
        rows = w.least(w.sub(v["queries"], query), lanes)
        q = w.at(
            emit_head(w, v, "q", batch, head, dtype), w.mul(query, v["q_t"]), STORAGE[dtype]
        )
        k, values = (emit_head(w, v, part, batch, key_head, dtype) for part in "kv")
        w.do(
            f"call void @{name}_queries(ptr {q}, i64 {v['q_t']}, i64 {v['q_d']}, i64 {rows}, i64 {v['width']},"
            f" ptr {tile['queries_laned']}, i64 {lanes}, {number} {scale})"
        )
        _emit_start(w, v, tile, vectors)
        last = w.least(v["keys"], w.add(query, rows)) if causal else v["keys"]
        with w.loop(last, step=KEY_TILE) as step:
            key = step.index
            count = w.least(w.sub(last, key), KEY_TILE)
            padded = w.round_up(count, 8)
            keys = _emit_rows(w, v, name, dtype, "k", k, key, count, tile["keys_tile"])
            _emit_scores(w, v, name, keys, tile, query, key, padded, vectors, causal)
            if mask:
                emit_mask_call(
                    w,
                    v,
                    name,
                    mask,
                    batch,
                    head,
                    query,
                    key,
                    rows,
                    count,
                    tile["scores"],
                    lanes,
                )
            if causal:
                emit_causal_call(w, name, query, key, count, tile["scores"], lanes)
            w.do(
                f"call void @{name}_softmax(ptr {tile['scores']}, i64 {count}, ptr {tile['peak']},"
                f" ptr {tile['total']}, ptr {tile['fade']})"
            )
            rows_of_values = _emit_rows(
                w, v, name, dtype, "v", values, key, count, tile["values_tile"]
            )
            _emit_sums(w, v, name, rows_of_values, tile, query, key, count, vectors, causal)
        out = w.at(
            emit_head(w, v, "out", batch, head, dtype), w.mul(query, v["out_t"]), STORAGE[dtype]
        )
        lse = w.at(v["lse"], w.add(w.mul(row, v["queries"]), query))
        w.do(
            f"call void @{name}_finish(ptr {tile['peak']}, ptr {tile['total']}, ptr {tile['fade']}, ptr {lse},"
            f" i64 {rows})"
        )
        w.do(
            f"call void @{name}_write(ptr {out}, i64 {v['out_t']}, i64 {v['out_d']}, i64 {rows},"
            f" i64 {v['value_width']}, ptr {tile['sums']}, i64 {lanes}, ptr {tile['fade']})"
        )
    return w.function(f"define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch)")


def _emit_rows(
    w: Writer,
    v: dict[str, str],
    name: str,
    dtype: str,
    operand: str,
    head: str,
    key: str,
    count: str,
    tile: str,
) -> tuple[str, str]:
    """A tile of keys or values as (address, row stride): where it lies if a product can read it there, else copied.

    A product reads whole groups of 8 rows: of keys, and of a value's features.
    """
    width, wide = ("width", "wide") if operand == "k" else ("value_width", "value_wide")
    stride, source = (
        v[f"{operand}_t"],
        w.at(head, w.mul(key, v[f"{operand}_t"]), STORAGE[dtype]),
    )
    unit = w.test("eq", v[f"{operand}_d"], 1)
    whole = w.test("eq", w.rem(count if operand == "k" else v[width], 8), 0)
    there = w.both(unit, whole) if STORAGE[dtype] == w.arithmetic.scalar else "false"
    with w.when(w.negate(there)):
        w.do(
            f"call void @{name}_rows(ptr {source}, i64 {stride}, i64 {v[f'{operand}_d']}, i64 {count},"
            f" i64 {v[width]}, ptr {tile}, i64 {v[wide]}, i64 {w.round_up(count, 8)}, {w.arithmetic.scalar} 1.0)"
        )
    return (
        w.let(f"select i1 {there}, ptr {source}, ptr {tile}"),
        w.let(f"select i1 {there}, i64 {stride}, i64 {v[wide]}"),
    )


def _emit_scores(
    w: Writer,
    v: dict[str, str],
    name: str,
    keys: tuple[str, str],
    tile: dict[str, str],
    query: str,
    key: str,
    padded: str,
    vectors: int,
    causal: bool,
) -> None:
    """Scores of a tile; on the diagonal, each 16 keys only with the vectors of queries that may see them."""
    lanes = vectors * LANES
    whole = w.test("ne", query, key) if causal else "true"
    with w.when(w.negate(whole)), w.loop(padded, step=LANES) as block:
        w.do(
            f"call void @{name}_scores(ptr {w.at(keys[0], w.mul(block.index, keys[1]))}, i64 {keys[1]}, i64 1,"
            f" ptr {w.at(tile['queries_laned'], block.index)}, i64 {lanes},"
            f" ptr {w.at(tile['scores'], w.mul(block.index, lanes + 1))}, i64 {lanes}, ptr null,"
            f" i64 {w.least(w.sub(padded, block.index), LANES)},"
            f" i64 {w.sub(str(vectors), w.div(block.index, LANES))}, i64 {v['width']})"
        )
    with w.when(whole):
        w.do(
            f"call void @{name}_scores(ptr {keys[0]}, i64 {keys[1]}, i64 1, ptr {tile['queries_laned']},"
            f" i64 {lanes}, ptr {tile['scores']}, i64 {lanes}, ptr null, i64 {padded}, i64 {vectors},"
            f" i64 {v['width']})"
        )


def _emit_sums(
    w: Writer,
    v: dict[str, str],
    name: str,
    values: tuple[str, str],
    tile: dict[str, str],
    query: str,
    key: str,
    count: str,
    vectors: int,
    causal: bool,
) -> None:
    """Fade the sums and add this tile's weighted values; on the diagonal, for each vector only the keys it sees."""
    lanes, rows = vectors * LANES, w.round_up(v["value_width"], 8)
    whole = w.test("ne", query, key) if causal else "true"
    with w.when(w.negate(whole)), w.loop(str(lanes), step=LANES) as block:
        w.do(
            f"call void @{name}_sums(ptr {values[0]}, i64 1, i64 {values[1]},"
            f" ptr {w.at(tile['scores'], block.index)}, i64 {lanes}, ptr {w.at(tile['sums'], block.index)},"
            f" i64 {lanes}, ptr {w.at(tile['fade'], block.index)}, i64 {rows}, i64 1,"
            f" i64 {w.least(count, w.add(block.index, LANES))})"
        )
    with w.when(whole):
        w.do(
            f"call void @{name}_sums(ptr {values[0]}, i64 1, i64 {values[1]}, ptr {tile['scores']}, i64 {lanes},"
            f" ptr {tile['sums']}, i64 {lanes}, ptr {tile['fade']}, i64 {rows}, i64 {vectors}, i64 {count})"
        )


def emit_mask_call(
    w: Writer,
    v: dict[str, str],
    name: str,
    mask: str,
    batch: str,
    head: str,
    query: str,
    key: str,
    rows: str,
    count: str,
    scores: str,
    lanes: int,
) -> None:
    """Add the mask of this tile of queries and keys to its scores."""
    corner = w.at(
        emit_head(w, v, "mask", batch, head, mask),
        w.dot((query, v["mask_t"]), (key, v["mask_d"])),
        STORAGE[mask],
    )
    w.do(
        f"call void @{name}_mask(ptr {corner}, i64 {v['mask_t']}, i64 {v['mask_d']}, i64 {rows}, i64 {count},"
        f" ptr {scores}, i64 {lanes})"
    )


def emit_causal_call(
    w: Writer, name: str, query: str, key: str, count: str, scores: str, lanes: int
) -> None:
    """Block the keys after each query, if this tile has any."""
    with w.when(w.test("sgt", w.add(key, count), w.add(query, 1))):
        w.do(
            f"call void @{name}_causal(ptr {scores}, i64 {lanes}, i64 {count}, i64 {query}, i64 {key})"
        )


def _emit_start(w: Writer, v: dict[str, str], tile: dict[str, str], vectors: int) -> None:
    """Nothing seen yet: no peak, no total, no sums."""
    lowest = w.arithmetic.splat(NEGATIVE_INFINITY)
    for vector in range(vectors):
        place = str(vector * LANES)
        w.do(f"store {lowest}, ptr {w.at(tile['peak'], place)}, align 64")
        w.store("zeroinitializer", w.at(tile["total"], place))
    size = w.mul(w.round_up(v["value_width"], 8), vectors * LANES)
    with w.loop(size, step=LANES) as place:
        w.store("zeroinitializer", w.at(tile["sums"], place.index))


def _emit_softmax_step(name: str, arithmetic: Arithmetic, vectors: int) -> str:
    """One tile of keys: move the peak, make scores into weights, and say how much the sums so far must `fade`.

    A tile in which a row has no key leaves that row as it was: its fade is 1 and its weights are 0.
    """
    w = Writer(arithmetic)
    vector, lanes = arithmetic.vector, vectors * LANES
    places = [str(v * LANES) for v in range(vectors)]
    before = [w.load(w.at("%peak", place)) for place in places]
    with w.loop("%keys", carried=[(vector, peak) for peak in before]) as key:
        line = w.at("%scores", w.mul(key.index, lanes))
        for place, peak in zip(places, key.values, strict=True):
            key.next.append(w.greatest(w.load(w.at(line, place)), peak))
    bases, fades = [], []
    for place, old, peak in zip(places, before, key.values, strict=True):
        empty = w.let(
            f"fcmp oeq {vector} {peak}, splat ({arithmetic.scalar} {NEGATIVE_INFINITY})"
        )
        base = w.let(
            f"select <{LANES} x i1> {empty}, {vector} zeroinitializer, {vector} {peak}"
        )
        fade = emit_weight(w, w.binary("fsub", old, base))
        w.store(peak, w.at("%peak", place))
        w.store(fade, w.at("%fade", place))
        bases.append(base)
        fades.append(fade)
    with w.loop("%keys", carried=[(vector, "zeroinitializer")] * vectors) as key:
        line = w.at("%scores", w.mul(key.index, lanes))
        for place, base, total in zip(places, bases, key.values, strict=True):
            weight = emit_weight(w, w.binary("fsub", w.load(w.at(line, place)), base))
            w.store(weight, w.at(line, place))
            key.next.append(w.binary("fadd", total, weight))
    for place, fade, total in zip(places, fades, key.values, strict=True):
        w.store(w.fma(w.load(w.at("%total", place)), fade, total), w.at("%total", place))
    return w.function(
        f"define internal void @{name}(ptr %scores, i64 %keys, ptr %peak, ptr %total, ptr %fade)"
    )


def _emit_finish(name: str, arithmetic: Arithmetic, vectors: int) -> str:
    """Log of the sum of exponentials to memory, and what to divide each row by to `fade`.

    A row with no key at all has a zero row of output, as in PyTorch, and -inf here.
    """
    w = Writer(arithmetic)
    vector = arithmetic.vector
    one = arithmetic.splat("1.0")
    for v in range(vectors):
        place = str(v * LANES)
        total, peak = w.load(w.at("%total", place)), w.load(w.at("%peak", place))
        empty = w.let(f"fcmp oeq {vector} {total}, zeroinitializer")
        inverse = w.let(f"fdiv {one}, {total}")
        kept = w.let(
            f"select <{LANES} x i1> {empty}, {vector} zeroinitializer, {vector} {inverse}"
        )
        w.store(kept, w.at("%fade", place))
        level = w.binary("fadd", peak, w.mathematics(arithmetic.log, total))
        level = w.let(f"select <{LANES} x i1> {empty}, {vector} {peak}, {vector} {level}")
        w.store(level, w.at("%peak", place))
    with w.loop("%rows") as row:
        level = w.let(
            f"load {arithmetic.scalar}, ptr {w.at('%peak', row.index)}, align {arithmetic.size}"
        )
        w.do(
            f"store {arithmetic.scalar} {level}, ptr {w.at('%lse', row.index)}, align {arithmetic.size}"
        )
    return w.function(
        f"define internal void @{name}(ptr %peak, ptr %total, ptr %fade, ptr %lse, i64 %rows)"
    )
