"""A lowered path as a native program: units become launches on numbered buffers.

Buffers by number: 0 errors (a cell for each data check), 1 run-time numbers, 2 the arena, then
leaves, then results.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any  # arrays

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.codegen.module import Kernels
from rushlight.ir.builder import Builder
from rushlight.ir.node import Node, view_of
from rushlight.loops import functions, interpret
from rushlight.loops.attention import (
    AttentionShape,
    Mask,
    plan_attention_backward,
    plan_attention_forward,
)
from rushlight.loops.contract import Operand, plan_contraction
from rushlight.loops.entry import Strided
from rushlight.loops.epilogue import EpilogueKernel, split_dims
from rushlight.loops.group import GroupKernel
from rushlight.loops.group_launches import launches
from rushlight.loops.kernel import BufferRef, Launch
from rushlight.loops.recurrence import (
    RecurrenceShape,
    packed_bytes,
    plan_recurrence,
    plan_recurrence_grad,
)
from rushlight.loops.scan import scan_launches
from rushlight.loops.scatter import scatter_launches
from rushlight.runtime import buffers
from rushlight.runtime.pool import get_num_threads
from rushlight.runtime.program import HostCall, Item, Program, Progress
from rushlight.schedule.attach import attach_epilogues
from rushlight.schedule.cost import nanoseconds
from rushlight.schedule.fuse import Fusion, Root, Unit
from rushlight.schedule.inplace import last_checking, share_memory
from rushlight.schedule.memory import nbytes_of, padded, plan_memory
from rushlight.schedule.reading import Reader, refine
from rushlight.trace.interrupts import Stopped

RECURRENCES = {"recurrence": plan_recurrence, "recurrence_grad": plan_recurrence_grad}
MANY_RESULTS = ("host", "attention", "attention_grad", *RECURRENCES)
ERRORS, NUMBERS, ARENA, FIRST = 0, 1, 2, 3
kernels = Kernels(functions.resolve)


# What a profile runs programs with, in place of `program.run`.
run_watched: Callable[[CompiledGraph, Sequence[int]], None] | None = None


class CheckFailed(Exception):
    """A data check of `node` failed, before any leaf was written."""

    def __init__(self, node: Node) -> None:
        super().__init__(repr(node))
        self.node = node


Span = tuple[int, int, int]  # buffer, first byte, one past the last


@dataclass(slots=True)
class _Beside:
    """What the launches of one parallel region read and write."""

    reads: dict[int, list[Span]] = field(default_factory=dict)
    writes: dict[int, list[Span]] = field(default_factory=dict)
    count: int = 0

    def disturbs(self, reads: Sequence[Span], writes: Sequence[Span]) -> bool:
        return (
            any(_meets(self.writes, s) for s in reads)
            or any(_meets(self.writes, s) for s in writes)
            or any(_meets(self.reads, s) for s in writes)
        )

    def add(self, reads: Sequence[Span], writes: Sequence[Span]) -> None:
        self.count += 1
        for spans, known in ((reads, self.reads), (writes, self.writes)):
            for span in spans:
                known.setdefault(span[0], []).append(span)


def _meets(known: dict[int, list[Span]], span: Span) -> bool:
    return any(a < span[2] and span[1] < b for _, a, b in known.get(span[0], ()))


class CompiledGraph:
    """Kernels, memory and order for a graph with given results.

    `written` maps a result node to the leaf position whose memory it is written into.
    """

    def __init__(
        self,
        k: Builder,
        results: Sequence[Node],
        written: dict[int, int],
        late: AbstractSet[int] = frozenset(),
    ) -> None:
        """`written`: index of a result -> position of the leaf in whose memory it ends. `late`
        results are written there last of all (something else reads the same memory).
        """
        self.k = k
        self.late = late
        self.results = list(results)
        fusion = Fusion(self.results)
        self.units = attach_epilogues(fusion.run(), set(self.results))
        self.stored = fusion.stored
        early = {i: leaf for i, leaf in written.items() if i not in late}
        self.sharing = share_memory(self.units, self.results, early, self.stored)
        self.units = [u for u in self.units if u not in self.sharing.needless]
        for number, unit in enumerate(self.units):
            unit.number = number
        self.last_check = last_checking(self.units)
        self.homes: list[Node] = []  # the node whose memory holds each result
        self._give_homes(written)
        leaf_nodes = [n for n in fusion.order if n.op == "leaf"]
        self.leaves = list(dict.fromkeys(
            [n.attrs[0] for n in leaf_nodes] + [q for _, q in sorted(written.items())]
        ))  # fmt: skip
        self.ends = {self.sharing.first_version(h): h for h in self.homes}
        numbers = [n for n in fusion.order if n.op == "scalar"]
        self.numbers = sorted(numbers, key=lambda n: n.dtype is not dt.float64)
        extents = [n for n in fusion.order if n.op == "extent"]
        self.cell_of = {n: i for i, n in enumerate((*self.numbers, *extents))}
        floats = sum(n.dtype is dt.float64 for n in numbers)
        self.place: dict[Node, BufferRef] = {}
        at_leaf = {q: FIRST + i for i, q in enumerate(self.leaves)}
        for node in leaf_nodes:
            self.place[node] = BufferRef(at_leaf[node.attrs[0]])
        self.own: list[int] = []  # indices of results with buffers of their own
        for index, home in enumerate(self.homes):
            if index in written:
                self.place[home] = BufferRef(at_leaf[written[index]])
            else:
                self.place[home] = BufferRef(FIRST + len(self.leaves) + len(self.own))
                self.own.append(index)
        plan = plan_memory(self.units, self.place, self._placed_as)
        for node, offset in plan.offsets.items():
            self.place[node] = BufferRef(ARENA, offset)
        for node, base in self.sharing.home_of.items():
            at = self.place[self._placed_as(node)]
            self.place[node] = self.place[base] = at
        self.arena = plan.nbytes
        self.checks: list[Node] = []
        self.items: list[Item] = []
        self.has_writes = bool(written)
        self.beside = _Beside()
        self.made: list[range] = []  # the items of each unit
        for unit in self.units:
            start = len(self.items)
            self._add_unit(unit)
            self.made.append(range(start, len(self.items)))
        sources = [i.source for i in self.items if isinstance(i, Launch)]
        count = FIRST + len(self.leaves) + len(self.own)
        self.program = Program(self.items, kernels.addresses(sources), count)
        self.table = self.program.new_table()
        self.errors = np.zeros(max(len(self.checks), 1), np.int64)
        self.cells = np.zeros(max(len(self.cell_of), 1), np.int64)
        for node in extents:
            self._cell(node)[...] = node.attrs[0]
        self.packed = struct.Struct(f"={floats}d{len(numbers) - floats}q")
        self.error_cells = self.errors.data
        self.no_errors = self.errors.tobytes()
        self.table[ERRORS] = self.errors.ctypes.data
        self.table[NUMBERS] = self.cells.ctypes.data

    # -- homes

    def _give_homes(self, written: dict[int, int]) -> None:
        """A node of its own for each result; copies where two results share one, or where
        writing a leaf's memory at once would destroy what is still to be read.
        """
        self.makers: dict[Node, list[Unit]] = defaultdict(list)
        self.readers: dict[int, list[tuple[Unit, Node]]] = defaultdict(list)  # of each leaf
        for unit in self.units:
            self._note(unit)
        taken: set[Node] = set()
        for index, node in enumerate(self.results):
            unsafe = index in written and (
                index in self.late or not self._can_overwrite(node, written[index])
            )
            if node in taken or unsafe:
                node = self._copy_unit(node)
            taken.add(node)
            self.homes.append(node)

    def _note(self, unit: Unit) -> None:
        for node in set(unit.writes):
            self.makers[node].append(unit)
        for node in unit.reads:
            if node.op == "leaf":
                self.readers[node.attrs[0]].append((unit, node))

    def _placed_as(self, node: Node) -> Node:
        """The node whose place a node takes: of all versions of one memory, a result or the
        first.
        """
        first = self.sharing.first_version(node)
        return self.ends.get(first, first)

    def _can_overwrite(self, node: Node, leaf: int) -> bool:
        if node in self.sharing.in_leaf:
            return True
        if node in self.sharing.home_of:  # earlier versions would be written there too soon
            return False
        makers = self.makers[node]
        if (
            len(makers) != 1
            or makers[0].single is not None
            or makers[0].epilogue_of is not None
        ):
            return False
        maker = makers[0]
        if maker.number <= self.last_check:  # a failed flush leaves the leaf as it was
            return False
        for unit, read in self.readers[leaf]:
            if unit.number > maker.number:
                return False
            if unit is maker and not self._reads_in_place(unit, read, node):
                return False
        return True

    @staticmethod
    def _reads_in_place(unit: Unit, leaf: Node, node: Node) -> bool:
        """Whether the unit reads each element of the leaf before it stores that of `node`."""
        if unit.inner is not None:
            return False
        is_known = is_written = False
        for root in unit.roots:
            loads = [(v, e) for (n, v), e in root.reader.loads.items() if n is leaf]
            if any(e.kind != "load" or not views.is_whole(v, leaf.numel) for v, e in loads):
                return False
            if loads and is_written and not is_known:
                return False
            is_known = is_known or bool(loads)
            is_written = is_written or root.home is node
        return True

    def _copy_unit(self, node: Node) -> Node:
        made = Node(-1 - len(self.units), "cast", ((node, None),), (), node.shape, node.dtype)
        full = views.whole(node.shape)
        reader = Reader(node.shape, lambda n: n is not made)
        reader.read(made, full)
        root = Root("store", made, made, full, reader, target=full)
        unit = Unit(len(self.units), [root], dims=node.shape, reads={node})
        self.stored.update((node, made))
        self.units.append(unit)
        self._note(unit)
        return made

    # -- launches

    def _add_unit(self, unit: Unit) -> None:
        before, first = len(self.checks), len(self.items)
        if unit.epilogue_of is not None:
            self._add_contraction(unit.epilogue_of, unit)
        elif unit.single is None:
            self._add_group(unit)
        elif unit.single.op == "contract":
            self._add_contraction(unit.single)
        elif unit.single.op in ("attention", "attention_grad"):
            self._add_attention(unit.single)
        elif unit.single.op in RECURRENCES:
            self._add_recurrence(unit.single)
        elif unit.single.op == "scatter":
            self.items += scatter_launches(
                unit.single, self._place_of, self._check_of, BufferRef(ERRORS)
            )
        elif unit.single.op == "scan":
            self.items += scan_launches(unit.single, self._place_of)
        else:
            self._add_host(unit)
        if len(self.checks) > before and self.has_writes:
            self._stop_if_failed(range(before, len(self.checks)))
        self._mark_launches(unit, first)

    def _mark_launches(self, unit: Unit, first: int) -> None:
        """Note on a unit's launches what they cost, so that small work stays on one thread, and
        whether they may run beside those just before them.
        """
        made = self.items[first:]
        each = nanoseconds(unit) / max(len(made), 1)
        independent = self._is_beside(unit, made)
        self.items[first:] = [
            replace(item, nanoseconds=each, independent=independent)
            if isinstance(item, Launch)
            else item
            for item in made
        ]

    def _is_beside(self, unit: Unit, made: Sequence[Item]) -> bool:
        """Whether a unit may run beside those just before it: neither disturbs the other."""
        reads = [self._span(n) for n in unit.reads if n in self.place]
        writes = [self._span(n) for n in unit.writes if n in self.place]
        is_alone = len(made) != 1 or not isinstance(made[0], Launch)
        if is_alone or self.beside.disturbs(reads, writes):
            self.beside = _Beside()
        if is_alone:
            return False
        self.beside.add(reads, writes)
        return self.beside.count > 1

    def _span(self, node: Node) -> tuple[int, int, int]:
        place = self.place[node]
        if place.buffer != ARENA:
            return (place.buffer, 0, 1)
        return (ARENA, place.offset, place.offset + nbytes_of(node))

    def _stop_if_failed(self, checks: range) -> None:
        def stop(_: Sequence[int]) -> None:
            if any(self.error_cells[checks.start : checks.stop]):
                raise CheckFailed(self._failed_checks()[0])

        self.items.append(HostCall(stop))

    def _failed_checks(self) -> list[Node]:
        """The nodes whose checks failed; the next run starts with none."""
        failed = [self.checks[i] for i in np.flatnonzero(self.errors)]
        self.errors[:] = 0
        return failed

    def _add_group(self, unit: Unit) -> None:
        kernel = GroupKernel(unit, self.stored)
        made = launches(
            kernel,
            self._place_of,
            self._number_of,
            self._check_of,
            BufferRef(ERRORS),
            self._temporary,
        )
        self.items.extend(made)

    def _cell(self, node: Node) -> Any:
        cells = self.cells.view(np.float64) if node.dtype is dt.float64 else self.cells
        return cells[self.cell_of[node], ...]

    def _place_of(self, node: Node) -> BufferRef:
        return self.place[node]

    def _number_of(self, node: Node) -> BufferRef:
        return BufferRef(NUMBERS, 8 * self.cell_of[node])

    def _check_of(self, node: Node) -> int:
        self.checks.append(node)
        return len(self.checks) - 1

    def _temporary(self, nbytes: int) -> BufferRef:
        offset = self.arena
        self.arena += padded(nbytes)
        return BufferRef(ARENA, offset)

    def _add_contraction(self, node: Node, group: Unit | None = None) -> None:
        """A contraction, with the group of stores that is its epilogue if there is one."""
        batch, rows, columns, _ = node.attrs
        a, b = (view_of(arg) for arg in node.args)
        shape = node.shape
        dims = shape if group is None else refine(shape, group.dims)
        assert dims is not None
        split = split_dims(dims, shape, batch, rows)
        assert split is not None
        nb, nm = split.batch, split.batch + split.rows
        x = _split_view(a, (*dims[:nb], *dims[nb:nm], *a.shape[batch + rows :]))
        y = _split_view(b, (*dims[:nb], *dims[nm:], *b.shape[batch + columns :]))
        epilogue = None
        if group is None:
            out = views.contiguous_strides(dims)
            result = Operand(self.place[node], node.dtype.name, out[:nb], out[nb:nm], out[nm:])
        else:
            tail = EpilogueKernel(group, node, split, self.stored)
            result, epilogue = tail.build(self._place_of, self._number_of)
        first = self._operand(node.args[0][0], x, nb, nm, swap=False)
        second = self._operand(node.args[1][0], y, nb, nb + len(dims) - nm, swap=True)
        self.items.extend(
            plan_contraction(
                dims[:nb], dims[nb:nm], dims[nm:], x.shape[nm:], first, second, result,
                epilogue=epilogue, target=kernels.target.kind, workers=get_num_threads(),
                has_matrix_unit=kernels.target.has_amx,
            )
        )  # fmt: skip

    def _operand(
        self, node: Node, view: views.View, nb: int, middle: int, swap: bool
    ) -> Operand:
        base = self.place[node]
        place = BufferRef(base.buffer, base.offset + view.offset * node.dtype.itemsize)
        s = view.strides
        own, summed = s[nb:middle], s[middle:]
        rows, columns = (summed, own) if swap else (own, summed)
        return Operand(place, node.dtype.name, s[:nb], rows, columns)

    def _add_host(self, unit: Unit) -> None:
        """An op that runs as NumPy code between kernels."""
        node = unit.single
        assert node is not None
        operands = [(n, view_of((n, v))) for n, v in node.args]
        outputs = self._outputs_of(node)

        def call(table: Sequence[int]) -> None:
            arrays = [_load(table, self.place[n], n, v) for n, v in operands]
            try:
                with np.errstate(all="ignore"):
                    made = interpret._RULES[node.op](node, *arrays)
            except interpret.IndexOutOfRange:
                raise CheckFailed(node) from None
            for target, array in zip(
                outputs, made if node.op in MANY_RESULTS else [made], strict=True
            ):
                if target is not None:
                    _store(table, self.place[target], target, array)

        follows = self.has_writes and unit.number > self.last_check
        self.items.append(HostCall(call, may_follow_writes=follows))

    def _outputs_of(self, node: Node) -> list[Node | None]:
        """The stored nodes for each result of a node (None where nobody wants one)."""
        if node.op not in MANY_RESULTS:
            return [node]
        found: list[Node | None] = [None] * len(interpret.results_of(node))
        for other in self.place:
            if other.op == "item" and other.args[0][0] is node:
                found[other.attrs[0]] = other
        return found

    def _add_attention(self, node: Node) -> None:
        scale, is_causal, outputs = node.attrs
        operands = [self._strided(n, view_of((n, v))) for n, v in node.args]
        results = []
        for target, (shape, kind) in zip(self._outputs_of(node), outputs, strict=True):
            if target is None:
                place = self._temporary(views.numel(shape) * kind.itemsize)
            else:
                place = self.place[target]
            results.append((place, views.contiguous_strides(shape)))
        inputs = operands if node.op == "attention" else operands[3:]
        q, key, value = (view_of(a) for a in node.args[len(node.args) - len(inputs) :][:3])
        shape = AttentionShape(  # type: ignore[call-arg]
            *q.shape[:2], key.shape[1], q.shape[2], key.shape[2], q.shape[3], value.shape[3]
        )
        mask = None
        if len(inputs) == 4:
            mask = Mask(inputs[3], node.args[-1][0].dtype.name)
        common: dict[str, Any] = {
            "shape": shape, "dtype": node.args[-1 if mask is None else -2][0].dtype.name,
            "q": inputs[0], "k": inputs[1], "v": inputs[2], "mask": mask,
            "causal": is_causal, "scale": scale, "target": kernels.target.kind,
        }  # fmt: skip
        if node.op == "attention":
            (out, strides), (lse, _) = results
            made = plan_attention_forward(out=Strided(out, strides), lse=lse, **common)
        else:
            g, out_operand, lse_operand = operands[:3]
            dq, dk, dv = (Strided(p, s) for p, s in results)
            made = plan_attention_backward(
                out=out_operand, lse=lse_operand.place, dout=g, dq=dq, dk=dk, dv=dv, **common
            )
        self.items.extend(made)

    def _add_recurrence(self, node: Node) -> None:
        cell, names, outputs, made = node.attrs
        operands = {
            name: self._strided(n, view_of((n, v)))
            for name, (n, v) in zip(names, node.args, strict=True)
        }
        results = {}
        for name, target, (shape, kind) in zip(
            made, self._outputs_of(node), outputs, strict=True
        ):
            if target is not None:
                results[name] = self.place[target]
            elif name != "kept":
                results[name] = self._temporary(views.numel(shape) * kind.itemsize)
        steps, batch, _ = view_of(node.args[0]).shape
        units, dtype = view_of(node.args[names.index("weight")]).shape[1], outputs[0][1].name
        is_forward = node.op == "recurrence"
        packed = packed_bytes(cell, units, dtype, is_forward=is_forward)
        self.items += RECURRENCES[node.op](
            cell_name=cell,
            shape=RecurrenceShape(steps if is_forward else steps - 1, batch, units),
            dtype=dtype,
            operands=operands,
            results=results,
            panels=self._temporary(packed),
            target=kernels.target.kind,
            workers=get_num_threads(),
        )

    def _strided(self, node: Node, view: views.View) -> Strided:
        base = self.place[node]
        place = BufferRef(base.buffer, base.offset + view.offset * node.dtype.itemsize)
        return Strided(place, view.strides)

    # -- running

    def run(
        self,
        leaf_addresses: Sequence[int],
        numbers: Sequence[Any],
        own: Sequence[int],
        progress: Progress | None = None,
    ) -> None:
        """Run once: addresses in the order of `leaves`, values of `numbers`, addresses of the
        results in the order of `own`. `progress` is needed where leaves are written.
        """
        table = self.table
        table[FIRST:] = [*leaf_addresses, *own]
        if numbers:
            self.packed.pack_into(self.cells.data, 0, *numbers)
        arena = buffers.Buffer(self.arena) if self.arena else None
        table[ARENA] = arena.address if arena is not None else 0
        watch = run_watched  # which the garbage collector may take away
        try:
            if watch is None:
                self.program.run(table, progress)  # type: ignore[arg-type]
            else:
                if progress is not None:
                    progress.is_split = True
                watch(self, table)  # type: ignore[arg-type]
        except Stopped:
            self.errors[:] = 0
            raise
        if self.checks and self.errors.tobytes() != self.no_errors:
            raise CheckFailed(self._failed_checks()[0])


def _split_view(view: views.View, dims: views.Shape) -> views.View:
    found = views.try_reshape(view, dims)
    assert found is not None, (view, dims)
    return found


def _array(table: Sequence[int], place: BufferRef, node: Node) -> Any:
    kind = node.dtype.storage
    buffer = buffers.wrap(None, table[place.buffer] + place.offset, node.numel * kind.itemsize)
    return buffer.as_numpy(kind, node.shape)


def _load(table: Sequence[int], place: BufferRef, node: Node, view: views.View) -> Any:
    stored = _array(table, place, node)
    read = interpret._read(stored, view)
    if node.dtype is dt.bfloat16:
        return (read.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(read.astype(node.dtype.compute, copy=False))


def _store(table: Sequence[int], place: BufferRef, node: Node, array: Any) -> None:
    stored = _array(table, place, node)
    if node.dtype is dt.bfloat16:
        bits = np.ascontiguousarray(interpret.round_bfloat16(array)).view(np.uint32)
        stored[...] = (bits >> 16).reshape(node.shape)
    else:
        stored[...] = np.asarray(array).reshape(node.shape)
