"""A whole contraction kernel: the entry that walks chunks, blocks of k and tiles, and the functions it calls.

A chunk is (batch, block of rows, block of columns). For each block of k and each panel of columns it packs B's panel (or
reads B in place), then runs the micro-kernel down the rows, whose panels of A were packed under the first column panel.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rushlight.loops.contract_pack import Reading, emit_pack
from rushlight.loops.text import IndexSlots, Text, accumulator_dtype, item_bytes, stored_type
from rushlight.loops.contract_tile import Emit, OperandSlots, Tile, emit_finish, emit_tile
from rushlight.loops.kernel import KernelSource


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the text of a kernel depends on.

    `read_a` and `read_b` say how operands are packed (None: read in place). `ends` are (dtype, kind of columns)
    of the output and of the epilogue's operands.
    """

    dtype: str
    tile: Tile
    read_a: Reading | None
    read_b: Reading | None
    ends: tuple[tuple[str, str], ...]
    returns: str
    epilogue: str

    @property
    def name(self) -> str:
        ends = "_".join(f"{dtype}{columns}" for dtype, columns in self.ends)
        ways = "_".join(way.key if way else "place" for way in (self.read_a, self.read_b))
        parts = f"{self.dtype}_{self.tile.rows}x{self.tile.columns}_{ways}"
        mark = hashlib.sha256(f"{self.epilogue}|{self.returns}".encode()).hexdigest()[:12]
        return f"contract_{parts}_{ends}_{mark}"


NUMBERS = ("m", "n", "k", "rows", "columns", "down", "across", "straight", "panel_a")
"""The kernel's own integers, in order; the strides and steps of the indices follow."""


@dataclass(frozen=True, slots=True)
class _Slots:
    """The argument block: pointers (A, B, ends), tables of all indices, NUMBERS, then (stride, step) of all."""

    ends: int

    def index(self, number: int) -> IndexSlots:
        return IndexSlots(self.tables + number, self.strides + 2 * number)

    @property
    def tables(self) -> int:
        return 2 + self.ends

    @property
    def strides(self) -> int:
        return self.number("m") + len(NUMBERS)

    def number(self, name: str) -> int:
        return 2 + self.ends + 6 + 3 * self.ends + NUMBERS.index(name)

    def end(self, number: int, dtype: str, columns: str) -> OperandSlots:
        first = 6 + 3 * number
        batch, row, column = (self.index(first + side) for side in range(3))
        return OperandSlots(dtype, columns, 2 + number, batch, row, column)


A_BATCH, A_ROWS, A_DEPTH, B_BATCH, B_DEPTH, B_COLUMNS = range(6)


def emit_contraction(shape: Shape, block: int, emit: Emit | None) -> KernelSource:
    """The kernel of one structure, for blocks of k of `block`."""
    slots = _Slots(len(shape.ends))
    name, total = shape.name, accumulator_dtype(shape.dtype)
    ends = [slots.end(number, *end) for number, end in enumerate(shape.ends)]
    parts = [
        emit_tile(f"{name}.tile", total, shape.tile, packed=shape.read_a is not None),
        emit_finish(f"{name}.finish", shape.tile, total, ends, emit, shape.returns),
        *(
            emit_pack(f"{name}.pack_{reading.key}", shape.dtype, reading, slots.tables, slots.strides)
            for reading in dict.fromkeys((shape.read_a, shape.read_b))
            if reading
        ),
        (_entry(shape, block, slots), set()),
    ]  # fmt: skip
    needs = frozenset().union(*(needs for _, needs in parts))
    return KernelSource(name, "".join(text for text, _ in parts), needs)


def _entry(shape: Shape, block: int, slots: _Slots) -> str:
    text = Text()
    for name in NUMBERS:
        text.line(f"%{name} = add i64 0, {text.slot(slots.number(name))}")
    _emit_setup(text, shape, block, slots)
    text.line("br label %chunk.test")
    text.label("chunk.test")
    text.line("%chunk = phi i64 [%begin, %entry], [%chunk.next, %k.end]")
    more = text.let("icmp slt i64 %chunk, %end")
    text.line(f"br i1 {more}, label %chunk.head, label %done")
    _emit_chunk_head(text, shape, slots)
    _emit_depth_loop(text, shape, block)
    text.label("done")
    text.line("ret void")
    head = f"define void @{shape.name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) nounwind {{\nentry:\n"
    return head + "\n".join(text.lines) + "\n}\n"


