"""Plans a recurrence and its gradient: the weight is packed, then one kernel walks all of time.

    states[t + 1] = cell(given[t], states[t] weight^T, states[t])

`given` (steps, batch, gates * units) is the input's part of the gates. States are kept whole,
(steps + 1, batch, units), the first ones at the start.

What decides a row's bits: its own part of `given`, its first states, and the weight. Each sum
is one chain of multiply-adds in order of units (backward: of gates and units) from zero. Which
thread or task a row is in, and the width of the machine's vectors, change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.loops.entry import Strided, launch_of, round_up
from rushlight.loops.kernel import BufferRef, Launch
from rushlight.loops.recurrence_backward import (
    BACKWARD_INTS,
    backward_kernel,
    backward_pointers,
)
from rushlight.loops.recurrence_cells import CELLS, Cell
from rushlight.loops.recurrence_forward import FORWARD_INTS, forward_kernel, forward_pointers
from rushlight.loops.recurrence_pack import (
    WIDEST,
    forward_panel,
    forward_panels,
    packed_elements,
    plan_backward_pack,
    plan_forward_pack,
)
from rushlight.loops.writer import LANES, arithmetic_of

TILE_ROWS = 4  # rows that the products' register tiles take at once
# Rows of one task at most. Each task reads the whole weight at every step: from its own cache
# at any number of rows for the same cost, from a shared one less often the more rows there are
# (512 units, 16 steps of 32 rows: 9.5 ms at 32 rows, 14.5 ms at 8).
ROWS_BY_CACHED_WEIGHT, ROWS_BY_LARGE_WEIGHT = 8, 32
CACHED_WEIGHT = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class RecurrenceShape:
    """Sizes; a cell's weight is (gates * units, units)."""

    steps: int
    batch: int
    units: int


def packed_bytes(cell_name: str, units: int, dtype: str, *, is_forward: bool) -> int:
    """The memory that a plan needs for the packed weight, on a cache line."""
    elements = packed_elements(CELLS[cell_name], units, is_forward=is_forward)
    return elements * arithmetic_of(dtype).size


def plan_recurrence(
    *,
    cell_name: str,
    shape: RecurrenceShape,
    dtype: str,
    operands: Mapping[str, Strided],
    results: Mapping[str, BufferRef],
    panels: BufferRef,
    target: str,
    workers: int,
) -> list[Launch]:
    """Launches that fill `hidden` (and `memory`, `kept`) of `results`.

    `operands`: given (steps, batch, gates * units), weight, bias (gates * units), first_hidden
    and first_memory (batch, units). The last stride of all but the weight is 1. `kept` (steps,
    batch, cell.kept * units) is what backward needs, made if it is among the results.
    """
    cell, arithmetic = CELLS[cell_name], arithmetic_of(dtype)
    keeps = bool(cell.kept) and "kept" in results
    columns = cell.gates * round_up(shape.units, LANES)
    wide = forward_panels(cell, shape.units) * forward_panel(cell) * LANES
    values = _common(cell, shape, dtype, operands, workers) | {
        "panels": forward_panels(cell, shape.units),
        "vectors": columns // LANES,
        "wide": wide,
    }
    launch = launch_of(
        forward_kernel(cell_name, dtype, target, keeps),
        -(-shape.batch // values["block"]),
        _places(operands, results, panels),
        values,
        pointers=forward_pointers(cell, keeps),
        ints=FORWARD_INTS,
        sizes={"products": values["block"] * wide},
        arithmetic=arithmetic,
    )
    pack = plan_forward_pack(cell, shape.units, dtype, operands["weight"], panels)
    return [pack, launch] if shape.batch else []


def plan_recurrence_grad(
    *,
    cell_name: str,
    shape: RecurrenceShape,
    dtype: str,
    operands: Mapping[str, Strided],
    results: Mapping[str, BufferRef],
    panels: BufferRef,
    target: str,
    workers: int,
) -> list[Launch]:
    """Launches that fill the gradients in `results`: of `gates` by their input's part, of the
    `candidate` by its hidden part, and of the first states.

    `operands`: slope (as `hidden`), memory_slope if there is one, hidden, memory and kept as
    the forward kernel left them, and weight.
    """
    cell, arithmetic = CELLS[cell_name], arithmetic_of(dtype)
    has_memory_slope = "memory_slope" in operands
    wide = round_up(shape.units, WIDEST * LANES)
    values = _common(cell, shape, dtype, operands, workers) | {
        "panels": wide // (WIDEST * LANES),
        "vectors": round_up(shape.units, LANES) // LANES,
        "wide": wide,
    }
    launch = launch_of(
        backward_kernel(cell_name, dtype, target, has_memory_slope),
        -(-shape.batch // values["block"]),
        _places(operands, results, panels),
        values,
        pointers=backward_pointers(cell, has_memory_slope),
        ints=BACKWARD_INTS,
        sizes=dict.fromkeys(("carried", "carried_memory"), values["block"] * wide),
        arithmetic=arithmetic,
    )
    pack = plan_backward_pack(cell, shape.units, dtype, operands["weight"], panels)
    return [pack, launch] if shape.batch else []


def _common(
    cell: Cell,
    shape: RecurrenceShape,
    dtype: str,
    operands: Mapping[str, Strided],
    workers: int,
) -> dict[str, int]:
    """The integer arguments that both kernels have, and strides by name."""
    weight = cell.gates * shape.units**2 * arithmetic_of(dtype).size
    rows = ROWS_BY_CACHED_WEIGHT if weight <= CACHED_WEIGHT else ROWS_BY_LARGE_WEIGHT
    values = {
        "steps": shape.steps,
        "batch": shape.batch,
        "units": shape.units,
        "block": _rows_of_a_task(shape.batch, workers, rows),
    }
    axes = {
        "given": "tb", "slope": "tb", "memory_slope": "tb",
        "first_hidden": "b", "first_memory": "b",
    }  # fmt: skip
    for name, letters in axes.items():
        strides = operands[name].strides if name in operands else (0, 0)
        values |= {f"{name}_{x}": s for x, s in zip(letters, strides, strict=False)}
    return values


def _rows_of_a_task(batch: int, workers: int, most: int) -> int:
    """As many tasks for every thread, none above `most` rows, of whole register tiles."""
    tasks = workers * max(-(-batch // (workers * most)), 1)
    return max(round_up(-(-batch // tasks), TILE_ROWS), TILE_ROWS)


def _places(
    operands: Mapping[str, Strided], results: Mapping[str, BufferRef], panels: BufferRef
) -> dict[str, BufferRef]:
    places = {name: operand.place for name, operand in operands.items()}
    return places | dict(results) | {"panels_at": panels}
