"""Packing: copies a block of a contraction's operand into a panel that the micro-kernel reads in order.

A panel holds `width` lanes (rows of A or columns of B) for each k in turn: panel[k * width + lane], widened to the
accumulator's type. How it is read depends on which positions lie side by side in memory (`Reading`); lanes past the
operand's last repeat that one, so every panel is full and nothing outside the operand is touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.loops.contract_text import (
    LANES,
    IndexSlots,
    LoadedIndex,
    Text,
    item_bytes,
    load_scattered,
    accumulator_dtype,
    stored_type,
    vector,
    widen,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How an operand is read: `kind` is 'lanes' (neighbouring lanes lie side by side), 'depth' (neighbouring k do:
    blocks are transposed in registers) or 'any'. `run` is the length (16, 8 or 4) of the pieces that do."""

    kind: str
    run: int = LANES

    @property
    def key(self) -> str:
        return self.kind if self.kind == "any" else f"{self.kind}{self.run}"


@dataclass(slots=True)
class _Panel:
    """One packing function under construction, with the names of what it works on."""

    text: Text
    dtype: str
    reading: Reading
    width: int
    lanes: LoadedIndex
    depth: LoadedIndex

    @property
    def vector(self) -> str:
        return vector(self.dtype)


def emit_pack(
    name: str, dtype: str, reading: Reading, width: int, lanes: IndexSlots, depth: IndexSlots
) -> tuple[str, set[str]]:
    """Text of `void @name(args, base, first lane, last lane of all, first k, count of k, panel)`."""
    text = Text()
    panel = _Panel(text, dtype, reading, width, lanes.load(text), depth.load(text))
    text.line("br label %group")
    text.label("group")
    text.line("%g = phi i64 [0, %entry], [%g.next, %group.end]")
    at = text.let("add i64 %first, %g")
    text.line(f"%lane = add i64 0, {text.smallest(at, '%last')}")
    text.line("%to = getelementptr " + stored_type(accumulator_dtype(dtype)) + ", ptr %panel, i64 %g")
    _emit_fast(panel)
    _emit_slow(panel)
    text.label("group.end")
    text.line(f"%g.next = add i64 %g, {LANES}")
    more = text.let(f"icmp slt i64 %g.next, {width}")
    text.line(f"br i1 {more}, label %group, label %done")
    text.label("done")
    text.line("ret void")
    head = (
        f"define internal void @{name}(ptr %args, ptr %base, i64 %first, i64 %last, i64 %k0, i64 %kc, "
        "ptr noalias %panel) noinline nounwind {\nentry:\n"
    )
    return head + "\n".join(text.lines) + "\n}\n", text.needs


def _emit_fast(panel: _Panel) -> None:
    """The loop over k that `reading` allows; leaves in %slow.from the first k it has not done."""
    if panel.reading.kind == "lanes":
        _emit_copy(panel)
    elif panel.reading.kind == "depth":
        _emit_transpose(panel)
    else:
        panel.text.line("br label %slow.head")
        panel.text.label("slow.head")
        panel.text.line("%slow.from = phi i64 [0, %group]")


def _emit_copy(panel: _Panel) -> None:
    text = panel.text
    end = text.let(f"add i64 %lane, {LANES - 1}")
    full = text.let(f"icmp sle i64 {end}, %last")
    any_k = text.let("icmp sgt i64 %kc, 0")
    starts = [
        panel.lanes.offset(text, text.let(f"add i64 %lane, {piece}"))
        for piece in range(0, LANES, panel.reading.run)
    ]
    fast = text.let(f"and i1 {full}, {any_k}")
    text.line(f"br i1 {fast}, label %copy, label %slow.head")
    text.label("copy")
    text.line("%k = phi i64 [0, %group], [%k.next, %copy]")
    row = _row(panel, "%k")
    kind = stored_type(panel.dtype)
    _store(panel, _load_pieces(panel, [text.place(kind, row, start) for start in starts]), "%k")
    text.line("%k.next = add i64 %k, 1")
    more = text.let("icmp slt i64 %k.next, %kc")
    text.line(f"br i1 {more}, label %copy, label %group.end")
    text.label("slow.head")
    text.line("%slow.from = phi i64 [0, %group]")


