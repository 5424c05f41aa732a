"""The forward attention kernel: one task is one tile of queries of one head, which visits the
keys in fixed tiles.

Scores are kept transposed, queries along lanes and a row for each key, so that every step of
the softmax is a plain vector operation, keys and values are read by element, and a query's
result cannot depend on its neighbours.
"""

from __future__ import annotations

import math
from functools import cache

from rushlight.loops.attention_entry import KEY_TILE, AttentionEntry, strides_of
from rushlight.loops.attention_weights import emit_weight
from rushlight.loops.kernel import KernelSource
from rushlight.loops.tiles import (
    PRODUCT,
    WRITE_LANED,
    emit_product,
    emit_read_laned,
    emit_read_natural,
    emit_write_laned,
    register_tiles,
)
from rushlight.loops.writer import LANES, Arithmetic, Routine, Writer, arithmetic_of

FORWARD_SCRATCH = (
    *("queries_laned", "keys_natural", "values_natural"),
    *("scores", "sums", "peak", "total", "fade"),
)
FORWARD_INTS = (
    *("heads", "group", "queries", "keys", "width", "value_width", "wide", "value_wide"),
    *("scale", "first", "tiles", "kept"),
    *strides_of("q", "k", "v", "out", "mask"),
    *FORWARD_SCRATCH,
)
SOFTMAX = Routine("ptr scores, i64 keys, ptr peak, ptr total, ptr fade")
FINISH = Routine("ptr peak, ptr total, ptr fade, ptr lse, i64 rows")


def forward_pointers(mask: str | None) -> tuple[str, ...]:
    """The forward kernel's pointer arguments, in order."""
    return ("q", "k", "v", *(("mask",) if mask else ()), "out", "lse")


@cache
def forward_kernel(
    dtype: str, target: str, vectors: int, causal: bool, mask: str | None
) -> KernelSource:
    """The kernel for tiles of `vectors` * 16 queries; `mask` is the mask's dtype, if any."""
    arithmetic = arithmetic_of(dtype)
    order = "causal" if causal else "full"
    name = f"attention_forward_{dtype}_{target}_q{vectors}_{order}_{mask or 'unmasked'}"
    tiles = register_tiles(arithmetic, target)
    across = max(count for count in tiles if count <= vectors)
    shape = {across: tiles[across], 1: tiles[1]}
    entry = _ForwardEntry(name, dtype, vectors, causal, mask)
    parts = [
        emit_product(f"{name}_scores", arithmetic, shape, "set"),
        emit_product(f"{name}_sums", arithmetic, shape, "rescale"),
        *(
            [emit_product(f"{name}_chosen", arithmetic, shape, "rescale", zeros="b")]
            if entry.may_block
            else []
        ),
        emit_read_laned(f"{name}_laned", arithmetic, dtype),
        emit_read_natural(f"{name}_rows", arithmetic, dtype),
        emit_write_laned(f"{name}_write", arithmetic, dtype),
        _emit_softmax_step(f"{name}_softmax", arithmetic, vectors),
        _emit_finish(f"{name}_finish", arithmetic, vectors),
        *entry.blocking_functions(),
        entry.text(),
    ]
    return KernelSource(name, "\n".join(parts), frozenset({arithmetic.fma, arithmetic.log}))


