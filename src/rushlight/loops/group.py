"""A group of roots as one loop nest: its dimensions, its accesses to memory, and its launches.

`GroupKernel` reads a `schedule.fuse.Unit` and prepares what `rows.py` and `columns.py` write as
text: loop dimensions merged as far as all accesses allow, every access with a stride for each
of them, and a key of the structure so that equal kernels are written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any  # keys are nested tuples

from rushlight import dtypes as dt
from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir.node import Node
from rushlight.ir.prims import PRIMS
from rushlight.schedule.fuse import LONG_ROW, Root, Unit
from rushlight.schedule.reading import Expression
from rushlight.views import Shape, View

CHUNK = 8192  # elements that one task should have at least


@dataclass(eq=False, slots=True)
class Access:
    """Memory of `node` (None: an affine number) at an affine place of every iteration."""

    node: Node | None
    kind: dtype
    strides: Shape
    offset: int
    number: int

    def varies(self, dims: range) -> bool:
        return any(self.strides[d] for d in dims)


@dataclass(eq=False, slots=True)
class Step:
    """A root ready to be written: its expression, its phase, and where the result goes."""

    root: Root
    expression: Expression
    phase: int
    target: Access
    level: str  # 'inner' or 'row'


@dataclass(eq=False, slots=True)
class Facts:
    """What the writer must know of an expression."""

    number: int
    varies_lane: bool  # along the vector dimension
    varies_inner: bool  # along any dimension inside a row
    phase: int
    access: Access | None = None


@dataclass(slots=True)
class Nest:
    """Loop dimensions: `outer` rows, then (for columns) the lane dimension, then `inner`."""

    mode: str  # 'map', 'row', 'split', 'column'
    sizes: Shape
    outer: int
    inner: int
    accesses: list[Access] = field(default_factory=list)

    @property
    def lane(self) -> int:
        """The dimension that vectors run along."""
        return self.outer if self.mode == "column" else len(self.sizes) - 1

    @property
    def inner_dims(self) -> range:
        return range(len(self.sizes) - self.inner, len(self.sizes))


class GroupKernel:
    """Everything about one unit's kernels except their text."""

    def __init__(self, unit: Unit, stored: set[Node]) -> None:
        self.unit = unit
        self.own = {r.home: r for r in unit.roots if r.home.op != "update"}
        self.stored = stored
        self.facts: dict[Expression, Facts] = {}
        self.described = 0
        self.numbers: list[Node] = []
        self.gathers: list[Expression] = []
        dims, rows = self._dims()
        self.rows = rows
        self.reader = unit.reader_over(dims, self._is_loaded)
        self.raw: list[tuple[Node | None, dtype, View]] = []
        self.raw_index: dict[tuple[Node | None, View], int] = {}
        self.steps: list[Step] = []
        expressions = [self._expression(r) for r in unit.roots]
        targets = [self._target(r) for r in unit.roots]
        for expression in expressions:
            self._collect(expression)
        self.nest = self._nest(dims, rows)
        for expression in expressions:
            self._describe(expression)
        for root, expression, target in zip(unit.roots, expressions, targets, strict=True):
            facts = self.facts[expression]
            is_row = root.kind == "store" and self._is_row_root(root)
            level = "row" if is_row else "inner"
            self.steps.append(
                Step(root, expression, facts.phase, self.nest.accesses[target], level)
            )

    # -- reading

    def _dims(self) -> tuple[Shape, int]:
        """Loop sizes, and how many of them are rows (all but the last for plain maps)."""
        unit = self.unit
        dims = unit.dims
        if unit.inner is None:
            return dims, max(len(dims) - 1, 0)
        if unit.is_column:
            kept = len(dims) - unit.roots[0].home.attrs[1]
            return dims, kept
        rows, count = 0, 1
        total = views.numel(dims) // unit.inner if unit.inner else 0
        if unit.inner == 0 or total == 0:
            kept = len(unit.roots[0].dims) - unit.roots[0].home.attrs[1]
            return unit.roots[0].dims, kept
        while count < total:
            count *= dims[rows]
            rows += 1
        if rows == len(dims):  # rows of one element
            dims = (*dims, 1)
        return dims, rows

    def _is_loaded(self, node: Node) -> bool:
        root = self.own.get(node)
        if root is not None and root.kind == "store":
            return False
        return node in self.stored

    def _is_row_root(self, root: Root) -> bool:
        return self.unit.inner is not None and views.numel(root.dims) != self.unit.numel

    def _whole(self, by_row: bool) -> View:
        dims = self.reader.dims
        if not by_row:
            return views.whole(dims)
        rows = dims[: self.rows]
        strides = views.contiguous_strides(rows) + (0,) * (len(dims) - self.rows)
        return View(dims, strides, 0)

    def _expression(self, root: Root) -> Expression:
        if self._is_row_root(root):
            return self.reader.read(root.source, self._whole(True))
        shaped = views.try_reshape(root.view, self.reader.dims)
        assert shaped is not None, (root, self.reader.dims)
        return self.reader.read(root.source, shaped)

    def _target(self, root: Root) -> int:
        dims = self.reader.dims
        if root.kind == "reduce":
            rows = dims[: self.rows]
            strides = views.contiguous_strides(rows) + (0,) * (len(dims) - self.rows)
            return self._add_access(root.home, root.home.dtype, View(dims, strides, 0))
        if self._is_row_root(root):
            return self._add_access(root.home, root.home.dtype, self._whole(True))
        assert root.target is not None
        shaped = views.try_reshape(root.target, dims)
        assert shaped is not None
        return self._add_access(root.home, root.home.dtype, shaped)

    def _add_access(self, node: Node | None, kind: dtype, view: View) -> int:
        key = (node, view)
        found = self.raw_index.get(key)
        if found is None:
            found = self.raw_index[key] = len(self.raw)
            self.raw.append((node, kind, view))
        return found

    def _is_reduced_here(self, e: Expression) -> bool:
        root = self.own.get(e.node)
        return e.kind == "load" and root is not None and root.kind == "reduce"

    def _collect(self, e: Expression) -> None:
        """Number the accesses of an expression, arguments first."""
        if e in self.facts:
            return
        self.facts[e] = Facts(-1, False, False, 0)
        for arg in e.args:
            self._collect(arg)
        if e.kind == "load" and not self._is_reduced_here(e):
            assert e.view is not None
            self._add_access(e.node, e.node.dtype, e.view)
        elif e.kind in ("iota", "random"):
            assert e.view is not None
            self._add_access(None, dt.int64, e.view)
        elif e.kind == "gather":
            assert e.view is not None
            base = e.node.args[0][0]
            self._add_access(base, base.dtype, e.view)
            self.gathers.append(e)
        elif e.kind == "number" and e.node not in self.numbers:
            self.numbers.append(e.node)

    def _access_of(self, e: Expression) -> Access | None:
        if e.kind == "load" and not self._is_reduced_here(e):
            return self.nest.accesses[self.raw_index[(e.node, e.view)]]  # type: ignore[index]
        if e.kind in ("iota", "random"):
            return self.nest.accesses[self.raw_index[(None, e.view)]]  # type: ignore[index]
        if e.kind == "gather":
            return self.nest.accesses[self.raw_index[(e.node.args[0][0], e.view)]]  # type: ignore[index]
        return None

    def _describe(self, e: Expression) -> Facts:
        facts = self.facts[e]
        if facts.number >= 0:
            return facts
        access = self._access_of(e)
        nest = self.nest
        lane = inner = False
        phase = 0
        for arg in e.args:
            below = self._describe(arg)
            lane = lane or below.varies_lane
            inner = inner or below.varies_inner
            phase = max(phase, below.phase)
        if access is not None:
            lane = lane or bool(access.strides) and access.strides[nest.lane] != 0
            inner = inner or access.varies(nest.inner_dims) or (nest.mode == "column" and lane)
        if self._is_reduced_here(e):
            phase = 1 + self._describe(self._expression(self.own[e.node])).phase
        facts.number = self.described
        self.described += 1
        facts.varies_lane, facts.varies_inner = lane, inner
        facts.phase, facts.access = phase, access
        return facts

    # -- loops

    def _nest(self, dims: Shape, rows: int) -> Nest:
        unit = self.unit
        if unit.is_column:
            mode, marks = "column", (rows - 1, rows)
        elif unit.inner is None:
            mode, marks = "map", ()  # type: ignore[assignment]
        else:
            mode, marks = "split" if unit.inner > LONG_ROW else "row", (rows,)  # type: ignore[assignment]
        sizes, groups = _merge(dims, [v.strides for _, _, v in self.raw], marks)
        if mode == "map":
            outer, inner = len(sizes) - 1, 1
        elif mode == "row" or mode == "split":
            outer = _count_before(groups, rows)
            inner = len(sizes) - outer
        else:
            outer = _count_before(groups, rows - 1)
            inner = len(sizes) - _count_before(groups, rows)
        nest = Nest(mode, sizes, outer, inner)
        for number, (node, kind, view) in enumerate(self.raw):
            strides = tuple(view.strides[g[-1]] if g else 0 for g in groups)
            nest.accesses.append(Access(node, kind, strides, view.offset, number))
        return nest

    # -- the structure's name

    def key(self) -> tuple[Any, ...]:
        """Everything that the text depends on."""
        nest = self.nest
        accesses = tuple(
            (a.kind.name, a.node is None,
            _stride_class(a.strides[nest.lane]) if a.strides else "0",
             tuple(bool(s) for s in a.strides))
            for a in nest.accesses
        )  # fmt: skip
        known: dict[Expression, int] = {}
        lines: list[Any] = []
        for step in self.steps:
            self._serialise(step.expression, known, lines)
        roots = tuple(
            (s.root.kind, s.root.home.attrs[0] if s.root.kind == "reduce" else "", s.phase,
            s.level,
             known[s.expression], s.target.number, s.root.home.dtype.name)
            for s in self.steps
        )  # fmt: skip
        stash = (
            bool(nest.inner)
            and views.numel(nest.sizes[len(nest.sizes) - nest.inner :]) <= LONG_ROW
        )
        return (
            nest.mode,
            len(nest.sizes),
            nest.outer,
            nest.inner,
            accesses,
            tuple(lines),
            roots,
            stash,
        )

    def _serialise(self, e: Expression, known: dict[Expression, int], lines: list[Any]) -> int:
        found = known.get(e)
        if found is not None:
            return found
        args = tuple(self._serialise(a, known, lines) for a in e.args)
        facts = self.facts[e]
        detail: Any = ""
        if e.kind == "map":
            detail = e.node.attrs[0]
        elif e.kind == "const":
            detail = repr(e.node.attrs[0])
        elif e.kind == "number":
            detail = self.numbers.index(e.node)
        elif e.kind == "gather":
            detail = (self.gathers.index(e), len(e.args))
        elif self._is_reduced_here(e):
            detail = ("reduced", list(self.own).index(e.node))
        number = facts.access.number if facts.access is not None else -1
        known[e] = len(lines)
        lines.append((e.kind, detail, e.node.dtype.name, args, number))
        return known[e]

    def is_costly(self, e: Expression) -> bool:
        return e.kind in ("random", "gather") or (
            e.kind == "map" and PRIMS[e.node.attrs[0]].is_costly
        )


