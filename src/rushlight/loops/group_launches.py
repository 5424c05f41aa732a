"""The launches of a group: its kernels, by the mode of its loops, and how the work is cut.

A 'map' kernel has one phase and no reductions, and cuts long rows into blocks. A 'row' kernel
has reductions of whole rows. A 'split' kernel reduces blocks of long rows into partial results,
which a second entry adds up in order. A 'column' kernel runs vectors across neighbouring
results and loops over the reduced elements. Float32 sums and products are kept in float64. The
order of a reduction depends on its length alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from math import prod
from typing import Any  # attributes

from rushlight.ir.node import Node
from rushlight.loops.columns import ColumnKernel, column_width
from rushlight.loops.group import CHUNK, GroupKernel
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.rows import RowKernel, stash_bytes
from rushlight.schedule.fuse import LONG_ROW

TURNED = 64  # side of the squares in which transposed operands are read


def launches(
    kernel: GroupKernel,
    buffer_of: Callable[[Node], BufferRef],
    number_of: Callable[[Node], BufferRef],
    check_of: Callable[[Node], int],
    errors: BufferRef,
    partial: Callable[[int], BufferRef],
) -> list[Launch]:
    """The launches of a unit: one, or two for long rows (pieces, then their combination)."""
    nest = kernel.nest
    if nest.mode == "map" and 0 in nest.sizes:
        return []
    key = kernel.key()
    sources = _SOURCES.get(key)
    if sources is None:
        digest = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
        sources = _SOURCES[key] = write(kernel, f"{nest.mode}_{digest}")
    pointers = []
    for access in nest.accesses:
        if access.node is not None:
            base = buffer_of(access.node)
            pointers.append(
                BufferRef(base.buffer, base.offset + access.offset * access.kind.itemsize)
            )
    pointers += [number_of(n) for n in kernel.numbers]
    ints: list[int] = list(nest.sizes)
    for access in nest.accesses:
        ints += access.strides
        if access.node is None:
            ints.append(access.offset)
    for gather in kernel.gathers:
        for stride, size in gather.node.attrs[1]:
            ints += [stride, size]
        ints.append(check_of(gather.node))
    if kernel.gathers:
        pointers.append(errors)
    return _shape_launches(kernel, sources, pointers, ints, partial)


_SOURCES: dict[Any, tuple[KernelSource, ...]] = {}


def _shape_launches(
    kernel: GroupKernel,
    sources: tuple[KernelSource, ...],
    pointers: list[BufferRef],
    ints: list[int],
    partial: Any,
) -> list[Launch]:
    """Cut the loops into chunks, and append the numbers that say how."""
    nest = kernel.nest
    source = sources[0]
    rows = prod(nest.sizes[: nest.outer])
    if nest.mode == "column":
        width = column_width(nest.sizes[nest.lane])
        across = -(-nest.sizes[nest.lane] // width)
        chunks = rows * across
        return [_launch(source, chunks, pointers, [*ints, rows, across])]
    inner = prod(nest.sizes[nest.outer :])
    if nest.mode == "map":
        length = nest.sizes[-1]
        block = length if length <= 2 * CHUNK else CHUNK
        blocks = -(-length // block)
        together = max(1, CHUNK // max(length, 1)) if blocks == 1 else 1
        if _is_turned(kernel):  # squares keep the cache lines of both sides in reach
            block = together = TURNED
            blocks = -(-length // block)
        chunks = -(-rows // together) * blocks
        return [_launch(source, chunks, pointers, [*ints, rows, together, block, blocks])]
    if nest.mode == "row":
        together = max(1, CHUNK // max(inner, 1))
        scratch = stash_bytes(kernel, inner)
        return [
            _launch(source, -(-rows // together), pointers, [*ints, rows, together], scratch)
        ]
    first = nest.sizes[nest.outer]
    step = max(1, LONG_ROW // max(inner // first, 1)) if nest.inner > 1 else LONG_ROW
    blocks = -(-first // step)
    size = sum(16 for s in kernel.steps if s.root.kind == "reduce")
    place = partial(rows * blocks * size)
    numbers = [*ints, rows, step, blocks]
    both = [*pointers, place]
    return [
        _launch(source, rows * blocks, both, numbers),
        _launch(sources[1], rows, both, numbers),
    ]


def _is_turned(kernel: GroupKernel) -> bool:
    """Whether neighbours in some operand's memory lie along rows and not along the vectors."""
    nest = kernel.nest
    return nest.outer > 0 and any(
        a.node is not None and a.strides[-1] not in (0, 1) and a.strides[nest.outer - 1] == 1
        for a in nest.accesses
    )


def _launch(
    source: KernelSource,
    chunks: int,
    pointers: list[BufferRef],
    ints: list[int],
    scratch: int = 0,
) -> Launch:
    return Launch(source, chunks, tuple(pointers), tuple(ints), scratch=scratch)


def write(kernel: GroupKernel, name: str) -> tuple[KernelSource, ...]:
    """The kernels of a group: one, or for long rows the one for pieces and the one that
    combines them.
    """
    mode = kernel.nest.mode
    if mode == "column":
        columns = ColumnKernel(kernel)
        text = columns.column_kernel(name)
        return (KernelSource(name, text, frozenset(columns.text.needs)),)
    first = RowKernel(kernel)
    text = first.row_kernel(name)
    made = KernelSource(name, text, frozenset(first.text.needs))
    if mode != "split":
        return (made,)
    second = RowKernel(kernel)
    text = second.combine_kernel(name + "_combine")
    return made, KernelSource(name + "_combine", text, frozenset(second.text.needs))
