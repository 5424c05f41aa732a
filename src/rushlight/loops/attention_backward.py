"""The backward attention kernel: one task is one head of keys, with all the query heads that share it.

For every tile of keys and then every tile of queries it makes the weights again from the saved log-sum-exp and adds to
the three gradients, each in scratch until its head is done: five products a pair of tiles, in an order that only the
sizes decide.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight.loops.attention_forward import (
    emit_arguments,
    emit_causal_call,
    emit_head,
    emit_mask_call,
    emit_scale,
    strides_of,
)
from rushlight.loops.attention_tiles import (
    KEY_TILE,
    emit_add_mask,
    emit_causal,
    emit_product,
    emit_read_laned,
    emit_read_natural,
    emit_write_natural,
    register_tiles,
)
from rushlight.loops.attention_weights import emit_weight
from rushlight.loops.attention_writer import (
    LANES,
    NEGATIVE_INFINITY,
    POSITIVE_INFINITY,
    STORAGE,
    Arithmetic,
    Writer,
    arithmetic_of,
)
from rushlight.loops.kernel import KernelSource

QUERY_TILE = 64
VECTORS = QUERY_TILE // LANES
BACKWARD_TILES = (
    *(
        "keys_tile",
        "values_tile",
        "scores",
        "slopes",
        "grad_keys",
        "grad_values",
        "grad_queries",
    ),
    *("queries_natural", "queries_laned", "douts_natural", "douts_laned", "levels", "deltas"),
)
BACKWARD_INTS = (
    *(
        "heads",
        "group",
        "queries",
        "keys",
        "width",
        "value_width",
        "wide",
        "value_wide",
        "scale",
    ),
    *strides_of("q", "k", "v", "out", "dout", "dq", "dk", "dv", "mask"),
    *BACKWARD_TILES,
)


def backward_pointers(mask: str | None) -> tuple[str, ...]:
    """The backward kernel's pointer arguments, in order."""
    return ("q", "k", "v", *(("mask",) if mask else ()), "out", "lse", "dout", "dq", "dk", "dv")


def backward_kernel(dtype: str, target: str, causal: bool, mask: str | None) -> KernelSource:
    """The kernel that makes the gradients of q, k and v; `mask` is the dtype of the mask, if there is one."""
    arithmetic = arithmetic_of(dtype)
    order = "causal" if causal else "full"
    name = f"attention_backward_{dtype}_{target}_{order}_{mask or 'unmasked'}"
    tiles = register_tiles(arithmetic, target)
    shape = {max(tiles): tiles[max(tiles)], 1: tiles[1]}
    parts = [
        emit_product(f"{name}_scores", arithmetic, shape, "set"),
        emit_product(f"{name}_add", arithmetic, tiles, "add"),
        emit_read_laned(f"{name}_laned", arithmetic, dtype),
        emit_read_natural(f"{name}_rows", arithmetic, dtype),
        emit_write_natural(f"{name}_write", arithmetic, dtype),
        _emit_levels(f"{name}_levels", arithmetic),
        _emit_deltas(f"{name}_deltas", arithmetic),
        _emit_slopes(f"{name}_slopes", arithmetic),
    ]
    if causal:
        parts.append(emit_causal(f"{name}_causal", arithmetic))
    if mask:
        parts.append(emit_add_mask(f"{name}_mask", arithmetic, mask))
    parts.append(_Entry(name, arithmetic, dtype, causal, mask).text())
    return KernelSource(name, "\n".join(parts), frozenset({arithmetic.fma}))


