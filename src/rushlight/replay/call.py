"""A call that can be repeated without its Python: one program, and where its results go."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add, attrgetter
from typing import Any  # tensors, trees of arguments

from rushlight import pipeline, tree
from rushlight.compiled import CheckFailed
from rushlight.loops import interpret
from rushlight.replay.capture import Capture, Draw, Flush, Refused, Step
from rushlight.runtime import buffers
from rushlight.runtime.program import Progress
from rushlight.tensor import Tensor
from rushlight.trace import interrupts
from rushlight.trace.inference import note_data
from rushlight.trace.record import make_tensor, set_view
from rushlight.trace.tape import Node
from rushlight.trace.trace import are_several, every_trace, local, recording
from rushlight.trace.value import Storage, Value
from rushlight.views import AnyView

_ALONE = 2  # references to a value that only one object holds, while it is counted


class Stale(Exception):
    """The state that a call started from is no longer what it was."""


@dataclass(slots=True)
class _Result:
    """A tensor that a call makes: which fresh buffer, which part of it, and its history."""

    at: int
    view: AnyView | None
    dtype: Any
    node: Node | None

    def make(self, storages: Sequence[Storage]) -> Tensor:
        storage = storages[self.at]
        note_data(storage.value)
        made: Tensor = make_tensor(Tensor, storage, storage.value.type)
        made.dtype = self.dtype
        if self.view is not None:
            set_view(made, self.view)
        if self.node is not None:
            made._node = _freed_like(self.node)
        return made


class _Sources:
    """Where a program's leaves lie: in storages that a call always reads, each at so many
    bytes, but for those that have to be looked for.
    """

    def __init__(self) -> None:
        self._storages: list[Storage] = []
        self._bytes: list[int] = []
        self._moving: list[tuple[int, Callable[[Sequence[Any]], int]]] = []

    def add(self, storage: Storage, nbytes: int) -> None:
        """The next leaf lies in a storage."""
        self._storages.append(storage)
        self._bytes.append(nbytes)

    def add_moving(self, source: Callable[[Sequence[Any]], int]) -> None:
        """The next leaf has to be looked for at every call."""
        self._moving.append((len(self._storages) + len(self._moving), source))

    def addresses(self, arguments: Sequence[Any]) -> list[int]:  # hot
        """The addresses of all leaves; Stale if one has no memory."""
        try:
            found = list(map(add, map(_address_of, self._storages), self._bytes))
        except AttributeError:
            raise Stale(_NO_MEMORY) from None
        for index, source in self._moving:
            found.insert(index, source(arguments))
        return found


_address_of = attrgetter("value.buffer.address")
_NO_MEMORY = "a tensor that it reads has no memory"


class RememberedCall:
    """What a captured call did, ready to be done again."""

    def __init__(self, capture: Capture, arguments: Sequence[Any], result: Any) -> None:
        """Refused if the call cannot be repeated."""
        capture.end()
        flush = _only_flush(capture)
        self.guards = capture.guards
        self.steps: list[Step] = capture.steps
        self.draws: list[Draw] = capture.draws
        self._note_options(capture)
        self.guards.end()
        if not self.guards.hold():
            raise Refused("it changes Python objects that it also reads")
        if self.guards.opaque:
            raise Refused(f"it may read {self.guards.opaque}, whose changes cannot be seen")
        self.program = flush.program
        self.numbers = list(flush.numbers)
        self.written = _written(flush, arguments)
        self._check_numbers(flush)
        self.fresh = [(v.type, v.type.nbytes) for v in flush.targets.fresh]
        where = {id(value): i for i, value in enumerate(flush.targets.fresh)}
        self.sources = self._sources(capture, flush, arguments)
        self.gradients = _gradients(capture, where)
        self.had_gradient = [
            (self.guards.tensors[key], _layout_of(grad))
            for key, grad in capture.gradients.items()
        ]
        self.others = {id(tensor._storage) for tensor in self.guards.tensors.values()}
        if any(isinstance(a, Tensor) and id(a._storage) in self.others for a in arguments):
            raise Refused("it is given a tensor that it also reads from elsewhere")
        places = {(id(a._storage), a._offset) for a in arguments if isinstance(a, Tensor)}
        if len({storage for storage, _ in places}) < len(places):
            raise Refused("it is given several parts of one tensor")
        leaves, self.structure = tree.flatten(result)
        tensors = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]
        if len(set(tensors)) != len(tensors) or self.guards.has_seen(result):
            raise Refused("it returns an object twice, or one that it was given")
        self.results = [_result(leaf, where, arguments, self.guards) for leaf in leaves]
        made = {r.at for _, r in self.gradients if r is not None}
        made |= {r.at for r in self.results if isinstance(r, _Result)}
        for at in set(range(len(self.fresh))) - made:  # local names that are gone, or else kept
            if sys.getrefcount(flush.targets.fresh[at]) > _ALONE:
                raise Refused("something keeps a tensor that it makes")

    def _note_options(self, capture: Capture) -> None:
        stepped = {id(step.optimizer) for step in self.steps}
        looks = not capture.names.isdisjoint(("param_groups", "defaults", "state"))
        for key, optimizer in self.guards.optimizers.items():
            if looks or key not in stepped:
                self.guards.note_options(optimizer)
            if any(table for name, table in vars(optimizer).items() if name.endswith("_hooks")):
                raise Refused("an optimizer has hooks")

    def _check_numbers(self, flush: Flush) -> None:
        for draw in self.draws:
            if flush.numbers[draw.at + 1 : draw.at + 2] != [draw.first]:
                raise Refused("random numbers are used out of order")
        for step in self.steps:
            floats = [float(x) for batch, _ in step.batches for x in batch.hyper]
            if flush.numbers[step.at : step.at + len(floats)] != floats:
                raise Refused("an optimizer's numbers are used out of order")

    def _sources(self, capture: Capture, flush: Flush, arguments: Sequence[Any]) -> _Sources:
        """Where the address of each leaf that the program reads comes from."""
        known: dict[int, Storage] = {}
        owners: dict[int, Tensor] = {}
        for tensor in self.guards.tensors.values():
            known[id(_memory(tensor._storage))] = tensor._storage
            grad = capture.gradients.get(id(tensor))
            if grad is not None:
                owners[id(_memory(grad._storage))] = tensor
        given = {
            id(_memory(a._storage)): i for i, a in enumerate(arguments) if isinstance(a, Tensor)
        }
        found = _Sources()
        for index in self.program.leaves:
            buffer = flush.leaves[index]
            buffer = capture.copies.get(id(buffer), buffer)
            base = buffer if id(buffer) in known or id(buffer) in given else buffer.owner
            if id(buffer) in owners:
                if owners[id(buffer)]._grad is None:
                    raise Refused("it drops a gradient that it reads")
                found.add_moving(_of_gradient(owners[id(buffer)]))
            elif id(base) in known:
                found.add(known[id(base)], buffer.address - base.address)
            elif id(base) in given:
                at = given[id(base)]
                offset = arguments[at]._offset * arguments[at].dtype.itemsize
                if base is buffer and offset:
                    raise Refused("it reads around the part of a tensor that it was given")
                found.add_moving(_of_argument(at, buffer.address - base.address - offset))
            else:
                raise Refused(
                    "it makes a tensor out of Python data, or reads one from elsewhere"
                )
        return found

    # -- doing it again

    def __call__(self, arguments: Sequence[Any]) -> Any:  # hot
        """The results of the call; Stale if it has to be made in Python after all."""
        with recording, interrupts.held():
            trace = local.trace
            if trace.edge is not trace.root:
                trace.flush()
            self._check(arguments)
            addresses = self.sources.addresses(arguments)
            numbers = self.numbers
            counted = []
            for step in self.steps:
                try:
                    floats, count = step.optimizer.advance_again(step.batches)
                except ValueError as error:
                    raise Stale(str(error)) from None
                numbers[step.at : step.at + len(floats)] = floats
                counted.append(count)
            before = [draw.generator._counter for draw in self.draws]
            for draw in self.draws:
                numbers[draw.at : draw.at + 2] = draw.generator.take(draw.count)
            made = [Value(type, buffers.Buffer(nbytes)) for type, nbytes in self.fresh]
            try:
                late = self._run(addresses, made)
            except BaseException:
                for draw, counter in zip(self.draws, before, strict=True):
                    draw.generator._counter = counter
                raise
            for count in counted:
                count()
            for storage in self.written:  # whose values nobody else holds
                storage.value.claimed = True
                storage.version += 1
            storages = [Storage(value) for value in made]
            for tensor, result in self.gradients:
                tensor._grad = None if result is None else result.make(storages)
            leaves = [
                r.make(storages) if isinstance(r, _Result) else r(arguments)
                for r in self.results
            ]
            if late is not None:
                raise late
        return tree.unflatten(leaves, self.structure)

    def _run(self, addresses: Sequence[int], made: Sequence[Value]) -> BaseException | None:
        """Run the program. What comes back was raised when it had run: by the handler of a
        signal.
        """
        progress = Progress() if self.written else None
        try:
            self.program.graph.run(
                addresses,
                [self.numbers[i] for i in self.program.numbers],
                [value.buffer.address for value in made],
                progress,
            )
        except (CheckFailed, interpret.HostFailed, MemoryError) as error:
            # made in Python, it says where it went wrong
            raise Stale("the program failed") from error
        except BaseException as error:
            if progress is None or not progress.is_done:
                raise
            return error
        return None

    def _check(self, arguments: Sequence[Any]) -> None:
        if not self.guards.hold():
            raise Stale("Python objects that it reads have changed")
        for tensor, layout in self.had_gradient:
            if _layout_of(tensor._grad) != layout:
                raise Stale("a gradient is not what it was")
        for argument in arguments:
            if isinstance(argument, Tensor) and id(argument._storage) in self.others:
                raise Stale("it is given a tensor that it also reads from elsewhere")
        for storage in self.written:
            if sys.getrefcount(storage.value) > _ALONE or storage.buffer.windows:
                raise Stale("somebody keeps what it would overwrite")
        if not are_several():
            return
        waiting = [leaf for trace in list(every_trace) for leaf in trace.leaves]
        if not {id(s.buffer) for s in self.written}.isdisjoint(map(id, waiting)):
            raise Stale("another thread has still to read what it would overwrite")


def _only_flush(capture: Capture) -> Flush:
    if capture.obstacle:
        raise Refused(capture.obstacle)
    if len(capture.flushes) != 1:
        raise Refused(f"it computes in {len(capture.flushes)} parts, not one")
    (flush,) = capture.flushes
    if not hasattr(flush.program, "graph"):
        raise Refused("the reference backend runs it")
    has_late = isinstance(flush.key, pipeline.Request) and flush.key.late
    if flush.targets.kept or has_late:
        raise Refused("somebody keeps what it overwrites")
    return flush


def _written(flush: Flush, arguments: Sequence[Any]) -> list[Storage]:
    """The storages that the program writes, in the order of its results."""
    by_value = {id(s.value): s for s in flush.written}
    found = []
    for value, home in flush.targets.written:
        storage = by_value.get(id(value))
        if storage is None or storage.buffer is not home or home.is_shared:
            raise Refused("it writes into memory that is not a tensor's own")
        if any(isinstance(a, Tensor) and a._storage is storage for a in arguments):
            raise Refused("it writes into an argument")
        found.append(storage)
    return found


def _layout_of(grad: Tensor | None) -> Any:
    """How a gradient lies in memory."""
    if grad is None:
        return None
    return (grad._view, grad._shape, grad.dtype, grad._storage.value.type, grad._node is None)


def _memory(storage: Storage) -> Any:
    return storage.buffer if storage.buffer is not None else storage.value.buffer


def _gradients(capture: Capture, where: dict[int, int]) -> list[tuple[Tensor, _Result | None]]:
    """The tensors whose `.grad` the call replaced."""
    changed: list[tuple[Tensor, _Result | None]] = []
    for key, before in capture.gradients.items():
        tensor = capture.guards.tensors[key]
        grad = tensor._grad
        if grad is before:
            continue
        if grad is None:
            changed.append((tensor, None))
            continue
        at = where.get(id(grad._storage.value))
        if at is None or grad._node is not None:
            raise Refused("it gives a tensor a gradient that it did not make")
        changed.append((tensor, _Result(at, grad._view, grad.dtype, None)))
    return changed


def _result(
    leaf: Any, where: dict[int, int], arguments: Sequence[Any], guards: Any
) -> _Result | Callable[[Sequence[Any]], Any]:
    if not isinstance(leaf, Tensor):
        if leaf is None or isinstance(leaf, bool | int | float | str):
            return lambda arguments: leaf
        raise Refused(f"it returns an object of type {type(leaf).__name__}")
    for i, argument in enumerate(arguments):
        if argument is leaf:
            return lambda arguments: arguments[i]
    if id(leaf) in guards.tensors:
        return lambda arguments: leaf
    at = where.get(id(leaf._storage.value))
    if at is None:
        raise Refused("it returns a view of a tensor that it did not make")
    if leaf._node is not None and not leaf._node.is_dead_end:
        raise Refused("what it returns can still be differentiated")
    if leaf._base is not None or leaf._grad is not None:
        raise Refused("it returns a view with a history")
    return _Result(at, leaf._view, leaf.dtype, leaf._node)


def _freed_like(node: Node) -> Node:
    """A node whose graph is gone, as after a backward pass."""
    made = Node(node.op, node.attrs, ())
    made.out_types = node.out_types
    made.freed = True
    return made


def _of_argument(at: int, delta: int) -> Callable[[Sequence[Any]], int]:
    def address(arguments: Sequence[Any]) -> int:
        tensor = arguments[at]
        buffer = _realised(tensor._storage)
        return int(buffer.address + tensor._offset * tensor.dtype.itemsize + delta)

    return address


def _of_gradient(owner: Tensor) -> Callable[[Sequence[Any]], int]:
    return lambda arguments: int(_realised(owner._grad._storage).address)  # type: ignore[union-attr]


def _realised(storage: Storage) -> Any:
    buffer = storage.value.buffer
    if buffer is None:
        raise Stale(_NO_MEMORY)
    return buffer
