"""The moving parts of kernels that multiply small tiles: copies in and out of scratch, and
products.

Each function here returns the text of one internal LLVM function. Tiles live in scratch in the
arithmetic type, with rows a whole number of vectors long and aligned. A tile is *natural* (a
row for each position) or *laned* (positions along lanes, a row for each feature).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rushlight.loops.writer import LANES, STORAGE, Arithmetic, Routine, Writer

STRIDED = "i64 row, i64 col, i64 rows, i64 cols"
PRODUCT = Routine(
    "ptr a, i64 a_row, i64 a_depth, ptr b, i64 b_row, ptr c, i64 c_row, ptr factor,"
    " i64 rows, i64 cols, i64 depth"
)
READ_NATURAL = Routine(f"ptr source, {STRIDED}, ptr tile, i64 width, i64 padded, number scale")
READ_LANED = Routine(f"ptr source, {STRIDED}, ptr tile, i64 lanes, number scale")
WRITE_NATURAL = Routine(f"ptr target, {STRIDED}, ptr tile, i64 width, number scale")
WRITE_LANED = Routine(f"ptr target, {STRIDED}, ptr tile, i64 lanes, ptr factor")


def register_tiles(arithmetic: Arithmetic, target: str) -> dict[int, int]:
    """For each number of vectors across that a product may take at once, how many rows go with
    it.

    Rows divide 8, which tiles are padded to. Accumulators fill about half of the registers:
    enough chains to hide the latency of a multiply-add, with room for operands.
    """
    double = arithmetic.size == 8
    if target == "avx512":
        return {2: 4, 1: 8} if double else {4: 4, 2: 8, 1: 8}
    return {1: 2} if double else {1: 4}


def emit_product(
    name: str,
    arithmetic: Arithmetic,
    tiles: Mapping[int, int],
    finish: str,
    *,
    zeros: str = "",
    any_rows: bool = False,
) -> str:
    """C = A B ('set'), C + A B ('add') or C scaled by column + A B ('rescale').

    A is read by element, at any two strides; B and C are rows of vectors. Every element of A B
    is one chain of multiply-adds in order of depth from zero, whatever the tile. `zeros` names
    the side, 'a' or 'b', whose zeros make nothing even of inf and nan on the other side. The
    tiles' rows divide the number of rows, unless the product is made for `any_rows`.
    """
    w = Writer(arithmetic)
    column = "0"
    for across in sorted(tiles, reverse=True):
        limit = w.sub("%cols", across - 1)
        with w.loop(limit, start=column, step=across) as columns:
            first = w.mul(columns.index, LANES)
            b, c, factor = w.at("%b", first), w.at("%c", first), w.at("%factor", first)
            row = "0"
            for down in (tiles[across], 1) if any_rows else (tiles[across],):
                last = w.sub("%rows", down - 1)
                with w.loop(last, start=row, step=down) as rows:
                    _emit_panel(w, rows.index, b, c, factor, down, across, finish, zeros)
                row = rows.index
        column = columns.index
    return PRODUCT.write(name, w)


def _emit_panel(
    w: Writer,
    row: str,
    b: str,
    c: str,
    factor: str,
    down: int,
    across: int,
    finish: str,
    zeros: str,
) -> None:
    """One register tile of a product: `down` rows by `across` vectors."""
    vector = w.arithmetic.vector
    grid = [(r, v) for r in range(down) for v in range(across)]
    a_rows = [w.at("%a", w.mul(w.add(row, r), "%a_row")) for r in range(down)]
    with w.loop("%depth", carried=[(vector, "zeroinitializer")] * len(grid)) as depth:
        b_line, a_step = w.at(b, w.mul(depth.index, "%b_row")), w.mul(depth.index, "%a_depth")
        across_b = [w.load(w.at(b_line, str(v * LANES))) for v in range(across)]
        for r in range(down):
            one = w.load_one(w.at(a_rows[r], a_step))
            spread = w.splat(one)
            for v in range(across):
                x, y = spread, across_b[v]
                if zeros:
                    nothing = w.compare("oeq", x if zeros == "a" else y, "zeroinitializer")
                    x, y = (w.choose(nothing, "zeroinitializer", z) for z in (x, y))
                depth.next.append(w.fma(x, y, depth.values[r * across + v]))
    for (r, v), total in zip(grid, depth.values, strict=True):
        place = w.at(w.at(c, w.mul(w.add(row, r), "%c_row")), str(v * LANES))
        if finish == "add":
            total = w.binary("fadd", w.load(place), total)
        elif finish == "rescale":
            total = w.fma(w.load(place), w.load(w.at(factor, str(v * LANES))), total)
        w.store(total, place)


def emit_read_natural(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Copy rows of strided memory, times `scale`, to a natural tile, with zeros to its width
    and to `padded` rows.
    """
    w = Writer(arithmetic)
    across = w.splat("%scale")
    with w.loop("%rows") as row:
        source = w.at("%source", w.mul(row.index, "%row"), STORAGE[dtype])
        tile = w.at("%tile", w.mul(row.index, "%width"))
        unit = w.test("eq", "%col", 1)
        whole = w.let(f"select i1 {unit}, i64 {w.let(f'and i64 %cols, {-LANES}')}, i64 0")
        with w.loop(whole, step=LANES) as col:
            value = w.load_as(dtype, w.at(source, col.index, STORAGE[dtype]), LANES)
            w.store(w.binary("fmul", value, across), w.at(tile, col.index))
        with w.loop("%width", start=whole, step=LANES) as col:
            w.store("zeroinitializer", w.at(tile, col.index))
        with w.loop("%cols", start=whole) as col:
            value = w.load_as(dtype, w.at(source, w.mul(col.index, "%col"), STORAGE[dtype]), 1)
            scaled = w.let(f"fmul {arithmetic.scalar} {value}, %scale")
            w.store_one(scaled, w.at(tile, col.index))
    size = w.mul("%padded", "%width")
    with w.loop(size, start=w.mul("%rows", "%width"), step=LANES) as place:
        w.store("zeroinitializer", w.at("%tile", place.index))
    return READ_NATURAL.write(name, w)