def _emit_transpose(panel: _Panel) -> None:
    text, kind = panel.text, stored_type(panel.dtype)
    rows = []
    for lane in range(min(LANES, panel.width)):
        at = text.smallest(text.let(f"add i64 %lane, {lane}"), "%last")
        rows.append(text.place(kind, "%base", panel.lanes.offset(text, at)))
    some = text.let(f"icmp sge i64 %kc, {LANES}")
    text.line(f"br i1 {some}, label %square, label %slow.head")
    text.label("square")
    text.line("%k = phi i64 [0, %group], [%k.next, %square]")
    steps = []
    for piece in range(0, LANES, panel.reading.run):
        at = text.let(f"add i64 %k, {piece}")
        steps.append(panel.depth.offset(text, text.let(f"add i64 %k0, {at}")))
    loaded = [_load_pieces(panel, [text.place(kind, row, step) for step in steps]) for row in rows]
    columns = _transpose(panel, loaded)
    for step, column in enumerate(columns):
        _store(panel, column, text.let(f"add i64 %k, {step}"))
    text.line(f"%k.next = add i64 %k, {LANES}")
    end = text.let(f"add i64 %k.next, {LANES}")
    more = text.let(f"icmp sle i64 {end}, %kc")
    text.line(f"br i1 {more}, label %square, label %slow.head")
    text.label("slow.head")
    text.line("%slow.from = phi i64 [0, %group], [%k.next, %square]")


def _emit_slow(panel: _Panel) -> None:
    """One k at a time, each lane from its own address: any operand, and the edges of the fast loops."""
    text = panel.text
    offsets = panel.lanes.offsets(text, "%lane", "%last")
    some = text.let("icmp slt i64 %slow.from, %kc")
    text.line(f"br i1 {some}, label %slow, label %group.end")
    text.label("slow")
    text.line("%s = phi i64 [%slow.from, %slow.head], [%s.next, %slow]")
    _store(panel, load_scattered(text, panel.dtype, _row(panel, "%s"), offsets), "%s")
    text.line("%s.next = add i64 %s, 1")
    more = text.let("icmp slt i64 %s.next, %kc")
    text.line(f"br i1 {more}, label %slow, label %group.end")


def _row(panel: _Panel, k: str) -> str:
    text = panel.text
    offset = panel.depth.offset(text, text.let(f"add i64 %k0, {k}"))
    return text.place(stored_type(panel.dtype), "%base", offset)


def _store(panel: _Panel, value: str, k: str) -> None:
    # Narrow panels are written in order of k, so what a wide store spills over is overwritten by the next.
    text, kind = panel.text, stored_type(accumulator_dtype(panel.dtype))
    place = text.place(kind, "%to", text.let(f"mul i64 {k}, {panel.width}"))
    text.line(f"store {panel.vector} {value}, ptr {place}, align {item_bytes(accumulator_dtype(panel.dtype))}")


def _load_pieces(panel: _Panel, places: list[str]) -> str:
    """One vector from pieces of equal length, widened."""
    text, kind = panel.text, stored_type(panel.dtype)
    run = LANES // len(places)
    parts = [text.let(f"load <{run} x {kind}>, ptr {at}, align {item_bytes(panel.dtype)}") for at in places]
    while len(parts) > 1:
        both = list(zip(parts[::2], parts[1::2], strict=True))
        order = ", ".join(f"i32 {lane}" for lane in range(2 * run))
        parts = [
            text.let(f"shufflevector <{run} x {kind}> {a}, <{run} x {kind}> {b}, <{2 * run} x i32> <{order}>")
            for a, b in both
        ]
        run *= 2
    return widen(text, panel.dtype, parts[0])


def _transpose(panel: _Panel, rows: list[str]) -> list[str]:
    """The 16 columns of up to 16 rows: 4 x 4 squares within 128-bit lanes, then the lanes themselves."""
    rows = rows + ["poison"] * (LANES - len(rows))
    low, high = _within([0, 16, 1, 17]), _within([2, 18, 3, 19])
    low_pair, high_pair = _within([0, 1, 16, 17]), _within([2, 3, 18, 19])
    squares = []
    for a, b, c, d in (rows[start : start + 4] for start in range(0, LANES, 4)):
        ab, cd = (_mix(panel, a, b, low), _mix(panel, a, b, high)), (_mix(panel, c, d, low), _mix(panel, c, d, high))
        squares.append([_mix(panel, x, y, order) for x, y in zip(ab, cd) for order in (low_pair, high_pair)])
    columns = [""] * LANES
    for j in range(4):
        a, b, c, d = (square[j] for square in squares)
        for part in (0, 2):
            p, q = _mix(panel, a, b, _blocks(part, part + 1)), _mix(panel, c, d, _blocks(part, part + 1))
            columns[4 * part + j] = _mix(panel, p, q, _blocks(0, 2))
            columns[4 * part + 4 + j] = _mix(panel, p, q, _blocks(1, 3))
    return columns


def _within(order: list[int]) -> list[int]:
    return [4 * block + lane for block in range(4) for lane in order]


def _blocks(first: int, second: int) -> list[int]:
    """Blocks of four lanes: two from the first vector, then the same two from the second."""
    return [side + 4 * block + lane for side in (0, LANES) for block in (first, second) for lane in range(4)]


def _mix(panel: _Panel, a: str, b: str, order: list[int]) -> str:
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return panel.text.let(f"shufflevector {panel.vector} {a}, {panel.vector} {b}, <16 x i32> <{lanes}>")
