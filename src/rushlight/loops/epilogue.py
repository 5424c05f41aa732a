"""Elementwise work done on the results of a contraction before they are stored.

A group of plain stores that reads a contraction's result element by element becomes that
contraction's epilogue: its expressions are written over the vector of finished sums, and the
sums themselves never reach memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any  # keys are nested tuples

from rushlight import dtypes as dt
from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir.node import Node
from rushlight.loops import expressions as ex
from rushlight.loops.contract import Epilogue, EpilogueBuilder, Operand
from rushlight.loops.kernel import BufferRef
from rushlight.schedule.fuse import Root, Unit
from rushlight.schedule.reading import Expression
from rushlight.views import Shape, View


@dataclass(frozen=True, slots=True)
class Split:
    """Loop dimensions of a contraction's result, cut so that the epilogue's views fit: how many
    belong to the batch, the rows and the columns.
    """

    dims: Shape
    batch: int
    rows: int


def split_dims(dims: Shape, shape: Shape, batch: int, rows: int) -> Split | None:
    """`dims` (a refinement of `shape`) counted by the parts of the result's shape."""
    counts = [0, 0, 0]
    sizes = [
        views.numel(shape[:batch]),
        views.numel(shape[batch : batch + rows]),
        views.numel(shape[batch + rows :]),
    ]
    part, left = 0, sizes[0]
    for size in dims:
        while left == 1 and part < 2:
            part += 1
            left = sizes[part]
        if left % size:
            return None
        left //= size
        counts[part] += 1
    return Split(dims, counts[0], counts[1])


class EpilogueKernel:
    """The epilogue that a unit's roots make on the contraction `source`."""

    def __init__(self, unit: Unit, source: Node, split: Split, stored: set[Node]) -> None:
        self.unit = unit
        self.source = source
        self.split = split
        own = {r.home for r in unit.roots}
        reader = unit.reader_over(
            split.dims, lambda n: n in stored and (n not in own or n.op == "update")
        )
        self.roots = unit.roots
        self.expressions: list[Expression] = []
        for root in unit.roots:
            shaped = views.try_reshape(root.view, split.dims)
            assert shaped is not None
            self.expressions.append(reader.read(root.source, shaped))
        self.loads: list[tuple[Node, View]] = []
        self.numbers: list[Node] = []
        self._order: dict[Expression, int] = {}
        self._lines: list[Any] = []
        for expression in self.expressions:
            self._collect(expression)

    def _collect(self, e: Expression) -> int:
        found = self._order.get(e)
        if found is not None:
            return found
        args = tuple(self._collect(a) for a in e.args)
        detail: Any = ""
        if e.kind == "map":
            detail = e.node.attrs[0]
        elif e.kind == "const":
            detail = repr(e.node.attrs[0])
        elif e.kind == "number":
            if e.node not in self.numbers:
                self.numbers.append(e.node)
            detail = self.numbers.index(e.node)
        elif e.kind == "load" and e.node is not self.source:
            assert e.view is not None
            if (e.node, e.view) not in self.loads:
                self.loads.append((e.node, e.view))
            detail = self.loads.index((e.node, e.view))
        elif e.kind == "load":
            detail = "sums"
        self._order[e] = len(self._lines)
        self._lines.append((e.kind, detail, e.node.dtype.name, args))
        return self._order[e]

    def target(self, root: Root) -> View:
        assert root.target is not None
        shaped = views.try_reshape(root.target, self.split.dims)
        assert shaped is not None
        return shaped

    def operand(self, place: BufferRef, kind: dtype, view: View) -> Operand:
        """A view over the result's dimensions as the contraction takes it."""
        at = BufferRef(place.buffer, place.offset + view.offset * kind.itemsize)
        s, b, m = view.strides, self.split.batch, self.split.batch + self.split.rows
        return Operand(at, kind.name, s[:b], s[b:m], s[m:])

    def build(
        self, place_of: Callable[[Node], BufferRef], number_of: Callable[[Node], BufferRef]
    ) -> tuple[Operand, Epilogue]:
        """The operand that receives the first root, and the epilogue for all of them."""
        operands = [self.operand(place_of(n), n.dtype, v) for n, v in self.loads]
        zeros = View(self.split.dims, (0,) * len(self.split.dims), 0)
        cells = [dt.float64 if n.dtype is dt.float64 else dt.int64 for n in self.numbers]
        operands += [
            self.operand(number_of(n), c, zeros)
            for n, c in zip(self.numbers, cells, strict=True)
        ]
        first, *rest = self.roots
        operands += [self.operand(place_of(r.home), r.home.dtype, self.target(r)) for r in rest]
        roots = tuple(
            (self._order[e], r.home.dtype.name)
            for e, r in zip(self.expressions, self.roots, strict=True)
        )
        text = repr((self._lines, roots, len(self.numbers)))
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        out = self.operand(place_of(first.home), first.home.dtype, self.target(first))
        accumulator = (
            dt.float32 if first.home.dtype in (dt.float16, dt.bfloat16) else first.home.dtype
        )
        return out, Epilogue(key, self._emit, tuple(operands), accumulator.name)

    def _emit(self, builder: EpilogueBuilder, sums: str) -> str:
        values: dict[Expression, str] = {}

        def value(e: Expression) -> str:
            found = values.get(e)
            if found is None:
                found = values[e] = self._value(builder, e, value, sums)
            return found

        made = [value(e) for e in self.expressions]
        first_store = len(self.loads) + len(self.numbers)
        for i, (root, result) in enumerate(zip(self.roots[1:], made[1:], strict=True)):
            builder.store(first_store + i, ex.to_memory(builder.text, root.home.dtype, result))
        return ex.to_memory(builder.text, self.roots[0].home.dtype, made[0])

    def _value(self, builder: EpilogueBuilder, e: Expression, value: Any, sums: str) -> str:
        text, kind = builder.text, e.node.dtype
        if e.kind == "const":
            return ex.literal(e.node.attrs[0], kind)
        if e.kind == "number":
            raw = builder.load(len(self.loads) + self.numbers.index(e.node))
            return (
                text.let(f"icmp ne <16 x i64> {raw}, zeroinitializer")
                if kind is dt.bool_
                else raw
            )
        if e.kind == "load" and e.node is self.source:
            return ex.round_half(text, sums, kind)
        if e.kind == "load":
            raw = builder.load(self.loads.index((e.node, e.view)))  # type: ignore[arg-type]
            return (
                text.let(f"icmp ne <16 x i8> {raw}, zeroinitializer")
                if kind is dt.bool_
                else raw
            )
        operands = [value(a) for a in e.args]
        if e.kind == "cast":
            return ex.cast(text, operands[0], e.args[0].node.dtype, kind)
        return ex.emit(text, e.node.attrs[0], e.args[-1].node.dtype, operands)
