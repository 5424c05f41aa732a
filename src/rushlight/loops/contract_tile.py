"""The micro-kernel: one register tile of products over one block of k, and the store of a
finished tile.

A tile is `rows` x `vectors` vectors of 16 lanes. Sums start at zero in every block of k and
blocks are added in order, so the bits of an output do not depend on the tile it lies in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar

from rushlight.loops.text import (
    IOTA,
    LANES,
    IndexSlots,
    LoadedIndex,
    Text,
    convert,
    is_float,
    item_bytes,
    load_scattered,
    load_vector,
    store_scattered,
    store_vector,
    stored_type,
    vector,
    widen,
)

__all__ = [
    "EpilogueBuilder",
    "OperandSlots",
    "Tile",
    "emit_fetch",
    "emit_finish",
    "emit_tile",
]


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile: `rows` of A by `vectors` vectors of 16 lanes of B."""

    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        return self.vectors * LANES


# ---- the products


def emit_tile(name: str, dtype: str, tile: Tile, way: str) -> tuple[str, set[str]]:
    """Text of `void @name(k, A, A's row step, A's k step, B, B's k step, sums, row step of
    sums, output, row step of the output, first block?)`.

    The output is those sums (but for the first block) plus the products; it may be in their
    place. Steps are in bytes. `way` is how A lies: 'packed', so that its steps are known here,
    which frees registers and addressing; 'place', at any steps; or 'listed', where its steps
    are lists instead: of the elements' offsets (i64) for these rows, and for every k.
    """
    text = Text()
    size = item_bytes(dtype)
    factors = _FACTORS[way](text, tile, dtype)
    factors.enter()
    text.line("%any = icmp sgt i64 %k, 0")
    text.line("br i1 %any, label %loop, label %done")
    text.label("loop")
    text.line("%left = phi i64 [%k, %entry], [%left.next, %loop]")
    text.line("%b = phi ptr [%B, %entry], [%b.next, %loop]")
    factors.head()
    cells = [(row, column) for row in range(tile.rows) for column in range(tile.vectors)]
    for r, c in cells:
        text.line(
            f"%s{r}.{c} = phi {vector(dtype)} [zeroinitializer, %entry], [%n{r}.{c}, %loop]"
        )
    _emit_products(text, tile, dtype, factors)
    factors.step()
    text.line("%b.next = getelementptr i8, ptr %b, i64 %bk")
    text.line("%left.next = add i64 %left, -1")
    text.line("%more = icmp ne i64 %left.next, 0")
    text.line("br i1 %more, label %loop, label %done")
    text.label("done")
    for r, c in cells:
        text.line(
            f"%d{r}.{c} = phi {vector(dtype)} [zeroinitializer, %entry], [%n{r}.{c}, %loop]"
        )
    _emit_sums(text, tile, dtype, size)
    arguments = (
        f"i64 %k, ptr noalias %A, {factors.kind} %ar, {factors.kind} %ak, ptr noalias %B, "
        "i64 %bk, ptr %S, i64 %sr, ptr %C, i64 %cr, i1 %start"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline"), text.needs


@dataclass(frozen=True, slots=True)
class _Factors:
    """Where the elements of A are read, one a row for each k: lines before the loop over k, at
    its head, for each row, and at its end. Here in place, at steps that are arguments.
    """

    text: Text
    tile: Tile
    dtype: str
    kind: ClassVar[str] = "i64"  # of A's steps among the arguments
    rows_apart: ClassVar[int] = 3  # rows of which one has its address in a register

    @property
    def heads(self) -> range:
        """Rows whose address is kept in a register: the others are a step or two further."""
        return range(0, self.tile.rows, self.rows_apart)

    def enter(self) -> None:
        text = self.text
        text.line("%head0 = getelementptr i8, ptr %A, i64 0")
        text.line("%ar2 = shl i64 %ar, 1")
        text.line("%ar3 = add i64 %ar, %ar2")
        for before, row in pairwise(self.heads):
            text.line(f"%head{row} = getelementptr i8, ptr %head{before}, i64 %ar3")

    def head(self) -> None:
        for row in self.heads:
            self.text.line(f"%a{row} = phi ptr [%head{row}, %entry], [%a{row}.next, %loop]")

    def place(self, row: int) -> str:
        past = row % 3
        step = ("0", "%ar", "%ar2")[past]
        return self.text.let(f"getelementptr i8, ptr %a{row - past}, i64 {step}")

    def step(self) -> None:
        for row in self.heads:
            self.text.line(f"%a{row}.next = getelementptr i8, ptr %a{row}, i64 %ak")


class _PackedFactors(_Factors):
    """A in a panel: its steps are known here."""

    rows_apart = 16

    def enter(self) -> None:
        self.text.line("%head0 = getelementptr i8, ptr %A, i64 0")

    def place(self, row: int) -> str:
        return self.text.let(f"getelementptr i8, ptr %a0, i64 {row * item_bytes(self.dtype)}")

    def step(self) -> None:
        width = self.tile.rows * item_bytes(self.dtype)
        self.text.line(f"%a0.next = getelementptr i8, ptr %a0, i64 {width}")


class _ListedFactors(_Factors):
    """A in place, its rows and its k anywhere: every row's address is kept, and each k's offset
    is added to all of them.
    """

    kind = "ptr"

    def enter(self) -> None:
        text = self.text
        for row in range(self.tile.rows):
            place = text.place("i64", "%ar", str(row))
            offset = text.let(f"load i64, ptr {place}, align 8")
            text.line(
                f"%head{row} = getelementptr {stored_type(self.dtype)}, ptr %A, i64 {offset}"
            )

    def head(self) -> None:
        self.text.line("%offset.at = phi ptr [%ak, %entry], [%offset.next, %loop]")

    def place(self, row: int) -> str:
        if row == 0:
            self.text.line("%offset = load i64, ptr %offset.at, align 8")
        return self.text.place(stored_type(self.dtype), f"%head{row}", "%offset")

    def step(self) -> None:
        self.text.line("%offset.next = getelementptr i64, ptr %offset.at, i64 1")


_FACTORS = {"place": _Factors, "packed": _PackedFactors, "listed": _ListedFactors}


def _emit_products(text: Text, tile: Tile, dtype: str, factors: _Factors) -> None:
    kind, size = stored_type(dtype), item_bytes(dtype)
    for c in range(tile.vectors):
        place = text.let(f"getelementptr i8, ptr %b, i64 {c * LANES * size}")
        text.line(f"%b{c} = load {vector(dtype)}, ptr {place}, align {size}")
    for r in range(tile.rows):
        place = factors.place(r)
        factor = text.splat(kind, text.let(f"load {kind}, ptr {place}, align {size}"))
        for c in range(tile.vectors):
            _emit_multiply_add(text, dtype, f"%n{r}.{c}", factor, f"%b{c}", f"%s{r}.{c}")


def _emit_multiply_add(text: Text, dtype: str, name: str, a: str, b: str, total: str) -> None:
    v = vector(dtype)
    if is_float(dtype):
        fma = f"llvm.fma.v16f{8 * item_bytes(dtype)}"
        text.needs.add(fma)
        text.line(f"{name} = call {v} @{fma}({v} {a}, {v} {b}, {v} {total})")
    else:
        text.line(f"{name} = add {v} {total}, {text.let(f'mul {v} {a}, {b}')}")


def _emit_sums(text: Text, tile: Tile, dtype: str, size: int) -> None:
    """Store the sums, or add them to those of the blocks before."""
    v = vector(dtype)
    to = _cell_places(text, tile, size, "%C", "%cr")
    text.line("br i1 %start, label %store, label %add")
    text.label("store")
    for (r, c), place in to.items():
        text.line(f"store {v} %d{r}.{c}, ptr {place}, align {size}")
    text.line("ret void")
    text.label("add")
    before = _cell_places(text, tile, size, "%S", "%sr")
    for (r, c), place in to.items():
        sums = text.let(f"load {v}, ptr {before[r, c]}, align {size}")
        total = text.let(f"{'fadd' if is_float(dtype) else 'add'} {v} {sums}, %d{r}.{c}")
        text.line(f"store {v} {total}, ptr {place}, align {size}")
    text.line("ret void")


def _cell_places(
    text: Text, tile: Tile, size: int, row: str, step: str
) -> dict[tuple[int, int], str]:
    """The address of each vector of a tile at `row`."""
    places = {}
    for r in range(tile.rows):
        for c in range(tile.vectors):
            places[r, c] = text.let(f"getelementptr i8, ptr {row}, i64 {c * LANES * size}")
        row = text.let(f"getelementptr i8, ptr {row}, i64 {step}")
    return places


# ---- the epilogue and the store


@dataclass(frozen=True, slots=True)
class OperandSlots:
    """An array addressed by batch, row and column at the end: its dtype, how 16 columns lie in
    memory ('lanes' side by side, 'same' one element for all, 'one' for all rows too, 'any'),
    and its place in the argument block.
    """

    dtype: str
    columns: str
    pointer: int
    batch: IndexSlots
    row: IndexSlots
    column: IndexSlots


@dataclass(slots=True)
class _Bound:
    """An OperandSlots with its pointer (moved to the batch) and indices loaded."""

    slots: OperandSlots
    base: str
    batch: str
    row: LoadedIndex
    column: LoadedIndex
    at: str = ""
    shift: str = ""
    one: str = ""  # the element that stands for all outputs


@dataclass(slots=True)
class EpilogueBuilder:
    """What an epilogue's `emit` is given: operands to load and store by number, and lines to
    append.

    Values are names of vectors of 16 columns of one row. Half-precision kinds arrive widened to
    float, and bool as bytes. Lanes outside `mask` (None when all are inside) hold zeros and are
    never stored.
    """

    text: Text
    mask: str | None
    _operands: list[_Bound] = field(default_factory=list)
    _first: str = ""
    _last: str = ""

    def line(self, text: str) -> None:
        """Append one line of LLVM text."""
        self.text.line(text)

    def name(self) -> str:
        """A fresh SSA name."""
        return self.text.name()

    def let(self, expression: str) -> str:
        """Append `fresh = expression` and return the fresh name."""
        return self.text.let(expression)

    def call(self, returns: str, function: str, arguments: str) -> str:
        """Append a call, note that its function is needed, and return the name of its value."""
        return self.text.call(returns, function, arguments)

    def offsets(self, number: int) -> str:
        """The element offsets (<16 x i64>) of these 16 outputs in operand `number`: also a
        counter for noise.
        """
        operand = self._operands[number]
        columns = operand.column.offsets(self.text, self._first, self._last)
        base = self.let(f"add i64 {operand.batch}, {operand.shift}")
        return self.let(f"add <16 x i64> {columns}, {self.text.splat('i64', base)}")

    def load(self, number: int) -> str:
        """Operand `number` at these 16 outputs."""
        operand, text = self._operands[number], self.text
        dtype = operand.slots.dtype
        if operand.one:
            return widen(text, dtype, text.splat(stored_type(dtype), operand.one))
        if operand.slots.columns == "any":
            columns = operand.column.offsets(text, self._first, self._last)
            return load_scattered(text, dtype, operand.at, columns, self.mask)
        place = text.place(
            stored_type(dtype), operand.at, operand.column.offset(text, self._first)
        )
        if operand.slots.columns == "lanes":
            return load_vector(text, dtype, place, self.mask)
        kind = stored_type(dtype)
        return widen(text, dtype, text.splat(kind, text.let(f"load {kind}, ptr {place}")))

    def store(self, number: int, value: str, dtype: str = "") -> None:
        """Store a vector into operand `number` at these 16 outputs, whose dtype is another one
        of as many bytes if `dtype` is given.
        """
        operand, text = self._operands[number], self.text
        dtype = dtype or operand.slots.dtype
        if operand.slots.columns == "lanes":
            kind = stored_type(dtype)
            place = text.place(kind, operand.at, operand.column.offset(text, self._first))
            store_vector(text, dtype, value, place, self.mask)
        else:
            columns = operand.column.offsets(text, self._first, self._last)
            store_scattered(text, dtype, value, operand.at, columns, self.mask)


Emit = Callable[[EpilogueBuilder, str], str]


def emit_finish(
    name: str,
    tile: Tile,
    dtype: str,
    operands: list[OperandSlots],
    emit: Emit | None,
    returns: str,
    narrow: Callable[[Text, str], str] | None = None,
) -> tuple[str, set[str]]:
    """Text of `void @name(args, batch, first row, rows, first column, columns, sums)`.

    `operands[0]` is the output, the others are the epilogue's, whose value has dtype `returns`.
    `narrow` rounds a value to 16 bits as they lie in the output, in place of the usual way.
    """
    text = Text()
    bound = [_bind(text, slots) for slots in operands]
    text.line("%last = add i64 %column, " + text.let("add i64 %columns, -1"))
    text.line("br label %row.head")
    text.label("row.head")
    text.line("%r = phi i64 [0, %entry], [%r.next, %row.end]")
    text.line("%from = phi ptr [%sums, %entry], [%from.next, %row.end]")
    row = text.let("add i64 %row, %r")
    for operand in bound:
        operand.shift = operand.row.offset(text, row)
        operand.at = text.place(stored_type(operand.slots.dtype), operand.base, operand.shift)
    _emit_columns(text, dtype, bound, _Last(emit, returns, narrow))
    text.label("row.end")
    text.line("%r.next = add i64 %r, 1")
    text.line(
        f"%from.next = getelementptr i8, ptr %from, i64 {tile.columns * item_bytes(dtype)}"
    )
    more = text.let("icmp slt i64 %r.next, %rows")
    text.line(f"br i1 {more}, label %row.head, label %done")
    text.label("done")
    text.line("ret void")
    arguments = (
        "ptr %args, i64 %batch, i64 %row, i64 %rows, i64 %column, i64 %columns, "
        "ptr noalias %sums"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline"), text.needs


def emit_fetch(name: str, tile: Tile, operands: list[OperandSlots]) -> tuple[str, set[str]]:
    """Text of `void @name(args, batch, first row, rows, column)`: asks for the cache lines that
    the finish of a tile will read and write, so that it need not wait for them.
    """
    text = Text()
    bound = [_bind(text, slots) for slots in operands]
    text.line("br label %row.head")
    text.label("row.head")
    text.line("%r = phi i64 [0, %entry], [%r.next, %row.head]")
    text.line("%r.next = add i64 %r, 1")
    row = text.let("add i64 %row, %r")
    for number, operand in enumerate(bound):
        kind, size = stored_type(operand.slots.dtype), item_bytes(operand.slots.dtype)
        at = text.place(kind, operand.base, operand.row.offset(text, row))
        at = text.place(kind, at, operand.column.offset(text, "%column"))
        for line in range(0, tile.columns * size, 64):
            place = text.let(f"getelementptr i8, ptr {at}, i64 {line}")
            text.fetch(place, writes=number == 0)
    more = text.let("icmp slt i64 %r.next, %rows")
    text.line(f"br i1 {more}, label %row.head, label %done")
    text.label("done")
    text.line("ret void")
    arguments = "ptr %args, i64 %batch, i64 %row, i64 %rows, i64 %column"
    return text.function(f"define internal void @{name}({arguments}) noinline"), text.needs


def _bind(text: Text, slots: OperandSlots) -> _Bound:
    pointer = text.slot(slots.pointer, "ptr")
    batch = slots.batch.load(text).offset(text, "%batch")
    base = text.place(stored_type(slots.dtype), pointer, batch)
    bound = _Bound(slots, base, batch, slots.row.load(text), slots.column.load(text))
    if slots.columns == "one":
        bound.one = text.let(f"load {stored_type(slots.dtype)}, ptr {base}")
    return bound


@dataclass(frozen=True, slots=True)
class _Last:
    """What becomes of a vector of sums: see `emit_finish`."""

    emit: Emit | None
    returns: str
    narrow: Callable[[Text, str], str] | None


def _emit_columns(text: Text, dtype: str, bound: list[_Bound], finish: _Last) -> None:
    """The vectors of one row: whole ones in a loop, then a part of one under a mask."""
    some = text.let(f"icmp sge i64 %columns, {LANES}")
    text.line(f"br i1 {some}, label %whole, label %edge.head")
    text.label("whole")
    text.line("%c = phi i64 [0, %row.head], [%c.next, %whole.end]")
    _emit_vector(text, dtype, bound, finish, "%c", None)
    text.line("br label %whole.end")  # the epilogue may have made blocks of its own
    text.label("whole.end")
    text.line(f"%c.next = add i64 %c, {LANES}")
    end = text.let(f"add i64 %c.next, {LANES}")
    more = text.let(f"icmp sle i64 {end}, %columns")
    text.line(f"br i1 {more}, label %whole, label %edge.head")
    text.label("edge.head")
    text.line("%e = phi i64 [0, %row.head], [%c.next, %whole.end]")
    left = text.let("sub i64 %columns, %e")
    some = text.let(f"icmp sgt i64 {left}, 0")
    text.line(f"br i1 {some}, label %edge, label %row.end")
    text.label("edge")
    mask = text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}")
    _emit_vector(text, dtype, bound, finish, "%e", mask)
    text.line("br label %row.end")


def _emit_vector(
    text: Text, dtype: str, bound: list[_Bound], finish: _Last, at: str, mask: str | None
) -> None:
    place = text.place(stored_type(dtype), "%from", at)
    value = text.let(f"load {vector(dtype)}, ptr {place}, align {item_bytes(dtype)}")
    first = text.let(f"add i64 %column, {at}")
    builder = EpilogueBuilder(text, mask, bound[1:], first, "%last")
    if finish.emit is not None:
        value = finish.emit(builder, value)
    value = convert(text, value, finish.returns, bound[0].slots.dtype)
    builder._operands = bound
    if finish.narrow is not None:
        builder.store(0, finish.narrow(text, value), "int16")
    else:
        builder.store(0, value)
