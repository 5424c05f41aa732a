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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rushlight import views
from rushlight.ir.node import Arg, Node, view_of
from rushlight.schedule.early import Move, worth_moving
from rushlight.schedule.reading import (
    VIRTUAL,
    NotAffine,
    Reader,
    is_costly,
    refine,
)
from rushlight.views import Shape, View

MAX_DEPTH = 40  # of an inlined chain of elementwise steps
MAX_ROOTS = 24  # of one group: bounds the size of a kernel's text
_ROOTED = VIRTUAL | {"reduce", "update", "scatter"}  # stored by loops, for scatter the base
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
    reader: Reader
    target: View | None = None
    inner: int = 1  # elements of a row; 1 for stores
    is_column: bool = False
    dims: Shape = field(init=False)
    numel: int = field(init=False)
    reads: frozenset[Node] = field(init=False)

    def __post_init__(self) -> None:
        self.dims = self.view.shape
        self.numel = views.numel(self.dims)
        self.reads = frozenset([node for node, _ in self.reader.loads])


@dataclass(eq=False, slots=True)
class Unit:
    """A group of roots that share loops, or one node with a kernel of its own (`single`)."""

    number: int
    roots: list[Root] = field(default_factory=list)
    single: Node | None = None
    dims: Shape = ()  # gets finer as roots join
    inner: int | None = None  # elements of a row, once a reduction says so
    is_column: bool = False
    reads: set[Node] = field(default_factory=set)
    epilogue_of: Node | None = None
    items: list[Node] = field(default_factory=list)  # results of a single that has several
    apart: list[tuple[Unit, str]] = field(default_factory=list)  # units not joined, and why
    numel: int = field(init=False)
    homes: set[Node] = field(init=False)  # of the roots

    def __post_init__(self) -> None:
        self.numel = views.numel(self.dims)
        self.homes = {root.home for root in self.roots}

    def add(self, root: Root) -> None:
        """Let one more root share the loops."""
        self.roots.append(root)
        self.homes.add(root.home)
        self.reads |= root.reads

    def reader_over(self, dims: Shape, is_stored: Callable[[Node], bool]) -> Reader:
        """Expressions of all roots over loops of these sizes: those that have been read, if
        there is but one root and these are its loops.
        """
        root = self.roots[0]
        if len(self.roots) == 1 and views.try_reshape(root.view, dims) == root.view:
            return root.reader
        return Reader(dims, is_stored)

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
        self.roots: dict[Node, list[Root]] = {}  # of what is stored
        self.early: set[Node] = set()  # made by an earlier unit than the one that needs them

    def _bound_depth(self) -> None:
        """Store a node wherever an inlined chain would get long: kernels stay of a size."""
        depth: dict[Node, int] = {}
        for node in self.order:
            below = [depth[n] for n, _ in node.args if n not in self.stored]
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
            self._read_roots()
            self._form()
            again = self._worth_storing()
            if again:
                self._store(again)
            elif not self._make_early():
                return self.units
        raise AssertionError("fusion did not settle")

    def _store(self, nodes: set[Node]) -> None:
        """Store more nodes; what has inlined one of them is to be read again."""
        self.stored |= nodes
        self._forget(nodes, set())

    def _forget(self, stored: set[Node], dropped: set[Node]) -> None:
        """What has inlined nodes that are stored now, or loads those that no longer are, is to
        be read again.
        """
        self.roots = {
            node: roots
            for node, roots in self.roots.items()
            if all(
                stored.isdisjoint(root.reader.inlined) and dropped.isdisjoint(root.reads)
                for root in roots
            )
        }

    # -- reading what is stored

    def _read_roots(self) -> None:
        """Read what is stored; where more turns out to have to be stored, once more."""
        while True:
            self.unread: set[Node] = set()  # stored since this round began
            for node in self.order:
                if node in self.stored and node not in self.roots and node.op in _ROOTED:
                    self.roots[node] = self._roots_of(node)
            if not self.unread:
                return
            self._store(self.unread)

    def _roots_of(self, node: Node) -> list[Root]:
        if node.op == "update":
            return [self._part_root(node, *piece) for piece in _pieces(node)]
        if node.op == "scatter":  # the base, straight into the result's memory
            return [self._part_root(node, node.args[0], views.whole(node.shape))]
        return [self._reduce_root(node) if node.op == "reduce" else self._store_root(node)]

    def _store_root(self, node: Node) -> Root:
        full = views.whole(node.shape)
        reader = self._read(node, full, is_apart=True)
        return Root("store", node, node, full, reader, target=full)

    def _part_root(self, node: Node, source: Arg, target: View) -> Root:
        own = view_of(source)
        reader = self._read(source[0], own)
        return Root("store", node, source[0], own, reader, target=target)

    def _reduce_root(self, node: Node) -> Root:
        source = node.args[0]
        full = view_of(source)
        kept = len(full.shape) - node.attrs[1]
        inner = views.numel(full.shape[kept:])
        reader = self._read(source[0], full)
        is_column = _runs_down_columns(reader, kept)
        return Root("reduce", node, source[0], full, reader, inner=inner, is_column=is_column)

    def _read(self, node: Node, view: View, is_apart: bool = False) -> Reader:
        """A loop nest that reads a node through a view; `is_apart`: computed though stored."""
        while True:
            reader = Reader(view.shape, self.stored.__contains__)
            try:
                if is_apart:
                    reader.compute(node, view)
                else:
                    reader.read(node, view)
                return reader
            except NotAffine as found:
                assert found.node not in self.stored, found.node
                self.stored.add(found.node)
                self.unread.add(found.node)

    # -- forming units

    def _form(self) -> None:
        """Form units of all roots, and of the nodes that have kernels of their own."""
        self.units = []
        self.place: dict[Node, int] = {}  # stored node -> number of the unit that makes it last
        self.touching: dict[Node, list[Unit]] = defaultdict(list)
        for node in self.order:
            if node not in self.stored or node.op == "leaf":
                continue
            if node.op in VIRTUAL or node.op == "reduce":
                self._add_root(self.roots[node][0])
            elif node.op == "item":
                maker = self.place[node.args[0][0]]
                self.units[maker].items.append(node)
                self.place[node] = maker
            else:
                if node.op == "update":
                    self._add_update(node)
                elif node.op == "scatter":
                    self._new_unit(self.roots[node][0])
                    self._new_single(node, node.args[1:])
                else:
                    self._new_single(node, node.args)
                self.place[node] = len(self.units) - 1

    def _add_update(self, node: Node) -> None:
        has_base, _ = node.attrs
        before: Root | None = None
        for root in self.roots[node]:
            is_beside = not has_base and before is not None and _are_beside(before, root)
            unit = self.units[-1] if is_beside else None
            if unit is not None and len(unit.roots) < MAX_ROOTS and unit.dims == root.dims:
                unit.add(root)  # a part goes with the one just before it
            else:
                self._new_unit(root)
            before = root

    def _new_unit(self, root: Root) -> Unit:
        inner = root.inner if root.kind == "reduce" else None
        unit = Unit(
            len(self.units), [root], None, root.dims, inner, root.is_column, set(root.reads)
        )
        self.units.append(unit)
        return unit

    def _new_single(self, node: Node, args: Sequence[Arg]) -> None:
        self.units.append(Unit(len(self.units), single=node, reads={n for n, _ in args}))

    def _add_root(self, root: Root) -> None:
        place = self.place
        earliest = max([place[n] for n in root.reads if n in place], default=-1)
        apart: list[tuple[Unit, str]] = []
        for unit in self._candidates(root, earliest):
            obstacle = self._obstacle(root, unit)
            if not obstacle:
                unit.add(root)
                self._joined(root, unit)
                return
            apart.append((unit, obstacle))
        unit = self._new_unit(root)
        unit.apart = apart
        self._joined(root, unit)

    def _joined(self, root: Root, unit: Unit) -> None:
        self.place[root.home] = unit.number
        for node in (*root.reads, root.home):
            touching = self.touching[node]
            if not touching or touching[-1] is not unit:
                touching.append(unit)

    def _candidates(self, root: Root, earliest: int) -> list[Unit]:
        """Units, from the latest to the earliest possible, that read or make what it reads."""
        found = {
            u.number: u
            for n in root.reads
            for u in self.touching[n][-8:]
            if u.number >= earliest
        }
        return [found[n] for n in sorted(found, reverse=True)]

    def _obstacle(self, root: Root, unit: Unit) -> str:
        """Why the root cannot join the unit, in a user's words; nothing if it can."""
        if unit.single is not None:
            return f"{unit.single.op} has a kernel of its own"
        if len(unit.roots) >= MAX_ROOTS:
            return f"that kernel already has {MAX_ROOTS} results"
        within = root.reads & unit.homes
        place, number = self.place, unit.number
        if any(n in place and place[n] >= number for n in root.reads - within):
            return "something between them has to be computed first"
        if unit.is_column or root.is_column:
            if unit.is_column != root.is_column or within:
                return "one of them reduces down columns, and must end before the other begins"
            is_same = unit.dims == root.dims and unit.inner == root.inner
            return "" if is_same else "they reduce columns of different tensors"
        if unit.roots[0].home.op in ("update", "scatter"):
            return "it fills a part of a tensor"
        return self._misfit(root, unit, within)

    def _misfit(self, root: Root, unit: Unit, within: frozenset[Node]) -> str:
        """Why the loops of `unit` cannot also do `root`, which reads `within` of its
        results.
        """
        count = root.numel
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
        obstacle = self._misread(root, unit, within, inner) if within else ""
        if not obstacle:
            unit.dims, unit.inner = dims, inner
        return obstacle

    @staticmethod
    def _misread(root: Root, unit: Unit, within: frozenset[Node], inner: int | None) -> str:
        """Why `root` cannot read `within` where they are made, in loops over its elements."""
        count = root.numel
        rows = {r.home for r in unit.roots if r.kind == "reduce" or r.numel != unit.numel}
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
        return ""

    def _misfit_by_row(self, root: Root, unit: Unit, within: frozenset[Node]) -> str:
        """A root with one element a row joins a group that reduces those rows."""
        assert unit.inner is not None
        rows = root.numel
        by_row = {r.home for r in unit.roots if r.kind == "reduce" or r.numel == rows}
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
        users: dict[Node, list[int]] = defaultdict(list)  # numbers of units, in order
        for unit in self.units:
            for node in set().union(*[root.reader.inlined for root in unit.roots]):
                users[node].append(unit.number)
        found: set[Node] = set()
        for node, numbers in users.items():
            if len(numbers) < 2 or node in self.stored or node.op in ("iota", "const"):
                continue
            if any(users.get(above) == numbers for above in self.users[node]):
                continue
            if self._weight(node) >= 2:
                found.add(node)
        return found

    def _make_early(self) -> bool:
        """Store less by computing it where it is made of (`schedule.early`)."""
        found = list(worth_moving(self.units, self.place, self.outputs, self._can_make_early))
        made: set[Node] = set()
        dropped: set[Node] = set()
        for move in found:
            self.stored -= move.dropped
            self.stored |= move.made
            made |= move.made
            dropped |= move.dropped
        self.early |= made
        self._forget(made, dropped)
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
            root = Root("store", node, node, full, reader, target=full)
            if self._obstacle(root, move.maker):
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


def _pieces(update: Node) -> list[tuple[Arg, View]]:
    """What an update stores, in order, and where: the base first if there is one."""
    has_base, parts = update.attrs
    targets = (views.whole(update.shape), *parts) if has_base else parts
    return list(zip(update.args, targets, strict=True))


def _are_beside(before: Root, after: Root) -> bool:
    """Whether two parts of a tensor alternate in memory, as those of complex numbers do."""
    a, b = before.target, after.target
    assert a is not None and b is not None
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