def emit_read_laned(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Copy rows of strided memory, times `scale`, to a laned tile, with zeros in the lanes that
    have no row.
    """
    w = Writer(arithmetic)
    across = w.splat("%scale")

    def put_block(values: list[str], places: list[str]) -> None:
        for value, place in zip(values, places, strict=True):
            w.store(w.binary("fmul", value, across), place)

    def put_one(value: str, place: str) -> None:
        w.store_one(w.let(f"fmul {arithmetic.scalar} {value}, %scale"), place)

    with w.loop("%lanes", step=LANES) as lane, w.loop("%cols", step=LANES) as col:
        stop = w.least("%cols", w.add(col.index, LANES))
        with w.loop(stop, start=col.index) as one:
            w.store(
                "zeroinitializer", w.at(w.at("%tile", w.mul(one.index, "%lanes")), lane.index)
            )
        emit_laned_block(w, dtype, lane.index, col.index, put_block, put_one)
    return READ_LANED.write(name, w)


def emit_laned_block(
    w: Writer,
    dtype: str,
    lane: str,
    col: str,
    put_block: Callable[[list[str], list[str]], None],
    put_one: Callable[[str, str], None],
) -> None:
    """Read a block of 16 rows by 16 columns and put it transposed; by element where it is cut
    or not contiguous.
    """
    source = w.at("%source", w.dot((lane, "%row"), (col, "%col")), STORAGE[dtype])
    tile = w.at(w.at("%tile", w.mul(col, "%lanes")), lane)
    quick = _whole_block(w, lane, col)
    with w.when(quick):
        read = [
            w.load_as(dtype, w.at(source, w.mul("%row", r), STORAGE[dtype]), LANES)
            for r in range(LANES)
        ]
        put_block(w.transpose(read), [w.at(tile, w.mul("%lanes", c)) for c in range(LANES)])
    with w.when(w.negate(quick)):
        rows, cols = w.least(w.sub("%rows", lane), LANES), w.least(w.sub("%cols", col), LANES)
        with w.loop(cols) as c, w.loop(rows) as r:
            place = w.at(source, w.dot((r.index, "%row"), (c.index, "%col")), STORAGE[dtype])
            put_one(
                w.load_as(dtype, place, 1), w.at(w.at(tile, w.mul(c.index, "%lanes")), r.index)
            )


def _whole_block(w: Writer, lane: str, col: str) -> str:
    """Whether the block at (lane, col) is 16 by 16 and its rows are contiguous."""
    fits = w.both(
        w.test("sle", w.add(lane, LANES), "%rows"), w.test("sle", w.add(col, LANES), "%cols")
    )
    return w.both(fits, w.test("eq", "%col", 1))


def emit_write_natural(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Copy a natural tile, times `scale`, to rows of strided memory."""
    w = Writer(arithmetic)
    across = w.splat("%scale")
    with w.loop("%rows") as row:
        target = w.at("%target", w.mul(row.index, "%row"), STORAGE[dtype])
        tile = w.at("%tile", w.mul(row.index, "%width"))
        unit = w.test("eq", "%col", 1)
        whole = w.let(f"select i1 {unit}, i64 {w.let(f'and i64 %cols, {-LANES}')}, i64 0")
        with w.loop(whole, step=LANES) as col:
            value = w.binary("fmul", w.load(w.at(tile, col.index)), across)
            w.store_as(dtype, value, w.at(target, col.index, STORAGE[dtype]), LANES)
        with w.loop("%cols", start=whole) as col:
            value = w.let(
                f"fmul {arithmetic.scalar} {w.load_one(w.at(tile, col.index))}, %scale"
            )
            w.store_as(dtype, value, w.at(target, w.mul(col.index, "%col"), STORAGE[dtype]), 1)
    return WRITE_NATURAL.write(name, w)


def emit_write_laned(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Copy a laned tile, each lane times its own `factor`, to rows of strided memory.

    Adding zero makes -0 into +0: a key tile that is masked for a row may or may not be visited,
    and visiting it changes nothing else.
    """
    w = Writer(arithmetic)
    with w.loop("%rows", step=LANES) as lane:
        factor = w.load(w.at("%factor", lane.index))
        with w.loop("%cols", step=LANES) as col:
            target = w.at(
                "%target", w.dot((lane.index, "%row"), (col.index, "%col")), STORAGE[dtype]
            )
            tile = w.at(w.at("%tile", w.mul(col.index, "%lanes")), lane.index)
            cols = w.least(w.sub("%cols", col.index), LANES)
            with w.loop(cols) as c:
                place = w.at(tile, w.mul(c.index, "%lanes"))
                scaled = w.binary("fmul", w.load(place), factor)
                w.store(w.binary("fadd", scaled, "zeroinitializer"), place)
            quick = _whole_block(w, lane.index, col.index)
            with w.when(quick):
                read = [w.load(w.at(tile, w.mul("%lanes", c))) for c in range(LANES)]
                for line, value in enumerate(w.transpose(read)):
                    place = w.at(target, w.mul("%row", line), STORAGE[dtype])
                    w.store_as(dtype, value, place, LANES)
            with w.when(w.negate(quick)):
                rows = w.least(w.sub("%rows", lane.index), LANES)
                with w.loop(rows) as r, w.loop(cols) as c:
                    value = w.load_one(w.at(w.at(tile, w.mul(c.index, "%lanes")), r.index))
                    place = w.at(
                        target, w.dot((r.index, "%row"), (c.index, "%col")), STORAGE[dtype]
                    )
                    w.store_as(dtype, value, place, 1)
    return WRITE_LANED.write(name, w)
