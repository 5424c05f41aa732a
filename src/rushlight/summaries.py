"""A compiled program in a user's words: what each kernel computes, reads, writes, and why it is
a kernel of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rushlight import compiled, views
from rushlight.compiled import CompiledGraph
from rushlight.ir.node import Node, view_of
from rushlight.loops.kernel import Launch
from rushlight.schedule.fuse import Root, Unit
from rushlight.schedule.memory import nbytes_of
from rushlight.trace.trie import Edge

_FORMS = {
    "map": "elementwise",
    "row": "row reduction",
    "split": "long reduction",
    "column": "column reduction",
}


@dataclass(frozen=True, slots=True)
class Kernel:
    """One unit of a program: what it computes and what it moves."""

    number: int
    form: str
    ops: tuple[str, ...]
    where: tuple[str, ...]
    bytes_read: int
    bytes_written: int
    tasks: tuple[int, ...]  # of each launch
    apart: tuple[str, ...]  # why it is not part of an earlier kernel
    in_place: bool = False

    def __str__(self) -> str:
        ops = " ".join(self.ops) or "copy"
        moved = f"reads {_size(self.bytes_read)}, writes {_size(self.bytes_written)}"
        tasks = " + ".join(map(str, self.tasks)) or "no"
        note = ", in place" if self.in_place else ""
        lines = [f"{self.number:4}  {self.form}: {ops}", f"      {moved}{note}; {tasks} tasks"]
        lines += [f"      at {w}" for w in self.where]
        lines += [f"      not in {reason}" for reason in self.apart]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Summary:
    """One compiled program."""

    kernels: tuple[Kernel, ...]
    arena: int  # bytes for everything between inputs and results
    intermediates: int  # bytes they would take without sharing memory

    def __str__(self) -> str:
        read = sum(k.bytes_read for k in self.kernels)
        written = sum(k.bytes_written for k in self.kernels)
        head = (
            f"{len(self.kernels)} kernels; {_size(read)} read, {_size(written)} written; "
            f"intermediates {_size(self.intermediates)} in {_size(self.arena)} of memory"
        )
        return "\n".join([head, *map(str, self.kernels)])


def summary_of(graph: CompiledGraph) -> Summary:
    """The kernels of a compiled graph, one for each of its units."""
    kernels = []
    for number, (unit, items) in enumerate(zip(graph.units, graph.made, strict=True)):
        made = [graph.items[i] for i in items]
        kernels.append(_kernel(number, unit, [i for i in made if isinstance(i, Launch)], graph))
    between = {
        n for u in graph.units for n in u.writes if graph.place[n].buffer == compiled.ARENA
    }
    return Summary(tuple(kernels), graph.arena, sum(map(nbytes_of, between)))


def _kernel(number: int, unit: Unit, launches: list[Launch], graph: CompiledGraph) -> Kernel:
    nodes = sorted(computed(unit), key=lambda n: n.number)
    steps = list(dict.fromkeys(n.origin for n in nodes if n.origin is not None and n.origin.op))
    in_place = any(n in graph.sharing.home_of for n in unit.writes)
    return Kernel(
        number,
        _form(unit, launches),
        tuple(s.op.name for s in steps),
        tuple(dict.fromkeys(_place(s) for s in steps if s.where)),
        sum(_bytes_read(unit).values()),
        sum(_bytes_written(unit)),
        tuple(x.chunks for x in launches),
        tuple(_apart(unit, graph)),
        in_place,
    )


def _place(step: Edge) -> str:
    return f"{step.where} ({step.label})" if step.label else step.where


def _form(unit: Unit, launches: list[Launch]) -> str:
    if unit.epilogue_of is not None:
        return "contract with epilogue"
    if unit.single is not None:
        return "NumPy" if unit.single.op == "host" else unit.single.op
    if not launches:
        return "nothing"
    return _FORMS[launches[0].source.name.partition("_")[0]]


def computed(unit: Unit) -> Iterable[Node]:
    """Every node whose value the unit works out."""
    found: set[Node] = set()
    for root in unit.roots:
        found |= root.reader.inlined
        found.add(root.home)
    found |= {n for n in (unit.single, unit.epilogue_of) if n is not None}
    return found


def _bytes_read(unit: Unit) -> dict[Node, int]:
    """Bytes of each tensor that the unit reads, an element counted once a view."""
    counts: dict[Node, int] = {}
    reads = [pair for r in unit.roots for pair in r.reader.loads]
    for node in (unit.single, unit.epilogue_of):
        if node is not None:
            reads += [(n, view_of((n, v))) for n, v in node.args]
    for node, view in dict.fromkeys(reads):
        if node in unit.reads:
            touched = [n for n, s in zip(view.shape, view.strides, strict=True) if s]
            counts[node] = counts.get(node, 0) + views.numel(touched)
    return {n: min(c, n.numel) * n.dtype.itemsize for n, c in counts.items()}


def _bytes_written(unit: Unit) -> Iterable[int]:
    if unit.single is not None and unit.single.op == "scatter":
        source, view = unit.single.args[1]
        return [views.numel(view_of((source, view)).shape) * source.dtype.itemsize]
    if unit.single is not None:
        return [n.numel * n.dtype.itemsize for n in unit.writes]
    return [_elements(r) * r.home.dtype.itemsize for r in unit.roots]


def _elements(root: Root) -> int:
    return root.home.numel if root.kind == "reduce" else views.numel(root.dims)


def _apart(unit: Unit, graph: CompiledGraph) -> Iterable[str]:
    """Why the unit did not join the kernels that make what it reads."""
    for other, reason in unit.apart:
        if other in graph.units and unit.reads.intersection(other.writes):
            yield f"kernel {graph.units.index(other)}: {reason}"


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.4g} {unit}"
        size /= 1000
    return f"{size:.4g} GB"
