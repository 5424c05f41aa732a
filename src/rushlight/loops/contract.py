"""Contractions: out[b, m, n] = sum over k of A[b, m, k] * B[b, k, n], planned as launches of
packed, tiled kernels.

Matrix products, einsums, convolutions (windows are strided views of a padded input) and
convolution gradients are all this. Each of b, m, n and k is a composite of any number of
dimensions.

The bits of an output are fixed by its inputs and k alone: products are added by fma in order of
k within blocks of `BLOCK`, and block sums are added in order. Half-precision inputs are widened
to float32 first; but products of bfloat16, of every size, go to the machine's matrix unit if it
has one, and are then added in its order (`contract_matrix`). Kernels are named by structure;
sizes, strides and tables are run-time arguments.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

import numpy as np

from rushlight.loops import contract_matrix as matrix
from rushlight.loops import contract_turned as turned
from rushlight.loops.contract_kernel import BLOCK, Shape, emit_contraction
from rushlight.loops.contract_pack import Reading
from rushlight.loops.contract_tile import Emit, EpilogueBuilder, Tile
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.text import LANES, accumulator_dtype, item_bytes

__all__ = [
    "BLOCK",
    "Epilogue",
    "EpilogueBuilder",
    "EpilogueOperand",
    "Operand",
    "plan_contraction",
]

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """A view: element strides for each dimension of the batch, and of its rows and columns.

    Rows and columns are (m, k) for A, (k, n) for B and (m, n) for the output. `buffer` points
    at the element whose every position is zero, so strides may be zero or negative.
    """

    buffer: BufferRef
    dtype: str
    batch: Dims
    rows: Dims
    columns: Dims


@dataclass(frozen=True, slots=True)
class Epilogue:
    """What is done to each finished vector of sums before it is stored.

    `emit(builder, value)` appends LLVM text and returns the name of the vector to store, of
    dtype `returns` (the accumulator's if None), which is then rounded to the output's.
    `operands` are views over (b, m, n) that `emit` loads, or stores further results to, by
    number. `key` must say all that the text depends on apart from the operands.
    """

    key: str
    emit: Emit
    operands: tuple[Operand, ...] = ()
    returns: str | None = None


EpilogueOperand = Operand


def plan_contraction(
    b: Dims,
    m: Dims,
    n: Dims,
    k: Dims,
    A: Operand,
    B: Operand,
    out: Operand,
    *,
    epilogue: Epilogue | None = None,
    target: str = "avx512",
    workers: int = 1,
    has_matrix_unit: bool = False,
) -> list[Launch]:
    """Launches that compute out[b, m, n] = epilogue(sum over k of A[b, m, k] * B[b, k, n]).

    `target` is 'avx512', 'avx2' or 'generic', with or without a unit for products of bfloat16
    matrices. `workers` only guides how finely the work is cut.
    `out` must not overlap A or B. It may be an operand of the epilogue, element for element.
    """
    if A.dtype != B.dtype:
        raise ValueError(f"a contraction of {A.dtype} with {B.dtype} needs a cast first")
    if 0 in (prod(b), prod(m), prod(n)):
        return []
    operands = (A, B, out, *(epilogue.operands if epilogue else ()))
    layouts = tuple([(o.dtype, o.batch, o.rows, o.columns) for o in operands])
    written = (epilogue.key, epilogue.returns) if epilogue else None
    key = (b, m, n, k, layouts, written, target, workers, has_matrix_unit)
    launch = _planned.get(key)
    if launch is None:
        if len(_planned) >= MANY_PLANS:
            _planned.clear()
        numbered = [replace(o, buffer=BufferRef(i)) for i, o in enumerate(operands)]
        problem = _Problem(b, m, n, k, numbered[0], numbered[1], numbered[2:])
        problem = _bound_tables(_choose_lanes(_fold_batch(problem), target))
        unit = "matrix" if has_matrix_unit and A.dtype == "bfloat16" else "vector"
        launch = _planned[key] = _launch(problem, epilogue, target, unit, workers)
    places = tuple([operands[at.buffer].buffer for at in launch.pointers])
    return [replace(launch, pointers=places)]


MANY_PLANS = 256
_planned: dict[tuple[object, ...], Launch] = {}
"""Launches on numbered operands, since the layers of a model are much alike: where operands lie
is put in afterwards.
"""


# ---- shapes


@dataclass(frozen=True, slots=True)
class _Problem:
    b: Dims
    m: Dims
    n: Dims
    k: Dims
    A: Operand
    B: Operand
    views: list[Operand]  # the output, then the epilogue's operands


def _fold_batch(p: _Problem) -> _Problem:
    """Make rows of batch dimensions along which B stays, and columns of those along which A
    does: one large product for many small.
    """
    axes = range(len(p.b))
    rows = [a for a in axes if p.b[a] == 1 or p.B.batch[a] == 0]
    columns = [a for a in axes if a not in rows and p.A.batch[a] == 0]
    if columns and not _fits_folded(prod(p.n)):
        columns = []
    kept = [a for a in axes if a not in rows and a not in columns]

    def of(axes: list[int], values: Dims) -> Dims:
        return tuple(values[a] for a in axes)

    def fold(view: Operand, rows: list[int], columns: list[int]) -> Operand:
        b = view.batch
        return replace(
            view,
            batch=of(kept, b),
            rows=of(rows, b) + view.rows,
            columns=of(columns, b) + view.columns,
        )

    return _Problem(
        of(kept, p.b), of(rows, p.b) + p.m, of(columns, p.b) + p.n, p.k,
        fold(p.A, rows, []), fold(p.B, [], columns), [fold(v, rows, columns) for v in p.views],
    )  # fmt: skip


def _fits_folded(columns: int) -> bool:
    """Whether products of so many columns do better side by side: whole vectors of them stay
    whole, and a few would leave much of the last tile idle.
    """
    return columns % LANES == 0 or columns < 10 * 2 * LANES


def _choose_lanes(p: _Problem, target: str) -> _Problem:
    """Put on the lanes the side along which the output lies in order, or else the larger; but
    where all lies along k, the few rows that do, so that the other side need not be turned.
    """
    rows = _Index.of(p.m, p.views[0].rows)
    columns = _Index.of(p.n, p.views[0].columns)
    if rows.run < LANES or (columns.run == LANES and columns.size >= min(LANES, rows.size)):
        is_along_k = _Index.of(p.n, p.B.columns).run == 0
        return _turned(p) if is_along_k and _may_list(_turned(p), target) else p
    return _turned(p)


def _turned(p: _Problem) -> _Problem:
    def turn(view: Operand) -> Operand:
        return replace(view, rows=view.columns, columns=view.rows)

    return _Problem(p.b, p.n, p.m, p.k, turn(p.B), turn(p.A), [turn(view) for view in p.views])


FEW_COLUMNS = 128
LONG_DEPTH = 128


def _may_list(p: _Problem, target: str) -> bool:
    """Whether A is to be read in place by lists of offsets: where it lies along k, as windows
    do, and is used too few times for packing it to pay.
    """
    m, n, k = prod(p.m), prod(p.n), prod(p.k)
    depth, rows = _Index.of(p.k, p.A.columns), _Index.of(p.m, p.A.rows)
    is_window = rows.stride is None and depth.stride is None
    fits = 2 * LANES <= n <= FEW_COLUMNS and FEW_ROWS < m <= LARGEST_TABLE and k >= LONG_DEPTH
    return target == "avx512" and p.A.dtype == "float32" and is_window and fits


def _bound_tables(p: _Problem) -> _Problem:
    """Make batch dimensions of outer rows or columns whose tables of offsets would be large."""
    while (
        len(p.n) > 1 and prod(p.n) > LARGEST_TABLE and _has_table(p.n, p.B, p.views, rows=False)
    ):
        A = replace(p.A, batch=(*p.A.batch, 0))
        B = replace(p.B, batch=(*p.B.batch, p.B.columns[0]), columns=p.B.columns[1:])
        views = [
            replace(view, batch=(*view.batch, view.columns[0]), columns=view.columns[1:])
            for view in p.views
        ]
        p = _Problem((*p.b, p.n[0]), p.m, p.n[1:], p.k, A, B, views)
    while (
        len(p.m) > 1 and prod(p.m) > LARGEST_TABLE and _has_table(p.m, p.A, p.views, rows=True)
    ):
        A = replace(p.A, batch=(*p.A.batch, p.A.rows[0]), rows=p.A.rows[1:])
        B = replace(p.B, batch=(*p.B.batch, 0))
        views = [
            replace(view, batch=(*view.batch, view.rows[0]), rows=view.rows[1:])
            for view in p.views
        ]
        p = _Problem((*p.b, p.m[0]), p.m[1:], p.n, p.k, A, B, views)
    return p


def _has_table(sizes: Dims, operand: Operand, views: list[Operand], *, rows: bool) -> bool:
    sides = [view.rows if rows else view.columns for view in (operand, *views)]
    return any(len(_merge(sizes, strides)[0]) > 1 for strides in sides)


# ---- offsets


@dataclass(frozen=True, slots=True)
class _Index:
    """Element offsets of a composite position: one stride where that will do, or a table."""

    size: int
    stride: int | None
    row: int  # how many neighbours lie side by side, from every multiple of as many
    table: np.ndarray = field(compare=False)

    @staticmethod
    def of(sizes: Dims, strides: Dims) -> _Index:
        sizes, strides = _merge(sizes, strides)
        if len(sizes) <= 1:
            size, stride = (sizes[0], strides[0]) if sizes else (1, 1)
            return _Index(size, stride, size if stride == 1 else 0, _ZEROS)
        row = sizes[-1] if strides[-1] == 1 else 0
        return _Index(prod(sizes), None, row, _table(sizes, strides))

    @staticmethod
    def listed(sizes: Dims, strides: Dims) -> _Index:
        """The same with a table in any case."""
        return replace(_Index.of(sizes, strides), stride=None, table=_table(sizes, strides))

    @property
    def run(self) -> int:
        """The longest pieces, of 16, 8 or 4, that lie side by side; else 0."""
        if self.stride is not None:
            return LANES if self.stride == 1 else 0
        return next((length for length in (16, 8, 4) if self.has_rows_of(length)), 0)

    def has_rows_of(self, length: int) -> bool:
        """Whether positions from every multiple of `length` up to the next lie side by side."""
        return self.stride == 1 or (self.row > 0 and self.row % length == 0)

    @property
    def ints(self) -> tuple[int, int]:
        return (0, 1) if self.stride is None else (self.stride, 0)


_ZEROS = np.zeros(LANES, np.int64)


def _merge(sizes: Dims, strides: Dims) -> tuple[Dims, Dims]:
    """The same positions with fewer dimensions, where neighbours make one."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == stride * size:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return tuple(size for size, _ in merged), tuple(stride for _, stride in merged)


LARGEST_TABLE = 1 << 16


@lru_cache(maxsize=64)
def _table(sizes: Dims, strides: Dims) -> np.ndarray:
    """Offsets of all positions, then the last 16 times more: whole vectors of them are read."""
    offsets = np.zeros(1, np.int64)
    for size, stride in zip(sizes, strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(size, dtype=np.int64) * stride).ravel()
    tail = offsets[-1:] if len(offsets) else np.zeros(1, np.int64)
    return np.concatenate([offsets, np.repeat(tail, LANES)])


# ---- tiles, blocks, chunks

_TILES = {
    ("avx512", 4): (
        Tile(13, 2),
        Tile(8, 2),
        Tile(4, 4),
        Tile(1, 8),
        Tile(1, 2),
        Tile(13, 1),
        Tile(8, 1),
    ),
    ("avx512", 8): (Tile(13, 1), Tile(8, 1), Tile(4, 2), Tile(1, 4), Tile(1, 1)),
    ("avx2", 4): (Tile(6, 1), Tile(4, 1), Tile(1, 4), Tile(1, 1)),
    ("avx2", 8): (Tile(3, 1), Tile(1, 2), Tile(1, 1)),
}
_NARROW_TILES = (Tile(3, 1), Tile(1, 2), Tile(1, 1))


def _choose_tile(target: str, dtype: str, m: int, n: int, read_a: bool, read_b: bool) -> Tile:
    """The tile that wastes least at the edges, by measured costs.

    `read_a` and `read_b`: the operand can be read in place if there is a whole tile of it.
    """
    item = item_bytes(dtype)
    registers = -(-LANES * item // {"avx512": 64, "avx2": 32}.get(target, 16))  # of one vector

    def cost(tile: Tile) -> float:
        """Cycles for one k, measured: issue of multiply-adds, their overhead, packing."""
        down, across = -(-m // tile.rows), -(-n // tile.columns)
        vectors = tile.vectors * registers
        overhead = (2.5 if read_a else 1) + (1.5 if vectors == 1 else 0)
        step = max(tile.rows * vectors / 2, 4) + overhead
        pack_a = 0 if read_a and m >= tile.rows else 0.5 * down * tile.rows
        pack_b = 0 if read_b and n >= tile.columns else 4 * across * vectors
        return down * across * step + pack_a + pack_b * (2 if tile.columns * item > 128 else 1)

    usual, *others = _TILES.get((target, item_bytes(dtype)), _NARROW_TILES)
    best = min(others, key=cost)
    return best if cost(best) < ANOTHER_KERNEL * cost(usual) else usual


ANOTHER_KERNEL = 0.9
"""A tile other than the usual has to gain a tenth: for it a new size may compile a kernel."""


_LISTED_TILES = (Tile(6, 4), Tile(9, 2))  # as many rows as there are registers for addresses


def _choose_listed_tile(m: int, n: int) -> Tile:
    def cost(tile: Tile) -> float:
        return -(-m // tile.rows) * -(-n // tile.columns) * (tile.rows * tile.vectors / 2 + 1)

    return min(_LISTED_TILES, key=cost)


FEW_ROWS = 8


def _may_turn(target: str, dtype: str, m: int, n: int, b_k: _Index, b_columns: _Index) -> bool:
    """Whether columns of B that lie along k are to be used without packing them."""
    has_registers = target == "avx512" and dtype == "float32"
    fits = m <= FEW_ROWS and n >= LANES
    return has_registers and fits and b_k.stride == 1 and b_columns.stride is not None


def _choose_matrix_tile(m: int, n: int) -> Tile:
    """The tile of matrix registers that wastes least at the edges."""

    def cost(tile: Tile) -> float:
        """Cycles for 32 of k: 16 for each product, or 10 for each register loaded."""
        down, across = -(-m // tile.rows), -(-n // tile.columns)
        products = tile.rows // LANES * tile.vectors
        return down * across * max(16 * products, 10 * (tile.rows // LANES + tile.vectors))

    return min(matrix.TILES, key=cost)


def _choose_blocks(
    sizes: tuple[int, int, int, int], tile: Tile, item: int, workers: int, *, lists_a: bool
) -> tuple[int, int]:
    """Rows and columns of a chunk: A's block and waiting sums fit the second-level cache.

    Each column of chunks packs A again and each row of chunks B, so chunks are made square, and
    two for each worker only where that packs little more than one. If A is not packed, long
    chunks are best.
    """
    b, m, n, k = sizes
    least = -(-m // ((8 if lists_a else 1) * 2080 // item)), -(-n // (4096 // item))
    work = b * m * n * k
    one = _cut(m, n, least, -(-min(workers, work >> 18) // b))
    two = _cut(m, n, least, -(-min(2 * workers, work >> 18) // b))
    more = (two[0] - one[0]) * n + (two[1] - one[1]) * m
    down, across = one if workers == 1 or lists_a or PACKING * more > m * n else two
    while b * down * across < 8 * workers and b * down * across % workers:
        across += 1  # few chunks must go round evenly
    return _share(m, down, tile.rows), _share(n, across, tile.columns)


PACKING = 400
"""An element is packed in the time of some 20 products, and a twentieth of the time may go."""


def _cut(m: int, n: int, least: tuple[int, int], wanted: int) -> tuple[int, int]:
    """How many pieces to make of the rows and of the columns, to get `wanted` chunks."""
    least_down, least_across = least
    down = min(
        range(least_down, max(least_down, wanted) + 1),
        key=lambda down: n * down + m * max(least_across, -(-wanted // down)),
    )
    return down, max(least_across, -(-wanted // down))


def _share(size: int, pieces: int, unit: int) -> int:
    """A multiple of `unit` of which about `pieces` cover `size`."""
    share = -(-size // pieces)
    return -(-share // unit) * unit


LONG_ROW = 256
GROUP = 16
"""Where rows of B lie `LONG_ROW` elements or more apart, up to `GROUP` panels are packed
together, so that each row is read for a while.
"""


def _choose_group(depth: _Index, tile: Tile, columns: int) -> int:
    """Columns of B to pack together."""
    long_rows = depth.stride is not None and abs(depth.stride) >= LONG_ROW
    return min(columns, (GROUP if long_rows else 1) * tile.columns)


def _reading(lanes: _Index, depth: _Index, width: int) -> Reading:
    """How panels of `width` lanes are to be read; pieces must not straddle two panels."""
    if lanes.size == 1 and depth.run:
        return Reading("depth", depth.run)
    if lanes.stride == 1 or (lanes.run and width % lanes.run == 0):
        return Reading("lanes", lanes.run)
    return Reading("depth", depth.run) if depth.run else Reading("any")


def _is_straight(p: _Problem, row: _Index, column: _Index, tile: Tile) -> bool:
    """Whether total sums are the output, to be stored in its place at once."""
    same = p.views[0].dtype == accumulator_dtype(p.A.dtype)
    return same and row.stride is not None and column.has_rows_of(tile.columns)


def _columns(batch: _Index, row: _Index, column: _Index) -> str:
    """How 16 columns of an epilogue's operand lie."""
    if column.stride == 0 and column.size > 1:
        is_one = all(index.size == 1 or index.stride == 0 for index in (batch, row))
        return "one" if is_one else "same"
    return "lanes" if column.run == LANES else "any"


def _launch(
    p: _Problem, epilogue: Epilogue | None, target: str, unit: str, workers: int
) -> Launch:
    b, m, n, k = prod(p.b), prod(p.m), prod(p.n), prod(p.k)
    total = accumulator_dtype(p.A.dtype)
    item = item_bytes(total)
    a_rows, a_k = _Index.of(p.m, p.A.rows), _Index.of(p.k, p.A.columns)
    b_k, b_columns = _Index.of(p.k, p.B.rows), _Index.of(p.n, p.B.columns)
    ends = [
        (_Index.of(p.b, view.batch), _Index.of(p.m, view.rows), _Index.of(p.n, view.columns))
        for view in p.views
    ]

    same = p.A.dtype == total
    lists_a = unit == "vector" and _may_list(p, target)
    read_a = same and None not in (a_rows.stride, a_k.stride) and n <= 128
    read_b = same and b_columns.stride == 1 and b_k.stride is not None and min(m, n / 4) <= 32
    if unit == "vector" and same and _may_turn(target, total, m, n, b_k, b_columns):
        tile, block, unit = turned.TILES[m < turned.TILES[0].rows], BLOCK, "turned"
        read_a, read_b = None not in (a_rows.stride, a_k.stride), True
    elif unit == "matrix":
        tile, block = _choose_matrix_tile(m, n), matrix.BLOCK
    elif lists_a:
        tile, block = _choose_listed_tile(m, n), BLOCK
        a_rows, a_k = _Index.listed(p.m, p.A.rows), _Index.listed(p.k, p.A.columns)
    else:
        tile, block = _choose_tile(target, total, m, n, read_a, read_b), BLOCK
    read_a, read_b = read_a and m >= tile.rows, read_b and n >= tile.columns
    rows, columns = _choose_blocks((b, m, n, k), tile, item, workers, lists_a=lists_a)
    down, across = -(-m // rows), -(-n // columns)
    group = columns if read_b else _choose_group(b_k, tile, columns)
    straight = epilogue is None and _is_straight(p, *ends[0][1:], tile)

    shape = Shape(
        p.A.dtype,
        tile,
        Reading("listed") if lists_a else None if read_a else _reading(a_rows, a_k, tile.rows),
        None if read_b else _reading(b_columns, b_k, tile.columns),
        tuple((v.dtype, _columns(*end)) for v, end in zip(p.views, ends, strict=True)),
        (epilogue.returns if epilogue else None) or total,
        epilogue.key if epilogue else "",
        unit,
    )
    panel_a = 0 if read_a or lists_a else rows // tile.rows * shape.panel_bytes(tile.rows)
    panel_b = 0 if read_b else group // tile.columns * shape.panel_bytes(tile.columns)
    sums = (rows * columns if k > block else tile.rows * tile.columns) * item
    indices = [
        _Index.of(p.b, p.A.batch),
        a_rows,
        a_k,
        _Index.of(p.b, p.B.batch),
        b_k,
        b_columns,
    ]
    for end in ends:
        indices += end
    numbers = (m, n, k, rows, columns, down, across, int(straight), group, panel_a, panel_b)
    return Launch(
        _source(shape, epilogue.emit if epilogue else None),
        b * down * across,
        (p.A.buffer, p.B.buffer, *(view.buffer for view in p.views)),
        (*numbers, *(number for index in indices for number in index.ints)),
        tuple(index.table for index in indices),
        scratch=panel_a + panel_b + sums,
    )


_sources: dict[Shape, KernelSource] = {}


def _source(shape: Shape, emit: Emit | None) -> KernelSource:
    source = _sources.get(shape)
    if source is None:
        source = _sources[shape] = emit_contraction(shape, emit)
    return source
