"""A whole contraction kernel: the entry that walks chunks, blocks of k and tiles, and the
functions it calls.

A chunk is (batch, block of rows, block of columns). For each block of k and each panel of
columns it packs B's panel (or reads B in place), then runs the micro-kernel down the rows,
whose panels of A were packed under the first column panel.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from rushlight.loops import contract_matrix as matrix
from rushlight.loops import contract_turned as turned
from rushlight.loops.contract_pack import Reading, emit_pack, panel_bytes
from rushlight.loops.contract_tile import (
    Emit,
    OperandSlots,
    Tile,
    emit_fetch,
    emit_finish,
    emit_tile,
)
from rushlight.loops.kernel import KernelSource
from rushlight.loops.text import IndexSlots, Text, accumulator_dtype, item_bytes, stored_type

BLOCK = 256
"""Products added before their sum joins the total: part of the meaning of every contraction
that vector units do.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the text of a kernel depends on.

    `read_a` and `read_b` say how operands are packed (None: read in place). `ends` are (dtype,
    kind of columns) of the output and of the epilogue's operands. `unit` does the products:
    'vector', 'turned' (vectors too, where B is read in place along k), or 'matrix' for bfloat16
    in matrix registers.
    """

    dtype: str
    tile: Tile
    read_a: Reading | None
    read_b: Reading | None
    ends: tuple[tuple[str, str], ...]
    returns: str
    epilogue: str
    unit: str = "vector"

    @property
    def is_matrix(self) -> bool:
        return self.unit == "matrix"

    @property
    def lists_a(self) -> bool:
        return self.read_a is not None and self.read_a.kind == "listed"

    @property
    def packs_a(self) -> bool:
        return self.read_a is not None and not self.lists_a

    @property
    def block(self) -> int:
        """How many k are packed, and multiplied, at a time."""
        return matrix.BLOCK if self.is_matrix else BLOCK

    @property
    def fetches(self) -> bool:
        """Whether memory of the output is fetched while its products are added: matrix units
        are too fast for that to help.
        """
        return self.ends[0][1] == "lanes" and not self.is_matrix

    def panel_bytes(self, width: int) -> int:
        """Memory of one packed panel of `width` rows of A or columns of B."""
        if self.is_matrix:
            return matrix.panel_bytes(width)
        return panel_bytes(accumulator_dtype(self.dtype), width, BLOCK)

    @property
    def name(self) -> str:
        ends = "_".join(f"{dtype}{columns}" for dtype, columns in self.ends)
        ways = "_".join(way.key if way else "place" for way in (self.read_a, self.read_b))
        unit = "" if self.unit == "vector" else f"{self.unit}_"
        parts = f"{unit}{self.dtype}_{self.tile.rows}x{self.tile.columns}_{ways}"
        mark = hashlib.sha256(f"{self.epilogue}|{self.returns}".encode()).hexdigest()[:12]
        return f"contract_{parts}_{ends}_{mark}"


NUMBERS = (
    "m",
    "n",
    "k",
    "rows",
    "columns",
    "down",
    "across",
    "straight",
    "group",
    "panel_a",
    "panel_b",
)
"""The kernel's own integers, in order; the strides and steps of the indices follow."""


@dataclass(frozen=True, slots=True)
class _Slots:
    """The argument block: pointers (A, B, ends), tables of all indices, NUMBERS, then (stride,
    step) of all.
    """

    ends: int

    def index(self, number: int) -> IndexSlots:
        return IndexSlots(self.tables + number, self.strides + 2 * number)

    def list(self, text: Text, number: int) -> str:
        """The address of the table of offsets of an index that has one."""
        return text.slot(self.index(number).table, "ptr")

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


