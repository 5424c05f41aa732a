"""bfloat16 products on matrix units (x86's AMX): packing and the micro-kernel.

A tile register holds 16 rows of 64 bytes. One instruction multiplies 16 rows of A by 32 of k
(panel A: [32 k][row][k]) with 32 of k by 16 columns of B (panel B: [32 k][pair of k][column]
[2]), both padded with zeros along k. For each 32 of k, from the first on, it sums products of
even k and of odd k by fma in order, and adds the sum of both to the output's total. Numbers
below the normal range count as zeros. So the bits depend on the inputs alone, wherever k is
cut.
"""

from __future__ import annotations

from rushlight.loops.contract_pack import Reading
from rushlight.loops.contract_tile import Tile
from rushlight.loops.text import IOTA, LANES, IndexSlots, LoadedIndex, Text, transpose

DEPTH = 32
"""How many k one instruction takes."""

BLOCK = 256
"""How many k are packed at a time: a panel of B takes a third of the first-level cache."""

TILES = (Tile(32, 2), Tile(16, 3), Tile(32, 1), Tile(16, 1))

DECLARATIONS = """
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8 immarg)
declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)
declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)
declare <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float>)
declare <16 x i16> @llvm.masked.load.v16i16.p0(ptr, i32 immarg, <16 x i1>, <16 x i16>)
"""


def panel_bytes(width: int) -> int:
    """Memory of one panel of A or B."""
    return width * BLOCK * 2


def emit_configure(text: Text) -> None:
    """Shape all tile registers of this thread: 16 rows of 64 bytes."""
    text.line("%shape = alloca [64 x i8], align 64")
    text.line("store <64 x i8> zeroinitializer, ptr %shape, align 64")
    text.line("store i8 1, ptr %shape, align 64")
    widths = text.let("getelementptr i8, ptr %shape, i64 16")
    text.line(f"store <8 x i16> splat (i16 64), ptr {widths}, align 16")
    heights = text.let("getelementptr i8, ptr %shape, i64 48")
    text.line(f"store <8 x i8> splat (i8 16), ptr {heights}, align 16")
    text.line("call void @llvm.x86.ldtilecfg(ptr %shape)")


def emit_release(text: Text) -> None:
    """Give the tile registers up, so that switching threads need not save them."""
    text.line("call void @llvm.x86.tilerelease()")


def narrow(text: Text, value: str) -> str:
    """Sums as bfloat16 in memory, by the machine's conversion. It takes numbers below the
    normal range for zeros, but no sum is one.
    """
    made = text.let(
        f"call <16 x bfloat> @llvm.x86.avx512bf16.cvtneps2bf16.512(<16 x float> {value})"
    )
    return text.let(f"bitcast <16 x bfloat> {made} to <16 x i16>")


# ---- the products


