"""Kernels that go down columns: vectors across neighbouring results, a loop over what each of
them reduces.
"""

from __future__ import annotations

from collections.abc import Sequence

from rushlight.loops.accumulator import Accumulator
from rushlight.loops.elements import Elements
from rushlight.loops.group import Step
from rushlight.loops.text import IOTA
from rushlight.schedule.reading import Expression

COLUMN_VECTORS = 4


def column_width(lanes: int) -> int:
    """How many of so many results one chunk takes."""
    return 16 * (COLUMN_VECTORS if lanes > 16 * (COLUMN_VECTORS - 1) else 1)


class ColumnKernel(Elements):
    """Writes a kernel of mode 'column'."""

    def column_kernel(self, name: str) -> str:
        """Vectors across neighbouring results; a loop down the reduced elements."""
        nest, text = self.nest, self.text
        self._load_arguments(("rows", "across"))
        lane = nest.lane
        width = 16 * COLUMN_VECTORS
        many = text.let(f"icmp sgt i64 {self.sizes[lane]}, {16 * (COLUMN_VECTORS - 1)}")
        step = text.let(f"select i1 {many}, i64 {width}, i64 16")
        with self.loop("%begin", "%end") as chunk:
            row = text.let(f"udiv i64 {chunk}, {self.extra['across']}")
            block = text.let(f"urem i64 {chunk}, {self.extra['across']}")
            outer = self._coordinates(row, range(nest.outer))
            self.offsets = self._row_offsets(outer)
            low = text.let(f"mul i64 {block}, {step}")
            high = text.smallest(text.let(f"add i64 {low}, {step}"), self.sizes[lane])
            stop = text.let(f"add i64 {low}, {width}")
            whole = text.let(f"icmp sge i64 {high}, {stop}")
            with self.when(whole):
                starts = [text.let(f"add i64 {low}, {16 * v}") for v in range(COLUMN_VECTORS)]
                self._column_block(starts, None)
            first = text.let(f"select i1 {whole}, i64 {high}, i64 {low}")
            with self.loop(first, high, "16") as start:
                left = text.let(f"sub i64 {high}, {start}")
                mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
                self._column_block([start], mask)
        return self._finish(name)

    def _column_block(self, starts: Sequence[str], mask: str | None) -> None:
        text, nest = self.text, self.nest
        steps = self.kernel.steps
        totals = [{s: Accumulator(self, s, down_columns=True) for s in steps} for _ in starts]
        dims = nest.inner_dims
        count = "1"
        for d in dims:
            count = text.let(f"mul i64 {count}, {self.sizes[d]}")
        with self.loop("0", count) as index:
            where = self._coordinates(index, dims)
            offsets = {
                a.number: self._offset(a, where, self.offsets[a.number]) for a in nest.accesses
            }
            for start, total in zip(starts, totals, strict=True):
                self._column_body(total, offsets, start, mask, index)
        for start, total in zip(starts, totals, strict=True):
            for step in steps:
                access = step.target
                kind = step.root.home.dtype
                made = total[step].result()
                self._store_lanes(
                    access,
                    kind,
                    made,
                    self.offsets[access.number],
                    start,
                    mask,
                    nest.lane,
                )

    def _column_body(
        self,
        totals: dict[Step, Accumulator],
        offsets: dict[int, str],
        i: str,
        mask: str | None,
        index: str,
    ) -> None:
        values: dict[Expression, str] = {}

        def value(e: Expression) -> str:
            found = values.get(e)
            if found is None:
                found = values[e] = self._value(e, value, offsets, i, mask)
            return found

        for step, total in totals.items():
            total.add(value(step.expression), None, index)
