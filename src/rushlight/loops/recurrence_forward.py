"""The forward kernel of a recurrence: one task is some rows of the batch through all of time.

A step first multiplies its rows' hidden state by the packed weight, then lets the cell turn the
products and the input's part into the next states. Rows never look at each other.
"""

from __future__ import annotations

from functools import cache

from rushlight.loops.entry import Entry
from rushlight.loops.kernel import KernelSource
from rushlight.loops.recurrence_cells import CELLS, Before, Cell, functions_of
from rushlight.loops.recurrence_pack import forward_panel
from rushlight.loops.tiles import PRODUCT, emit_product
from rushlight.loops.writer import LANES, Arithmetic, Routine, Writer, arithmetic_of

FORWARD_SCRATCH = ("products",)
FORWARD_INTS = (
    *("steps", "batch", "units", "block", "panels", "vectors", "wide"),
    *("given_t", "given_b", "first_hidden_b", "first_memory_b"),
    *FORWARD_SCRATCH,
)
COPY = Routine("ptr source, i64 row, ptr target, i64 rows, i64 units")
STEP = Routine(
    "ptr products, i64 wide, ptr given, i64 given_b, ptr bias, ptr hidden, ptr memory,"
    " ptr next_hidden, ptr next_memory, ptr kept, i64 rows, i64 units"
)


def forward_pointers(cell: Cell, keeps: bool) -> tuple[str, ...]:
    """The forward kernel's pointer arguments, in order."""
    states = ("hidden", "memory") if cell.has_memory else ("hidden",)
    bias = ("bias",) if cell.has_candidate else ()
    kept = ("kept",) if keeps else ()
    return ("given", "panels_at", *bias, *(f"first_{s}" for s in states), *states, *kept)


def product_tiles(arithmetic: Arithmetic, target: str, vectors: int | None) -> dict[int, int]:
    """Register tiles (vectors across to rows) for panels of `vectors`, or of any number up to
    four: enough chains of multiply-adds to hide their latency, in half of the registers.
    """
    double = arithmetic.size == 8
    if target != "avx512":
        return {1: 2 if double else 4}
    if vectors is not None and not double:
        return {vectors: 4}
    return dict.fromkeys((2, 1) if double else (4, 2, 1), 4)


@cache
def forward_kernel(cell_name: str, dtype: str, target: str, keeps: bool) -> KernelSource:
    """The kernel that makes all states of a cell; if `keeps`, also what backward needs."""
    cell, arithmetic = CELLS[cell_name], arithmetic_of(dtype)
    name = f"recurrence_{cell_name}_{dtype}_{target}_{'kept' if keeps else 'light'}"
    fixed = None if cell.gates == 1 else cell.gates
    tiles = product_tiles(arithmetic, target, fixed)
    parts = [
        emit_product(f"{name}_product", arithmetic, tiles, "set", any_rows=True),
        _emit_copy(f"{name}_copy", arithmetic),
        _emit_step(f"{name}_step", arithmetic, cell, keeps),
        _ForwardEntry(name, arithmetic, cell, keeps).text(),
    ]
    needs = frozenset({arithmetic.fma, arithmetic.masked_load, arithmetic.masked_store})
    return KernelSource(name, "\n".join(parts), needs | functions_of(cell, arithmetic))