def emit_contraction(shape: Shape, emit: Emit | None) -> KernelSource:
    """The kernel of one structure."""
    slots = _Slots(len(shape.ends))
    name, total = shape.name, accumulator_dtype(shape.dtype)
    ends = [slots.end(number, *end) for number, end in enumerate(shape.ends)]
    is_sum = shape.is_matrix and emit is None and shape.ends[0][0] == "bfloat16"
    narrow = matrix.narrow if is_sum else None
    parts = [
        _emit_products(shape, f"{name}.tile"),
        emit_finish(f"{name}.finish", shape.tile, total, ends, emit, shape.returns, narrow),
        (_entry(shape, slots), set()),
    ]  # fmt: skip
    for side, reading, width, lanes, depth in (
        ("a", shape.read_a, shape.tile.rows, A_ROWS, A_DEPTH),
        ("b", shape.read_b, shape.tile.columns, B_COLUMNS, B_DEPTH),
    ):
        if not reading or reading.kind == "listed":
            continue
        function, places = f"{name}.pack_{side}", (slots.index(lanes), slots.index(depth))
        if shape.is_matrix:
            text = matrix.emit_pack(function, reading, width, *places, is_a=side == "a")
            parts.append((text, set()))
        else:
            parts.append(emit_pack(function, shape.dtype, reading, width, BLOCK, *places))
    if shape.is_matrix:
        parts.append((matrix.DECLARATIONS, set()))
    if shape.fetches:
        fetched = [end for end in ends if end.columns == "lanes"]
        parts.append(emit_fetch(f"{name}.fetch", shape.tile, fetched))
    needs = frozenset().union(*(needs for _, needs in parts))
    return KernelSource(name, "".join(text for text, _ in parts), needs)


def _emit_products(shape: Shape, name: str) -> tuple[str, set[str]]:
    if shape.is_matrix:
        return matrix.emit_tile(name, shape.tile), set()
    if shape.unit == "turned":
        return turned.emit_tile(name, shape.dtype, shape.tile, packed=shape.packs_a)
    way = "packed" if shape.packs_a else "listed" if shape.lists_a else "place"
    return emit_tile(name, accumulator_dtype(shape.dtype), shape.tile, way)


def _entry(shape: Shape, slots: _Slots) -> str:
    text = Text()
    for name in NUMBERS:
        text.line(f"%{name} = add i64 0, {text.slot(slots.number(name))}")
    _emit_setup(text, shape, slots)
    text.line("br label %chunk.test")
    text.label("chunk.test")
    text.line("%chunk = phi i64 [%begin, %entry], [%chunk.next, %k.end]")
    more = text.let("icmp slt i64 %chunk, %end")
    text.line(f"br i1 {more}, label %chunk.head, label %done")
    _emit_chunk_head(text, shape, slots)
    _emit_depth_loop(text, shape, slots)
    text.label("done")
    if shape.is_matrix:
        matrix.emit_release(text)
    text.line("ret void")
    arguments = "ptr %args, i64 %begin, i64 %end, ptr %scratch"
    return text.function(f"define void @{shape.name}({arguments})")


def _emit_setup(text: Text, shape: Shape, slots: _Slots) -> None:
    """Names that hold for the whole call: operands, byte steps, places in scratch memory."""
    if shape.is_matrix:
        matrix.emit_configure(text)
    size = item_bytes(accumulator_dtype(shape.dtype))
    for letter, number in (("A", 0), ("B", 1), ("C", 2)):
        text.line(f"%{letter} = getelementptr i8, ptr {text.slot(number, 'ptr')}, i64 0")
    source = item_bytes(shape.dtype)
    strides = (("a.row", A_ROWS), ("a.k", A_DEPTH), ("b.k", B_DEPTH), ("b.column", B_COLUMNS))
    for name, index in strides:
        text.line(f"%{name} = mul i64 {text.slot(slots.index(index).stride)}, {source}")
    if shape.lists_a:
        text.line(f"%a.lists = getelementptr i64, ptr {slots.list(text, A_ROWS)}, i64 0")
        text.line(f"%a.depths = getelementptr i64, ptr {slots.list(text, A_DEPTH)}, i64 0")
    end = slots.end(0, *shape.ends[0])
    text.line(f"%c.row = mul i64 {text.slot(end.row.stride)}, {size}")
    text.line("%panels.a = getelementptr i8, ptr %scratch, i64 0")
    text.line("%panels.b = getelementptr i8, ptr %scratch, i64 %panel_a")
    text.line("%sums = getelementptr i8, ptr %panels.b, i64 %panel_b")
    step = "%b.column" if shape.unit == "turned" else "%b.k"
    text.line(f"%b.step = add i64 0, {shape.tile.columns * size if shape.read_b else step}")
    text.line("%last.row = add i64 %m, -1")
    text.line("%last.column = add i64 %n, -1")
    text.line("%is.straight = icmp ne i64 %straight, 0")
    several = text.let(f"icmp sgt i64 %k, {shape.block}")
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
        beyond = text.let(f"add i64 %{side}0, %{block}")
        text.line(f"%{limit} = add i64 0, {text.smallest(beyond, f'%{size}')}")
    kind = stored_type(shape.dtype)
    for letter, index in (("A", A_BATCH), ("B", B_BATCH)):
        offset = slots.index(index).load(text).offset(text, "%batch")
        text.line(f"%{letter}.b = getelementptr {kind}, ptr %{letter}, i64 {offset}")
    end = slots.end(0, *shape.ends[0])
    offset = end.batch.load(text).offset(text, "%batch")
    text.line(f"%C.b = getelementptr {stored_type(end.dtype)}, ptr %C, i64 {offset}")
    text.line("br label %k.head")


