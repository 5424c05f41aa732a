"""The backward kernel of a recurrence: one task is some rows of the batch, back through time.

A step first takes the gradient of the states after it through the cell, which gives the gates'
gradients; then multiplies those by the packed weight to get the gradient of the states before.
The weight's own gradient is a product over all of time, which is left to a contraction.
"""

from __future__ import annotations

from functools import cache

from rushlight.loops.entry import Entry
from rushlight.loops.kernel import KernelSource
from rushlight.loops.recurrence_cells import CELLS, Cell, Known, functions_of
from rushlight.loops.recurrence_forward import product_tiles
from rushlight.loops.recurrence_pack import WIDEST
from rushlight.loops.tiles import PRODUCT, emit_product
from rushlight.loops.writer import LANES, Arithmetic, Routine, Writer, arithmetic_of

BACKWARD_SCRATCH = ("carried", "carried_memory")
BACKWARD_INTS = (
    *("steps", "batch", "units", "block", "panels", "vectors", "wide"),
    *("slope_t", "slope_b", "memory_slope_t", "memory_slope_b"),
    *BACKWARD_SCRATCH,
)
BACK = Routine(
    "ptr slope, i64 slope_b, ptr memory_slope, i64 memory_slope_b, ptr hidden, ptr memory,"
    " ptr next_hidden, ptr next_memory, ptr kept, ptr carried, ptr carried_memory, i64 wide,"
    " ptr gates, ptr candidate, i64 rows, i64 units"
)
FINISH = Routine(
    "ptr carried, i64 wide, ptr slope, i64 slope_b, ptr target, i64 rows, i64 units"
)


def backward_pointers(cell: Cell, has_memory_slope: bool) -> tuple[str, ...]:
    """The backward kernel's pointer arguments, in order."""
    states = ("hidden", "memory") if cell.has_memory else ("hidden",)
    return (
        "slope",
        *(("memory_slope",) if has_memory_slope else ()),
        *states,
        *(("kept",) if cell.kept else ()),
        "panels_at",
        "gates",
        *(("candidate",) if cell.has_candidate else ()),
        *(f"first_{state}" for state in states),
    )


@cache
def backward_kernel(
    cell_name: str, dtype: str, target: str, has_memory_slope: bool
) -> KernelSource:
    """The kernel that makes the gradients of the gates and of the first states.

    `has_memory_slope`: cell states have a gradient from outside, too.
    """
    cell, arithmetic = CELLS[cell_name], arithmetic_of(dtype)
    states = "both" if has_memory_slope else "hidden"
    name = f"recurrence_back_{cell_name}_{dtype}_{target}_{states}"
    tiles = product_tiles(arithmetic, target, None)
    finish = "add" if cell.has_candidate else "set"
    parts = [
        emit_product(f"{name}_product", arithmetic, tiles, finish, any_rows=True),
        _emit_back(f"{name}_back", arithmetic, cell, has_memory_slope),
        _emit_finish(f"{name}_finish", arithmetic),
        _BackwardEntry(name, arithmetic, cell, has_memory_slope).text(),
    ]
    if cell.has_memory and not has_memory_slope:
        parts.insert(0, _emit_finish(f"{name}_finish_alone", arithmetic, is_alone=True))
    needs = {arithmetic.fma, arithmetic.masked_load, arithmetic.masked_store}
    if cell.has_memory:
        needs |= functions_of(cell, arithmetic)
    return KernelSource(name, "\n".join(parts), frozenset(needs))


