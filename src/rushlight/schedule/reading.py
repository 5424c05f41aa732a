"""Expressions of a kernel: nodes inlined into the loops of whoever needs them, down to memory.

Note: inlining through views. A node inlined where its elements are read through a view reads
its own arguments through composed views. Where a composition is not affine, the node has to be
stored first (`NotAffine`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rushlight import views
from rushlight.ir.node import Node
from rushlight.ir.prims import PRIMS
from rushlight.views import Shape, View

SINGLE = frozenset(("const", "scalar", "extent"))  # one number for a whole kernel
VIRTUAL = frozenset(("map", "cast", "iota", "random", "gather", *SINGLE))


class NotAffine(Exception):
    """`node` cannot be inlined where it is read: it must be stored."""

    def __init__(self, node: Node) -> None:
        super().__init__(repr(node))
        self.node = node


@dataclass(eq=False, slots=True)
class Expression:
    """One value at every iteration of a loop nest.

    `kind`: 'load' (memory of `node` through `view`), 'number', 'const', 'map', 'cast', 'iota'
    (the affine value of `view`), 'random' (at the linear index `view`), 'gather' (memory of
    `node` at `view` plus indices).
    """

    kind: str
    node: Node
    view: View | None
    args: Sequence[Expression] = ()


class _Place:
    """Where a loop nest reads: a view, and the expressions of the nodes read through it."""

    __slots__ = ("known", "view")

    def __init__(self, view: View) -> None:
        self.view = view
        self.known: dict[Node, Expression] = {}


class Reader:
    """Builds the expressions of one loop nest over `dims`; `stored` nodes are loaded."""

    def __init__(self, dims: Shape, is_stored: Callable[[Node], bool]) -> None:
        self.dims = dims
        self.is_stored = is_stored
        self.loads: dict[tuple[Node, View], Expression] = {}
        self.inlined: set[Node] = set()
        self._numbers: dict[Node, Expression] = {}  # the same at every view
        self._places: dict[View, _Place] = {}

    def read(self, node: Node, view: View) -> Expression:
        """`node`'s elements (numbered in order) at `view` of this loop nest."""
        return self._read(node, self._at(view))

    def compute(self, node: Node, view: View) -> Expression:
        """The same, though the node is stored: by the loop nest that stores it."""
        if node.op in SINGLE:
            return self.read(node, view)
        place = self._at(view)
        made = place.known[node] = self._inline(node, place)
        return made

    def expressions(self) -> Iterator[Expression]:
        """All that has been read; a number comes once for each view it was read at."""
        for place in self._places.values():
            yield from place.known.values()

    def _at(self, view: View) -> _Place:
        place = self._places.get(view)
        if place is None:
            place = self._places[view] = _Place(view)
        return place

    def _read(self, node: Node, place: _Place) -> Expression:
        found = place.known.get(node)
        if found is None:
            if node.op in SINGLE:
                found = self._number(node)
            elif self.is_stored(node):
                found = self.loads[(node, place.view)] = Expression("load", node, place.view)
            else:
                found = self._inline(node, place)
            place.known[node] = found
        return found

    def _number(self, node: Node) -> Expression:
        found = self._numbers.get(node)
        if found is None:
            kind = "const" if node.op == "const" else "number"
            found = self._numbers[node] = Expression(kind, node, None)
        return found

    def _inline(self, node: Node, place: _Place) -> Expression:
        self.inlined.add(node)
        if node.op == "map" or node.op == "cast":
            return Expression(node.op, node, None, self._arguments(node, place))
        if node.op == "iota":
            strides = tuple(1 if d == node.attrs[0] else 0 for d in range(len(node.shape)))
            counted = self._compose(node, place.view, View(node.shape, strides, 0))
            return Expression("iota", node, counted)
        if node.op == "random":
            return Expression("random", node, place.view, self._arguments(node, place))
        assert node.op == "gather", node
        return self._gather(node, place)

    def _gather(self, node: Node, place: _Place) -> Expression:
        view = self._compose(node, place.view, node.attrs[0])
        made = Expression("gather", node, view, self._arguments(node, place, first=1))
        source = node.args[0][0]
        if not self.is_stored(source):
            raise NotAffine(source)
        self.loads[(source, view)] = made
        return made

    def _arguments(self, node: Node, place: _Place, first: int = 0) -> list[Expression]:
        found = []
        for child, own in node.args[first:]:
            at = place
            if own is not None:
                at = self._at(self._compose(node, place.view, own))
            found.append(at.known.get(child) or self._read(child, at))
        return found

    def _compose(self, node: Node, outer: View, inner: View) -> View:
        found = views.read_through(outer, inner)
        if found is None:
            raise NotAffine(node)
        return found


def is_costly(node: Node) -> bool:
    """Whether computing the node twice is worse than keeping it."""
    if node.op == "map":
        return PRIMS[node.attrs[0]].is_costly
    return node.op in ("random", "gather")


@lru_cache(views.REMEMBERED)
def refine(a: Shape, b: Shape) -> Shape | None:
    """The coarsest shape of which both (of equal element count) are groupings; None if none."""
    out: list[int] = []
    x, y = [s for s in reversed(a) if s != 1], [s for s in reversed(b) if s != 1]
    i = j = 0
    left = x[0] if x else 1
    right = y[0] if y else 1
    while i < len(x) and j < len(y):
        size = min(left, right)
        if max(left, right) % size:
            return None
        out.append(size)
        left, right = left // size, right // size
        if left == 1:
            i += 1
            left = x[i] if i < len(x) else 1
        if right == 1:
            j += 1
            right = y[j] if j < len(y) else 1
    return tuple(reversed(out))