def _emit_setup(text: Text, shape: Shape, block: int, slots: _Slots) -> None:
    """Names that hold for the whole call: operands, byte steps, places in the scratch memory."""
    size = item_bytes(accumulator_dtype(shape.dtype))
    for letter, number in (("A", 0), ("B", 1), ("C", 2)):
        text.line(f"%{letter} = getelementptr i8, ptr {text.slot(number, 'ptr')}, i64 0")
    source = item_bytes(shape.dtype)
    for name, index in (("a.row", A_ROWS), ("a.k", A_DEPTH), ("b.k", B_DEPTH)):
        text.line(f"%{name} = mul i64 {text.slot(slots.index(index).stride)}, {source}")
    end = slots.end(0, *shape.ends[0])
    text.line(f"%c.row = mul i64 {text.slot(end.row.stride)}, {size}")
    text.line("%panels.a = getelementptr i8, ptr %scratch, i64 0")
    text.line("%panel.b = getelementptr i8, ptr %scratch, i64 %panel_a")
    text.line(f"%sums = getelementptr i8, ptr %panel.b, i64 {block * shape.tile.columns * size}")
    text.line("%last.row = add i64 %m, -1")
    text.line("%last.column = add i64 %n, -1")
    text.line("%is.straight = icmp ne i64 %straight, 0")
    several = text.let(f"icmp sgt i64 %k, {block}")
    tile_bytes = shape.tile.rows * shape.tile.columns * size
    text.line(f"%tile.step = select i1 {several}, i64 {tile_bytes}, i64 0")


def _emit_chunk_head(text: Text, shape: Shape, slots: _Slots) -> None:
    text.label("chunk.head")
    text.line("%chunk.next = add i64 %chunk, 1")
    text.line("%ni = urem i64 %chunk, %across")
    upper = text.let("udiv i64 %chunk, %across")
    text.line(f"%mi = urem i64 {upper}, %down")
    text.line(f"%batch = udiv i64 {upper}, %down")
    text.line("%m0 = mul i64 %mi, %rows")
    text.line("%n0 = mul i64 %ni, %columns")
    for side, size, block, limit in (("m", "m", "rows", "m1"), ("n", "n", "columns", "n1")):
        text.line(f"%{limit} = add i64 0, {text.smallest(text.let(f'add i64 %{side}0, %{block}'), f'%{size}')}")
    kind = stored_type(shape.dtype)
    for letter, index in (("A", A_BATCH), ("B", B_BATCH)):
        offset = slots.index(index).load(text).offset(text, "%batch")
        text.line(f"%{letter}.b = getelementptr {kind}, ptr %{letter}, i64 {offset}")
    end = slots.end(0, *shape.ends[0])
    offset = end.batch.load(text).offset(text, "%batch")
    text.line(f"%C.b = getelementptr {stored_type(end.dtype)}, ptr %C, i64 {offset}")
    text.line("br label %k.head")


def _emit_depth_loop(text: Text, shape: Shape, block: int) -> None:
    """Blocks of k (one, of no length, if k is zero), and the loops over panels and tiles inside."""
    text.label("k.head")
    text.line("%k0 = phi i64 [0, %chunk.head], [%k1, %j.end]")
    text.line(f"%k1 = add i64 %k0, {block}")
    left = text.let("sub i64 %k, %k0")
    text.line(f"%kc = add i64 0, {text.smallest(left, str(block))}")
    text.line("%is.first = icmp eq i64 %k0, 0")
    text.line("%is.last = icmp sge i64 %k1, %k")
    text.line("br label %j.head")
    _emit_column_loop(text, shape, block)
    text.label("j.end")
    text.line("br i1 %is.last, label %k.end, label %k.head")
    text.label("k.end")
    text.line("br label %chunk.test")


def _emit_column_loop(text: Text, shape: Shape, block: int) -> None:
    text.label("j.head")
    text.line("%j = phi i64 [%n0, %k.head], [%j.next, %i.end]")
    text.line("%sums.j = phi ptr [%sums, %k.head], [%sums.next, %i.end]")
    text.line(f"%j.next = add i64 %j, {shape.tile.columns}")
    text.line("%full.j = icmp sle i64 %j.next, %n1")
    text.line(f"%columns.j = sub i64 {text.smallest('%j.next', '%n1')}, %j")
    _emit_b_place(text, shape)
    text.line("br label %i.head")
    _emit_row_loop(text, shape, block)
    text.label("i.end")
    text.line("%more.j = icmp slt i64 %j.next, %n1")
    text.line("br i1 %more.j, label %j.head, label %j.end")


def _emit_b_place(text: Text, shape: Shape) -> None:
    """Name %b.from and %b.step: B's columns packed into the panel, or in place.

    In place, the last tile is moved back to end at the last column (and likewise for rows of A): it computes some
    outputs again, to the same bits, but does not store them again.
    """
    columns, size = shape.tile.columns, item_bytes(accumulator_dtype(shape.dtype))
    if shape.read_b is None:
        text.line(f"%j.at = add i64 0, {text.smallest('%j', text.let(f'sub i64 %n, {columns}'))}")
        down = text.let(f"getelementptr i8, ptr %B.b, i64 {text.let('mul i64 %k0, %b.k')}")
        text.line(f"%b.from = getelementptr {stored_type(shape.dtype)}, ptr {down}, i64 %j.at")
        text.line("%b.step = add i64 0, %b.k")
        text.line("br label %i.start")
    else:
        text.line("%j.at = add i64 0, %j")
        text.line("%b.from = getelementptr i8, ptr %panel.b, i64 0")
        text.line(f"%b.step = add i64 0, {columns * size}")
        text.line(
            f"call void @{shape.name}.pack_{shape.read_b.key}(ptr %args, ptr %B.b, i64 {B_COLUMNS}, "
            f"i64 {B_DEPTH}, i64 {columns}, i64 %j, i64 %last.column, i64 %k0, i64 %kc, ptr %panel.b)"
        )
        text.line("br label %i.start")
    text.label("i.start")