class _BackwardEntry(Entry):
    """Writes the entry function."""

    def __init__(
        self, name: str, arithmetic: Arithmetic, cell: Cell, has_memory_slope: bool
    ) -> None:
        super().__init__(
            name,
            arithmetic,
            pointers=backward_pointers(cell, has_memory_slope),
            ints=BACKWARD_INTS,
            scratch=BACKWARD_SCRATCH,
        )
        self.cell, self.has_memory_slope = cell, has_memory_slope

    def text(self) -> str:
        w, v = self.w, self.v
        with w.loop("%end", start="%begin") as task:
            first = w.mul(task.index, v["block"])
            rows = w.least(w.sub(v["batch"], first), v["block"])
            size = w.mul(rows, v["wide"])
            for part in BACKWARD_SCRATCH[: 2 if self.cell.has_memory else 1]:
                with w.loop(size, step=LANES) as place:
                    w.store("zeroinitializer", w.at(self.tile[part], place.index))
            with w.loop(v["steps"]) as past:
                step = w.sub(w.sub(v["steps"], past.index), 1)
                self._step(step, first, rows)
            self._finish("hidden", "slope", "carried", first, rows)
            if self.cell.has_memory:
                self._finish("memory", "memory_slope", "carried_memory", first, rows)
        return self.finished()

    def _slope(self, name: str, step: str, first: str) -> dict[str, str]:
        """The gradient from outside of a state that `step` steps have made."""
        w, v = self.w, self.v
        if name not in v:
            return {name: "null", f"{name}_b": "0"}
        offset = w.dot((step, v[f"{name}_t"]), (first, v[f"{name}_b"]))
        return {name: w.at(v[name], offset), f"{name}_b": v[f"{name}_b"]}

    def _step(self, step: str, first: str, rows: str) -> None:
        w, v, cell = self.w, self.v, self.cell
        here = w.mul(w.add(w.mul(step, v["batch"]), first), v["units"])
        there = w.add(here, w.mul(v["batch"], v["units"]))

        def part(name: str, offset: str, times: int = 1) -> str:
            return w.at(v[name], w.mul(offset, times)) if name in v else "null"

        gates = part("gates", here, cell.gates)
        candidate = part("candidate", here)
        self.call(
            "back",
            BACK,
            **self._slope("slope", w.add(step, 1), first),
            **self._slope("memory_slope", w.add(step, 1), first),
            hidden=part("hidden", here),
            memory=part("memory", here),
            next_hidden=part("hidden", there),
            next_memory=part("memory", there),
            kept=part("kept", here, cell.kept),
            carried=self.tile["carried"],
            carried_memory=self.tile["carried_memory"],
            wide=v["wide"],
            gates=gates,
            candidate=candidate,
            rows=rows,
            units=v["units"],
        )
        straight = cell.gates - cell.has_candidate
        self._multiply(gates, cell.gates, rows, start=0, count=straight)
        if cell.has_candidate:
            self._multiply(candidate, 1, rows, start=straight, count=1)

    def _multiply(self, a: str, gates: int, rows: str, *, start: int, count: int) -> None:
        """Carry `count` gates' gradients back, by the weight's gates from `start` on."""
        w, v = self.w, self.v
        width = WIDEST * LANES
        with w.loop(v["panels"]) as at:
            line = w.mul(w.add(w.mul(at.index, self.cell.gates), start), v["units"])
            rest = w.sub(v["vectors"], w.mul(at.index, WIDEST))
            self.call(
                "product",
                PRODUCT,
                a=a,
                a_row=w.mul(v["units"], gates),
                a_depth=1,
                b=w.at(v["panels_at"], w.mul(line, width)),
                b_row=width,
                c=w.at(self.tile["carried"], w.mul(at.index, width)),
                c_row=v["wide"],
                factor="null",
                rows=rows,
                cols=w.least(rest, WIDEST),
                depth=w.mul(v["units"], count),
            )

    def _finish(self, state: str, slope: str, carried: str, first: str, rows: str) -> None:
        w, v = self.w, self.v
        given = self._slope(slope, "0", first)
        self.call(
            "finish" if slope in v else "finish_alone",
            FINISH,
            carried=self.tile[carried],
            wide=v["wide"],
            slope=given[slope],
            slope_b=given[f"{slope}_b"],
            target=w.at(v[f"first_{state}"], w.mul(first, v["units"])),
            rows=rows,
            units=v["units"],
        )


def _emit_back(name: str, arithmetic: Arithmetic, cell: Cell, has_memory_slope: bool) -> str:
    """Take the gradients of every vector of units of every row through the cell."""
    w = Writer(arithmetic)
    with w.loop("%rows") as row, w.loop("%units", step=LANES) as unit:
        lanes = w.first_lanes(w.sub("%units", unit.index))
        span = w.mul(row.index, "%units")
        own = w.add(span, unit.index)
        carried = w.add(w.mul(row.index, "%wide"), unit.index)

        def read(name: str, offset: str, lanes: str = lanes) -> str:
            return w.load_lanes(w.at(f"%{name}", offset), lanes)

        def outside(name: str, lanes: str = lanes) -> str:
            return read(name, w.add(w.mul(row.index, f"%{name}_b"), unit.index), lanes)

        slope = w.binary("fadd", w.load(w.at("%carried", carried)), outside("slope"))
        memory_slope = ""
        if cell.has_memory:
            memory_slope = w.load(w.at("%carried_memory", carried))
        if has_memory_slope:
            memory_slope = w.binary("fadd", memory_slope, outside("memory_slope"))
        kept = w.add(w.mul(span, cell.kept), unit.index)
        slopes = cell.backward(
            w,
            Known(
                slope=slope,
                memory_slope=memory_slope,
                hidden=read("next_hidden", own),
                memory=read("next_memory", own) if cell.has_memory else "",
                hidden_before=read("hidden", own),
                memory_before=read("memory", own) if cell.has_memory else "",
                kept=[read("kept", w.add(kept, w.mul("%units", k))) for k in range(cell.kept)],
            ),
        )
        place = w.add(w.mul(span, cell.gates), unit.index)
        for gate, value in enumerate(slopes.gates):
            w.store_lanes(value, w.at("%gates", w.add(place, w.mul("%units", gate))), lanes)
        if cell.has_candidate:
            w.store_lanes(slopes.candidate, w.at("%candidate", own), lanes)
            w.store(slopes.direct, w.at("%carried", carried))
        if cell.has_memory:
            w.store(slopes.memory, w.at("%carried_memory", carried))
    return BACK.write(name, w)


def _emit_finish(name: str, arithmetic: Arithmetic, *, is_alone: bool = False) -> str:
    """The gradient of a first state: what was carried to it, and its own from outside."""
    w = Writer(arithmetic)
    with w.loop("%rows") as row, w.loop("%units", step=LANES) as unit:
        lanes = w.first_lanes(w.sub("%units", unit.index))
        total = w.load(w.at("%carried", w.add(w.mul(row.index, "%wide"), unit.index)))
        if not is_alone:
            place = w.add(w.mul(row.index, "%slope_b"), unit.index)
            total = w.binary("fadd", total, w.load_lanes(w.at("%slope", place), lanes))
        place = w.add(w.mul(row.index, "%units"), unit.index)
        w.store_lanes(total, w.at("%target", place), lanes)
    return FINISH.write(name, w)