def _emit_depth_loop(text: Text, shape: Shape, slots: _Slots) -> None:
    """Blocks of k (one, of no length, if k is zero), with the loops over panels and tiles."""
    text.label("k.head")
    text.line("%k0 = phi i64 [0, %chunk.head], [%k1, %group.end]")
    text.line(f"%k1 = add i64 %k0, {shape.block}")
    left = text.let("sub i64 %k, %k0")
    text.line(f"%kc = add i64 0, {text.smallest(left, str(shape.block))}")
    text.line("%is.first = icmp eq i64 %k0, 0")
    text.line("%is.last = icmp sge i64 %k1, %k")
    text.line("%is.straight.last = and i1 %is.straight, %is.last")
    if shape.packs_a:
        text.line(
            f"call void @{shape.name}.pack_a(ptr %args, ptr %A.b, i64 %m0, i64 %m1, "
            "i64 %last.row, i64 %k0, i64 %kc, ptr %panels.a)"
        )
    text.line("br label %group.head")
    _emit_group_loop(text, shape, slots)
    text.label("group.end")
    text.line("br i1 %is.last, label %k.end, label %k.head")
    text.label("k.end")
    text.line("br label %chunk.test")


def _emit_group_loop(text: Text, shape: Shape, slots: _Slots) -> None:
    """Groups of column panels, packed together so that long rows of B are read at once."""
    text.label("group.head")
    text.line("%g = phi i64 [%n0, %k.head], [%g1, %j.end]")
    text.line("%sums.g = phi ptr [%sums, %k.head], [%sums.next, %j.end]")
    text.line(f"%g1 = add i64 0, {text.smallest(text.let('add i64 %g, %group'), '%n1')}")
    if shape.read_b:
        text.line(
            f"call void @{shape.name}.pack_b(ptr %args, ptr %B.b, i64 %g, i64 %g1, "
            "i64 %last.column, i64 %k0, i64 %kc, ptr %panels.b)"
        )
    text.line("br label %j.head")
    _emit_column_loop(text, shape, slots)
    text.label("j.end")
    more = text.let("icmp slt i64 %g1, %n1")
    text.line(f"br i1 {more}, label %group.head, label %group.end")


def _emit_column_loop(text: Text, shape: Shape, slots: _Slots) -> None:
    columns = shape.tile.columns
    text.label("j.head")
    text.line("%j = phi i64 [%g, %group.head], [%j.next, %i.end]")
    text.line("%sums.j = phi ptr [%sums.g, %group.head], [%sums.next, %i.end]")
    text.line("%panel.j = phi ptr [%panels.b, %group.head], [%panel.j.next, %i.end]")
    size = shape.panel_bytes(columns)
    text.line(f"%panel.j.next = getelementptr i8, ptr %panel.j, i64 {size}")
    text.line(f"%j.next = add i64 %j, {columns}")
    text.line("%full.j = icmp sle i64 %j.next, %n1")
    text.line(f"%columns.j = sub i64 {text.smallest('%j.next', '%n1')}, %j")
    _emit_place(text, shape, "b")
    column = slots.end(0, *shape.ends[0]).column.load(text)
    text.line(f"%c.column = add i64 0, {column.offset(text, '%j')}")
    text.line("br label %i.head")
    _emit_row_loop(text, shape)
    text.label("i.end")
    text.line("%more.j = icmp slt i64 %j.next, %g1")
    text.line("br i1 %more.j, label %j.head, label %j.end")


def _emit_row_loop(text: Text, shape: Shape) -> None:
    rows = shape.tile.rows
    text.label("i.head")
    text.line("%i = phi i64 [%m0, %j.head], [%i.next, %i.next.head]")
    text.line("%sums.i = phi ptr [%sums.j, %j.head], [%sums.next, %i.next.head]")
    text.line("%panel.i = phi ptr [%panels.a, %j.head], [%panel.i.next, %i.next.head]")
    text.line(f"%i.next = add i64 %i, {rows}")
    text.line("%sums.next = getelementptr i8, ptr %sums.i, i64 %tile.step")
    size = shape.panel_bytes(rows)
    text.line(f"%panel.i.next = getelementptr i8, ptr %panel.i, i64 {size}")
    text.line("%full.i = icmp sle i64 %i.next, %m1")
    text.line(f"%rows.i = sub i64 {text.smallest('%i.next', '%m1')}, %i")
    _emit_place(text, shape, "a")
    _emit_run(text, shape)
    text.label("i.next.head")
    text.line("%more.i = icmp slt i64 %i.next, %m1")
    text.line("br i1 %more.i, label %i.head, label %i.end")