class _ForwardEntry(Entry):
    """Writes the entry function."""

    def __init__(self, name: str, arithmetic: Arithmetic, cell: Cell, keeps: bool) -> None:
        pointers = forward_pointers(cell, keeps)
        super().__init__(
            name, arithmetic, pointers=pointers, ints=FORWARD_INTS, scratch=FORWARD_SCRATCH
        )
        self.cell, self.keeps = cell, keeps
        self.states = ("hidden", "memory") if cell.has_memory else ("hidden",)

    def text(self) -> str:
        w, v = self.w, self.v
        with w.loop("%end", start="%begin") as task:
            first = w.mul(task.index, v["block"])
            rows = w.least(w.sub(v["batch"], first), v["block"])
            self._copy_first(first, rows)
            with w.loop(v["steps"]) as step:
                self._step(step.index, first, rows)
        return self.finished()

    def _copy_first(self, first: str, rows: str) -> None:
        w, v = self.w, self.v
        for state in self.states:
            row = v[f"first_{state}_b"]
            self.call(
                "copy",
                COPY,
                source=w.at(v[f"first_{state}"], w.mul(first, row)),
                row=row,
                target=w.at(v[state], w.mul(first, v["units"])),
                rows=rows,
                units=v["units"],
            )

    def _step(self, step: str, first: str, rows: str) -> None:
        w, v = self.w, self.v
        line = w.add(w.mul(step, v["batch"]), first)
        here = w.mul(line, v["units"])
        there = w.add(here, w.mul(v["batch"], v["units"]))
        before = {s: w.at(v[s], here) for s in self.states}
        after = {s: w.at(v[s], there) for s in self.states}
        self._multiply(before["hidden"], rows)
        kept = "null"
        if self.keeps:
            kept = w.at(v["kept"], w.mul(here, self.cell.kept))
        self.call(
            "step",
            STEP,
            products=self.tile["products"],
            wide=v["wide"],
            given=w.at(v["given"], w.dot((step, v["given_t"]), (first, v["given_b"]))),
            given_b=v["given_b"],
            bias=v.get("bias", "null"),
            hidden=before["hidden"],
            memory=before.get("memory", "null"),
            next_hidden=after["hidden"],
            next_memory=after.get("memory", "null"),
            kept=kept,
            rows=rows,
            units=v["units"],
        )

    def _multiply(self, hidden: str, rows: str) -> None:
        w, v = self.w, self.v
        panel = forward_panel(self.cell)
        with w.loop(v["panels"]) as at:
            start = w.mul(at.index, panel * LANES)
            rest = w.sub(v["vectors"], w.mul(at.index, panel))
            self.call(
                "product",
                PRODUCT,
                a=hidden,
                a_row=v["units"],
                a_depth=1,
                b=w.at(v["panels_at"], w.mul(start, v["units"])),
                b_row=panel * LANES,
                c=w.at(self.tile["products"], start),
                c_row=v["wide"],
                factor="null",
                rows=rows,
                cols=w.least(rest, panel),
                depth=v["units"],
            )


def _emit_copy(name: str, arithmetic: Arithmetic) -> str:
    """Copy rows of units."""
    w = Writer(arithmetic)
    with w.loop("%rows") as row:
        source, target = (
            w.at("%source", w.mul(row.index, "%row")),
            w.at("%target", w.mul(row.index, "%units")),
        )
        with w.loop("%units", step=LANES) as unit:
            lanes = w.first_lanes(w.sub("%units", unit.index))
            value = w.load_lanes(w.at(source, unit.index), lanes)
            w.store_lanes(value, w.at(target, unit.index), lanes)
    return COPY.write(name, w)


def _emit_step(name: str, arithmetic: Arithmetic, cell: Cell, keeps: bool) -> str:
    """Let the cell act on every vector of units of every row."""
    w = Writer(arithmetic)
    with w.loop("%rows") as row, w.loop("%units", step=LANES) as unit:
        lanes = w.first_lanes(w.sub("%units", unit.index))
        own = w.add(w.mul(row.index, "%units"), unit.index)
        products = w.dot((row.index, "%wide"), (unit.index, cell.gates))
        given = w.add(w.mul(row.index, "%given_b"), unit.index)
        gates = [w.mul("%units", gate) for gate in range(cell.gates)]
        after = cell.forward(
            w,
            Before(
                given=[w.load_lanes(w.at("%given", w.add(given, g)), lanes) for g in gates],
                products=[
                    w.load(w.at("%products", w.add(products, gate * LANES)))
                    for gate in range(cell.gates)
                ],
                bias=[
                    w.load_lanes(w.at("%bias", w.add(unit.index, g)), lanes)
                    for g in gates
                    if cell.has_candidate
                ],
                hidden=w.load_lanes(w.at("%hidden", own), lanes),
                memory=w.load_lanes(w.at("%memory", own), lanes) if cell.has_memory else "",
            ),
        )
        w.store_lanes(after.hidden, w.at("%next_hidden", own), lanes)
        if cell.has_memory:
            w.store_lanes(after.memory, w.at("%next_memory", own), lanes)
        if keeps:
            place = w.add(w.mul(w.mul(row.index, "%units"), cell.kept), unit.index)
            for k, value in enumerate(after.kept):
                w.store_lanes(value, w.at("%kept", w.add(place, w.mul("%units", k))), lanes)
    return STEP.write(name, w)
