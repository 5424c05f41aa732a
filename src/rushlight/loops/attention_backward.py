"""The backward attention kernel: one task is one head of keys, with all the query heads on it.

For every tile of keys and then every tile of queries it makes the weights again from the saved
log-sum-exp and adds to the three gradients, each in scratch until its head is done: five
products a pair of tiles, in an order that only the sizes decide.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from rushlight.loops.attention_entry import KEY_TILE, AttentionEntry, strides_of
from rushlight.loops.attention_weights import emit_weight
from rushlight.loops.kernel import KernelSource
from rushlight.loops.tiles import (
    PRODUCT,
    WRITE_NATURAL,
    emit_product,
    emit_read_laned,
    emit_read_natural,
    emit_write_natural,
    register_tiles,
)
from rushlight.loops.writer import LANES, Arithmetic, Routine, Writer, arithmetic_of

QUERY_TILE = 64
VECTORS = QUERY_TILE // LANES
BACKWARD_SCRATCH = (
    *("keys_natural", "values_natural", "scores", "slopes"),
    *("grad_keys", "grad_values", "grad_queries"),
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
    *BACKWARD_SCRATCH,
)
LEVELS = Routine("ptr source, i64 rows, ptr levels")
DELTAS = Routine("ptr douts, ptr outs, i64 wide, ptr deltas")
SLOPES = Routine("ptr scores, ptr slopes, i64 keys, ptr levels, ptr deltas")


def backward_pointers(mask: str | None) -> tuple[str, ...]:
    """The backward kernel's pointer arguments, in order."""
    return ("q", "k", "v", *(("mask",) if mask else ()), "out", "lse", "dout", "dq", "dk", "dv")


@cache
def backward_kernel(dtype: str, target: str, causal: bool, mask: str | None) -> KernelSource:
    """The kernel that makes the gradients of q, k and v; `mask` is the mask's dtype, if any."""
    arithmetic = arithmetic_of(dtype)
    order = "causal" if causal else "full"
    name = f"attention_backward_{dtype}_{target}_{order}_{mask or 'unmasked'}"
    tiles = register_tiles(arithmetic, target)
    shape = {max(tiles): tiles[max(tiles)], 1: tiles[1]}
    entry = _BackwardEntry(
        name,
        dtype,
        causal=causal,
        mask=mask,
        pointers=backward_pointers(mask),
        ints=BACKWARD_INTS,
        scratch=BACKWARD_SCRATCH,
    )
    parts = [
        emit_product(f"{name}_scores", arithmetic, shape, "set"),
        emit_product(f"{name}_add", arithmetic, tiles, "add"),
        *(
            [emit_product(f"{name}_chosen", arithmetic, tiles, "add", zeros="a")]
            if entry.may_block
            else []
        ),
        emit_read_laned(f"{name}_laned", arithmetic, dtype),
        emit_read_natural(f"{name}_rows", arithmetic, dtype),
        emit_write_natural(f"{name}_write", arithmetic, dtype),
        _emit_levels(f"{name}_levels", arithmetic),
        _emit_deltas(f"{name}_deltas", arithmetic),
        _emit_slopes(f"{name}_slopes", arithmetic),
        *entry.blocking_functions(),
        entry.text(),
    ]
    return KernelSource(name, "\n".join(parts), frozenset({arithmetic.fma}))