def _emit_row_loop(text: Text, shape: Shape, block: int) -> None:
    rows, size = shape.tile.rows, item_bytes(accumulator_dtype(shape.dtype))
    text.label("i.head")
    text.line("%i = phi i64 [%m0, %i.start], [%i.next, %i.next.head]")
    text.line("%sums.i = phi ptr [%sums.j, %i.start], [%sums.next, %i.next.head]")
    text.line("%panel.i = phi ptr [%panels.a, %i.start], [%panel.next, %i.next.head]")
    text.line(f"%i.next = add i64 %i, {rows}")
    text.line("%sums.next = getelementptr i8, ptr %sums.i, i64 %tile.step")
    text.line(f"%panel.next = getelementptr i8, ptr %panel.i, i64 {block * rows * size}")
    text.line("%full.i = icmp sle i64 %i.next, %m1")
    text.line(f"%rows.i = sub i64 {text.smallest('%i.next', '%m1')}, %i")
    _emit_a_place(text, shape)
    _emit_run(text, shape)
    text.label("i.next.head")
    text.line("%more.i = icmp slt i64 %i.next, %m1")
    text.line("br i1 %more.i, label %i.head, label %i.end")


def _emit_a_place(text: Text, shape: Shape) -> None:
    """Name %a.from: A's rows in place, or in a panel packed under the first columns of the chunk."""
    rows = shape.tile.rows
    if shape.read_a is None:
        text.line(f"%i.at = add i64 0, {text.smallest('%i', text.let(f'sub i64 %m, {rows}'))}")
        down = text.let(f"getelementptr i8, ptr %A.b, i64 {text.let('mul i64 %k0, %a.k')}")
        text.line(f"%a.from = getelementptr i8, ptr {down}, i64 {text.let('mul i64 %i.at, %a.row')}")
        return
    text.line("%i.at = add i64 0, %i")
    text.line("%a.from = getelementptr i8, ptr %panel.i, i64 0")
    first = text.let("icmp eq i64 %j, %n0")
    text.line(f"br i1 {first}, label %a.pack, label %run")
    text.label("a.pack")
    text.line(
        f"call void @{shape.name}.pack_{shape.read_a.key}(ptr %args, ptr %A.b, i64 {A_ROWS}, "
        f"i64 {A_DEPTH}, i64 {rows}, i64 %i, i64 %last.row, i64 %k0, i64 %kc, ptr %panel.i)"
    )
    text.line("br label %run")
    text.label("run")


def _emit_run(text: Text, shape: Shape) -> None:
    """Run the micro-kernel into the output itself if nothing else is to be done there, else into the sums."""
    total = accumulator_dtype(shape.dtype)
    size, kind = item_bytes(total), stored_type(total)
    width = shape.tile.columns * size
    whole = text.let("and i1 %full.i, %full.j")
    straight = text.let(f"and i1 {whole}, %is.straight")
    down = text.let(f"getelementptr i8, ptr %C.b, i64 {text.let('mul i64 %i, %c.row')}")
    here = text.let(f"getelementptr {kind}, ptr {down}, i64 %j")
    to = text.let(f"select i1 {straight}, ptr {here}, ptr %sums.i")
    step = text.let(f"select i1 {straight}, i64 %c.row, i64 {width}")
    text.line(
        f"call void @{shape.name}.tile(i64 %kc, ptr %a.from, i64 %a.row, i64 %a.k, "
        f"ptr %b.from, i64 %b.step, ptr {to}, i64 {step}, i1 %is.first)"
    )
    wait = text.let("xor i1 %is.last, true")
    skip = text.let(f"or i1 {wait}, {straight}")
    text.line(f"br i1 {skip}, label %i.next.head, label %finish")
    text.label("finish")
    rows, columns = text.let("sub i64 %i, %i.at"), text.let("sub i64 %j, %j.at")
    down = text.let(f"getelementptr i8, ptr %sums.i, i64 {text.let(f'mul i64 {rows}, {width}')}")
    sums = text.let(f"getelementptr {kind}, ptr {down}, i64 {columns}")
    text.line(
        f"call void @{shape.name}.finish(ptr %args, i64 %batch, i64 %i, i64 %rows.i, "
        f"i64 %j, i64 %columns.j, ptr {sums})"
    )
    text.line("br label %i.next.head")
