"""Kernels that go through rows: vectors along them, reductions, then what depends on those.

for each row of the chunk:               (all outer dimensions)
    values that are equal along the row
    for each phase:
        for the elements of the row, 16 at a time: accumulate reductions, store results
        combine the lanes of each reduction; then the row's values that depend on them
"""

from __future__ import annotations

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.loops import expressions as ex
from rushlight.loops.accumulator import Accumulator
from rushlight.loops.elements import Elements
from rushlight.loops.group import GroupKernel, Step
from rushlight.loops.text import IOTA, stored_type
from rushlight.schedule.reading import Expression

CHAINS = 2  # of a reduction along a row


class RowKernel(Elements):
    """Writes a kernel of mode 'map', 'row' or 'split', or the one that combines pieces."""

    def __init__(self, kernel: GroupKernel) -> None:
        super().__init__(kernel)
        self.stashes = _stashes(kernel) if kernel.nest.mode == "row" else {}
        self.filled: set[Expression] = set()

    def row_kernel(self, name: str) -> str:
        nest, text = self.nest, self.text
        extra = {
            "map": ("rows", "together", "block", "blocks"),
            "row": ("rows", "together"),
            "split": ("rows", "step", "blocks"),
        }[nest.mode]
        self._load_arguments(extra, nest.mode == "split")
        with self.loop("%begin", "%end") as chunk:
            if nest.mode == "row":
                first = text.let(f"mul i64 {chunk}, {self.extra['together']}")
                self._rows(first, "0", None)
            else:
                group = text.let(f"udiv i64 {chunk}, {self.extra['blocks']}")
                block = text.let(f"urem i64 {chunk}, {self.extra['blocks']}")
                if nest.mode == "map":
                    first = text.let(f"mul i64 {group}, {self.extra['together']}")
                    low = text.let(f"mul i64 {block}, {self.extra['block']}")
                    high = text.smallest(
                        text.let(f"add i64 {low}, {self.extra['block']}"), self.sizes[-1]
                    )
                    self._rows(first, low, high)
                else:
                    self._piece(group, block, chunk)
        return self._finish(name)

    def _rows(self, first: str, low: str, high: str | None) -> None:
        text = self.text
        last = text.smallest(
            text.let(f"add i64 {first}, {self.extra['together']}"), self.extra["rows"]
        )
        with self.loop(first, last) as row:
            self.offsets = self._row_offsets(self._coordinates(row, range(self.nest.outer)))
            self.row_values, self.filled = {}, set()
            self._phases(low, high)

    def _phases(self, low: str, high: str | None) -> None:
        steps = self.kernel.steps
        for phase in range(max(s.phase for s in steps) + 1):
            for step in steps:
                if step.level == "row" and step.phase == phase:
                    self._store_row(step, self._row_value(step.expression))
            inside = [s for s in steps if s.level == "inner" and s.phase == phase]
            if not inside:
                continue
            for step in inside:
                self._hoist(step.expression)
            reducing = [s for s in inside if s.root.kind == "reduce"]
            totals = self._totals(reducing)
            self._inner_loops(inside, totals, low, high)
            for step in reducing:
                value = totals[step].combined()
                self.reduced[step.root.home] = value
                if step.root.home in self.kernel.stored:
                    self._store_row(step, value)

    def _totals(self, reducing: list[Step]) -> dict[Step, Accumulator]:
        return {s: Accumulator(self, s, down_columns=False, chains=CHAINS) for s in reducing}

    def _piece(self, row: str, block: str, chunk: str) -> None:
        """One block of a long row, reduced into its cells of the partial results."""
        text, nest = self.text, self.nest
        self.offsets = self._row_offsets(self._coordinates(row, range(nest.outer)))
        self.row_values, self.filled = {}, set()
        low = text.let(f"mul i64 {block}, {self.extra['step']}")
        high = text.smallest(
            text.let(f"add i64 {low}, {self.extra['step']}"), self.sizes[nest.outer]
        )
        steps = self.kernel.steps
        for step in steps:
            self._hoist(step.expression)
        reducing = [s for s in steps if s.root.kind == "reduce"]
        totals = self._totals(reducing)
        self._inner_loops(steps, totals, low, high)
        for i, step in enumerate(reducing):
            cell = text.let(f"mul i64 {chunk}, {len(reducing)}")
            totals[step].save(
                text.place("[2 x i64]", self.partial, text.let(f"add i64 {cell}, {i}"))
            )

    def combine_kernel(self, name: str) -> str:
        """Add up the partial results of each row, in order, and store."""
        text = self.text
        self._load_arguments(("rows", "step", "blocks"), True)
        reducing = [s for s in self.kernel.steps if s.root.kind == "reduce"]
        with self.loop("%begin", "%end") as row:
            self.offsets = self._row_offsets(self._coordinates(row, range(self.nest.outer)))
            totals = [Accumulator(self, s, down_columns=False) for s in reducing]
            start = text.let(f"mul i64 {row}, {self.extra['blocks']}")
            stop = text.let(f"add i64 {start}, {self.extra['blocks']}")
            with self.loop(start, stop) as piece:
                cell = text.let(f"mul i64 {piece}, {len(reducing)}")
                for i, total in enumerate(totals):
                    at = text.let(f"add i64 {cell}, {i}")
                    total.add_saved(text.place("[2 x i64]", self.partial, at))
            for step, total in zip(reducing, totals, strict=True):
                self._store_row(step, total.result())
        return self._finish(name)

    def _store_row(self, step: Step, value: str) -> None:
        kind = step.root.home.dtype
        access = step.target
        stored = stored_type(kind.name)
        place = self.text.place(stored, self.base[access.number], self.offsets[access.number])
        ex.store_one(self.text, kind, value, place)

    def _hoist(self, e: Expression) -> None:
        """Write the values that are equal along the row before its loop; each node is visited
        once, since a value may be used by many others.
        """
        seen = {e}
        stack = [e]
        while stack:
            one = stack.pop()
            if not self.kernel.facts[one].varies_inner:
                self._row_value(one)
                continue
            new = [arg for arg in reversed(one.args) if arg not in seen]
            seen.update(new)
            stack.extend(new)

    def _row_value(self, e: Expression) -> str:
        found = self.row_values.get(e)
        if found is None:
            found = self.row_values[e] = self._value(
                e, self._row_value, self.offsets, None, None
            )
        return found

    def _inner_loops(
        self, steps: list[Step], totals: dict[Step, Accumulator], low: str, high: str | None
    ) -> None:
        nest, text = self.nest, self.text
        length = self.sizes[-1]
        if nest.inner == 1:
            self._lane_loop(steps, totals, self.offsets, low, high or length, "0")
            return
        dims = range(nest.outer, len(nest.sizes) - 1)
        count = self.sizes[dims.start] if high is None else high
        first = low
        for d in dims[1:]:
            count = text.let(f"mul i64 {count}, {self.sizes[d]}")
            first = text.let(f"mul i64 {first}, {self.sizes[d]}")
        with self.loop(first, count) as index:
            where = self._coordinates(index, dims)
            offsets = {
                a.number: self._offset(a, where, self.offsets[a.number]) for a in nest.accesses
            }
            before = text.let(f"mul i64 {index}, {length}")
            self._lane_loop(steps, totals, offsets, "0", length, before)

    def _lane_loop(
        self, steps: list[Step], totals: dict[Step, Accumulator], offsets: dict[int, str],
        low: str, high: str, before: str,
    ) -> None:  # fmt: skip
        """The innermost loop: whole vectors, then the rest under a mask. Reductions take in a
        vector for each of their chains at a time; the rest goes into the first.
        """
        text = self.text
        chains = CHAINS if totals else 1
        count = text.let(f"sub i64 {high}, {low}")
        whole = text.let(f"and i64 {count}, {-16 * chains}")
        stop = text.let(f"add i64 {low}, {whole}")
        filled = set(self.filled)
        with self.loop(low, stop, f"{16 * chains}") as i:
            for chain in range(chains):
                self.filled = set(filled)
                at = text.let(f"add i64 {i}, {16 * chain}") if chain else i
                self._body(steps, totals, offsets, at, None, before, chain)
        self.filled = filled
        with self.loop(stop, high, "16") as i:
            left = text.let(f"sub i64 {high}, {i}")
            mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
            self._body(steps, totals, offsets, i, mask, before)

    def _body(
        self, steps: list[Step], totals: dict[Step, Accumulator], offsets: dict[int, str],
        i: str, mask: str | None, before: str, chain: int = 0,
    ) -> None:  # fmt: skip
        values: dict[Expression, str] = {}
        lane = self.nest.lane

        def value(e: Expression) -> str:
            if not self.kernel.facts[e].varies_inner:
                return self.row_values[e]
            found = values.get(e)
            if found is None:
                found = values[e] = self._stashed(e, i, before) or self._value(
                    e, value, offsets, i, mask
                )
                self._stash(e, found, i, before)
            return found

        for step in steps:
            if step.root.kind == "reduce":
                made = value(step.expression)
                at = self.text.let(f"add i64 {before}, {i}") if before != "0" else i
                totals[step].add(made, mask, at, chain)
            else:
                made = value(_unrounded(step.expression))
                access = step.target
                self._store_lanes(
                    access, step.root.home.dtype, made, offsets[access.number], i, mask, lane
                )

    def _stash_place(self, e: Expression, i: str, before: str) -> str:
        text = self.text
        inner = "1"
        for d in self.nest.inner_dims:
            inner = text.let(f"mul i64 {inner}, {self.sizes[d]}")
        stride = text.let(f"mul i64 {text.let(f'add i64 {inner}, 16')}, 8")
        start = text.let(f"mul i64 {stride}, {self.stashes[e]}")
        index = text.let(f"add i64 {before}, {i}")
        size = _kept_size(e.node.dtype)
        at = text.let(f"add i64 {start}, {text.let(f'mul i64 {index}, {size}')}")
        return text.place("i8", "%scratch", at)

    def _stashed(self, e: Expression, i: str, before: str) -> str | None:
        if e not in self.stashes or e not in self.filled:
            return None
        kind = _kept_dtype(e.node.dtype)
        place = self._stash_place(e, i, before)
        return self.text.let(f"load {ex.vector(kind)}, ptr {place}, align {kind.itemsize}")

    def _stash(self, e: Expression, value: str, i: str, before: str) -> None:
        if e not in self.stashes or e in self.filled:
            return
        kind = _kept_dtype(e.node.dtype)
        place = self._stash_place(e, i, before)
        self.text.line(f"store {ex.vector(kind)} {value}, ptr {place}, align {kind.itemsize}")
        self.filled.add(e)