class _Entry:
    """Writes the entry function, a stage at a time."""

    def __init__(
        self, name: str, arithmetic: Arithmetic, dtype: str, causal: bool, mask: str | None
    ) -> None:
        self.name, self.dtype, self.causal, self.mask = name, dtype, causal, mask
        self.w = Writer(arithmetic)
        self.v = emit_arguments(self.w, backward_pointers(mask), BACKWARD_INTS)
        self.tile = {part: self.w.at("%scratch", self.v[part]) for part in BACKWARD_TILES}
        self.scale = emit_scale(self.w, self.v["scale"])

    def text(self) -> str:
        w, v = self.w, self.v
        key_heads = w.div(v["heads"], v["group"])
        with w.loop("%end", start="%begin") as task:
            batch, key_head = w.div(task.index, key_heads), w.rem(task.index, key_heads)
            self._clear("grad_keys", "keys", "wide")
            self._clear("grad_values", "keys", "value_wide")
            with w.loop(v["group"]) as member:
                head = w.add(w.mul(key_head, v["group"]), member.index)
                self._read_queries(batch, head)
                self._clear("grad_queries", "queries", "wide")
                with w.loop(v["keys"], step=KEY_TILE) as step:
                    self._visit_keys(batch, key_head, head, step.index)
                self._write("dq", batch, head, "queries", "width", "grad_queries", self.scale)
            self._write("dk", batch, key_head, "keys", "width", "grad_keys", "1.0")
            self._write("dv", batch, key_head, "keys", "value_width", "grad_values", "1.0")
        return w.function(
            f"define void @{self.name}(ptr %args, i64 %begin, i64 %end, ptr %scratch)"
        )

    def _clear(self, part: str, rows: str, wide: str) -> None:
        w = self.w
        size = w.mul(w.round_up(self.v[rows], KEY_TILE), self.v[wide])
        with w.loop(size, step=LANES) as place:
            w.store("zeroinitializer", w.at(self.tile[part], place.index))

    def _read_queries(self, batch: str, head: str) -> None:
        """The queries (scaled) and output gradients of a head in both forms, its levels, and each row's delta."""
        w, v, tile = self.w, self.v, self.tile
        row = w.add(w.mul(batch, v["heads"]), head)
        levels = w.at(v["lse"], w.mul(row, v["queries"]))
        w.do(
            f"call void @{self.name}_levels(ptr {levels}, i64 {v['queries']}, ptr {tile['levels']})"
        )
        with w.loop(v["queries"], step=QUERY_TILE) as step:
            query = step.index
            rows = w.least(w.sub(v["queries"], query), QUERY_TILE)
            q = self._source("q", batch, head, query)
            dout = self._source("dout", batch, head, query)
            self._read(
                "q",
                q,
                rows,
                "width",
                "wide",
                self._part("queries_natural", query, "wide"),
                self.scale,
            )
            self._read(
                "dout",
                dout,
                rows,
                "value_width",
                "value_wide",
                self._part("douts_natural", query, "value_wide"),
            )
            out = self._source("out", batch, head, query)
            self._read("out", out, rows, "value_width", "value_wide", tile["values_tile"])
            self._read_laned(
                "q", q, rows, "width", self._part("queries_laned", query, "wide"), self.scale
            )
            self._read_laned(
                "dout",
                dout,
                rows,
                "value_width",
                self._part("douts_laned", query, "value_wide"),
            )
            w.do(
                f"call void @{self.name}_deltas(ptr {self._part('douts_natural', query, 'value_wide')},"
                f" ptr {tile['values_tile']}, i64 {v['value_wide']}, ptr {w.at(tile['deltas'], query)})"
            )

    def _visit_keys(self, batch: str, key_head: str, head: str, key: str) -> None:
        w, v, tile = self.w, self.v, self.tile
        count = w.least(w.sub(v["keys"], key), KEY_TILE)
        self._read(
            "k",
            self._source("k", batch, key_head, key),
            count,
            "width",
            "wide",
            tile["keys_tile"],
        )
        values = self._source("v", batch, key_head, key)
        self._read("v", values, count, "value_width", "value_wide", tile["values_tile"])
        start = key if self.causal else "0"  # tiles of both kinds are as long
        with w.loop(v["queries"], start=start, step=QUERY_TILE) as step:
            self._visit_pair(batch, head, key, count, step.index)

    def _visit_pair(self, batch: str, head: str, key: str, count: str, query: str) -> None:
        w, v, tile = self.w, self.v, self.tile
        rows = w.least(w.sub(v["queries"], query), QUERY_TILE)
        with self._row_blocks(query, key, w.round_up(count, 8)) as (start, some):
            hidden = start if self.causal else "0"  # queries before these see none of the keys
            offset = w.add(w.mul(start, QUERY_TILE), hidden)
            columns = w.sub(str(VECTORS), w.div(hidden, LANES))
            for kind, laned, wide, width, result in (
                ("keys_tile", "queries_laned", "wide", "width", "scores"),
                ("values_tile", "douts_laned", "value_wide", "value_width", "slopes"),
            ):
                self._product(
                    "scores",
                    (w.at(tile[kind], w.mul(start, v[wide])), v[wide], 1),
                    (w.at(self._part(laned, query, wide), hidden), QUERY_TILE),
                    (w.at(tile[result], offset), QUERY_TILE),
                    (some, columns, v[width]),
                )
        if self.mask:
            emit_mask_call(
                w,
                v,
                self.name,
                self.mask,
                batch,
                head,
                query,
                key,
                rows,
                count,
                tile["scores"],
                QUERY_TILE,
            )
        if self.causal:
            emit_causal_call(w, self.name, query, key, count, tile["scores"], QUERY_TILE)
        w.do(
            f"call void @{self.name}_slopes(ptr {tile['scores']}, ptr {tile['slopes']}, i64 {count},"
            f" ptr {w.at(tile['levels'], query)}, ptr {w.at(tile['deltas'], query)})"
        )
        self._add_gradients(key, count, query, rows)

    def _add_gradients(self, key: str, count: str, query: str, rows: str) -> None:
        w, v, tile = self.w, self.v, self.tile
        columns, value_columns = w.div(v["wide"], LANES), w.div(v["value_wide"], LANES)
        with self._row_blocks(query, key, w.round_up(count, 8)) as (start, some):
            hidden = start if self.causal else "0"
            first, seen = w.add(query, hidden), w.most(w.sub(rows, hidden), 0)
            offset, place = w.add(w.mul(start, QUERY_TILE), hidden), w.add(key, start)
            for kind, part, natural, wide, across in (
                ("scores", "grad_values", "douts_natural", "value_wide", value_columns),
                ("slopes", "grad_keys", "queries_natural", "wide", columns),
            ):
                self._product(
                    "add",
                    (w.at(tile[kind], offset), QUERY_TILE, 1),
                    (self._part(natural, first, wide), v[wide]),
                    (self._part(part, place, wide), v[wide]),
                    (some, across, seen),
                )
        with self._row_blocks(query, key, w.round_up(rows, 8)) as (start, some):
            seen = count
            if self.causal:
                diagonal = w.test("eq", query, key)
                seen = w.let(
                    f"select i1 {diagonal}, i64 {w.least(count, w.add(start, LANES))}, i64 {count}"
                )
            self._product(
                "add",
                (w.at(tile["slopes"], start), 1, QUERY_TILE),
                (tile["keys_tile"], v["wide"]),
                (self._part("grad_queries", w.add(query, start), "wide"), v["wide"]),
                (some, columns, seen),
            )

    @contextmanager
    def _row_blocks(self, query: str, key: str, rows: str) -> Iterator[tuple[str, str]]:
        """Loop over a product's rows as (start, rows): at once, or on the diagonal 16 at a time.

        There, a key sees only the queries from its own block of 16 on: the rest of its products is left out.
        """
        w = self.w
        if not self.causal:
            yield "0", rows
            return
        step = w.let(f"select i1 {w.test('eq', query, key)}, i64 {LANES}, i64 {QUERY_TILE}")
        with w.loop(rows, step=step) as block:
            yield block.index, w.least(w.sub(rows, block.index), step)

    # Calls.

    def _source(self, operand: str, batch: str, head: str, position: str) -> str:
        start = emit_head(self.w, self.v, operand, batch, head, self.dtype)
        return self.w.at(
            start, self.w.mul(position, self.v[f"{operand}_t"]), STORAGE[self.dtype]
        )

    def _part(self, part: str, position: str, wide: str) -> str:
        """The rows from `position` on of a scratch array; tiles of 64 make this hold for laned arrays too."""
        return self.w.at(self.tile[part], self.w.mul(position, self.v[wide]))

    def _read(
        self,
        operand: str,
        source: str,
        rows: str,
        width: str,
        wide: str,
        tile: str,
        scale: str = "1.0",
    ) -> None:
        v = self.v
        self.w.do(
            f"call void @{self.name}_rows(ptr {source}, i64 {v[operand + '_t']}, i64 {v[operand + '_d']}, i64 {rows},"
            f" i64 {v[width]}, ptr {tile}, i64 {v[wide]}, i64 {KEY_TILE}, {self.w.arithmetic.scalar} {scale})"
        )

    def _read_laned(
        self, operand: str, source: str, rows: str, width: str, tile: str, scale: str = "1.0"
    ) -> None:
        v = self.v
        self.w.do(
            f"call void @{self.name}_laned(ptr {source}, i64 {v[operand + '_t']}, i64 {v[operand + '_d']}, i64 {rows},"
            f" i64 {v[width]}, ptr {tile}, i64 {QUERY_TILE}, {self.w.arithmetic.scalar} {scale})"
        )

    def _write(
        self, operand: str, batch: str, head: str, rows: str, width: str, part: str, scale: str
    ) -> None:
        v = self.v
        wide = "wide" if width == "width" else "value_wide"
        target = emit_head(self.w, v, operand, batch, head, self.dtype)
        self.w.do(
            f"call void @{self.name}_write(ptr {target}, i64 {v[operand + '_t']}, i64 {v[operand + '_d']},"
            f" i64 {v[rows]}, i64 {v[width]}, ptr {self.tile[part]}, i64 {v[wide]}, {self.w.arithmetic.scalar} {scale})"
        )

    def _product(
        self,
        kind: str,
        a: tuple[str, str | int, str | int],
        b: tuple[str, str | int],
        c: tuple[str, str | int],
        sizes: tuple[str, str, str],
    ) -> None:
        rows, columns, depth = sizes
        self.w.do(
            f"call void @{self.name}_{kind}(ptr {a[0]}, i64 {a[1]}, i64 {a[2]}, ptr {b[0]}, i64 {b[1]},"
            f" ptr {c[0]}, i64 {c[1]}, ptr null, i64 {rows}, i64 {columns}, i64 {depth})"
        )


