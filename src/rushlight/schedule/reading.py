"""Expressions of a kernel: nodes inlined into the loops of whoever needs them, down to memory.

Note: inlining through views. A node inlined where its elements are read through a view reads
its own arguments through composed views. Where a composition is not affine, the node has to be
stored first (`NotAffine`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any  # attributes

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
    args: list[Expression] = field(default_factory=list)


class Reader:
    """Builds the expressions of one loop nest over `dims`; `stored` nodes are loaded."""

    def __init__(self, dims: Shape, is_stored: Any) -> None:
        self.dims = dims
        self.is_stored = is_stored
        self.known: dict[tuple[Node, View | None], Expression] = {}
        self.loads: dict[tuple[Node, View], Expression] = {}
        self.inlined: set[Node] = set()

    def read(self, node: Node, view: View) -> Expression:
        """`node`'s elements (numbered in order) at `view` of this loop nest."""
        key = (node, None if node.op in SINGLE else view)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._make(node, view)
        return found

    def _make(self, node: Node, view: View) -> Expression:
        if node.op == "const":
            return Expression("const", node, None)
        if node.op in ("scalar", "extent"):
            return Expression("number", node, None)
        if self.is_stored(node):
            made = Expression("load", node, view)
            self.loads[(node, view)] = made
            return made
        self.inlined.add(node)
        if node.op == "iota":
            strides = tuple(1 if d == node.attrs[0] else 0 for d in range(len(node.shape)))
            return Expression(
                "iota", node, self._compose(node, view, View(node.shape, strides, 0))
            )
        if node.op == "random":
            parts = [self._argument(node, view, a) for a in node.args]
            return Expression("random", node, view, parts)
        if node.op == "gather":
            return self._gather(node, view)
        return Expression(
            node.op, node, None, [self._argument(node, view, a) for a in node.args]
        )

    def _gather(self, node: Node, view: View) -> Expression:
        base, *indices = node.args
        place = self._compose(node, view, node.attrs[0])
        made = Expression(
            "gather", node, place, [self._argument(node, view, a) for a in indices]
        )
        source = base[0]
        if not self.is_stored(source):
            raise NotAffine(source)
        self.loads[(source, place)] = made
        return made

    def _argument(self, node: Node, view: View, arg: tuple[Node, View | None]) -> Expression:
        child, own = arg
        if own is None:
            return self.read(child, view)
        return self.read(child, self._compose(node, view, own))

    def _compose(self, node: Node, outer: View, inner: View) -> View:
        if views.is_whole(outer, views.numel(inner.shape)):
            found = views.try_reshape(inner, outer.shape)
        else:
            found = views.compose(outer, inner)
        if found is None:
            raise NotAffine(node)
        return found


def is_costly(node: Node) -> bool:
    """Whether computing the node twice is worse than keeping it."""
    if node.op == "map":
        return PRIMS[node.attrs[0]].is_costly
    return node.op in ("random", "gather")


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