class _BackwardEntry(AttentionEntry):
    """Writes the entry function, a stage at a time."""

    product = "add"  # the function that adds to gradients

    def text(self) -> str:
        w, v = self.w, self.v
        key_heads = w.div(v["heads"], v["group"])
        with w.loop("%end", start="%begin") as task:
            batch, key_head = w.div(task.index, key_heads), w.rem(task.index, key_heads)
            is_broken = self._differentiate(batch, key_head)
            if self.may_block:
                with w.when(is_broken):
                    self.product = "chosen"
                    self._differentiate(batch, key_head)
                    self.product = "add"
            self._write("dk", batch, key_head, "keys", "grad_keys", "1.0")
            self._write("dv", batch, key_head, "keys", "grad_values", "1.0")
        return self.finished()

    def _differentiate(self, batch: str, key_head: str) -> str:
        """Gradients of a head of keys and of its queries; whether some are not finite."""
        w, v = self.w, self.v
        self._clear("grad_keys", "keys", "wide")
        self._clear("grad_values", "keys", "value_wide")
        with w.loop(v["group"], carried=[("i1", "false")]) as member:
            head = w.add(w.mul(key_head, v["group"]), member.index)
            self._read_queries(batch, head)
            self._clear("grad_queries", "queries", "wide")
            with w.loop(v["keys"], step=KEY_TILE) as step:
                self._visit_keys(batch, key_head, head, step.index)
            found = self._has_broken(("grad_queries", "queries", "wide"))
            member.next.append(w.either(member.values[0], found))
            self._write("dq", batch, head, "queries", "grad_queries", self.scale)
        found = self._has_broken(
            ("grad_keys", "keys", "wide"), ("grad_values", "keys", "value_wide")
        )
        return w.either(member.values[0], found)

    def _has_broken(self, *parts: tuple[str, str, str]) -> str:
        """Whether some gradients, as (scratch, rows, features), are not finite."""
        w, found = self.w, "false"
        if self.may_block and self.product == "add":
            for part, rows, wide in parts:
                found = w.either(found, self.is_broken(part, self._extent(rows, wide)))
        return found

    def _extent(self, rows: str, wide: str) -> str:
        """The size of a scratch array of whole tiles."""
        return self.w.mul(self.w.round_up(self.v[rows], KEY_TILE), self.v[wide])

    def _part(self, part: str, position: str, wide: str) -> str:
        """The rows from `position` on of a scratch array.

        As tiles of queries are 64 long, this finds a whole tile in a laned array too.
        """
        return self.w.at(self.tile[part], self.w.mul(position, self.v[wide]))

    def _clear(self, part: str, rows: str, wide: str) -> None:
        w = self.w
        with w.loop(self._extent(rows, wide), step=LANES) as place:
            w.store("zeroinitializer", w.at(self.tile[part], place.index))

    def _write(
        self, operand: str, batch: str, head: str, rows: str, part: str, scale: str
    ) -> None:
        self.call(
            "write",
            WRITE_NATURAL,
            target=self.place(operand, batch, head, "0"),
            tile=self.tile[part],
            width=self.v[self.size_names(operand)[1]],
            scale=scale,
            **self.strided(operand, self.v[rows]),
        )

    def _read_queries(self, batch: str, head: str) -> None:
        """What a head's queries bring, for all of its tiles at once.

        The queries (scaled) and output gradients in both forms, levels, and each row's delta.
        """
        w, v, tile = self.w, self.v, self.tile
        row = w.add(w.mul(batch, v["heads"]), head)
        source = w.at(v["lse"], w.mul(row, v["queries"]))
        self.call("levels", LEVELS, source=source, rows=v["queries"], levels=tile["levels"])
        with w.loop(v["queries"], step=QUERY_TILE) as step:
            query = step.index
            rows = w.least(w.sub(v["queries"], query), QUERY_TILE)
            for operand, part, scale in (
                ("q", "queries", self.scale),
                ("dout", "douts", "1.0"),
            ):
                source, wide = (
                    self.place(operand, batch, head, query),
                    self.size_names(operand)[1],
                )
                natural = self._part(f"{part}_natural", query, wide)
                self.read_natural(operand, source, rows, natural, QUERY_TILE, scale)
                laned = self._part(f"{part}_laned", query, wide)
                self.read_laned(operand, source, rows, laned, QUERY_TILE, scale)
            out = self.place("out", batch, head, query)
            self.read_natural("out", out, rows, tile["values_natural"], QUERY_TILE)
            self.call(
                "deltas",
                DELTAS,
                douts=self._part("douts_natural", query, "value_wide"),
                outs=tile["values_natural"],
                wide=v["value_wide"],
                deltas=w.at(tile["deltas"], query),
            )

    def _visit_keys(self, batch: str, key_head: str, head: str, key: str) -> None:
        w, v, tile = self.w, self.v, self.tile
        count = w.least(w.sub(v["keys"], key), KEY_TILE)
        for operand, part in (("k", "keys_natural"), ("v", "values_natural")):
            source = self.place(operand, batch, key_head, key)
            self.read_natural(operand, source, count, tile[part], KEY_TILE)
        start = key if self.causal else "0"  # tiles of both kinds are as long
        with w.loop(v["queries"], start=start, step=QUERY_TILE) as step:
            query = step.index
            rows = w.least(w.sub(v["queries"], query), QUERY_TILE)
            self._make_scores_and_slopes(key, count, query)
            self.block(batch, head, query, key, rows, count, QUERY_TILE)
            self.call(
                "slopes",
                SLOPES,
                scores=tile["scores"],
                slopes=tile["slopes"],
                keys=count,
                levels=w.at(tile["levels"], query),
                deltas=w.at(tile["deltas"], query),
            )
            self._add_to_keys(key, count, query, rows)
            self._add_to_queries(key, count, query, rows)

    def _make_scores_and_slopes(self, key: str, count: str, query: str) -> None:
        """Scores, and the gradients of the weights."""
        w, v, tile = self.w, self.v, self.tile
        with self._row_blocks(query, key, w.round_up(count, 8)) as (start, rows, hidden):
            for operand, a, b, c in (
                ("k", "keys_natural", "queries_laned", "scores"),
                ("v", "values_natural", "douts_laned", "slopes"),
            ):
                width, wide = self.size_names(operand)
                self.call(
                    "scores",
                    PRODUCT,
                    a=self._part(a, start, wide),
                    a_row=v[wide],
                    a_depth=1,
                    b=w.at(self._part(b, query, wide), hidden),
                    b_row=QUERY_TILE,
                    c=w.at(tile[c], w.add(w.mul(start, QUERY_TILE), hidden)),
                    c_row=QUERY_TILE,
                    factor="null",
                    rows=rows,
                    cols=w.sub(str(VECTORS), w.div(hidden, LANES)),
                    depth=v[width],
                )

    def _add_to_keys(self, key: str, count: str, query: str, rows: str) -> None:
        """What a tile of queries gives to the gradients of a tile of values and of keys."""
        w, tile = self.w, self.tile
        with self._row_blocks(query, key, w.round_up(count, 8)) as (start, some, hidden):
            for operand, a, b, c in (
                ("v", "scores", "douts_natural", "grad_values"),
                ("k", "slopes", "queries_natural", "grad_keys"),
            ):
                _, wide = self.size_names(operand)
                self._add(
                    a=w.at(tile[a], w.add(w.mul(start, QUERY_TILE), hidden)),
                    a_row=QUERY_TILE,
                    a_depth=1,
                    b=self._part(b, w.add(query, hidden), wide),
                    c=self._part(c, w.add(key, start), wide),
                    wide=wide,
                    rows=some,
                    depth=w.most(w.sub(rows, hidden), 0),
                )

    def _add_to_queries(self, key: str, count: str, query: str, rows: str) -> None:
        """What a tile of keys gives to the gradients of a tile of queries."""
        w = self.w
        with self._row_blocks(query, key, w.round_up(rows, 8)) as (start, some, _):
            seen = count
            if self.causal:
                to_diagonal = w.add(w.sub(w.add(query, start), key), LANES)
                seen = w.least(count, to_diagonal)
            self._add(
                a=w.at(self.tile["slopes"], start),
                a_row=1,
                a_depth=QUERY_TILE,
                b=self.tile["keys_natural"],
                c=self._part("grad_queries", w.add(query, start), "wide"),
                wide="wide",
                rows=some,
                depth=seen,
            )

    def _add(self, *, wide: str, **values: str | int) -> None:
        """Add a product to rows of `wide` features."""
        width = self.v[wide]
        columns = self.w.div(width, LANES)
        self.call(
            self.product,
            PRODUCT,
            b_row=width,
            c_row=width,
            factor="null",
            cols=columns,
            **values,
        )

    @contextmanager
    def _row_blocks(self, query: str, key: str, rows: str) -> Iterator[tuple[str, str, str]]:
        """Loop over the rows of a product as (start, rows, queries that see none of them).

        All at once, or on the diagonal 16 at a time: there a key sees only the queries from its
        own block of 16 on, and the rest of the products is left out.
        """
        w = self.w
        if not self.causal:
            yield "0", rows, "0"
            return
        diagonal = w.test("eq", query, key)
        step = w.let(f"select i1 {diagonal}, i64 {LANES}, i64 {QUERY_TILE}")
        with w.loop(rows, step=step) as block:
            yield block.index, w.least(w.sub(rows, block.index), step), block.index


