"""Scan kernels: running sums, products and extremes along one dimension.

Note: two forms. Where the scanned dimension is the innermost, 16 neighbours are scanned inside
a vector (four shuffled steps) and a carry goes from vector to vector; otherwise vectors run
across neighbouring rows and the loop runs down. Both combine in an order that depends on the
position in the row alone. Float sums and products are kept in float64.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any  # keys are tuples

from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir.node import Node, view_of
from rushlight.loops import expressions as ex
from rushlight.loops import text as kernel_text
from rushlight.loops.accumulator import identity, sum_dtype
from rushlight.loops.body import Body
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.scatter import combining
from rushlight.loops.text import IOTA

CHUNK = 8192  # elements that one task should have at least
WIDTH = 64  # neighbouring rows that one task goes down together, at most
_LAST = "<16 x i32> splat (i32 15)"


@dataclass(frozen=True, slots=True)
class _Dim:
    size: int
    step: int  # in the operand
    out: int  # in the result


def scan_launches(node: Node, place_of: Callable[[Node], BufferRef]) -> list[Launch]:
    """The one launch of a scan (none for an empty one)."""
    kind, along = node.attrs
    operand, view = node.args[0][0], view_of(node.args[0])
    if node.numel == 0:
        return []
    steps = zip(view.shape, view.strides, views.contiguous_strides(view.shape), strict=True)
    dims = [_Dim(*d) for d in steps]
    scanned = dims.pop(along) if dims else _Dim(1, 0, 0)
    rest = _joined([d for d in dims if d.size != 1])
    lane = None
    if scanned.out > 1 and scanned.size > 1:
        lane = rest.pop()
    mode = "row" if lane is None else "column"
    step = (scanned if lane is None else lane).step
    source = _source(
        kind, mode, len(rest), {0: "0", 1: "1"}.get(step, "n"), operand.dtype, node.dtype
    )
    base = place_of(operand)
    pointers = (
        BufferRef(base.buffer, base.offset + view.offset * operand.dtype.itemsize),
        place_of(node),
    )
    ints = [d.size for d in rest] + [d.step for d in rest] + [d.out for d in rest]
    ints += [scanned.size, scanned.step, scanned.out]
    rows = prod(d.size for d in rest)
    if lane is None:
        together = max(1, CHUNK // scanned.size)
        return [Launch(source, -(-rows // together), pointers, (*ints, rows, together))]
    block = max(16, min(WIDTH, -(-lane.size // 16) * 16))
    blocks = -(-lane.size // block)
    together = max(1, CHUNK // (block * scanned.size))
    tasks = rows * blocks
    ints += [lane.size, lane.step, tasks, together, block, blocks]
    return [Launch(source, -(-tasks // together), pointers, tuple(ints))]


def _joined(dims: list[_Dim]) -> list[_Dim]:
    """Neighbouring dimensions that step as one, merged."""
    merged: list[_Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if last and last.step == dim.step * dim.size and last.out == dim.out * dim.size:
            merged[-1] = _Dim(last.size * dim.size, dim.step, dim.out)
        else:
            merged.append(dim)
    return merged


_SOURCES: dict[Any, KernelSource] = {}


def _source(
    kind: str, mode: str, outer: int, stride: str, operand: dtype, out: dtype
) -> KernelSource:
    key = (kind, mode, outer, stride, operand.name, out.name)
    found = _SOURCES.get(key)
    if found is None:
        name = "scan_" + hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        writer = _Writer(kind, outer, stride, operand, out)
        text = writer.row_kernel(name) if mode == "row" else writer.column_kernel(name)
        found = _SOURCES[key] = KernelSource(name, text, frozenset(writer.text.needs))
    return found


class _Writer(Body):
    """Writes one scan kernel."""

    def __init__(self, kind: str, outer: int, stride: str, operand: dtype, out: dtype) -> None:
        super().__init__()
        self.stride = stride  # of the operand along the lanes
        self.operand, self.out = operand, out
        self.work = sum_dtype(kind, operand)
        self.rule = combining(kind, operand)
        start = (
            -0.0 if kind == "sum" and self.work.is_floating_point else identity(kind, self.work)
        )
        self.start = ex.literal(start, self.work)
        self.vector = ex.vector(self.work)
        self.base, self.target = self.pointer(), self.pointer()
        self.sizes = self.numbers(outer)
        self.strides = [self.numbers(outer), self.numbers(outer)]
        self.size, self.step_in, self.step_out = self.numbers(3)

    def _place(self, kind: dtype, base: str, offset: str) -> str:
        return self.text.place(kernel_text.stored_type(kind.name), base, offset)

    def _combine(self, a: str, b: str) -> str:
        return ex.emit(self.text, self.rule, self.work, [a, b])

    def _load(self, base: str, i: str, stride: str, mask: str | None) -> str:
        """16 operands from lane `i`, as they are worked on."""
        text, kind = self.text, self.operand
        if self.stride == "0":
            made = ex.load_one(text, kind, base)
        elif self.stride == "1":
            made = ex.load(text, kind, self._place(kind, base, i), mask)
        else:
            at = text.let(f"add <16 x i64> {text.splat('i64', i)}, {IOTA}")
            offsets = text.let(f"mul <16 x i64> {at}, {text.splat('i64', stride)}")
            made = ex.load_scattered(text, kind, base, offsets, mask)
        return ex.cast(text, made, kind, self.work)

    def _store(self, value: str, place: str, mask: str | None) -> None:
        ex.store(
            self.text, self.out, ex.cast(self.text, value, self.work, self.out), place, mask
        )

    # -- along the lanes

    def row_kernel(self, name: str) -> str:
        text = self.text
        rows, together = self.numbers(2)
        carry = self.cell(self.vector, self.start)
        with self.loop("%begin", "%end") as chunk:
            first = text.let(f"mul i64 {chunk}, {together}")
            last = text.smallest(text.let(f"add i64 {first}, {together}"), rows)
            with self.loop(first, last) as row:
                offset, there = self.located(row, self.sizes, self.strides)
                base = self._place(self.operand, self.base, offset)
                target = self._place(self.out, self.target, there)
                text.line(f"store {self.vector} {self.start}, ptr {carry}")
                stop = text.let(f"and i64 {self.size}, -16")
                with self.loop("0", stop, "16") as i:
                    self._scan_vector(base, target, carry, i, None)
                with self.when(text.let(f"icmp slt i64 {stop}, {self.size}")):
                    left = text.let(f"sub i64 {self.size}, {stop}")
                    mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
                    self._scan_vector(base, target, carry, stop, mask)
        return self.function(name)

    def _scan_vector(
        self, base: str, target: str, carry: str, i: str, mask: str | None
    ) -> None:
        text, v = self.text, self.vector
        value = self._load(base, i, self.step_in, mask)
        start = self.start
        for reach in (1, 2, 4, 8):
            order = [lane - reach if lane >= reach else 16 for lane in range(16)]
            listed = ", ".join(f"i32 {x}" for x in order)
            earlier = text.let(f"shufflevector {v} {value}, {v} {start}, <16 x i32> <{listed}>")
            value = self._combine(earlier, value)
        before = text.let(f"load {v}, ptr {carry}")
        made = self._combine(before, value)
        self._store(made, self._place(self.out, target, i), mask)
        total = text.let(f"shufflevector {v} {made}, {v} poison, {_LAST}")
        text.line(f"store {v} {total}, ptr {carry}")

    # -- down the rows

    def column_kernel(self, name: str) -> str:
        text = self.text
        lanes, lane_step, tasks, together, block, blocks = self.numbers(6)
        carry = self.cell(self.vector, self.start)
        with self.loop("%begin", "%end") as chunk:
            first = text.let(f"mul i64 {chunk}, {together}")
            last = text.smallest(text.let(f"add i64 {first}, {together}"), tasks)
            with self.loop(first, last) as task:
                row = text.let(f"udiv i64 {task}, {blocks}")
                low = text.let(f"mul i64 {text.let(f'urem i64 {task}, {blocks}')}, {block}")
                high = text.smallest(text.let(f"add i64 {low}, {block}"), lanes)
                starts = self.located(row, self.sizes, self.strides)
                with self.loop(low, high, "16") as i:
                    left = text.let(f"sub i64 {high}, {i}")
                    mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
                    text.line(f"store {self.vector} {self.start}, ptr {carry}")
                    self._go_down(starts, i, lane_step, mask, carry)
        return self.function(name)

    def _go_down(
        self, starts: list[str], i: str, lane_step: str, mask: str, carry: str
    ) -> None:
        text, v = self.text, self.vector
        with self.loop("0", self.size) as at:
            offset = self.step(starts[0], at, self.step_in)
            there = self.step(starts[1], at, self.step_out)
            value = self._load(self._place(self.operand, self.base, offset), i, lane_step, mask)
            made = self._combine(text.let(f"load {v}, ptr {carry}"), value)
            text.line(f"store {v} {made}, ptr {carry}")
            place = text.let(f"add i64 {there}, {i}")
            self._store(made, self._place(self.out, self.target, place), mask)
