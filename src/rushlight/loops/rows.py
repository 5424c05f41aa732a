"""The text of a group's kernel: rows of vector loops with reductions between them.

    for each row of the chunk:               (all outer dimensions)
        values that are equal along the row
        for each phase:
            for the elements of the row, 16 at a time: accumulate reductions, store results
            combine the lanes of each reduction; then the row's values that depend on them

A 'map' kernel has one phase and no reductions, and cuts long rows into blocks. A 'split' kernel
reduces blocks of long rows into partial results, which a second entry adds up in order. A
'column' kernel runs vectors across neighbouring results and loops over the reduced elements.
Float32 sums and products are kept in float64. The order of a reduction depends on its length
alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import prod
from typing import Any  # attributes

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.ir.node import Node
from rushlight.loops import expressions as ex
from rushlight.loops.accumulator import Accumulator
from rushlight.loops.body import Body
from rushlight.loops.group import CHUNK, Access, GroupKernel, Step
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.text import IOTA, stored_type
from rushlight.schedule.fuse import LONG_ROW
from rushlight.schedule.reading import Expression

COLUMN_VECTORS = 4
TURNED = 64  # side of the squares in which transposed operands are read


def launches(
    kernel: GroupKernel,
    buffer_of: Callable[[Node], BufferRef],
    number_of: Callable[[Node], BufferRef],
    check_of: Callable[[Node], int],
    errors: BufferRef,
    partial: Callable[[int], BufferRef],
) -> list[Launch]:
    """The launches of a unit: one, or two for long rows (pieces, then their combination)."""
    nest = kernel.nest
    if nest.mode == "map" and 0 in nest.sizes:
        return []
    key = kernel.key()
    sources = _SOURCES.get(key)
    if sources is None:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        sources = _SOURCES[key] = write(kernel, f"{nest.mode}_{digest}")
    pointers = []
    for access in nest.accesses:
        if access.node is not None:
            base = buffer_of(access.node)
            pointers.append(
                BufferRef(base.buffer, base.offset + access.offset * access.kind.itemsize)
            )
    pointers += [number_of(n) for n in kernel.numbers]
    ints: list[int] = list(nest.sizes)
    for access in nest.accesses:
        ints += access.strides
        if access.node is None:
            ints.append(access.offset)
    for gather in kernel.gathers:
        for stride, size in gather.node.attrs[1]:
            ints += [stride, size]
        ints.append(check_of(gather.node))
    if kernel.gathers:
        pointers.append(errors)
    return _shape_launches(kernel, sources, pointers, ints, partial)


_SOURCES: dict[Any, tuple[KernelSource, ...]] = {}


def _shape_launches(
    kernel: GroupKernel,
    sources: tuple[KernelSource, ...],
    pointers: list[BufferRef],
    ints: list[int],
    partial: Any,
) -> list[Launch]:
    """Cut the loops into chunks, and append the numbers that say how."""
    nest = kernel.nest
    source = sources[0]
    rows = prod(nest.sizes[: nest.outer])
    if nest.mode == "column":
        width = 16 * _column_vectors(nest.sizes[nest.lane])
        across = -(-nest.sizes[nest.lane] // width)
        chunks = rows * across
        return [_launch(source, chunks, pointers, [*ints, rows, across])]
    inner = prod(nest.sizes[nest.outer :])
    if nest.mode == "map":
        length = nest.sizes[-1]
        block = length if length <= 2 * CHUNK else CHUNK
        blocks = -(-length // block)
        together = max(1, CHUNK // max(length, 1)) if blocks == 1 else 1
        if _is_turned(kernel):  # squares keep the cache lines of both sides in reach
            block = together = TURNED
            blocks = -(-length // block)
        chunks = -(-rows // together) * blocks
        return [_launch(source, chunks, pointers, [*ints, rows, together, block, blocks])]
    if nest.mode == "row":
        together = max(1, CHUNK // max(inner, 1))
        scratch = _stash_bytes(kernel, inner)
        return [
            _launch(source, -(-rows // together), pointers, [*ints, rows, together], scratch)
        ]
    first = nest.sizes[nest.outer]
    step = max(1, LONG_ROW // max(inner // first, 1)) if nest.inner > 1 else LONG_ROW
    blocks = -(-first // step)
    size = sum(16 for s in kernel.steps if s.root.kind == "reduce")
    place = partial(rows * blocks * size)
    numbers = [*ints, rows, step, blocks]
    both = [*pointers, place]
    return [
        _launch(source, rows * blocks, both, numbers),
        _launch(sources[1], rows, both, numbers),
    ]


def _is_turned(kernel: GroupKernel) -> bool:
    """Whether neighbours in some operand's memory lie along rows and not along the vectors."""
    nest = kernel.nest
    return nest.outer > 0 and any(
        a.node is not None and a.strides[-1] not in (0, 1) and a.strides[nest.outer - 1] == 1
        for a in nest.accesses
    )


