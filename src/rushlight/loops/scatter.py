"""Scatter kernels: elements of a source combined into memory at computed places, in order of
position.

Note: order and tasks. Dimensions of the positions are *own* when they move along the result
(and no index can undo that), else *summed*: repeated places differ along summed dimensions
only. Own dimensions are cut into tasks and vectors; every task walks the summed ones in order.
So the bits depend on nothing but the positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any  # attributes

from rushlight import dtypes as dt
from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir.node import Node, view_of
from rushlight.loops import expressions as ex
from rushlight.loops import text as kernel_text
from rushlight.loops.body import Body
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.text import IOTA
from rushlight.views import Shape, View

CHUNK = 8192  # elements that one task should have at least
BLOCK = 64  # lanes that a task of a shared row has at least
MOST_BLOCKS = 64


@dataclass(slots=True)
class _Dim:
    """One dimension of the positions: its stride in the result, the source and each index."""

    size: int
    strides: Shape
    is_own: bool


@dataclass(slots=True)
class ScatterNest:
    """Loops: `outer` own dimensions (tasks), `summed` ones in order, and one of lanes (of one
    element where no dimension is fit for it).
    """

    outer: list[_Dim]
    summed: list[_Dim]
    lane: _Dim
    has_lanes: bool
    is_vector: bool

    @property
    def dims(self) -> list[_Dim]:
        return [*self.outer, *self.summed, self.lane]

    @property
    def innermost(self) -> int:
        """Which of the dimensions the innermost loop runs along."""
        has_none_within = self.has_lanes or not (self.summed or self.outer)
        return len(self.dims) - (1 if has_none_within else 2)


def scatter_launches(
    node: Node,
    place_of: Callable[[Node], BufferRef],
    check_of: Callable[[Node], int],
    errors: BufferRef,
) -> list[Launch]:
    """Combine the source into the node's memory, which already holds the base."""
    kind, view, steps, _ = node.attrs
    if views.numel(view.shape) == 0:
        return []
    reads = [view, *(view_of(a) for a in node.args[1:])]
    nest = plan(view, reads, steps)
    source = _source(kind, node.dtype, nest, steps)
    pointers = [_at(place_of(node), view, node.dtype)]
    for (operand, _), read in zip(node.args[1:], reads[1:], strict=True):
        pointers.append(_at(place_of(operand), read, operand.dtype))
    ints = [d.size for d in nest.dims]
    for access in range(len(reads)):
        ints += [d.strides[access] for d in nest.dims]
    for stride, size in steps:
        ints += [stride, size]
    if steps:
        pointers.append(errors)
        ints.append(check_of(node))
    rows = prod(d.size for d in nest.outer)
    summed = prod(d.size for d in nest.summed)
    block, blocks = _blocks(rows, summed, nest.lane.size)
    together = max(1, CHUNK // (summed * nest.lane.size)) if blocks == 1 else 1
    chunks = -(-rows // together) * blocks
    return [Launch(source, chunks, tuple(pointers), (*ints, rows, together, block, blocks))]


def _at(place: BufferRef, view: View, kind: dtype) -> BufferRef:
    return BufferRef(place.buffer, place.offset + view.offset * kind.itemsize)


def _blocks(rows: int, summed: int, lanes: int) -> tuple[int, int]:
    """How a row's lanes are cut between tasks where there are few rows."""
    most = min(lanes // BLOCK, summed * lanes // CHUNK, MOST_BLOCKS // rows)
    if most <= 1:
        return lanes, 1
    block = 16 * -(-lanes // (16 * most))
    return block, -(-lanes // block)


# -- loops


def plan(view: View, reads: Sequence[View], steps: Sequence[tuple[int, int]]) -> ScatterNest:
    """The loop nest over the positions of `view`."""
    is_separate = not _may_meet(view, steps)
    dims = []
    for d, size in enumerate(view.shape):
        if size != 1:
            strides = tuple(r.strides[d] for r in reads)
            dims.append(_Dim(size, strides, is_separate and strides[0] != 0))
    dims = _joined(dims)
    lane = _choose_lane(dims)
    rest = [d for d in dims if d is not lane]
    is_vector = lane is not None and _is_even(lane)
    outer = _joined([d for d in rest if d.is_own])
    summed = _joined([d for d in rest if not d.is_own])
    single = _Dim(1, (0,) * len(reads), True)
    return ScatterNest(outer, summed, lane or single, lane is not None, is_vector)


def _may_meet(view: View, steps: Sequence[tuple[int, int]]) -> bool:
    """Whether two positions that differ along a moving dimension may have one place."""
    terms = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if s]
    terms += [(n, s) for s, n in steps if s]
    shape, strides = tuple(n for n, _ in terms), tuple(s for _, s in terms)
    return views.has_overlap(View(shape, strides, 0))


def _joined(dims: Sequence[_Dim]) -> list[_Dim]:
    """Neighbouring dimensions of one sort that step as one, merged."""
    merged: list[_Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if (
            last is not None
            and last.is_own == dim.is_own
            and all(a == b * dim.size for a, b in zip(last.strides, dim.strides, strict=True))
        ):
            merged[-1] = _Dim(last.size * dim.size, dim.strides, dim.is_own)
        else:
            merged.append(dim)
    return merged


def _is_even(dim: _Dim) -> bool:
    """Whether neighbours along the dimension are neighbours in the result, at one index."""
    return dim.is_own and dim.strides[0] == 1 and not any(dim.strides[2:])


def _choose_lane(dims: Sequence[_Dim]) -> _Dim | None:
    even = [d for d in dims if _is_even(d) and d.size >= 4]
    if even:
        return max(even, key=lambda d: (d.strides[1] in (0, 1), d.size))
    return dims[-1] if dims and dims[-1].is_own else None


# -- text

_SOURCES: dict[Any, KernelSource] = {}


def _source(
    kind: str, dtype: dtype, nest: ScatterNest, steps: Sequence[tuple[int, int]]
) -> KernelSource:
    loops = (len(nest.outer), len(nest.summed), nest.has_lanes, nest.is_vector)
    inner = tuple(map(_literal, nest.dims[nest.innermost].strides))
    along = tuple(_literal(stride) for stride, _ in steps)
    key = (kind, dtype.name, *loops, inner, along)
    found = _SOURCES.get(key)
    if found is None:
        name = "scatter_" + hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        writer = _Writer(kind, dtype, nest, inner, along)
        found = KernelSource(name, writer.write(name), frozenset(writer.text.needs))
        _SOURCES[key] = found
    return found


def _literal(stride: int) -> str:
    """A stride that a kernel's text may name, since multiplying by it costs nothing."""
    return str(stride) if stride in (0, 1) else ""


class _Writer(Body):
    """Writes one scatter kernel; `inner` are the strides of the innermost loop and `along`
    those of the indices in the result, empty where they are run-time numbers.
    """

    def __init__(
        self,
        kind: str,
        dtype: dtype,
        nest: ScatterNest,
        inner: tuple[str, ...],
        along: tuple[str, ...],
    ) -> None:
        super().__init__()
        self.kind = kind
        self.dtype = dtype
        self.stored = kernel_text.stored_type(dtype.name)
        self.nest = nest
        self.inner, self.along = inner, along
        self.count = len(along)

    def write(self, name: str) -> str:
        text = self.text
        self._load_arguments()
        outer = len(self.nest.outer)
        with self.loop("%begin", "%end") as chunk:
            group = text.let(f"udiv i64 {chunk}, {self.blocks}")
            piece = text.let(f"urem i64 {chunk}, {self.blocks}")
            low = text.let(f"mul i64 {piece}, {self.block}")
            high = text.smallest(text.let(f"add i64 {low}, {self.block}"), self.sizes[-1])
            first = text.let(f"mul i64 {group}, {self.together}")
            last = text.smallest(text.let(f"add i64 {first}, {self.together}"), self.rows)
            with self.loop(first, last) as row:
                starts = self.located(
                    row, self.sizes[:outer], [s[:outer] for s in self.strides]
                )
                inner = [s[outer:-1] for s in self.strides]
                with self.nested(self.sizes[outer:-1], starts, inner) as offsets:
                    self._lanes(offsets, low, high)
        if self.count:
            with self.when(text.let(f"load i1, ptr {self.bad}")):
                text.line(f"store i64 1, ptr {text.place('i64', self.errors, self.check)}")
        return self.function(name)

    def _load_arguments(self) -> None:
        accesses = 2 + self.count
        self.bases = [self.pointer() for _ in range(accesses)]
        self.errors = self.pointer() if self.count else ""
        dims = len(self.nest.dims)
        self.sizes = self.numbers(dims)
        self.strides = [self.numbers(dims) for _ in range(accesses)]
        for strides, known in zip(self.strides, self.inner, strict=True):
            strides[self.nest.innermost] = known or strides[self.nest.innermost]
        self.steps = []
        for known in self.along:
            stride, size = self.numbers(2)
            self.steps.append((known or stride, size))
        self.check = self.number() if self.count else ""
        self.rows, self.together, self.block, self.blocks = self.numbers(4)
        self.bad = self.cell("i1", "false") if self.count else ""

    def _lanes(self, offsets: list[str], low: str, high: str) -> None:
        if self.nest.is_vector:
            with self._placed(offsets) as place:
                self._vectors(place, offsets[1], low, high)
            return
        if not self.nest.has_lanes:
            with self._placed(offsets) as place:
                self._cell(place, offsets[1])
            return
        with self.loop(low, high) as i:
            there = [self.step(o, i, s[-1]) for o, s in zip(offsets, self.strides, strict=True)]
            with self._placed(there) as place:
                self._cell(place, there[1])

    @contextmanager
    def _placed(self, offsets: list[str]) -> Iterator[str]:
        """A block that runs where all indices are inside, given the place in the result."""
        text = self.text
        place, inside = offsets[0], ""
        for n, (stride, size) in enumerate(self.steps):
            at = text.place("i64", self.bases[2 + n], offsets[2 + n])
            index = text.let(f"load i64, ptr {at}, align 8")
            fits = text.let(f"icmp ult i64 {index}, {size}")
            inside = text.let(f"and i1 {inside}, {fits}") if inside else fits
            place = self.step(place, index, stride)
        if not inside:
            yield place
            return
        outside = text.let(f"xor i1 {inside}, true")
        known = text.let(f"load i1, ptr {self.bad}")
        text.line(f"store i1 {text.let(f'or i1 {known}, {outside}')}, ptr {self.bad}")
        with self.when(inside):
            yield place

    # -- many lanes

    def _vectors(self, place: str, source: str, low: str, high: str) -> None:
        text = self.text
        out = text.place(self.stored, self.bases[0], place)
        count = text.let(f"sub i64 {high}, {low}")
        stop = text.let(f"add i64 {low}, {text.let(f'and i64 {count}, -16')}")
        with self.loop(low, stop, "16") as i:
            self._vector(out, source, i, None)
        with self.when(text.let(f"icmp slt i64 {stop}, {high}")):
            left = text.let(f"sub i64 {high}, {stop}")
            mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
            self._vector(out, source, stop, mask)

    def _vector(self, out: str, source: str, i: str, mask: str | None) -> None:
        text, kind = self.text, self.dtype
        here = text.place(self.stored, out, i)
        value = self._source_lanes(source, i, mask)
        if self.kind != "set":
            old = ex.load(text, kind, here, mask)
            value = ex.emit(text, combining(self.kind, kind), kind, [old, value])
        ex.store(text, kind, value, here, mask)

    def _source_lanes(self, offset: str, i: str, mask: str | None) -> str:
        text = self.text
        base = text.place(self.stored, self.bases[1], offset)
        if self.inner[1] == "0":
            return ex.load_one(text, self.dtype, base)
        if self.inner[1] == "1":
            return ex.load(text, self.dtype, text.place(self.stored, base, i), mask)
        at = text.let(f"add <16 x i64> {text.splat('i64', i)}, {IOTA}")
        stride = text.splat("i64", self.strides[1][-1])
        return ex.load_scattered(
            text, self.dtype, base, text.let(f"mul <16 x i64> {at}, {stride}"), mask
        )

    # -- one element

    def _cell(self, place: str, source: str) -> None:
        text, kind = self.text, self.stored
        align = self.dtype.itemsize
        out = text.place(kind, self.bases[0], place)
        origin = text.place(kind, self.bases[1], source)
        value = text.let(f"load {kind}, ptr {origin}, align {align}")
        if self.kind != "set":
            old = text.let(f"load {kind}, ptr {out}, align {align}")
            value = self._combined(old, value)
        text.line(f"store {kind} {value}, ptr {out}, align {align}")

    def _combined(self, old: str, new: str) -> str:
        text, dtype, kind = self.text, self.dtype, self.stored
        name = combining(self.kind, dtype)
        if name in ("max", "min"):
            return self._extreme(name, old, new)
        if dtype.is_floating_point:
            name = "f" + name
        return text.let(f"{name} {kind} {old}, {new}")

    def _extreme(self, name: str, old: str, new: str) -> str:
        """max or min; NaN wins."""
        text, dtype, kind = self.text, self.dtype, self.stored
        if not dtype.is_floating_point:
            sign = "s" if dtype.is_signed else "u"
            keeps = text.let(
                f"icmp {sign}{'gt' if name == 'max' else 'lt'} {kind} {old}, {new}"
            )
            return text.let(f"select i1 {keeps}, {kind} {old}, {kind} {new}")
        a = kernel_text.widen_one(text, dtype.name, old)
        b = kernel_text.widen_one(text, dtype.name, new)
        wide = "double" if dtype is dt.float64 else "float"
        keeps = text.let(f"fcmp {'ugt' if name == 'max' else 'ult'} {wide} {a}, {b}")
        real = text.let(f"fcmp ord {wide} {b}, {b}")
        keeps = text.let(f"and i1 {keeps}, {real}")
        return text.let(f"select i1 {keeps}, {kind} {old}, {kind} {new}")


def combining(kind: str, dtype: dtype) -> str:
    """The primitive that combines two elements; sums and products of bools are or and and."""
    if dtype is dt.bool_ and kind in ("add", "mul", "sum", "prod"):
        return "or" if kind in ("add", "sum") else "and"
    return {"sum": "add", "prod": "mul"}.get(kind, kind)