def emit_tile(name: str, tile: Tile) -> str:
    """Text of the same function as `contract_tile.emit_tile`, both operands packed: read in
    place, rows of A whose step is a power of two would drive B's panel out of the cache.
    """
    text = Text()
    down, across = tile.rows // LANES, tile.vectors
    cells = [(r, c, r * across + c) for r in range(down) for c in range(across)]
    assert down + across + len(cells) <= 8  # registers
    text.line("br i1 %start, label %zero, label %more")
    text.label("zero")
    for *_, total in cells:
        text.line(f"call void @llvm.x86.tilezero(i8 {total})")
    text.line("br label %loop.test")
    text.label("more")
    for total, place in _register_places(text, cells, "%S", "%sr"):
        text.line(f"call void @llvm.x86.tileloadd64(i8 {total}, ptr {place}, i64 %sr)")
    text.line("br label %loop.test")
    text.label("loop.test")
    text.line("%any = icmp sgt i64 %k, 0")
    text.line("br i1 %any, label %loop, label %done")
    _emit_loop(text, tile, cells)
    text.label("done")
    for total, place in _register_places(text, cells, "%C", "%cr"):
        text.line(f"call void @llvm.x86.tilestored64(i8 {total}, ptr {place}, i64 %cr)")
    text.line("ret void")
    arguments = (
        "i64 %k, ptr noalias %A, i64 %ar, i64 %ak, ptr noalias %B, i64 %bk, "
        "ptr %S, i64 %sr, ptr %C, i64 %cr, i1 %start"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline")


def _register_places(
    text: Text, cells: list[tuple[int, int, int]], row: str, step: str
) -> list[tuple[int, str]]:
    """Each register of sums, with the address of its part of the tile at `row`."""
    places = []
    down_16 = text.let(f"shl i64 {step}, 4")
    for r, c, total in cells:
        if c == 0 and r:
            row = text.let(f"getelementptr i8, ptr {row}, i64 {down_16}")
        places.append((total, text.let(f"getelementptr i8, ptr {row}, i64 {64 * c}")))
    return places


def _emit_loop(text: Text, tile: Tile, cells: list[tuple[int, int, int]]) -> None:
    down, across = tile.rows // LANES, tile.vectors
    text.label("loop")
    text.line("%left = phi i64 [%k, %loop.test], [%left.next, %loop]")
    text.line("%a = phi ptr [%A, %loop.test], [%a.next, %loop]")
    text.line("%b = phi ptr [%B, %loop.test], [%b.next, %loop]")
    for c in range(across):
        place = text.let(f"getelementptr i8, ptr %b, i64 {64 * c}")
        register = len(cells) + down + c
        text.line(
            f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 {64 * across})"
        )
    for r in range(down):
        place = text.let(f"getelementptr i8, ptr %a, i64 {r * LANES * 64}")
        text.line(f"call void @llvm.x86.tileloadd64(i8 {len(cells) + r}, ptr {place}, i64 64)")
    for r, c, total in cells:
        a, b = len(cells) + r, len(cells) + down + c
        text.line(f"call void @llvm.x86.tdpbf16ps(i8 {total}, i8 {a}, i8 {b})")
    text.line(f"%a.next = getelementptr i8, ptr %a, i64 {tile.rows * 64}")
    text.line(f"%b.next = getelementptr i8, ptr %b, i64 {tile.columns * 64}")
    text.line(f"%left.next = sub i64 %left, {DEPTH}")
    text.line("%again = icmp sgt i64 %left.next, 0")
    text.line("br i1 %again, label %loop, label %done")


# ---- packing


def emit_pack(
    name: str,
    reading: Reading,
    width: int,
    lanes: IndexSlots,
    depth: IndexSlots,
    *,
    is_a: bool,
) -> str:
    """Text of the same function as `contract_pack.emit_pack`: blocks of 16 lanes by 32 of k."""
    text = Text()
    block = _Block(text, reading, width, lanes.load(text), depth.load(text), is_a)
    some = text.let("icmp sgt i64 %kc.all, 0")
    text.line(f"br i1 {some}, label %step, label %done")
    text.label("step")
    text.line("%ks = phi i64 [0, %entry], [%ks.next, %step.end]")
    text.line(f"%ks.next = add i64 %ks, {DEPTH if reading.kind == 'lanes' else BLOCK}")
    text.line(f"%ke = add i64 0, {text.smallest('%ks.next', '%kc.all')}")
    text.line("br label %panel.head")
    text.label("panel.head")
    text.line("%first = phi i64 [%begin, %step], [%first.next, %panel.end]")
    text.line("%panel = phi ptr [%panels, %step], [%panel.next, %panel.end]")
    text.line(f"%panel.next = getelementptr i8, ptr %panel, i64 {panel_bytes(width)}")
    text.line(f"%first.next = add i64 %first, {width}")
    text.line("br label %group")
    text.label("group")
    text.line("%g = phi i64 [0, %panel.head], [%g.next, %group.end]")
    text.line(f"%lane = add i64 0, {text.smallest(text.let('add i64 %first, %g'), '%last')}")
    block.emit_lanes()
    text.line("br label %block")
    text.label("block")
    text.line("%k = phi i64 [%ks, %group], [%k.next, %block.end]")
    text.line(f"%k.next = add i64 %k, {DEPTH}")
    block.emit()
    text.label("block.end")
    _emit_branch(text, "icmp slt i64 %k.next, %ke", "block", "group.end")
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
        "ptr %args, ptr %base, i64 %begin, i64 %end, i64 %last, i64 %k0, i64 %kc.all, "
        "ptr noalias %panels"
    )
    return text.function(f"define internal void @{name}({arguments}) noinline")


def _emit_branch(text: Text, test: str, yes: str, no: str) -> None:
    text.line(f"br i1 {text.let(test)}, label %{yes}, label %{no}")