def _emit_place(text: Text, shape: Shape, side: str) -> None:
    """Name where this tile's rows of A (or columns of B) are read: its panel, or in place.

    In place, the last tile is moved back to end at the last row or column: it computes some
    outputs again, to the same bits, but does not store them again.
    """
    letter, at, count, tile, reading = {
        "a": ("A", "i", "m", shape.tile.rows, shape.read_a),
        "b": ("B", "j", "n", shape.tile.columns, shape.read_b),
    }[side]
    if reading and reading.kind == "listed":
        text.line(f"%{at}.at = add i64 0, %{at}")
        text.line("%a.from = getelementptr i8, ptr %A.b, i64 0")
        text.line("%a.list = getelementptr i64, ptr %a.lists, i64 %i")
        text.line("%a.list.k = getelementptr i64, ptr %a.depths, i64 %k0")
        return
    if reading:
        text.line(f"%{at}.at = add i64 0, %{at}")
        text.line(f"%{side}.from = getelementptr i8, ptr %panel.{at}, i64 0")
        return
    end = text.let(f"sub i64 %{count}, {tile}")
    text.line(f"%{at}.at = add i64 0, {text.smallest(f'%{at}', end)}")
    down = text.let(
        f"getelementptr i8, ptr %{letter}.b, i64 {text.let(f'mul i64 %k0, %{side}.k')}"
    )
    step = "%a.row" if side == "a" else "%b.column"
    shift = text.let(f"mul i64 %{at}.at, {step}")
    text.line(f"%{side}.from = getelementptr i8, ptr {down}, i64 {shift}")


def _emit_run(text: Text, shape: Shape) -> None:
    """Run the micro-kernel: into the output if nothing else is to do, otherwise into sums."""
    total = accumulator_dtype(shape.dtype)
    size, kind = item_bytes(total), stored_type(total)
    width = shape.tile.columns * size
    whole = text.let("and i1 %full.i, %full.j")
    straight = text.let(f"and i1 {whole}, %is.straight.last")
    down = text.let(f"getelementptr i8, ptr %C.b, i64 {text.let('mul i64 %i, %c.row')}")
    here = text.let(f"getelementptr {kind}, ptr {down}, i64 %c.column")
    to = text.let(f"select i1 {straight}, ptr {here}, ptr %sums.i")
    step = text.let(f"select i1 {straight}, i64 %c.row, i64 {width}")
    if shape.fetches:
        text.line("br i1 %is.last, label %fetch, label %products")
        text.label("fetch")
        text.line(
            f"call void @{shape.name}.fetch(ptr %args, i64 %batch, i64 %i, i64 %rows.i, i64 %j)"
        )
        text.line("br label %products")
        text.label("products")
    steps = "ptr %a.list, ptr %a.list.k" if shape.lists_a else "i64 %a.row, i64 %a.k"
    text.line(
        f"call void @{shape.name}.tile(i64 %kc, ptr %a.from, {steps}, "
        f"ptr %b.from, i64 %b.step, ptr %sums.i, i64 {width}, ptr {to}, i64 {step}, "
        "i1 %is.first)"
    )
    wait = text.let("xor i1 %is.last, true")
    skip = text.let(f"or i1 {wait}, {straight}")
    text.line(f"br i1 {skip}, label %i.next.head, label %finish")
    text.label("finish")
    rows, columns = text.let("sub i64 %i, %i.at"), text.let("sub i64 %j, %j.at")
    down = text.let(
        f"getelementptr i8, ptr %sums.i, i64 {text.let(f'mul i64 {rows}, {width}')}"
    )
    sums = text.let(f"getelementptr {kind}, ptr {down}, i64 {columns}")
    text.line(
        f"call void @{shape.name}.finish(ptr %args, i64 %batch, i64 %i, i64 %rows.i, "
        f"i64 %j, i64 %columns.j, ptr {sums})"
    )
    text.line("br label %i.next.head")