def _emit_levels(name: str, arithmetic: Arithmetic) -> str:
    """Copy log-sum-exps; a row that attends to nothing, and the padding, become +inf, which makes every weight 0."""
    w = Writer(arithmetic)
    with w.loop(w.round_up("%rows", QUERY_TILE), step=LANES) as place:
        w.do(
            f"store {arithmetic.splat(POSITIVE_INFINITY)}, ptr {w.at('%levels', place.index)}, align 64"
        )
    with w.loop("%rows") as row:
        scalar = arithmetic.scalar
        level = w.let(
            f"load {scalar}, ptr {w.at('%source', row.index)}, align {arithmetic.size}"
        )
        empty = w.let(f"fcmp oeq {scalar} {level}, {NEGATIVE_INFINITY}")
        level = w.let(f"select i1 {empty}, {scalar} {POSITIVE_INFINITY}, {scalar} {level}")
        w.do(
            f"store {scalar} {level}, ptr {w.at('%levels', row.index)}, align {arithmetic.size}"
        )
    return w.function(f"define internal void @{name}(ptr %source, i64 %rows, ptr %levels)")


def _emit_deltas(name: str, arithmetic: Arithmetic) -> str:
    """For each row of a tile, the product of the output and its gradient, summed by lane and then in halves."""
    w = Writer(arithmetic)
    vector = arithmetic.vector
    with w.loop(str(QUERY_TILE)) as row:
        offset = w.mul(row.index, "%wide")
        left, right = w.at("%douts", offset), w.at("%outs", offset)
        with w.loop("%wide", step=LANES, carried=[(vector, "zeroinitializer")]) as col:
            a, b = w.load(w.at(left, col.index)), w.load(w.at(right, col.index))
            col.next.append(w.fma(a, b, col.values[0]))
        total = w.sum_in_halves(col.values[0])
        w.do(
            f"store {arithmetic.scalar} {total}, ptr {w.at('%deltas', row.index)}, align {arithmetic.size}"
        )
    return w.function(
        f"define internal void @{name}(ptr %douts, ptr %outs, i64 %wide, ptr %deltas)"
    )


def _emit_slopes(name: str, arithmetic: Arithmetic) -> str:
    """Scores become weights; the weights' gradients in `slopes` become the scores' gradients."""
    w = Writer(arithmetic)
    places = [str(v * LANES) for v in range(VECTORS)]
    levels = [w.load(w.at("%levels", place)) for place in places]
    deltas = [w.load(w.at("%deltas", place)) for place in places]
    with w.loop("%keys") as key:
        offset = w.mul(key.index, QUERY_TILE)
        scores, slopes = w.at("%scores", offset), w.at("%slopes", offset)
        for place, level, delta in zip(places, levels, deltas, strict=True):
            weight = emit_weight(w, w.binary("fsub", w.load(w.at(scores, place)), level))
            w.store(weight, w.at(scores, place))
            slope = w.binary("fsub", w.load(w.at(slopes, place)), delta)
            w.store(w.binary("fmul", weight, slope), w.at(slopes, place))
    return w.function(
        f"define internal void @{name}(ptr %scores, ptr %slopes, i64 %keys, ptr %levels, ptr %deltas)"
    )
