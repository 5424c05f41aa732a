"""Blocking scores in a laned tile: by a mask in memory, or because a key comes later."""

from __future__ import annotations

import math

from rushlight.loops.tiles import STRIDED, emit_laned_block
from rushlight.loops.writer import LANES, STORAGE, Arithmetic, Routine, Writer

ADD_MASK = Routine(f"ptr source, {STRIDED}, ptr tile, i64 lanes")
BLOCK_LATER = Routine("ptr tile, i64 lanes, i64 keys, i64 query, i64 key")


def emit_add_mask(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Add a strided mask, a row for each query, to a laned tile of scores.

    Where the mask is -inf the score is too, even if it was not a number.
    """
    w = Writer(arithmetic)
    blocked = w.number(-math.inf)

    def add(value: str, place: str) -> None:
        total = w.binary("fadd", w.load(place), value)
        w.store(w.choose(w.compare("oeq", value, blocked), blocked, total), place)

    def put_block(values: list[str], places: list[str]) -> None:
        for value, place in zip(values, places, strict=True):
            add(value, place)

    def put_one(value: str, place: str) -> None:
        scalar, nothing = arithmetic.scalar, w.one(-math.inf)
        total = w.let(f"fadd {scalar} {w.load_one(place)}, {value}")
        is_blocked = w.let(f"fcmp oeq {scalar} {value}, {nothing}")
        chosen = w.let(f"select i1 {is_blocked}, {scalar} {nothing}, {scalar} {total}")
        w.store_one(chosen, place)

    shared = w.test("eq", "%row", 0)
    with w.when(shared), w.loop("%cols") as col:
        value = w.load_as(dtype, w.at("%source", w.mul(col.index, "%col"), STORAGE[dtype]), 1)
        spread = w.splat(value)
        with w.loop("%lanes", step=LANES) as lane:
            add(spread, w.at(w.at("%tile", w.mul(col.index, "%lanes")), lane.index))
    own = w.negate(shared)
    with w.when(own), w.loop("%rows", step=LANES) as lane, w.loop("%cols", step=LANES) as col:
        emit_laned_block(w, dtype, lane.index, col.index, put_block, put_one)
    return ADD_MASK.write(name, w)


def emit_block_later(name: str, arithmetic: Arithmetic) -> str:
    """Set the scores of keys that come after their query to -inf, in a laned tile of `keys`
    rows.
    """
    w = Writer(arithmetic)
    word = "i64" if arithmetic.size == 8 else "i32"
    index = f"<{LANES} x {word}>"
    steps = "<" + ", ".join(f"{word} {lane}" for lane in range(LANES)) + ">"
    with w.loop("%lanes", step=LANES) as lane:
        # The query of lane 0, counted from the first key of this tile; earlier keys are seen.
        query = w.add(w.sub("%query", "%key"), lane.index)
        with w.loop("%keys", start=w.most(w.add(query, 1), 0)) as key:
            place = w.at(w.at("%tile", w.mul(key.index, "%lanes")), lane.index)
            after = w.sub(key.index, query)
            after = after if word == "i64" else w.let(f"trunc i64 {after} to i32")
            late = w.let(f"icmp sgt {index} {w.splat(after, word)}, {steps}")
            w.store(w.choose(late, w.number(-math.inf), w.load(place)), place)
    return BLOCK_LATER.write(name, w)