def _launch(
    source: KernelSource,
    chunks: int,
    pointers: list[BufferRef],
    ints: list[int],
    scratch: int = 0,
) -> Launch:
    return Launch(source, chunks, tuple(pointers), tuple(ints), scratch=scratch)


def _column_vectors(lanes: int) -> int:
    return COLUMN_VECTORS if lanes > 16 * (COLUMN_VECTORS - 1) else 1


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


def _stash_bytes(kernel: GroupKernel, inner: int) -> int:
    return len(_stashes(kernel)) * _stash_stride(inner)


def _stash_stride(inner: int) -> int:
    return (inner + 16) * 8


def write(kernel: GroupKernel, name: str) -> tuple[KernelSource, ...]:
    """The kernels of a group: one, or for long rows the one for pieces and the one that
    combines them.
    """
    first = _Writer(kernel)
    mode = kernel.nest.mode
    text = first.column_kernel(name) if mode == "column" else first.row_kernel(name)
    made = KernelSource(name, text, frozenset(first.text.needs))
    if mode != "split":
        return (made,)
    second = _Writer(kernel)
    text = second.combine_kernel(name + "_combine")
    return made, KernelSource(name + "_combine", text, frozenset(second.text.needs))


class _Writer(Body):
    """Writes one kernel of a group."""

    def __init__(self, kernel: GroupKernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.nest = kernel.nest
        self.row_values: dict[Expression, str] = {}
        self.reduced: dict[Any, str] = {}
        self.offsets: dict[int, str] = {}  # access -> offset of the current row (elements)
        self.stashes = _stashes(kernel) if kernel.nest.mode == "row" else {}
        self.filled: set[Expression] = set()

    # -- arguments

    def _load_arguments(self, extra: tuple[str, ...], has_partial: bool = False) -> None:
        kernel, nest = self.kernel, self.nest
        dims = len(nest.sizes)
        self.base = {a.number: self.pointer() for a in nest.accesses if a.node is not None}
        self.number_cells = [self.pointer() for _ in kernel.numbers]
        self.errors = self.pointer() if kernel.gathers else ""
        self.partial = self.pointer() if has_partial else ""
        self.sizes = self.numbers(dims)
        self.strides: dict[int, list[str]] = {}
        self.affine: dict[int, str] = {}
        for access in nest.accesses:
            self.strides[access.number] = self.numbers(dims)
            if access.node is None:
                self.affine[access.number] = self.number()
        self.steps: dict[Expression, list[tuple[str, str]]] = {}
        self.checks: dict[Expression, str] = {}
        self.bad: dict[Expression, str] = {}
        for gather in kernel.gathers:
            self.steps[gather] = [(self.number(), self.number()) for _ in gather.args]
            self.checks[gather] = self.number()
            self.bad[gather] = self.cell("i1", "false")
        self.extra = {name: self.number() for name in extra}

    def _finish(self, name: str) -> str:
        for gather, flag in self.bad.items():
            with self.when(self.text.let(f"load i1, ptr {flag}")):
                place = self.text.place("i64", self.errors, self.checks[gather])
                self.text.line(f"store i64 1, ptr {place}")
        return self.function(name)

    # -- offsets

    def _coordinates(self, index: str, dims: range) -> dict[int, str]:
        """A linear index over `dims` taken apart."""
        text = self.text
        found: dict[int, str] = {}
        left = index
        for d in reversed(dims):
            if d == dims.start:
                found[d] = left
            else:
                found[d] = text.let(f"urem i64 {left}, {self.sizes[d]}")
                left = text.let(f"udiv i64 {left}, {self.sizes[d]}")
        return found

    def _offset(self, access: Access, where: dict[int, str], start: str | None = None) -> str:
        """Elements from the access's base to the iteration at these coordinates."""
        text = self.text
        total = start
        for d, index in where.items():
            if access.strides[d]:
                part = text.let(f"mul i64 {index}, {self.strides[access.number][d]}")
                total = part if total is None else text.let(f"add i64 {total}, {part}")
        return total or "0"

    def _row_offsets(self, where: dict[int, str]) -> dict[int, str]:
        return {a.number: self._offset(a, where) for a in self.nest.accesses}

    # -- row kernels

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
            totals = {s: Accumulator(self, s, self.nest.mode == "column") for s in reducing}
            self._inner_loops(inside, totals, low, high)
            for step in reducing:
                value = totals[step].combined()
                self.reduced[step.root.home] = value
                if step.root.home in self.kernel.stored:
                    self._store_row(step, value)

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
        totals = {s: Accumulator(self, s, self.nest.mode == "column") for s in reducing}
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
            totals = [Accumulator(self, s, self.nest.mode == "column") for s in reducing]
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
        """The innermost loop: whole vectors, then the rest under a mask."""
        text = self.text
        count = text.let(f"sub i64 {high}, {low}")
        whole = text.let(f"and i64 {count}, -16")
        stop = text.let(f"add i64 {low}, {whole}")
        filled = set(self.filled)
        with self.loop(low, stop, "16") as i:
            self._body(steps, totals, offsets, i, None, before)
        self.filled = filled
        rest = text.let(f"icmp slt i64 {stop}, {high}")
        with self.when(rest):
            left = text.let(f"sub i64 {high}, {stop}")
            mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
            self._body(steps, totals, offsets, stop, mask, before)

    def _body(
        self, steps: list[Step], totals: dict[Step, Accumulator], offsets: dict[int, str],
        i: str, mask: str | None, before: str,
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
            made = value(step.expression)
            if step.root.kind == "reduce":
                at = self.text.let(f"add i64 {before}, {i}") if before != "0" else i
                totals[step].add(made, mask, at)
            else:
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

    # -- values

    def _value(
        self,
        e: Expression,
        value: Any,
        offsets: dict[int, str],
        i: str | None,
        mask: str | None,
    ) -> str:
        """One expression at 16 lanes from `i` (or equal in all lanes, without `i`)."""
        text, kind = self.text, e.node.dtype
        access = self.kernel.facts[e].access
        if e.kind == "const":
            return ex.literal(e.node.attrs[0], kind)
        if e.kind == "number":
            return ex.load_number(
                text, kind, self.number_cells[self.kernel.numbers.index(e.node)]
            )
        if e.kind == "map":
            name = e.node.attrs[0]
            operands = [value(a) for a in e.args]
            return ex.emit(text, name, e.args[-1].node.dtype, operands)
        if e.kind == "cast":
            return ex.cast(text, value(e.args[0]), e.args[0].node.dtype, kind)
        if e.kind == "load":
            if access is None:
                return self.reduced[e.node]
            return self._load_lanes(access, kind, offsets[access.number], i, mask)
        assert access is not None
        if e.kind == "iota":
            return ex.cast(
                text, self._affine(access, offsets[access.number], i), dt.int64, kind
            )
        if e.kind == "random":
            seed, offset = (value(a) for a in e.args)
            index = self._affine(access, offsets[access.number], i)
            counter = text.let(f"add <16 x i64> {offset}, {index}")
            return text.call(
                "<16 x i64>", "rl_philox", f"<16 x i64> {counter}, <16 x i64> {seed}"
            )
        return self._gathered(e, access, value, offsets[access.number], i, mask)

    def _affine(self, access: Access, offset: str, i: str | None) -> str:
        text = self.text
        start = text.let(f"add i64 {offset}, {self.affine[access.number]}")
        lane = self.nest.lane
        if i is None or not access.strides[lane]:
            return text.splat("i64", start)
        return text.let(
            f"add <16 x i64> {text.splat('i64', start)}, {self._lane_offsets(access, i)}"
        )

    def _lane_offsets(self, access: Access, i: str) -> str:
        """(i + lane) * stride for 16 lanes."""
        text = self.text
        index = text.let(f"add <16 x i64> {text.splat('i64', i)}, {IOTA}")
        stride = text.splat("i64", self.strides[access.number][self.nest.lane])
        return text.let(f"mul <16 x i64> {index}, {stride}")

    def _load_lanes(
        self, access: Access, kind: dtype, offset: str, i: str | None, mask: str | None
    ) -> str:
        text = self.text
        stored = stored_type(kind.name)
        base = self.base[access.number]
        stride = access.strides[self.nest.lane] if access.strides else 0
        if i is None or stride == 0:
            return ex.load_one(text, kind, text.place(stored, base, offset))
        if stride == 1:
            at = text.let(f"add i64 {offset}, {i}") if offset != "0" else i
            return ex.load(text, kind, text.place(stored, base, at), mask)
        start = text.place(stored, base, offset)
        return ex.load_scattered(text, kind, start, self._lane_offsets(access, i), mask)

    def _store_lanes(
        self,
        access: Access,
        kind: dtype,
        value: str,
        offset: str,
        i: str,
        mask: str | None,
        lane: int,
    ) -> None:
        text = self.text
        stored = stored_type(kind.name)
        base = self.base[access.number]
        if access.strides[lane] == 1:
            at = text.let(f"add i64 {offset}, {i}") if offset != "0" else i
            ex.store(text, kind, value, text.place(stored, base, at), mask)
            return
        start = text.place(stored, base, offset)
        if access.strides[lane] == 0:  # a dimension of one element
            ex.store_one(text, kind, value, start)
            return
        ex.store_scattered(text, kind, value, start, self._lane_offsets(access, i), mask)

    def _gathered(
        self,
        e: Expression,
        access: Access,
        value: Any,
        offset: str,
        i: str | None,
        mask: str | None,
    ) -> str:
        text, kind = self.text, e.node.dtype
        indices = [value(a) for a in e.args]
        place = ""
        inside = ""
        for index, (_, size) in zip(indices, self.steps[e], strict=True):
            fits = text.let(f"icmp ult <16 x i64> {index}, {text.splat('i64', size)}")
            inside = fits if not inside else text.let(f"and <16 x i1> {inside}, {fits}")
        for index, (stride, _) in zip(indices, self.steps[e], strict=True):
            safe = text.let(
                f"select <16 x i1> {inside}, <16 x i64> {index}, <16 x i64> zeroinitializer"
            )
            part = text.let(f"mul <16 x i64> {safe}, {text.splat('i64', stride)}")
            place = part if not place else text.let(f"add <16 x i64> {place}, {part}")
        self._note_outside(e, inside, mask)
        stored = stored_type(kind.name)
        base = text.place(stored, self.base[access.number], offset)
        is_even = not any(self.kernel.facts[a].varies_lane for a in e.args)
        if is_even:
            one = text.let(f"extractelement <16 x i64> {place}, i32 0")
            row = text.place(stored, base, one)
            stride_class = access.strides[self.nest.lane] if access.strides else 0
            if i is None or stride_class == 0:
                return ex.load_one(text, kind, row)
            if stride_class == 1:
                return ex.load(text, kind, text.place(stored, row, i), mask)
        if i is not None and access.strides[self.nest.lane]:
            place = text.let(f"add <16 x i64> {place}, {self._lane_offsets(access, i)}")
        return ex.load_scattered(text, kind, base, place, mask)

    def _note_outside(self, e: Expression, inside: str, mask: str | None) -> None:
        text = self.text
        outside = text.let(f"xor <16 x i1> {inside}, {ex.SPLAT_TRUE}")
        if mask is not None:
            outside = text.let(f"and <16 x i1> {outside}, {mask}")
        bits = text.let(f"bitcast <16 x i1> {outside} to i16")
        some = text.let(f"icmp ne i16 {bits}, 0")
        flag = self.bad[e]
        known = text.let(f"load i1, ptr {flag}")
        text.line(f"store i1 {text.let(f'or i1 {known}, {some}')}, ptr {flag}")

    # -- column kernels

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
            left = text.let(f"sub i64 {self.sizes[lane]}, {low}")
            more = text.let(f"icmp sgt i64 {left}, 16")
            wide = text.let(f"and i1 {more}, {many}")
            body, narrow, done = self._label(), self._label(), self._label()
            text.line(f"br i1 {wide}, label %{body}, label %{narrow}")
            text.label(body)
            self._column_block(low, left, COLUMN_VECTORS)
            text.line(f"br label %{done}")
            text.label(narrow)
            self._column_block(low, left, 1)
            text.line(f"br label %{done}")
            text.label(done)
        return self._finish(name)

    def _column_block(self, low: str, left: str, vectors: int) -> None:
        text, nest = self.text, self.nest
        masks, starts = [], []
        for v in range(vectors):
            here = text.let(f"sub i64 {left}, {16 * v}")
            masks.append(text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', here)}"))
            starts.append(text.let(f"add i64 {low}, {16 * v}"))
        steps = self.kernel.steps
        totals = [
            {s: Accumulator(self, s, self.nest.mode == "column") for s in steps}
            for _ in range(vectors)
        ]
        dims = nest.inner_dims
        count = "1"
        for d in dims:
            count = text.let(f"mul i64 {count}, {self.sizes[d]}")
        with self.loop("0", count) as index:
            where = self._coordinates(index, dims)
            offsets = {
                a.number: self._offset(a, where, self.offsets[a.number]) for a in nest.accesses
            }
            for v in range(vectors):
                self._column_body(totals[v], offsets, starts[v], masks[v], index)
        for v in range(vectors):
            for step in steps:
                access = step.target
                kind = step.root.home.dtype
                made = totals[v][step].result()
                self._store_lanes(
                    access,
                    kind,
                    made,
                    self.offsets[access.number],
                    starts[v],
                    masks[v],
                    nest.lane,
                )

    def _column_body(
        self,
        totals: dict[Step, Accumulator],
        offsets: dict[int, str],
        i: str,
        mask: str,
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


def _kept_dtype(kind: dtype) -> dtype:
    """The dtype in which a stashed value lies in scratch memory."""
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


def _kept_size(kind: dtype) -> int:
    return _kept_dtype(kind).itemsize