class _ForwardEntry(AttentionEntry):
    """Writes the entry function, a stage at a time."""

    def __init__(
        self, name: str, dtype: str, vectors: int, causal: bool, mask: str | None
    ) -> None:
        super().__init__(
            name,
            dtype,
            causal=causal,
            mask=mask,
            pointers=forward_pointers(mask),
            ints=FORWARD_INTS,
            scratch=FORWARD_SCRATCH,
        )
        self.vectors, self.lanes = vectors, vectors * LANES
        self.product = "sums"  # the function that adds weighted values

    def text(self) -> str:
        w, v = self.w, self.v
        key_heads = w.div(v["heads"], v["group"])
        # Which head of keys is in scratch, and up to which key.
        holding = [("i64", "-1"), ("i64", "0")]
        with w.loop("%end", start="%begin", carried=holding) as task:
            row, tile = w.div(task.index, v["tiles"]), w.rem(task.index, v["tiles"])
            if self.causal:  # the longest tasks first
                tile = w.sub(w.sub(v["tiles"], 1), tile)
            batch, head = w.div(row, v["heads"]), w.rem(row, v["heads"])
            key_head = w.div(head, v["group"])
            key_row = w.add(w.mul(batch, key_heads), key_head)
            same = w.test("eq", key_row, task.values[0])
            ready = w.let(f"select i1 {same}, i64 {task.values[1]}, i64 0")
            query = w.add(v["first"], w.mul(tile, self.lanes))
            rows = w.least(w.sub(v["queries"], query), self.lanes)
            last = w.least(v["keys"], w.add(query, rows)) if self.causal else v["keys"]
            place = (batch, head, key_head, query, rows, last)
            self._attend(*place, ready)
            ready = w.most(ready, w.round_up(last, KEY_TILE))
            if self.may_block:
                size = w.mul(w.round_up(v["value_width"], 8), self.lanes)
                with w.when(self.is_broken("sums", size)):
                    self.product = "chosen"
                    self._attend(*place, ready)
                    self.product = "sums"
            self._finish(batch, head, row, query, rows)
            task.next += [key_row, ready]
        return self.finished()

    def _attend(
        self,
        batch: str,
        head: str,
        key_head: str,
        query: str,
        rows: str,
        last: str,
        ready: str,
    ) -> None:
        """Sums, peaks and totals of a tile of queries over the keys up to `last`."""
        w = self.w
        self._start(batch, head, query, rows)
        with w.loop(last, step=KEY_TILE) as step:
            self._copy_keys(batch, key_head, step.index, ready)
            count = w.least(w.sub(last, step.index), KEY_TILE)
            self._visit_keys(batch, head, query, step.index, rows, count)

    def _start(self, batch: str, head: str, query: str, rows: str) -> None:
        """Read the queries; nothing seen yet: no peak, no total, no sums."""
        w, tile = self.w, self.tile
        source = self.place("q", batch, head, query)
        self.read_laned("q", source, rows, tile["queries_laned"], self.lanes, self.scale)
        for vector in range(self.vectors):
            lane = str(vector * LANES)
            w.store(w.number(-math.inf), w.at(tile["peak"], lane))
            w.store("zeroinitializer", w.at(tile["total"], lane))
        size = w.mul(w.round_up(self.v["value_width"], 8), self.lanes)
        with w.loop(size, step=LANES) as place:
            w.store("zeroinitializer", w.at(tile["sums"], place.index))

    def _copy_keys(self, batch: str, key_head: str, key: str, ready: str) -> None:
        """Copy a tile of keys and of values, unless an earlier task of this range has.

        Copies are dense rows: the tiles of heads that are interleaved in memory would push each
        other out of the caches.
        """
        w, v = self.w, self.v
        count = w.least(w.sub(v["keys"], key), KEY_TILE)
        missing = w.let(
            f"or i1 {w.test('sge', key, ready)}, {w.test('slt', v['kept'], v['keys'])}"
        )
        with w.when(missing):
            for operand, part in (("k", "keys_natural"), ("v", "values_natural")):
                source = self.place(operand, batch, key_head, key)
                self.read_natural(
                    operand, source, count, self._kept(operand, part, key), KEY_TILE
                )

    def _kept(self, operand: str, part: str, key: str) -> str:
        """Where the copy of the tile that starts at `key` is."""
        w, v = self.w, self.v
        position = w.rem(key, v["kept"])
        return w.at(self.tile[part], w.mul(position, v[self.size_names(operand)[1]]))

    def _visit_keys(
        self, batch: str, head: str, query: str, key: str, rows: str, count: str
    ) -> None:
        """Let a tile of keys take part in the softmax of the queries."""
        tile = self.tile
        self._make_scores(query, key, count)
        self.block(batch, head, query, key, rows, count, self.lanes)
        self.call(
            "softmax",
            SOFTMAX,
            scores=tile["scores"],
            keys=count,
            peak=tile["peak"],
            total=tile["total"],
            fade=tile["fade"],
        )
        self._add_values(query, key, count)

    def _make_scores(self, query: str, key: str, count: str) -> None:
        """Scores of a tile; on the diagonal, 16 keys only with the queries that see them."""
        w, v, tile = self.w, self.v, self.tile
        keys, padded = self._kept("k", "keys_natural", key), w.round_up(count, 8)

        def multiply(start: str, some: str) -> None:
            hidden = start  # as many queries before the first that sees a key as keys before
            self.call(
                "scores",
                PRODUCT,
                a=w.at(keys, w.mul(start, v["wide"])),
                a_row=v["wide"],
                a_depth=1,
                b=w.at(tile["queries_laned"], hidden),
                b_row=self.lanes,
                c=w.at(tile["scores"], w.add(w.mul(start, self.lanes), hidden)),
                c_row=self.lanes,
                factor="null",
                rows=some,
                cols=w.sub(str(self.vectors), w.div(hidden, LANES)),
                depth=v["width"],
            )

        diagonal = self._is_diagonal(query, key)
        with w.when(diagonal), w.loop(padded, step=LANES) as block:
            multiply(block.index, w.least(w.sub(padded, block.index), LANES))
        with w.when(w.negate(diagonal)):
            multiply("0", padded)

    def _add_values(self, query: str, key: str, count: str) -> None:
        """Fade the sums and add weighted values; on the diagonal, only those that are seen."""
        w, v, tile = self.w, self.v, self.tile
        values = self._kept("v", "values_natural", key)

        def multiply(lane: str, vectors: int, seen: str) -> None:
            self.call(
                self.product,
                PRODUCT,
                a=values,
                a_row=1,
                a_depth=v["value_wide"],
                b=w.at(tile["scores"], lane),
                b_row=self.lanes,
                c=w.at(tile["sums"], lane),
                c_row=self.lanes,
                factor=w.at(tile["fade"], lane),
                rows=w.round_up(v["value_width"], 8),
                cols=vectors,
                depth=seen,
            )

        diagonal = self._is_diagonal(query, key)
        with w.when(diagonal), w.loop(str(self.lanes), step=LANES) as block:
            multiply(block.index, 1, w.least(count, w.add(block.index, LANES)))
        with w.when(w.negate(diagonal)):
            multiply("0", self.vectors, count)

    def _is_diagonal(self, query: str, key: str) -> str:
        """Whether a tile of keys starts at the first query; tiles of queries are no longer."""
        return self.w.test("eq", query, key) if self.causal else "false"

    def _finish(self, batch: str, head: str, row: str, query: str, rows: str) -> None:
        w, v, tile = self.w, self.v, self.tile
        self.call(
            "finish",
            FINISH,
            peak=tile["peak"],
            total=tile["total"],
            fade=tile["fade"],
            lse=w.at(v["lse"], w.add(w.mul(row, v["queries"]), query)),
            rows=rows,
        )
        self.call(
            "write",
            WRITE_LANED,
            target=self.place("out", batch, head, query),
            tile=tile["sums"],
            lanes=self.lanes,
            factor=tile["fade"],
            **self.strided("out", rows),
        )


