"""The micro-kernel for few rows of A by columns of B that lie along k: squares of B are turned
in registers and used at once, since a panel of them would be read too few times.
"""

from __future__ import annotations

from itertools import pairwise

from rushlight.loops.contract_tile import Tile
from rushlight.loops.text import (
    IOTA,
    LANES,
    Text,
    item_bytes,
    load_scattered,
    stored_type,
    transpose,
    vector,
)

TILES = (Tile(4, 1), Tile(1, 1))


def emit_tile(name: str, dtype: str, tile: Tile, *, packed: bool) -> tuple[str, set[str]]:
    """Text of the same function as `contract_tile.emit_tile`, where B's k lie side by side and
    `bk` is the step from one column to the next.
    """
    text, size, v = Text(), item_bytes(dtype), vector(dtype)
    rows = range(tile.rows)
    steps = (str(size), str(size * tile.rows)) if packed else ("%ar", "%ak")
    heads = list(range(0, LANES, 3))
    text.line("%bk2 = shl i64 %bk, 1")
    text.line("%bk3 = add i64 %bk, %bk2")
    text.line("%head0 = getelementptr i8, ptr %B, i64 0")
    for before, lane in pairwise(heads):
        text.line(f"%head{lane} = getelementptr i8, ptr %head{before}, i64 %bk3")
    text.line(f"%squares = and i64 %k, {-LANES}")
    text.line("%any = icmp sgt i64 %squares, 0")
    text.line("br i1 %any, label %square, label %rest")
    text.label("square")
    text.line("%left = phi i64 [%squares, %entry], [%left.next, %square]")
    text.line("%a = phi ptr [%A, %entry], [%a.next, %square]")
    for lane in heads:
        text.line(f"%b{lane} = phi ptr [%head{lane}, %entry], [%b{lane}.next, %square]")
    for r in rows:
        text.line(f"%s{r} = phi {v} [zeroinitializer, %entry], [%n{r}, %square]")
    lanes = []
    for lane in range(LANES):
        step = ("0", "%bk", "%bk2")[lane % 3]
        place = text.let(f"getelementptr i8, ptr %b{lane - lane % 3}, i64 {step}")
        lanes.append(text.let(f"load {v}, ptr {place}, align {size}"))
    totals, at = [f"%s{r}" for r in rows], "%a"
    for column in transpose(text, v, lanes):
        totals = _add_products(text, dtype, totals, at, steps[0], column)
        at = text.let(f"getelementptr i8, ptr {at}, i64 {steps[1]}")
    text.line(f"%a.next = getelementptr i8, ptr {at}, i64 0")
    _rename(text, v, "n", totals)
    for lane in heads:
        text.line(f"%b{lane}.next = getelementptr i8, ptr %b{lane}, i64 {LANES * size}")
    text.line(f"%left.next = sub i64 %left, {LANES}")
    text.line("%again = icmp sgt i64 %left.next, 0")
    text.line("br i1 %again, label %square, label %rest")
    _emit_rest(text, dtype, tile, steps)
    arguments = (
        "i64 %k, ptr noalias %A, i64 %ar, i64 %ak, ptr noalias %B, i64 %bk, "
        "ptr %S, i64 %sr, ptr %C, i64 %cr, i1 %start"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline"), text.needs


def _add_products(
    text: Text, dtype: str, totals: list[str], at: str, step: str, column: str
) -> list[str]:
    """Sums of all rows after one k: `at` is the address of A's first row there, `step` the way
    to the next.
    """
    kind, v = stored_type(dtype), vector(dtype)
    fma, made = f"llvm.fma.v16f{8 * item_bytes(dtype)}", []
    for total in totals:
        factor = text.let(f"load {kind}, ptr {at}, align {item_bytes(dtype)}")
        splat = text.splat(kind, factor)
        made.append(text.call(v, fma, f"{v} {splat}, {v} {column}, {v} {total}"))
        if len(made) < len(totals):
            at = text.let(f"getelementptr i8, ptr {at}, i64 {step}")
    return made


def _rename(text: Text, v: str, letter: str, values: list[str]) -> None:
    """Give values the names that the phis before them expect."""
    for number, value in enumerate(values):
        text.line(f"%{letter}{number} = select i1 true, {v} {value}, {v} {value}")


def _emit_rest(text: Text, dtype: str, tile: Tile, steps: tuple[str, str]) -> None:
    """The last k of a block, fewer than 16, one by one; then the sums go where they belong."""
    size, v = item_bytes(dtype), vector(dtype)
    rows = range(tile.rows)
    text.label("rest")
    for r in rows:
        text.line(f"%m{r} = phi {v} [zeroinitializer, %entry], [%n{r}, %square]")
    wide = text.let(f"mul <16 x i64> {IOTA}, {text.splat('i64', '%bk')}")
    text.line(f"%offsets = sdiv <16 x i64> {wide}, splat (i64 {size})")
    text.line("br label %one.test")
    text.label("one.test")
    text.line("%at = phi i64 [%squares, %rest], [%at.next, %one]")
    for r in rows:
        text.line(f"%t{r} = phi {v} [%m{r}, %rest], [%u{r}, %one]")
    text.line("%more.ones = icmp slt i64 %at, %k")
    text.line("br i1 %more.ones, label %one, label %done")
    text.label("one")
    text.line("%at.next = add i64 %at, 1")
    base = text.place(stored_type(dtype), "%B", "%at")
    column = load_scattered(text, dtype, base, "%offsets")
    a = text.let(f"getelementptr i8, ptr %A, i64 {text.let(f'mul i64 %at, {steps[1]}')}")
    made = _add_products(text, dtype, [f"%t{r}" for r in rows], a, steps[0], column)
    _rename(text, v, "u", made)
    text.line("br label %one.test")
    text.label("done")
    text.line("br i1 %start, label %store, label %add")
    for label in ("store", "add"):
        text.label(label)
        sums, to = "%S", "%C"
        for r in rows:
            total = f"%t{r}"
            if label == "add":
                before = text.let(f"load {v}, ptr {sums}, align {size}")
                total = text.let(f"fadd {v} {before}, {total}")
            text.line(f"store {v} {total}, ptr {to}, align {size}")
            sums = text.let(f"getelementptr i8, ptr {sums}, i64 %sr")
            to = text.let(f"getelementptr i8, ptr {to}, i64 %cr")
        text.line("ret void")
