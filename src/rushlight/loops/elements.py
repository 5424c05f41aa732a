"""The elements of a group's operands inside a kernel: where they lie, how they are read and
stored, and the expressions made of them.
"""

from __future__ import annotations

from typing import Any  # attributes

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.loops import expressions as ex
from rushlight.loops.body import Body
from rushlight.loops.group import Access, GroupKernel
from rushlight.loops.text import IOTA, LANES, stored_type
from rushlight.schedule.reading import Expression


class Elements(Body):
    """A kernel of a group under construction, before its loops."""

    def __init__(self, kernel: GroupKernel) -> None:
        super().__init__()
        self.kernel = kernel
        self.nest = kernel.nest
        self.row_values: dict[Expression, str] = {}
        self.reduced: dict[Any, str] = {}
        self.offsets: dict[int, str] = {}  # access -> offset of the current row (elements)

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
        if stride == -1:
            first = text.let(f"sub i64 {offset}, {i}")
            at = text.let(f"sub i64 {first}, {LANES - 1}")
            return ex.load_reversed(text, kind, text.place(stored, base, at), mask)
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