def _emit_softmax_step(name: str, arithmetic: Arithmetic, vectors: int) -> str:
    """One tile of keys: move the peak, make scores into weights, and say how much sums `fade`.

    A tile in which a row has no key leaves that row as it was: it fades by 1, its weights are
    0.
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
        empty = w.compare("oeq", peak, w.number(-math.inf))
        bases.append(w.choose(empty, "zeroinitializer", peak))
        fades.append(emit_weight(w, w.binary("fsub", old, bases[-1])))
        w.store(peak, w.at("%peak", place))
        w.store(fades[-1], w.at("%fade", place))
    with w.loop("%keys", carried=[(vector, "zeroinitializer")] * vectors) as key:
        line = w.at("%scores", w.mul(key.index, lanes))
        for place, base, total in zip(places, bases, key.values, strict=True):
            weight = emit_weight(w, w.binary("fsub", w.load(w.at(line, place)), base))
            w.store(weight, w.at(line, place))
            key.next.append(w.binary("fadd", total, weight))
    for place, fade, total in zip(places, fades, key.values, strict=True):
        w.store(w.fma(w.load(w.at("%total", place)), fade, total), w.at("%total", place))
    return SOFTMAX.write(name, w)


def _emit_finish(name: str, arithmetic: Arithmetic, vectors: int) -> str:
    """Log of the sum of exponentials to memory, and what to multiply each row by to `fade`.

    A row with no key at all has a zero row of output, as in PyTorch, and -inf here.
    """
    w = Writer(arithmetic)
    for v in range(vectors):
        place = str(v * LANES)
        total, peak = w.load(w.at("%total", place)), w.load(w.at("%peak", place))
        empty = w.compare("oeq", total, "zeroinitializer")
        inverse = w.binary("fdiv", w.number(1.0), total)
        w.store(w.choose(empty, "zeroinitializer", inverse), w.at("%fade", place))
        level = w.binary("fadd", peak, w.mathematics(arithmetic.log, total))
        w.store(w.choose(empty, peak, level), w.at("%peak", place))
    with w.loop("%rows") as row:
        w.store_one(w.load_one(w.at("%peak", row.index)), w.at("%lse", row.index))
    return FINISH.write(name, w)