def _emit_levels(name: str, arithmetic: Arithmetic) -> str:
    """Copy log-sum-exps, up to a whole tile.

    A row that attends to nothing, and the padding, become +inf, which makes every weight 0.
    """
    w = Writer(arithmetic)
    with w.loop(w.round_up("%rows", QUERY_TILE), step=LANES) as place:
        w.store(w.number(math.inf), w.at("%levels", place.index))
    with w.loop("%rows") as row:
        level = w.load_one(w.at("%source", row.index))
        some = w.let(f"fcmp une {arithmetic.scalar} {level}, 0xFFF0000000000000")
        with w.when(some):
            w.store_one(level, w.at("%levels", row.index))
    return LEVELS.write(name, w)


def _emit_deltas(name: str, arithmetic: Arithmetic) -> str:
    """For each row of a tile, output times gradient, summed by lane and then in halves."""
    w = Writer(arithmetic)
    with w.loop(str(QUERY_TILE)) as row:
        offset = w.mul(row.index, "%wide")
        left, right = w.at("%douts", offset), w.at("%outs", offset)
        nothing = [(arithmetic.vector, "zeroinitializer")]
        with w.loop("%wide", step=LANES, carried=nothing) as col:
            a, b = w.load(w.at(left, col.index)), w.load(w.at(right, col.index))
            col.next.append(w.fma(a, b, col.values[0]))
        w.store_one(w.sum_in_halves(col.values[0]), w.at("%deltas", row.index))
    return DELTAS.write(name, w)


def _emit_slopes(name: str, arithmetic: Arithmetic) -> str:
    """Scores become weights; weights' gradients, in `slopes`, become scores' gradients, 0 where
    the weight is.
    """
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
            nothing = w.compare("oeq", weight, "zeroinitializer")
            scaled = w.binary("fmul", weight, slope)
            w.store(w.choose(nothing, "zeroinitializer", scaled), w.at(slopes, place))
    return SLOPES.write(name, w)