def _stride_class(stride: int) -> str:
    return {0: "0", 1: "1", -1: "-1"}.get(stride, "n")


def _count_before(groups: list[list[int]], mark: int) -> int:
    return sum(1 for g in groups if g and g[-1] < mark)


def _merge(
    dims: Shape, strides: Sequence[Shape], marks: tuple[int, ...]
) -> tuple[Shape, list[list[int]]]:
    """Join neighbouring dimensions that step as one in every access; never across a mark.

    Size-1 dimensions vanish, except that each stretch between marks keeps one.
    """
    bounds = sorted({0, *marks, len(dims)})
    sizes: list[int] = []
    groups: list[list[int]] = []
    for low, high in zip(bounds, bounds[1:], strict=False):
        first = len(groups)
        for d in range(low, high):
            if dims[d] == 1:
                continue
            if len(groups) > first:
                last = groups[-1][-1]
                if all(s[last] == s[d] * dims[d] for s in strides):
                    groups[-1].append(d)
                    sizes[-1] *= dims[d]
                    continue
            groups.append([d])
            sizes.append(dims[d])
        is_row_stretch = high <= (marks[0] if marks else 0) and low == 0 and len(marks) > 0
        if len(groups) == first and not is_row_stretch and high > low:
            groups.append([high - 1])
            sizes.append(dims[high - 1])
    if not groups:
        groups.append([])
        sizes.append(1)
    return tuple(sizes), groups