def _unrounded(e: Expression) -> Expression:
    """What to store as `e`: a store itself rounds to half precision, so that is left out."""
    is_rounding = e.kind == "cast" and e.node.dtype in (dt.float16, dt.bfloat16)
    if is_rounding and e.args[0].node.dtype is dt.float32:
        return e.args[0]
    return e


# ---- values kept for a later phase


def _stashes(kernel: GroupKernel) -> dict[Expression, int]:
    """Costly values of a row that a later phase needs again, by stash number."""
    first: dict[Expression, int] = {}
    found: dict[Expression, int] = {}
    seen: set[tuple[Expression, int]] = set()
    for step in sorted(kernel.steps, key=lambda s: s.phase):
        if step.level != "inner":
            continue
        waiting = [step.expression]
        while waiting:
            e = waiting.pop()
            if (e, step.phase) in seen or not kernel.facts[e].varies_inner:
                continue
            seen.add((e, step.phase))
            if first.setdefault(e, step.phase) < step.phase and kernel.is_costly(e):
                found.setdefault(e, len(found))
            else:
                waiting.extend(reversed(e.args))
    return found


def stash_bytes(kernel: GroupKernel, inner: int) -> int:
    return len(_stashes(kernel)) * _stash_stride(inner)


def _stash_stride(inner: int) -> int:
    return (inner + 16) * 8


def _kept_dtype(kind: dtype) -> dtype:
    """The dtype in which a stashed value lies in scratch memory."""
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


def _kept_size(kind: dtype) -> int:
    return _kept_dtype(kind).itemsize
