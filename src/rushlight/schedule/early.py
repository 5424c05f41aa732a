"""Computing early: what is made of a unit's results alone, and read back by one other unit, is
made where those results are, if it is smaller than they are.

The slope of an activation is the pattern: it needs the activation's input and perhaps a part of
its formula, both stored only for the backward unit. The slope alone is stored instead, and the
backward unit is left with a product.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rushlight.ir.node import Node
from rushlight.schedule.reading import SINGLE, VIRTUAL

if TYPE_CHECKING:
    from rushlight.schedule.fuse import Root, Unit


@dataclass(frozen=True, slots=True)
class Move:
    """`made` becomes results of `maker`, in place of `dropped`."""

    maker: Unit
    made: set[Node]
    dropped: set[Node]


def worth_moving(
    units: list[Unit],
    place: Mapping[Node, int],
    outputs: Iterable[Node],
    can_join: Callable[[Move], bool],
) -> Iterator[Move]:
    """What to make earlier. `place` tells which unit makes a stored node."""
    readers: dict[Node, list[Unit]] = defaultdict(list)
    for unit in units:
        for node in unit.reads:
            if place.get(node) != unit.number:
                readers[node].append(unit)
    kept = set(outputs)
    for unit in units:
        if unit.single is not None:
            continue
        read_back: dict[int, set[Node]] = defaultdict(set)
        for node in unit.reads:
            if node in place and node not in kept:
                maker = _maker(node, units, place[node], readers[node], unit)
                if maker is not None:
                    read_back[maker.number].add(node)
        for number, nodes in read_back.items():
            if len(nodes) < 2 or number >= unit.number:
                continue
            made = _frontier(unit.roots, nodes)
            spared = nodes - made
            move = Move(units[number], made - nodes, {n for n in spared if n.op != "contract"})
            if _nbytes(move.made) < _nbytes(spared) and can_join(move):
                yield move


def _maker(
    node: Node, units: list[Unit], number: int, readers: list[Unit], reader: Unit
) -> Unit | None:
    """The unit among whose results a node lies, if `reader` alone reads it back. The sums of a
    contraction lie among those of the unit that becomes its epilogue once it alone reads them.
    """
    unit = units[number]
    if unit.single is None:
        return unit if node.op in VIRTUAL and readers == [reader] else None
    if unit.single.op == "contract" and len(readers) == 2 and readers[1] is reader:
        return readers[0] if readers[0].single is None else None
    return None


def _frontier(roots: Iterable[Root], given: set[Node]) -> set[Node]:
    """The last nodes, on the way to the roots, that depend on nothing but `given`."""
    depends: dict[Node, bool] = {}

    def is_made_of_given(node: Node, inlined: set[Node]) -> bool:
        known = depends.get(node)
        if known is None:
            if node not in inlined:
                known = node in given or node.op in SINGLE
            else:
                known = all(is_made_of_given(child, inlined) for child, _ in node.args)
            depends[node] = known
        return known

    found: set[Node] = set()
    for root in roots:
        inlined, seen = root.reader.inlined, set()
        stack = [root.source]
        while stack:
            node = stack.pop()
            if node in seen or node.op in SINGLE:
                continue
            seen.add(node)
            if is_made_of_given(node, inlined):
                found.add(node)
            elif node in inlined:
                stack.extend(child for child, _ in node.args)
    return found


def _nbytes(nodes: Iterable[Node]) -> int:
    return sum(node.numel * node.dtype.itemsize for node in nodes)
