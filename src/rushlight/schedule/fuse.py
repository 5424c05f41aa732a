"""Cutting the graph into units: groups of stores and reductions that share a loop nest, and
single ops.

Note: groups. A *root* is something that needs a loop: a node to be stored, a reduction, or a
part of an update. Roots over the same elements, in the same order, may share a group when that
makes no cycle: everything a root reads must come from an earlier unit, or from its own group in
a way the loop can follow (the same element, or the reduction of the same row). A node read by
several groups is stored once if computing it again would cost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from rushlight import views
from rushlight.ir.node import Node, view_of
from rushlight.schedule.early import Move, worth_moving
from rushlight.schedule.reading import (
    SINGLE,
    VIRTUAL,
    NotAffine,
    Reader,
    is_costly,
    refine,
)
from rushlight.views import Shape, View

MAX_DEPTH = 40  # of an inlined chain of elementwise steps
MAX_ROOTS = 24  # of one group: bounds the size of a kernel's text
LONG_ROW = 1 << 16  # elements: longer rows are reduced in pieces, one pass at a time

LONG_ROWS = f"rows of more than {LONG_ROW} elements are reduced in pieces"
NO_COMMON_LOOPS = "their dimensions do not divide each other"
MOVED = "it reads elements in another order, or shifted"


@dataclass(eq=False, slots=True)
class Root:
    """`source`, read through `view`, is stored at `target` of `home`'s memory, or reduced over
    the last `inner` elements into `home`.
    """

    kind: str  # 'store' or 'reduce'
    home: Node
    source: Node
    view: View
    target: View | None = None
    inner: int = 1  # elements of a row; 1 for stores
    is_column: bool = False
    reader: Reader | None = None

    @property
    def dims(self) -> Shape:
        return self.view.shape

    @property
    def reads(self) -> set[Node]:
        assert self.reader is not None
        return {n for n, _ in self.reader.loads}


@dataclass(eq=False, slots=True)
class Unit:
    """A group of roots that share loops, or one node with a kernel of its own (`single`)."""

    number: int
    roots: list[Root] = field(default_factory=list)
    single: Node | None = None
    dims: Shape = ()
    inner: int | None = None  # elements of a row, once a reduction says so
    is_column: bool = False
    reads: set[Node] = field(default_factory=set)
    epilogue_of: Node | None = None
    items: list[Node] = field(default_factory=list)  # results of a single that has several
    apart: list[tuple[Unit, str]] = field(default_factory=list)  # units not joined, and why

    @property
    def numel(self) -> int:
        return views.numel(self.dims)

    @property
    def writes(self) -> list[Node]:
        if self.single is not None:
            return self.items or [self.single]
        return [r.home for r in self.roots]


class Fusion:
    """Decides what is stored and which roots go together."""

    def __init__(self, outputs: Sequence[Node]) -> None:
        self.outputs = list(dict.fromkeys(outputs))
        self.order = _reachable(self.outputs)
        self.stored: set[Node] = {n for n in self.order if n.op not in VIRTUAL}
        self.stored.update(self.outputs)
        for node in self.order:
            self._store_raw_operands(node)
        self._bound_depth()
        self.users: dict[Node, set[Node]] = defaultdict(set)
        for node in self.order:
            for operand, _ in node.args:
                self.users[operand].add(node)
        self.units: list[Unit] = []
        self.is_stale = False
        self.readers: dict[Hashable, Reader] = {}  # what is still true when units form anew
        self.early: set[Node] = set()  # made by an earlier unit than the one that needs them

    def _bound_depth(self) -> None:
        """Store a node wherever an inlined chain would get long: kernels stay of a size."""
        depth: dict[Node, int] = {}
        for node in self.order:
            below = (depth.get(n, 0) for n, _ in node.args if n not in self.stored)
            depth[node] = 1 + max(below, default=0)
            if depth[node] > MAX_DEPTH and node not in self.stored:
                self.stored.add(node)

    def _store_raw_operands(self, node: Node) -> None:
        """Ops with kernels of their own read memory."""
        if node.op in VIRTUAL and node.op != "gather":
            return
        if node.op in ("reduce", "update"):
            return
        operands = node.args[:1] if node.op == "gather" else node.args
        if node.op == "scatter":
            operands = node.args[1:]
        for operand, _ in operands:
            self.stored.add(operand)

    def run(self) -> list[Unit]:
        """Units in an order in which they can run."""
        for _ in range(1000):
            self._form()
            if self.is_stale:
                continue
            again = self._worth_storing()
            if again:
                self._store(again)
            elif not self._make_early():
                return self.units
        raise AssertionError("fusion did not settle")

    def _store(self, nodes: set[Node]) -> None:
        """Store more nodes; what has inlined one of them is to be read again."""
        self.is_stale = True
        self.stored |= nodes
        self.readers = {k: r for k, r in self.readers.items() if nodes.isdisjoint(r.inlined)}

    def _read(self, key: Hashable, node: Node, view: View, apart: Node | None = None) -> Reader:
        """A loop nest that reads a node through a view; `apart` is computed though stored."""
        reader = self.readers.get(key)
        while reader is None:
            reader = Reader(view.shape, lambda n: n is not apart and n in self.stored)
            try:
                reader.read(node, view)
                self.readers[key] = reader
            except NotAffine as found:
                assert found.node not in self.stored, found.node
                self._store({found.node})
                reader = None
        return reader

    # -- forming units

    def _form(self) -> None:
        """Form units; once more nodes turn out to be stored, only look for further ones."""
        self.is_stale = False
        self.units = []
        self.place: dict[Node, int] = {}  # stored node -> number of the unit that makes it last
        self.touching: dict[Node, list[Unit]] = defaultdict(list)
        for node in self.order:
            if node not in self.stored or node.op == "leaf" or node.op in SINGLE:
                if node in self.stored and node.op in SINGLE:
                    self._add_root(self._store_root(node))
                continue
            if node.op == "reduce":
                self._add_root(self._reduce_root(node))
            elif node.op in VIRTUAL:
                self._add_root(self._store_root(node))
            elif node.op == "update":
                self._add_update(node)
            elif node.op == "scatter":
                self._add_scatter(node)
            elif node.op == "item":
                maker = self.place[node.args[0][0]]
                self.units[maker].items.append(node)
                self.place[node] = maker
            else:
                self._new_unit(single=node, reads={n for n, _ in node.args})
                self.place[node] = len(self.units) - 1

    def _store_root(self, node: Node) -> Root:
        full = views.whole(node.shape)
        reader = self._read(node, node, full, apart=node)
        return Root("store", node, node, full, target=full, reader=reader)

    def _reduce_root(self, node: Node) -> Root:
        source, view = node.args[0]
        full = view_of((source, view))
        count = node.attrs[1]
        kept = full.shape[: len(full.shape) - count]
        inner = views.numel(full.shape[len(kept) :])
        reader = self._read(node, source, full)
        root = Root("reduce", node, source, full, inner=inner, reader=reader)
        root.is_column = _runs_down_columns(reader, len(kept))
        return root

    def _add_update(self, node: Node) -> None:
        has_base, parts = node.attrs
        operands = list(node.args)
        pieces: list[tuple[tuple[Node, View | None], View]] = []
        if has_base:
            pieces.append((operands.pop(0), views.whole(node.shape)))
        pieces += list(zip(operands, parts, strict=True))
        for i, ((source, view), target) in enumerate(pieces):
            own = view_of((source, view))
            reader = self._read((node, i), source, own)
            root = Root("store", node, source, own, target=target, reader=reader)
            if not has_base and i and _are_beside(pieces[i - 1][1], target):
                self._join_last(root)
            else:
                self._new_unit(roots=[root], reads=root.reads)
        self.place[node] = len(self.units) - 1

    def _join_last(self, root: Root) -> None:
        """Another part of an update goes with the one just before it."""
        unit = self.units[-1]
        if len(unit.roots) < MAX_ROOTS and unit.dims == root.dims:
            unit.roots.append(root)
            unit.reads |= root.reads
        else:
            self._new_unit(roots=[root], reads=root.reads)

    def _add_scatter(self, node: Node) -> None:
        """The base is computed straight into the result's memory, then scattered into."""
        source, view = node.args[0]
        own = view_of((source, view))
        reader = self._read(node, source, own)
        root = Root("store", node, source, own, target=views.whole(node.shape), reader=reader)
        self._new_unit(roots=[root], reads=root.reads)
        self._new_unit(single=node, reads={n for n, _ in node.args[1:]})
        self.place[node] = len(self.units) - 1

    def _new_unit(
        self,
        roots: list[Root] | None = None,
        single: Node | None = None,
        reads: set[Node] | None = None,
    ) -> Unit:
        unit = Unit(len(self.units), roots or [], single)
        unit.reads = set(reads or ())
        if roots:
            root = roots[0]
            unit.dims, unit.is_column = root.dims, root.is_column
            unit.inner = root.inner if root.kind == "reduce" else None
        self.units.append(unit)
        return unit

    def _add_root(self, root: Root) -> None:
        if self.is_stale:
            return
        reads = root.reads
        earliest = max((self.place[n] for n in reads if n in self.place), default=-1)
        apart: list[tuple[Unit, str]] = []
        for unit in self._candidates(root, reads):
            if unit.number < earliest:
                break
            obstacle = self._obstacle(root, unit, reads)
            if not obstacle:
                unit.roots.append(root)
                self._joined(root, unit, reads)
                return
            apart.append((unit, obstacle))
        unit = self._new_unit(roots=[root], reads=reads)
        unit.apart = apart
        self._joined(root, unit, reads)

    def _joined(self, root: Root, unit: Unit, reads: set[Node]) -> None:
        unit.reads |= reads
        self.place[root.home] = unit.number
        for node in (*reads, root.home):
            touching = self.touching[node]
            if not touching or touching[-1] is not unit:
                touching.append(unit)

    def _candidates(self, root: Root, reads: set[Node]) -> list[Unit]:
        found = {u.number: u for n in reads for u in self.touching[n][-8:]}
        return [found[n] for n in sorted(found, reverse=True)]

    def _obstacle(self, root: Root, unit: Unit, reads: set[Node]) -> str:
        """Why the root cannot join the unit, in a user's words; nothing if it can."""
        if unit.single is not None:
            return f"{unit.single.op} has a kernel of its own"
        if len(unit.roots) >= MAX_ROOTS:
            return f"that kernel already has {MAX_ROOTS} results"
        own = {r.home for r in unit.roots}
        if any(self.place.get(n, -1) >= unit.number for n in reads - own):
            return "something between them has to be computed first"
        if unit.is_column or root.is_column:
            if unit.is_column != root.is_column or reads & own:
                return "one of them reduces down columns, and must end before the other begins"
            is_same = unit.dims == root.dims and unit.inner == root.inner
            return "" if is_same else "they reduce columns of different tensors"
        if unit.roots[0].home.op in ("update", "scatter"):
            return "it fills a part of a tensor"
        return self._misfit(root, unit, reads & own)

    def _misfit(self, root: Root, unit: Unit, within: set[Node]) -> str:
        """Why the loops of `unit` cannot also do `root`, which reads `within` of its
        results.
        """
        count = views.numel(root.dims)
        if (
            root.kind == "store"
            and unit.inner is not None
            and count * unit.inner == unit.numel
            and count != unit.numel
        ):
            return self._misfit_by_row(root, unit, within)
        if count != unit.numel or count == 0:
            return f"they run over {count} and {unit.numel} elements"
        inner = root.inner if root.kind == "reduce" else unit.inner
        if unit.inner is not None and inner != unit.inner:
            return f"they reduce rows of {inner} and {unit.inner} elements"
        if inner is not None and within and inner > LONG_ROW:
            return LONG_ROWS
        dims = refine(unit.dims, root.dims)
        if dims is None:
            return NO_COMMON_LOOPS
        if inner is not None:
            dims = refine(dims, (count // inner, inner)) if inner else None
            if dims is None:
                return NO_COMMON_LOOPS
        assert root.reader is not None
        rows = {
            r.home
            for r in unit.roots
            if r.kind == "reduce" or views.numel(r.dims) != unit.numel
        }
        for (node, view), e in root.reader.loads.items():
            if node not in within:
                continue
            if e.kind != "load":
                return "it looks elements up by index"
            if node in rows:
                if inner is None or not _reads_own_row(view, count // inner, inner):
                    return "it needs reductions of other rows than the one at hand"
            elif not views.is_whole(view, count):
                return MOVED
        unit.dims, unit.inner = dims, inner
        return ""

    def _misfit_by_row(self, root: Root, unit: Unit, within: set[Node]) -> str:
        """A root with one element a row joins a group that reduces those rows."""
        assert root.reader is not None and unit.inner is not None
        rows = views.numel(root.dims)
        by_row = {
            r.home for r in unit.roots if r.kind == "reduce" or views.numel(r.dims) == rows
        }
        if not within:
            return "it does not need those rows"
        if unit.inner > LONG_ROW:
            return LONG_ROWS
        for (node, view), e in root.reader.loads.items():
            if node not in within:
                continue
            if e.kind != "load" or node not in by_row or not views.is_whole(view, rows):
                return MOVED
        dims = refine(unit.dims, (*root.dims, unit.inner))
        if dims is None:
            return NO_COMMON_LOOPS
        unit.dims = dims
        return ""

    # -- what to store

    def _worth_storing(self) -> set[Node]:
        """Nodes inlined in several units that would be computed again at a cost."""
        users: dict[Node, set[int]] = defaultdict(set)
        parents: dict[Node, set[Node]] = defaultdict(set)
        for unit in self.units:
            for root in unit.roots:
                assert root.reader is not None
                for node in root.reader.inlined:
                    users[node].add(unit.number)
                    for child, _ in node.args:
                        parents[child].add(node)
        found: set[Node] = set()
        for node in users:
            if len(users[node]) < 2 or node in self.stored or node.op in ("iota", "const"):
                continue
            above = [p for p in parents[node] if p in users]
            if any(users[p] == users[node] for p in above):
                continue
            if self._weight(node) >= 2:
                found.add(node)
        return found

    def _make_early(self) -> bool:
        """Store less by computing it where it is made of (`schedule.early`)."""
        found = list(worth_moving(self.units, self.place, self.outputs, self._can_make_early))
        for move in found:
            self.early |= move.made
            self.stored -= move.dropped
            self.readers = {
                k: r
                for k, r in self.readers.items()
                if move.dropped.isdisjoint(n for n, _ in r.loads)
            }
            self._store(move.made)
        return bool(found)

    def _can_make_early(self, move: Move) -> bool:
        if not self.early.isdisjoint(move.made):
            return False
        for node in move.made:
            kept = self.stored - move.dropped - {node}
            reader, full = Reader(node.shape, kept.__contains__), views.whole(node.shape)
            try:
                reader.read(node, full)
            except NotAffine:
                return False
            root = Root("store", node, node, full, target=full, reader=reader)
            if self._obstacle(root, move.maker, root.reads):
                return False
        return True

    def _weight(self, node: Node) -> int:
        """Loads of full size below the node, counting costly steps as two."""
        total = 0
        seen: set[Node] = set()
        stack = [node]
        while stack and total < 2:
            step = stack.pop()
            if step in seen:
                continue
            seen.add(step)
            if step in self.stored and step is not node or step.op == "leaf":
                total += step.numel * 4 >= node.numel
                if (
                    step.op == "contract"
                    and self.users[step] <= seen
                    and step not in self.outputs
                ):
                    total += 1  # kept instead of the sums, it becomes their epilogue
                continue
            if is_costly(step) and step.numel * 4 >= node.numel:
                total += 2
            stack.extend(n for n, _ in step.args)
        return total


def _are_beside(a: View, b: View) -> bool:
    """Whether two parts of a tensor alternate in memory, as those of complex numbers do."""
    return a.shape == b.shape and a.strides == b.strides and a.offset + 1 == b.offset


def _reachable(outputs: Sequence[Node]) -> list[Node]:
    seen: set[Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            stack.extend(n for n, _ in node.args)
    return sorted(seen, key=lambda n: n.number)


def _reads_own_row(view: View, rows: int, inner: int) -> bool:
    """Whether a view over (rows, inner) reads one element a row: element r in row r."""
    shaped = views.try_reshape(view, (rows, inner)) if len(view.shape) != 2 else view
    if shaped is None or shaped.shape != (rows, inner):
        shaped = _two_dims(view, rows, inner)
    if shaped is None:
        return False
    row_ok = rows == 1 or shaped.strides[0] == 1
    return shaped.offset == 0 and row_ok and (inner == 1 or shaped.strides[1] == 0)


def _two_dims(view: View, rows: int, inner: int) -> View | None:
    """`view` merged to (rows, inner), where its dimensions allow."""
    left = 1
    for i, size in enumerate(view.shape):
        if left == rows:
            outer = views.try_reshape(
                View(view.shape[:i], view.strides[:i], view.offset), (rows,)
            )
            last = views.try_reshape(View(view.shape[i:], view.strides[i:], 0), (inner,))
            if outer is None or last is None:
                return None
            return View((rows, inner), (outer.strides[0], last.strides[0]), view.offset)
        left *= size
    if left == rows and inner == 1:
        outer = views.try_reshape(view, (rows,))
        return None if outer is None else View((rows, 1), (outer.strides[0], 0), view.offset)
    return None


def _runs_down_columns(reader: Reader, kept: int) -> bool:
    """Whether neighbours in memory belong to neighbouring results and not to one reduction."""
    rows = columns = 0  # elements of the tensors read
    for _, view in reader.loads:
        touched = views.numel([n for n, s in zip(view.shape, view.strides, strict=True) if s])
        last = _last_stride(view.shape[kept:], view.strides[kept:])
        lane = _last_stride(view.shape[:kept], view.strides[:kept])
        if last == 1:
            rows += touched
        elif lane == 1 and last:  # what is equal along a reduction speaks for neither
            columns += touched
    return columns > 8 * rows


def _last_stride(shape: Shape, strides: Shape) -> int | None:
    """The stride of the innermost dimension of more than one element."""
    pairs = zip(reversed(shape), reversed(strides), strict=True)
    return next((s for n, s in pairs if n > 1), None)
