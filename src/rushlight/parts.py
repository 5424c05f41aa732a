"""Programs of long paths, made of parts that other paths have too.

Note: parts. A path is cut between the turns of loops (`repeats.py`), and each part is written
down as a path of its own: what it reads of earlier parts are its leaves, what later parts read
are its results. Equal parts are one program, so a loop of another length plans nothing but its
beginning and its end. What lies between two parts is stored, and each is launched by itself:
a path that has run `SETTLED` times is planned as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, NamedTuple  # buffers; whoever runs programs

from rushlight import failures, repeats, views
from rushlight.ops.registry import Op, TensorType
from rushlight.pipeline import Inputs, Request, Targets, make_program, makers_of, needed_for
from rushlight.runtime import buffers
from rushlight.trace.trace import is_everything
from rushlight.trace.trie import Edge, Operand
from rushlight.trace.value import Value
from rushlight.views import AnyView, View

SETTLED = 64  # runs of a path
MOST = 4_000  # programs that are kept
_COPIED = 4  # one byte of so many that are written may be made before the last part

_programs: dict[Any, Any] = {}  # by what the part does


class Step(NamedTuple):
    """A step of a part, with positions in the part."""

    kind: str
    outs: tuple[TensorType, ...]
    op: Op | None = None
    attrs: tuple[Any, ...] = ()
    operands: tuple[Operand, ...] = ()


class Leaf(NamedTuple):
    """What a part reads: the position of a value, and which bytes of it (none: all)."""

    position: int
    first: int = 0
    nbytes: int = 0


@dataclass(slots=True)
class Part:
    """One part: its program, and where on the whole path lies what it reads and makes."""

    program: Any  # a whole one
    leaves: list[Leaf]
    numbers: list[int]  # positions
    results: list[tuple[int, TensorType]]
    done: list[int]  # positions that no later part reads


@dataclass(slots=True)
class Feed:
    """What a part reads, in place of a trace: buffers and numbers in order of joining."""

    leaves: list[Any]
    numbers: list[Any]


class PartedProgram:
    """A path as the programs of its parts."""

    is_whole = False

    def __init__(
        self, path: Sequence[Edge], parts: list[Part], plan_whole: Callable[[], Any]
    ) -> None:
        self.parts = parts
        self._plan_whole = plan_whole
        self._runs = 0
        self._leaves = [step.first for step in path if step.kind == "leaf"]
        numbers = [step.first for step in path if step.kind == "number"]
        self._numbers = {position: i for i, position in enumerate(numbers)}

    def run(self, trace: Inputs, targets: Targets) -> None:
        self._runs += 1
        if self._runs <= SETTLED:
            try:
                return self._run(trace, targets)
            except failures.StepFailed:  # it is to be told of this path, and not of a part
                for value in targets.fresh:
                    value.buffer = None
        self._plan_whole().run(trace, targets)

    def _run(self, trace: Inputs, targets: Targets) -> None:
        made: dict[int, Any] = dict(zip(self._leaves, trace.leaves, strict=True))
        wanted = {value.position: value for value in targets.fresh}
        last = self.parts[-1]
        for part in self.parts:
            feed = Feed(
                [_read(made[leaf.position], leaf) for leaf in part.leaves],
                [trace.numbers[self._numbers[p]] for p in part.numbers],
            )
            fresh = [wanted.get(p) or Value(type) for p, type in part.results]
            rest = targets if part is last else _NO_TARGETS
            part.program.run(feed, rest._replace(fresh=fresh))
            for (position, _), value in zip(part.results, fresh, strict=True):
                made[position] = value.buffer
            for position in part.done:
                del made[position]


_NO_TARGETS = Targets([])


def _read(buffer: Any, leaf: Leaf) -> Any:
    if not leaf.nbytes:
        return buffer
    return buffers.wrap(buffer, buffer.address + leaf.first, leaf.nbytes)


def parted(edge: Edge, request: Request, plan_whole: Callable[[], Any]) -> PartedProgram | None:
    """The program of a request in parts; None where the path is to be planned whole."""
    path = edge.path()
    if len(path) < repeats.FEWEST or any(map(_binds, path)):
        return None
    if len(set(request.fresh)) < len(request.fresh):
        return None
    maker = makers_of(path)
    wanted = request.fresh + tuple(p for p, _ in request.written)
    needed = needed_for(wanted, maker)
    steps = [step for step in path if step.op is not None and step in needed]
    cuts = _before_writes(repeats.cuts(steps), steps, request)
    if not cuts:
        return None
    bounds = pairwise([0, *cuts, len(steps)])
    pieces = _sunk([steps[first:end] for first, end in bounds])
    return PartedProgram(path, list(_parts(pieces, maker, request)), plan_whole)


def _binds(step: Edge) -> bool:
    """Whether a path with this step is to stay whole: sums over the batches of `vmap` are made
    where their terms are (`ir/sums.py`), with other roundings, and ranges of a profile are told
    from the path.
    """
    return any(t.levels for t in step.outs) or step.attrs[:1] == ("range opens",)


def _sunk(pieces: Sequence[Sequence[Edge]]) -> list[list[Edge]]:
    """The pieces without those steps that are another one in every turn (`embed` of the
    gradient of the i-th row), where only later pieces read them: these have them instead, so
    that the turns are equal.
    """
    last = len(pieces) - 1
    readers: dict[int, int] = {}  # the first piece that reads a position
    found: list[list[Edge]] = [[] for _ in pieces]
    for i in range(last, -1, -1):
        odd = _odd(pieces[i], [*pieces[max(i - 1, 0) : i], *pieces[i + 1 : i + 2]])
        for step in reversed(pieces[i]):
            to = i
            if step in odd:
                to = min(readers.get(p, last) for p in range(step.first, step.next))
            found[to].append(step)
            for operand in step.operands:
                readers[operand.position] = min(readers.get(operand.position, to), to)
    return [sorted(piece, key=attrgetter("first")) for piece in found if piece]


def _odd(piece: Sequence[Edge], neighbours: Sequence[Sequence[Edge]]) -> set[Edge]:
    """The steps of a piece that are another one in a neighbour with the same ops."""
    ops = [step.op for step in piece]
    found: set[Edge] = set()
    for other in neighbours:
        if [step.op for step in other] == ops:
            pairs = zip(piece, other, strict=True)
            found |= {a for a, b in pairs if (a.attrs, a.outs) != (b.attrs, b.outs)}
    return found


def _before_writes(cuts: list[int], steps: Sequence[Edge], request: Request) -> list[int]:
    """The cuts before which little is made that ends in memory which is there already: the
    last part has to copy that.
    """
    written = {p for p, _ in request.written}
    sizes = [
        sum(t.nbytes for p, t in enumerate(step.outs, step.first) if p in written)
        for step in steps
    ]
    before = [0, *accumulate(sizes)]
    return [cut for cut in cuts if before[cut] * _COPIED <= before[-1]]


def _parts(
    pieces: Sequence[Sequence[Edge]], maker: dict[int, Edge], request: Request
) -> Iterator[Part]:
    part_of = {step: i for i, piece in enumerate(pieces) for step in piece}
    last = len(pieces) - 1
    wanted: list[set[int]] = [set() for _ in pieces]  # of each part, by itself or later ones
    last_use: dict[int, int] = {}
    for i, piece in enumerate(pieces):
        for position in {o.position for step in piece for o in step.operands}:
            last_use[position] = i
            made = part_of.get(maker[position], i)
            if made < i:
                wanted[made].add(position)
    for position in request.fresh:
        wanted[part_of.get(maker[position], last)].add(position)
    for position, _ in request.written:
        last_use[position] = last
        made = part_of.get(maker[position], last)
        if made < last:
            wanted[made].add(position)
    for i, piece in enumerate(pieces):
        copy = _Copy(maker, writes=i == last and bool(request.written))
        for step in piece:
            copy.add(step)
        results = sorted(wanted[i])
        done = [p for p, end in last_use.items() if end == i and part_of.get(maker[p], i) < i]
        yield copy.part(results, request if i == last else Request(()), done)


class _Copy:
    """A part of a path, written down as a path of its own."""

    def __init__(self, maker: dict[int, Edge], *, writes: bool) -> None:
        self._maker = maker
        self._writes = writes  # to memory that leaves of the path may be in
        self._steps: list[Step] = []
        self._places: list[tuple[str, str]] = []
        self._at: dict[int, int] = {}  # positions here, by those on the whole path
        self._windows: dict[tuple[int, AnyView], Operand] = {}
        self._next = 0
        self._leaves: list[Leaf] = []
        self._numbers: list[int] = []

    def add(self, step: Edge) -> None:
        """Write down an op."""
        operands = tuple([self._operand(o) for o in step.operands])
        for i in range(len(step.outs)):
            self._at[step.first + i] = self._next + i
        self._append(Step("op", step.outs, step.op, step.attrs, operands), step)

    def _operand(self, operand: Operand) -> Operand:
        position, view, type = operand
        if view is not None and position not in self._at and self._may_window(position, view):
            return self._window(position, view, type)
        return Operand(self._position(position), view, type)

    def _may_window(self, position: int, view: AnyView) -> bool:
        if self._writes and self._maker[position].kind == "leaf":
            return False
        source = self._type(position)
        is_part = type(view) is View and not is_everything(view, source)
        return is_part and not source.levels

    def _window(self, position: int, view: AnyView, type: TensorType) -> Operand:
        """What a view reads of an earlier value as a leaf that starts there, so that it is the
        same for all rows of something.
        """
        found = self._windows.get((position, view))
        if found is None:
            kind = self._type(position).dtype
            low, high, shape, inner = views.window(view)
            found = self._windows[position, view] = Operand(self._next, inner, type)
            size = kind.itemsize
            self._leaves.append(Leaf(position, low * size, (high - low) * size))
            self._append(Step("leaf", (TensorType(shape, kind),)), self._maker[position])
        return found

    def _position(self, position: int) -> int:
        """Where a value is here; what was made before joins as a leaf or a number."""
        found = self._at.get(position)
        if found is None:
            step = self._maker[position]
            found = self._at[position] = self._next
            if step.kind == "number":
                self._numbers.append(position)
            else:
                self._leaves.append(Leaf(position))
            kind = "number" if step.kind == "number" else "leaf"
            self._append(Step(kind, (self._type(position),)), step)
        return found

    def _append(self, step: Step, source: Edge) -> None:
        self._steps.append(step)
        self._places.append((source.where, source.label))
        self._next += len(step.outs)

    def part(self, results: list[int], request: Request, done: list[int]) -> Part:
        """The part with these results, and with what a request writes."""
        fresh = tuple([self._position(p) for p in results])
        written = tuple([(self._position(p), self._position(q)) for p, q in request.written])
        late = tuple([self._position(p) for p in request.late])
        own = Request(fresh, written, late=late)
        key = (tuple(self._steps), own)
        program = _programs.get(key)
        if program is None:
            if len(_programs) >= MOST:
                _programs.clear()
            program = _programs[key] = make_program(self._path(), own)
        typed = [(p, self._type(p)) for p in results]
        return Part(program, self._leaves, self._numbers, typed, done)

    def _type(self, position: int) -> TensorType:
        step = self._maker[position]
        return step.outs[position - step.first]

    def _path(self) -> Edge:
        edge = Edge(None, "root", 0)
        for step, (where, label) in zip(self._steps, self._places, strict=True):
            edge = Edge(edge, step.kind, edge.next)
            edge.outs, edge.op = step.outs, step.op
            edge.attrs, edge.operands = step.attrs, step.operands
            edge.next += len(step.outs)
            edge.where, edge.label = where, label
        return edge