class _Block:
    """16 lanes by 32 of k, read into 16 vectors of pairs and stored as a panel wants them."""

    def __init__(
        self,
        text: Text,
        reading: Reading,
        width: int,
        lanes: LoadedIndex,
        depth: LoadedIndex,
        is_a: bool,
    ) -> None:
        self.text, self.reading, self.width = text, reading, width
        self.lanes, self.depth, self.is_a = lanes, depth, is_a

    def emit_lanes(self) -> None:
        """Offsets of the lanes, once for all k."""
        text = self.text
        offsets = self.lanes.offsets(text, "%lane", "%last")
        text.line(f"%offsets = add <16 x i64> {offsets}, zeroinitializer")
        self.pieces = []
        if self.reading.kind == "lanes":
            self.pieces = [
                self.lanes.offset(text, text.let(f"add i64 %lane, {piece}"))
                if self.reading.run == LANES
                else text.let(f"extractelement <16 x i64> %offsets, i32 {piece}")
                for piece in range(0, LANES, self.reading.run)
            ]
        elif self.reading.kind == "depth":
            self.pieces = [
                text.let(f"extractelement <16 x i64> %offsets, i32 {lane}")
                for lane in range(LANES)
            ]
        if self.reading.kind == "lanes":
            text.line(f"%ahead = mul i64 {self.depth.stride}, {DEPTH}")
        else:
            text.line(f"%ahead = mul i64 {self.lanes.stride}, {LANES}")
        here = text.let("sub i64 %last, %lane")
        text.line(f"%whole.lanes = icmp sge i64 {here}, {LANES - 1}")
        text.line(f"%lane.mask = icmp sle <16 x i64> {IOTA}, {text.splat('i64', here)}")

    def emit(self) -> None:
        """Read, turn and store one block, or go through it element by element."""
        text = self.text
        text.line("%left = sub i64 %ke, %k")
        down = text.let(f"mul i64 %k, {self.width * 2}")
        shift = text.let(f"mul i64 %g, {64 if self.is_a else 4}")
        text.line(f"%to.k = getelementptr i8, ptr %panel, i64 {down}")
        text.line(f"%to = getelementptr i8, ptr %to.k, i64 {shift}")
        text.line(f"%full = icmp sge i64 %left, {DEPTH}")
        if self.reading.kind == "any":
            self._emit_each()
            return
        quick = "%full"
        if self.reading.kind == "lanes":
            quick = text.let("and i1 %full, %whole.lanes")
        text.line(f"br i1 {quick}, label %quick, label %slow")
        text.label("quick")
        self._store(self._load_whole())
        text.line("br label %block.end")
        text.label("slow")
        if self.reading.run == LANES:
            self._store(self._load_masked())
            text.line("br label %block.end")
        else:
            self._emit_each()

    def _fetch(self, place: str) -> None:
        """Ask for what the next block will read: the next lanes along k, or the next k."""
        at = self.text.let(f"getelementptr i16, ptr {place}, i64 %ahead")
        self.text.fetch(at)

    def _row(self, k: str) -> str:
        text = self.text
        offset = self.depth.offset(text, text.let(f"add i64 %k0, {k}"))
        return text.place("i16", "%base", offset)

    def _load_whole(self) -> list[str]:
        text, run = self.text, self.reading.run
        if self.reading.kind == "lanes":
            rows = []
            for k in range(DEPTH):
                row = self._row(text.let(f"add i64 %k, {k}"))
                self._fetch(text.place("i16", row, self.pieces[0]))
                rows.append(
                    self._join([text.place("i16", row, piece) for piece in self.pieces])
                )
            return [self._pair(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        steps = [self._row(text.let(f"add i64 %k, {piece}")) for piece in range(0, DEPTH, run)]
        lanes = []
        for offset in self.pieces:
            places = [text.place("i16", step, offset) for step in steps]
            self._fetch(places[0])
            whole = self._join(places)
            lanes.append(text.let(f"bitcast <32 x i16> {whole} to <16 x i32>"))
        return lanes

    def _load_masked(self) -> list[str]:
        text = self.text
        if self.reading.kind == "lanes":
            rows = []
            for k in range(DEPTH):
                inside = text.let(f"icmp sgt i64 %left, {k}")
                at = text.let(f"select i1 {inside}, i64 {k}, i64 0")
                row = self._row(text.let(f"add i64 %k, {at}"))
                place = text.place("i16", row, self.pieces[0])
                mask = text.let(
                    f"select i1 {inside}, <16 x i1> %lane.mask, <16 x i1> zeroinitializer"
                )
                rows.append(self._masked(place, mask))
            return [self._pair(a, b) for a, b in zip(rows[::2], rows[1::2], strict=True)]
        masks, steps = [], []
        for piece in (0, LANES):
            left = text.let(f"sub i64 %left, {piece}")
            masks.append(text.let(f"icmp slt <16 x i64> {IOTA}, {text.splat('i64', left)}"))
            inside = text.let(f"icmp sgt i64 {left}, 0")
            at = text.let(f"select i1 {inside}, i64 {piece}, i64 0")
            steps.append(self._row(text.let(f"add i64 %k, {at}")))
        order = ", ".join(f"i32 {k}" for k in range(DEPTH))
        lanes = []
        for offset in self.pieces:
            low, high = (
                self._masked(text.place("i16", step, offset), mask)
                for step, mask in zip(steps, masks, strict=True)
            )
            v = "<16 x i16>"
            whole = text.let(f"shufflevector {v} {low}, {v} {high}, <32 x i32> <{order}>")
            lanes.append(text.let(f"bitcast <32 x i16> {whole} to <16 x i32>"))
        return lanes

    def _masked(self, place: str, mask: str) -> str:
        v = "<16 x i16>"
        return self.text.let(
            f"call {v} @llvm.masked.load.v16i16.p0(ptr {place}, i32 2, "
            f"<16 x i1> {mask}, {v} zeroinitializer)"
        )

    def _join(self, places: list[str]) -> str:
        """One vector from pieces of equal length."""
        text, run = self.text, self.reading.run
        parts = [text.let(f"load <{run} x i16>, ptr {at}, align 2") for at in places]
        while len(parts) > 1:
            order = ", ".join(f"i32 {lane}" for lane in range(2 * run))
            v = f"<{run} x i16>"
            parts = [
                text.let(f"shufflevector {v} {a}, {v} {b}, <{2 * run} x i32> <{order}>")
                for a, b in zip(parts[::2], parts[1::2], strict=True)
            ]
            run *= 2
        return parts[0]

    def _pair(self, even: str, odd: str) -> str:
        order = ", ".join(f"i32 {lane}, i32 {lane + LANES}" for lane in range(LANES))
        v = "<16 x i16>"
        both = self.text.let(f"shufflevector {v} {even}, {v} {odd}, <32 x i32> <{order}>")
        return self.text.let(f"bitcast <32 x i16> {both} to <16 x i32>")

    def _store(self, vectors: list[str]) -> None:
        """Store lanes (A) or pairs of k (B); the other of them was read."""
        text = self.text
        if self.is_a != (self.reading.kind == "depth"):
            vectors = transpose(text, "<16 x i32>", vectors)
        step = 64 if self.is_a else self.width * 4
        for number, value in enumerate(vectors):
            place = text.let(f"getelementptr i8, ptr %to, i64 {number * step}")
            text.line(f"store <16 x i32> {value}, ptr {place}, align 64")

    def _emit_each(self) -> None:
        """The block element by element."""
        text = self.text
        text.line("br label %each.k")
        text.label("each.k")
        before = "block" if self.reading.kind == "any" else "slow"
        text.line(f"%ek = phi i64 [0, %{before}], [%ek.next, %each.end]")
        text.line("%ek.next = add i64 %ek, 1")
        text.line("%inside = icmp slt i64 %ek, %left")
        at = text.let("select i1 %inside, i64 %ek, i64 0")
        row = self._row(text.let(f"add i64 %k, {at}"))
        if self.is_a:
            to = text.place("i16", "%to", "%ek")
            step = 64
        else:
            pair = text.let(f"mul i64 {text.let('lshr i64 %ek, 1')}, {self.width * 4}")
            odd = text.let(f"shl i64 {text.let('and i64 %ek, 1')}, 1")
            shift = text.let(f"add i64 {pair}, {odd}")
            to = text.let(f"getelementptr i8, ptr %to, i64 {shift}")
            step = 4
        for lane in range(LANES):
            offset = text.let(f"extractelement <16 x i64> %offsets, i32 {lane}")
            value = text.let(f"load i16, ptr {text.place('i16', row, offset)}, align 2")
            value = text.let(f"select i1 %inside, i16 {value}, i16 0")
            place = text.let(f"getelementptr i8, ptr {to}, i64 {lane * step}")
            text.line(f"store i16 {value}, ptr {place}, align 2")
        text.line("br label %each.end")
        text.label("each.end")
        _emit_branch(text, f"icmp slt i64 %ek.next, {DEPTH}", "each.k", "block.end")
