"""Packing: copies a block of a contraction's operand into a panel that the micro-kernel reads
in order.

A panel holds `width` lanes (rows of A or columns of B) for each k in turn: panel[k * width +
lane], widened to the accumulator's type. How it is read depends on which positions lie side by
side in memory (`Reading`); lanes past the operand's last repeat that one, so every panel is
full and nothing outside the operand is touched.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rushlight.loops.text import (
    IOTA,
    LANES,
    IndexSlots,
    LoadedIndex,
    Text,
    accumulator_dtype,
    item_bytes,
    load_scattered,
    load_vector,
    stored_type,
    vector,
    widen,
    widen_one,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """How an operand is read: `kind` is 'lanes' (neighbouring lanes lie side by side), 'depth'
    (neighbouring k do: blocks are transposed in registers), 'any', or 'listed' (not packed: in
    place, by lists of offsets). `run` is the length (16, 8 or 4) of the pieces that do.
    """

    kind: str
    run: int = LANES

    @property
    def key(self) -> str:
        return f"{self.kind}{self.run}" if self.kind in ("lanes", "depth") else self.kind

    @property
    def masked(self) -> bool:
        """Whether the edge of the lanes is read under a mask: else each lane is read from its
        own address.
        """
        return self.kind == "lanes" and self.run == LANES


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
    def total(self) -> str:
        return accumulator_dtype(self.dtype)


def panel_bytes(dtype: str, width: int, block: int) -> int:
    """Memory of one panel: narrow ones are written 16 lanes at a time: the last spills."""
    return (width * block + LANES) * item_bytes(accumulator_dtype(dtype))


def emit_pack(
    name: str,
    dtype: str,
    reading: Reading,
    width: int,
    block: int,
    lanes: IndexSlots,
    depth: IndexSlots,
) -> tuple[str, set[str]]:
    """Text of `void @name(args, base, first lane, end of lanes, last lane of all, first k,
    count of k, panels)`.

    Panels follow one another. Where neighbouring lanes lie side by side, 16 k of every panel
    are packed before the next 16, so that memory is read in long rows.
    """
    text = Text()
    panel = _Panel(text, dtype, reading, width, lanes.load(text), depth.load(text))
    if reading.kind == "depth":
        text.line(f"%rows = alloca [{LANES} x i64], align 64")
        text.line(f"%ahead = mul i64 {panel.lanes.stride}, {width}")
    else:
        text.line(f"%ahead = mul i64 {panel.depth.stride}, {LANES}")
    kind = stored_type(panel.total)
    some = text.let("icmp sgt i64 %kc.all, 0")
    text.line(f"br i1 {some}, label %step, label %done")
    text.label("step")
    text.line("%ks = phi i64 [0, %entry], [%ks.next, %step.end]")
    text.line(f"%ks.next = add i64 %ks, {LANES if reading.kind == 'lanes' else block}")
    text.line("%k0 = add i64 %k0.all, %ks")
    text.line(f"%kc = sub i64 {text.smallest('%ks.next', '%kc.all')}, %ks")
    down = text.let(f"mul i64 %ks, {width}")
    text.line(f"%panel.step = getelementptr {kind}, ptr %panels, i64 {down}")
    text.line("br label %panel.head")
    text.label("panel.head")
    text.line("%first = phi i64 [%begin, %step], [%first.next, %panel.end]")
    text.line("%panel = phi ptr [%panel.step, %step], [%panel.next, %panel.end]")
    text.line(
        f"%panel.next = getelementptr i8, ptr %panel, i64 {panel_bytes(dtype, width, block)}"
    )
    text.line(f"%first.next = add i64 %first, {width}")
    if reading.kind == "lanes" and width > LANES:
        _emit_whole(panel)
    else:
        text.line("br label %group.head")
    text.label("group.head")
    text.line("br label %group")
    text.label("group")
    text.line("%g = phi i64 [0, %group.head], [%g.next, %group.end]")
    text.line(f"%lane = add i64 0, {text.smallest(text.let('add i64 %first, %g'), '%last')}")
    text.line(f"%to = getelementptr {kind}, ptr %panel, i64 %g")
    if reading.kind == "depth":
        _emit_transposed(panel)
    else:
        _emit_group(panel)
    text.label("group.end")
    text.line(f"%g.next = add i64 %g, {LANES}")
    _emit_branch(text, f"icmp slt i64 %g.next, {width}", "group", "panel.end")
    text.label("panel.end")
    _emit_branch(text, "icmp slt i64 %first.next, %end", "panel.head", "step.end")
    text.label("step.end")
    _emit_branch(text, "icmp slt i64 %ks.next, %kc.all", "step", "done")
    text.label("done")
    text.line("ret void")
    arguments = (
        "ptr %args, ptr %base, i64 %begin, i64 %end, i64 %last, i64 %k0.all, i64 %kc.all, "
        "ptr noalias %panels"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline"), text.needs


def _emit_branch(text: Text, test: str, yes: str, no: str) -> None:
    text.line(f"br i1 {text.let(test)}, label %{yes}, label %{no}")


# ---- lanes from 16 neighbours, or each from its own address


def _emit_group(panel: _Panel) -> None:
    """Pack 16 lanes: side by side where they lie so (if not done before: `_emit_whole`), else
    under a mask or one by one.

    A panel narrower than 16 is written in order of k, so what a store spills over is
    overwritten by the next.
    """
    text = panel.text
    if panel.reading.kind == "lanes" and panel.width <= LANES:
        starts = [
            panel.lanes.offset(text, text.let(f"add i64 %lane, {piece}"))
            for piece in range(0, LANES, panel.reading.run)
        ]
        end = text.let(f"add i64 %lane, {LANES - 1}")
        _emit_branch(text, f"icmp sle i64 {end}, %last", "copy.head", "slow.head")
        text.label("copy.head")
        with _each_k(panel, "copy", "group.end") as row:
            places = [text.place(stored_type(panel.dtype), row, start) for start in starts]
            _fetch_ahead(panel, places)
            _store(panel, _load_pieces(panel, places), "%copy.k")
    else:
        text.line("br label %slow.head")
    text.label("slow.head")
    if panel.reading.masked:
        here = text.let("sub i64 %last, %lane")
        mask = text.let(f"icmp sle <16 x i64> {IOTA}, {text.splat('i64', here)}")
        start = panel.lanes.offset(text, "%lane")
    else:
        offsets = panel.lanes.offsets(text, "%lane", "%last")
    with _each_k(panel, "slow", "group.end") as row:
        if panel.reading.masked:
            place = text.place(stored_type(panel.dtype), row, start)
            _store(panel, load_vector(text, panel.dtype, place, mask), "%slow.k")
        else:
            _store(panel, load_scattered(text, panel.dtype, row, offsets), "%slow.k")


def _emit_whole(panel: _Panel) -> None:
    """Copy all lanes of a panel at once if they exist: most address arithmetic is spared."""
    text, kind = panel.text, stored_type(panel.dtype)
    end = text.let(f"add i64 %first, {panel.width - 1}")
    fits = text.let(f"icmp sle i64 {end}, %last")
    text.line(f"br i1 {fits}, label %whole.head, label %group.head")
    text.label("whole.head")
    groups = []
    for lane in range(0, panel.width, LANES):
        pieces = range(lane, lane + LANES, panel.reading.run)
        groups.append(
            [panel.lanes.offset(text, text.let(f"add i64 %first, {piece}")) for piece in pieces]
        )
    with _each_k(panel, "whole", "panel.end") as row:
        for number, starts in enumerate(groups):
            places = [text.place(kind, row, start) for start in starts]
            _fetch_ahead(panel, places)
            value = _load_pieces(panel, places)
            to = text.place(stored_type(panel.total), "%panel", str(number * LANES))
            _store(panel, value, "%whole.k", to)


@contextmanager
def _each_k(panel: _Panel, name: str, end: str) -> Iterator[str]:
    """A loop over k, entered from the block called `name`.head; gives the address of that k."""
    text = panel.text
    text.line(f"br label %{name}")
    text.label(name)
    text.line(f"%{name}.k = phi i64 [0, %{name}.head], [%{name}.next, %{name}]")
    offset = panel.depth.offset(text, text.let(f"add i64 %k0, %{name}.k"))
    yield text.place(stored_type(panel.dtype), "%base", offset)
    text.line(f"%{name}.next = add i64 %{name}.k, 1")
    more = text.let(f"icmp slt i64 %{name}.next, %kc")
    text.line(f"br i1 {more}, label %{name}, label %{end}")


def _fetch_ahead(panel: _Panel, places: list[str]) -> None:
    """Ask for what lies `%ahead` elements from where is read now: what will be packed next.

    Rows are often longer than the stretches that processors foresee by themselves.
    """
    line = max(1, 64 // (item_bytes(panel.dtype) * panel.reading.run))  # pieces in a cache line
    for place in places[::line]:
        panel.text.fetch(panel.text.place(stored_type(panel.dtype), place, "%ahead"))


def _store(panel: _Panel, value: str, k: str, to: str = "%to") -> None:
    text, size = panel.text, item_bytes(panel.total)
    place = text.place(stored_type(panel.total), to, text.let(f"mul i64 {k}, {panel.width}"))
    text.line(f"store {vector(panel.total)} {value}, ptr {place}, align {size}")


def _load_pieces(panel: _Panel, places: list[str]) -> str:
    """One vector from pieces of equal length, widened."""
    text, kind = panel.text, stored_type(panel.dtype)
    run, align = LANES // len(places), item_bytes(panel.dtype)
    parts = [text.let(f"load <{run} x {kind}>, ptr {at}, align {align}") for at in places]
    while len(parts) > 1:
        order = ", ".join(f"i32 {lane}" for lane in range(2 * run))
        both = zip(parts[::2], parts[1::2], strict=True)
        v = f"<{run} x {kind}>"
        parts = [
            text.let(f"shufflevector {v} {a}, {v} {b}, <{2 * run} x i32> <{order}>")
            for a, b in both
        ]
        run *= 2
    return widen(text, panel.dtype, parts[0])


# ---- lanes that each lie along k


def _emit_transposed(panel: _Panel) -> None:
    """Pack squares of 16 lanes by 16 k, four lanes at a time; then the rest of k one by one.

    The last lanes come first: four that reach past a narrow panel spill into the next k, which
    is written later.
    """
    text, kind = panel.text, stored_type(panel.dtype)
    left = text.let(f"sub i64 {panel.width}, %g")
    text.line(f"%lanes = add i64 0, {text.smallest(left, str(LANES))}")
    text.line(f"%quads = and i64 {text.let('add i64 %lanes, 3')}, -4")
    text.line("br label %row")
    text.label("row")
    text.line("%r = phi i64 [0, %group], [%r.next, %row]")
    at = text.smallest(text.let("add i64 %lane, %r"), "%last")
    place = text.place("i64", "%rows", "%r")
    text.line(f"store i64 {panel.lanes.offset(text, at)}, ptr {place}, align 8")
    text.line("%r.next = add i64 %r, 1")
    _emit_branch(text, "icmp slt i64 %r.next, %quads", "row", "row.end")
    text.label("row.end")
    text.line(f"%squares = and i64 %kc, {-LANES}")
    _emit_branch(text, "icmp sgt i64 %squares, 0", "square", "rest")
    text.label("square")
    text.line("%k = phi i64 [0, %row.end], [%k.next, %square.end]")
    steps = []
    for piece in range(0, LANES, panel.reading.run):
        at = text.let(f"add i64 %k, {piece}")
        offset = panel.depth.offset(text, text.let(f"add i64 %k0, {at}"))
        steps.append(text.place(kind, "%base", offset))
    down = text.let(f"mul i64 %k, {panel.width}")
    text.line(f"%k.to = getelementptr {stored_type(panel.total)}, ptr %to, i64 {down}")
    text.line("br label %quad")
    text.label("quad")
    text.line("%q.after = phi i64 [%quads, %square], [%q, %quad]")
    text.line("%q = add i64 %q.after, -4")
    _emit_quad(panel, steps)
    _emit_branch(text, "icmp sgt i64 %q, 0", "quad", "square.end")
    text.label("square.end")
    text.line(f"%k.next = add i64 %k, {LANES}")
    _emit_branch(text, "icmp slt i64 %k.next, %squares", "square", "rest")
    _emit_rest(panel)


def _emit_rest(panel: _Panel) -> None:
    """The last k of a block, fewer than 16, element by element."""
    text, kind, total = panel.text, stored_type(panel.dtype), stored_type(panel.total)
    text.label("rest")
    text.line(
        "%rk = phi i64 [%squares, %row.end], [%squares, %square.end], [%rk.next, %lane.end]"
    )
    _emit_branch(text, "icmp slt i64 %rk, %kc", "rest.k", "group.end")
    text.label("rest.k")
    text.line("%rk.next = add i64 %rk, 1")
    offset = panel.depth.offset(text, text.let("add i64 %k0, %rk"))
    base = text.place(kind, "%base", offset)
    to = text.place(total, "%to", text.let(f"mul i64 %rk, {panel.width}"))
    text.line("br label %lane.one")
    text.label("lane.one")
    text.line("%l = phi i64 [0, %rest.k], [%l.next, %lane.one]")
    row = text.let(f"load i64, ptr {text.place('i64', '%rows', '%l')}, align 8")
    place, size = text.place(kind, base, row), item_bytes(panel.dtype)
    value = widen_one(text, panel.dtype, text.let(f"load {kind}, ptr {place}, align {size}"))
    place, size = text.place(total, to, "%l"), item_bytes(panel.total)
    text.line(f"store {total} {value}, ptr {place}, align {size}")
    text.line("%l.next = add i64 %l, 1")
    _emit_branch(text, "icmp slt i64 %l.next, %lanes", "lane.one", "lane.end")
    text.label("lane.end")
    text.line("br label %rest")


def _emit_quad(panel: _Panel, steps: list[str]) -> None:
    """Four lanes by 16 k: load along k, mix within blocks of four, store a block for each k."""
    text, kind, size = panel.text, stored_type(panel.dtype), item_bytes(panel.total)
    row_place = text.place("i64", "%rows", "%q")
    rows = []
    for lane in range(4):
        row = text.let(f"load i64, ptr {text.place('i64', row_place, str(lane))}, align 8")
        places = [text.place(kind, step, row) for step in steps]
        _fetch_ahead(panel, places)
        rows.append(_load_pieces(panel, places))
    a, b, c, d = rows
    ab, cd = (
        [_mix(panel, *pair, order) for order in (_LOW, _HIGH)] for pair in ((a, b), (c, d))
    )
    mixed = [
        _mix(panel, x, y, order)
        for x, y in zip(ab, cd, strict=True)
        for order in (_LOW_PAIR, _HIGH_PAIR)
    ]  # block i of mixed[j] holds the four lanes at k + 4 i + j
    place = text.place(stored_type(panel.total), "%k.to", "%q")
    for block in range(4):
        lanes = ", ".join(f"i32 {4 * block + lane}" for lane in range(4))
        for value in mixed:
            v = vector(panel.total)
            four = text.let(f"shufflevector {v} {value}, {v} poison, <4 x i32> <{lanes}>")
            text.line(f"store {vector(panel.total, 4)} {four}, ptr {place}, align {size}")
            place = text.place(stored_type(panel.total), place, str(panel.width))


def _within(order: tuple[int, ...]) -> str:
    """The same choice of two vectors' lanes in each block of four: what vector units do
    fastest.
    """
    return ", ".join(f"i32 {4 * block + lane}" for block in range(4) for lane in order)


_LOW, _HIGH = _within((0, 16, 1, 17)), _within((2, 18, 3, 19))
_LOW_PAIR, _HIGH_PAIR = _within((0, 1, 16, 17)), _within((2, 3, 18, 19))


def _mix(panel: _Panel, a: str, b: str, order: str) -> str:
    v = vector(panel.total)
    return panel.text.let(f"shufflevector {v} {a}, {v} {b}, <16 x i32> <{order}>")
