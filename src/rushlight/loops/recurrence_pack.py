"""Packs the hidden weight of a recurrence, (gates * units, units), into panels of vectors.

A panel is a few vectors of columns for every step of a product's depth, so that the product
reads memory in order. Forward multiplies the hidden state by the weight transposed: a panel is
a vector of units of every gate (or four vectors, of the only gate). Backward multiplies the
gates' gradients by the weight as it is: a panel is four vectors of units.
"""

from __future__ import annotations

from functools import cache

from rushlight.loops.entry import Entry, Strided, launch_of, round_up
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.recurrence_cells import Cell
from rushlight.loops.tiles import (
    READ_NATURAL,
    STRIDED,
    emit_laned_block,
    emit_read_natural,
)
from rushlight.loops.writer import LANES, STORAGE, Arithmetic, Routine, Writer, arithmetic_of

WIDEST = 4  # vectors of a panel
_POINTERS = ("weight", "panels")
_TURNED_INTS = (
    *("weight_g", "weight_u", "units", "vectors"),
    *("panel_step", "vector_step", "vector_rows"),
)
_PLAIN_INTS = ("weight_g", "weight_u", "units", "gates", "panel")
_TURN = Routine(f"ptr source, {STRIDED}, ptr tile, i64 lanes")


def forward_panel(cell: Cell) -> int:
    """How many vectors a panel of the forward product has."""
    return WIDEST if cell.gates == 1 else cell.gates


def forward_panels(cell: Cell, units: int) -> int:
    """How many panels the forward product has."""
    return -(-cell.gates * round_up(units, LANES) // (forward_panel(cell) * LANES))


def packed_elements(cell: Cell, units: int, *, is_forward: bool) -> int:
    """The size of the packed weight."""
    if is_forward:
        return forward_panels(cell, units) * forward_panel(cell) * LANES * units
    return round_up(units, WIDEST * LANES) * cell.gates * units


def plan_forward_pack(
    cell: Cell, units: int, dtype: str, weight: Strided, panels: BufferRef
) -> Launch:
    """Fill `panels` for the product of hidden states with the weight transposed."""
    vectors, is_single = forward_panel(cell), cell.gates == 1
    values = {
        "weight_g": weight.strides[0],
        "weight_u": weight.strides[1],
        "units": units,
        "vectors": vectors,
        "panel_step": WIDEST * LANES if is_single else LANES,
        "vector_step": LANES if is_single else 0,
        "vector_rows": 0 if is_single else units,
    }
    return _launch(
        _turned_kernel(dtype),
        forward_panels(cell, units) * vectors,
        {"weight": weight.place, "panels": panels},
        values,
        _TURNED_INTS,
        dtype,
    )


def plan_backward_pack(
    cell: Cell, units: int, dtype: str, weight: Strided, panels: BufferRef
) -> Launch:
    """Fill `panels` for the product of gates' gradients with the weight."""
    values = {
        "weight_g": weight.strides[0],
        "weight_u": weight.strides[1],
        "units": units,
        "gates": cell.gates,
        "panel": WIDEST * LANES,
    }
    return _launch(
        _plain_kernel(dtype),
        -(-units // (WIDEST * LANES)) * cell.gates,
        {"weight": weight.place, "panels": panels},
        values,
        _PLAIN_INTS,
        dtype,
    )


def _launch(
    source: KernelSource,
    chunks: int,
    places: dict[str, BufferRef],
    values: dict[str, int],
    ints: tuple[str, ...],
    dtype: str,
) -> Launch:
    arithmetic = arithmetic_of(dtype)
    return launch_of(
        source,
        chunks,
        places,
        values,
        pointers=_POINTERS,
        ints=ints,
        sizes={},
        arithmetic=arithmetic,
    )


@cache
def _turned_kernel(dtype: str) -> KernelSource:
    """One task is one vector of one panel: sixteen rows of the weight become lanes."""
    name, arithmetic = f"recurrence_pack_turned_{dtype}", arithmetic_of(dtype)
    entry = Entry(name, arithmetic, pointers=_POINTERS, ints=_TURNED_INTS)
    w, v = entry.w, entry.v
    with w.loop("%end", start="%begin") as task:
        panel, vector = w.div(task.index, v["vectors"]), w.rem(task.index, v["vectors"])
        unit = w.dot((panel, v["panel_step"]), (vector, v["vector_step"]))
        row = w.add(unit, w.mul(vector, v["vector_rows"]))
        lanes = w.mul(v["vectors"], LANES)
        start = w.add(w.mul(panel, w.mul(lanes, v["units"])), w.mul(vector, LANES))
        entry.call(
            "turn",
            _TURN,
            source=w.at(v["weight"], w.mul(row, v["weight_g"])),
            row=v["weight_g"],
            col=v["weight_u"],
            rows=w.most(w.least(w.sub(v["units"], unit), LANES), 0),
            cols=v["units"],
            tile=w.at(v["panels"], start),
            lanes=lanes,
        )
    text = _emit_turn(f"{name}_turn", arithmetic, dtype) + entry.finished()
    return KernelSource(name, text)


def _emit_turn(name: str, arithmetic: Arithmetic, dtype: str) -> str:
    """Copy up to sixteen rows to one vector of a tile's rows, with zeros in the other lanes."""
    w = Writer(arithmetic)

    def put_block(values: list[str], places: list[str]) -> None:
        for value, place in zip(values, places, strict=True):
            w.store(value, place)

    with w.loop("%cols", step=LANES) as col:
        with w.loop(w.least("%cols", w.add(col.index, LANES)), start=col.index) as one:
            w.store("zeroinitializer", w.at("%tile", w.mul(one.index, "%lanes")))
        emit_laned_block(w, dtype, "0", col.index, put_block, w.store_one)
    return _TURN.write(name, w)


@cache
def _plain_kernel(dtype: str) -> KernelSource:
    """One task is the rows of one gate in one panel."""
    name, arithmetic = f"recurrence_pack_plain_{dtype}", arithmetic_of(dtype)
    entry = Entry(name, arithmetic, pointers=_POINTERS, ints=_PLAIN_INTS)
    w, v = entry.w, entry.v
    with w.loop("%end", start="%begin") as task:
        panel, gate = w.div(task.index, v["gates"]), w.rem(task.index, v["gates"])
        unit = w.mul(panel, v["panel"])
        corner = w.dot((w.mul(gate, v["units"]), v["weight_g"]), (unit, v["weight_u"]))
        entry.call(
            "rows",
            READ_NATURAL,
            source=w.at(v["weight"], corner, STORAGE[dtype]),
            row=v["weight_g"],
            col=v["weight_u"],
            rows=v["units"],
            cols=w.least(w.sub(v["units"], unit), v["panel"]),
            tile=w.at(v["panels"], w.mul(task.index, w.mul(v["panel"], v["units"]))),
            width=v["panel"],
            padded=v["units"],
            scale="1.0",
        )
    text = emit_read_natural(f"{name}_rows", arithmetic, dtype) + entry.finished()
    return KernelSource(name, text)
