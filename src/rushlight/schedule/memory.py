"""Where every stored node lives: results in buffers of their own, everything between in one
arena.

Lifetimes are known (first write to last read, in units), so intermediates share memory, and the
peak is known before anything runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from rushlight.ir.node import Node
from rushlight.schedule.fuse import Unit

ALIGN = 64


@dataclass(slots=True)
class MemoryPlan:
    """Arena offsets of intermediates, and the arena's size in bytes."""

    offsets: dict[Node, int] = field(default_factory=dict)
    nbytes: int = 0


@dataclass(slots=True)
class _Arena:
    """Free intervals of an arena that grows at its end (best fit)."""

    free: list[tuple[int, int]] = field(default_factory=list)  # (offset, size), sorted
    end: int = 0

    def take(self, size: int) -> int:
        fits = [(s, o) for o, s in self.free if s >= size]
        if fits:
            have, offset = min(fits)
            self.free.remove((offset, have))
            if have > size:
                self.free.append((offset + size, have - size))
                self.free.sort()
            return offset
        if self.free and sum(self.free[-1]) == self.end:  # grow the last free interval
            offset, have = self.free.pop()
            self.end = offset + size
            return offset
        offset = self.end
        self.end += size
        return offset

    def give(self, offset: int, size: int) -> None:
        self.free.append((offset, size))
        self.free.sort()
        merged: list[tuple[int, int]] = []
        for start, length in self.free:
            if merged and sum(merged[-1]) == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + length)
            else:
                merged.append((start, length))
        self.free = merged


def padded(nbytes: int) -> int:
    return max(-(-nbytes // ALIGN) * ALIGN, ALIGN)


def nbytes_of(node: Node) -> int:
    return padded(node.numel * node.dtype.itemsize + ALIGN)


def plan_memory(
    units: Sequence[Unit], outside: Iterable[Node], placed_as: Callable[[Node], Node]
) -> MemoryPlan:
    """Place every node that units write and that does not live `outside` the arena. Nodes with
    one `placed_as` share a place.
    """
    external = set(outside)
    first: dict[Node, int] = {}
    last: dict[Node, int] = {}
    for at, unit in enumerate(units):
        for node in map(placed_as, unit.writes):
            first.setdefault(node, at)
            last[node] = at
        for node in map(placed_as, unit.reads):
            last[node] = at
    starting: list[list[Node]] = [[] for _ in units]
    ending: list[list[Node]] = [[] for _ in units]
    for node, at in first.items():
        if node not in external:
            starting[at].append(node)
            ending[last[node]].append(node)
    plan, arena = MemoryPlan(), _Arena()
    for born, dying in zip(starting, ending, strict=True):
        for node in born:
            plan.offsets[node] = arena.take(nbytes_of(node))
        for node in dying:
            arena.give(plan.offsets[node], nbytes_of(node))
    plan.nbytes = arena.end
    return plan
