"""From a recorded path to results: lower every op, then compile and run, or interpret.

`RUSHLIGHT_BACKEND=reference` evaluates the primitives in NumPy instead of compiling them.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol  # Any: buffers and traces

import numpy as np

from rushlight import config, failures, views
from rushlight import dtypes as dt
from rushlight.ir.builder import Builder
from rushlight.ir.node import Node
from rushlight.ir.ref import Ref
from rushlight.loops import interpret
from rushlight.ops.registry import LevelOp, TensorType
from rushlight.runtime import buffers
from rushlight.schedule.reading import SINGLE
from rushlight.trace import interrupts
from rushlight.trace.trace import ROOM, Trace, are_several, every_trace, hooks
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage, Value
from rushlight.views import AnyView, Recast, View

if TYPE_CHECKING:
    from rushlight.native import NativeProgram
    from rushlight.parts import PartedProgram


class Request(NamedTuple):
    """What a flush must produce, as positions: new results, results written into the memory of
    a leaf (position, leaf), and leaves to be copied before their memory is overwritten.
    """

    fresh: tuple[int, ...]
    written: tuple[tuple[int, int], ...] = ()
    kept: tuple[int, ...] = ()
    late: tuple[int, ...] = ()  # positions written only after everything has been read


# Where nothing is written a program is looked up by the positions of its results alone: a small
# flush feels what it costs to make more.
RequestKey = Request | tuple[int, ...]


class Inputs(Protocol):
    """What a program reads, as a trace has it: buffers and numbers in order of joining."""

    leaves: list[Any]
    numbers: list[Any]


class Targets(NamedTuple):
    """The objects that receive the results of a request, in its order."""

    fresh: list[Value]
    written: Sequence[tuple[Value, Any]] = ()  # value, the buffer it is written into
    kept: Sequence[Value] = ()


@dataclass(slots=True)
class Lowered:
    """The graph of a path: the wanted results by position, and where leaves and numbers
    joined.
    """

    k: Builder
    results: dict[int, Node]
    leaves: dict[int, int]  # position -> index among the trace's leaves
    numbers: dict[int, int]
    types: dict[int, TensorType]


_MOST_ROUNDS = 8  # in which something is given up because there is no memory for it


def execute(trace: Trace, edge: Edge, alive: list[Value], rounds: int = 0) -> None:
    """Make every alive value real, and write what in-place operations left in their
    storages.
    """
    trace.is_given = True
    try:
        key, targets = request_of(trace, alive)
        if targets.written and are_several():
            spare_other_traces(trace, targets)
        program_of(edge, key).run(trace, targets)
    except failures.StepFailed as failed:
        _execute_rest(trace, edge, alive, failed, rounds)
        raise failed.error from None
    except interrupts.Stopped:
        raise  # the trace parks what is pending
    except failures.LeftHalfway as left:
        failures.abandon(trace, alive, left.error)
        raise left.error from None
    except MemoryError as error:
        found = failures.largest_step(edge, alive, error)
        if found is None or rounds == _MOST_ROUNDS:
            failures.abandon(trace, alive, error)
        else:
            _execute_rest(trace, edge, alive, found, rounds + 1)
        raise
    except (
        RecursionError,
        ctypes.ArgumentError,
    ) as error:  # ctypes hides the first in the other
        if trace.has_room:
            _leave_pending(trace, alive, error)
            raise
        trace.has_room = True
        sys.setrecursionlimit(sys.getrecursionlimit() + ROOM)
        execute(trace, edge, alive, rounds)
    except BaseException as error:  # the handler of a signal may have raised it
        _leave_pending(trace, alive, error)
        raise


def _leave_pending(trace: Trace, alive: list[Value], error: BaseException) -> None:
    """Let what was pending wait: nothing has been written."""
    try:
        if trace.may_park:
            return trace.park(alive)
    except MemoryError:
        pass
    failures.abandon(trace, alive, error)


def _execute_rest(
    trace: Trace, edge: Edge, alive: list[Value], failed: failures.StepFailed, rounds: int
) -> None:
    """Compute what does not need a step that failed."""
    interrupts.finish()
    rest = failures.survivors(trace, edge, alive, failed)
    if rest:
        with contextlib.suppress(Exception):  # the first error is the one to tell
            execute(trace, edge, rest, rounds)


def program_of(
    edge: Edge, key: RequestKey, *, whole: bool = False
) -> ReferenceProgram | NativeProgram | PartedProgram:
    """The program of a request at the end of a path, made if it is new: of the `whole` path, or
    of parts of it that other paths have too.
    """
    if edge.programs is None:
        edge.programs = {}
    program = edge.programs.get(key)
    if program is None or (whole and not program.is_whole):
        request = key if isinstance(key, Request) else Request(key)
        program = None if whole else _of_parts(edge, key, request)
        program = edge.programs[key] = program or make_program(edge, request)
    return program


def _of_parts(edge: Edge, key: RequestKey, request: Request) -> PartedProgram | None:
    if config.process.backend == "reference":
        return None
    from rushlight.parts import parted  # needs programs

    return parted(edge, request, lambda: program_of(edge, key, whole=True))


_position_of = attrgetter("position")


def request_of(trace: Trace, alive: list[Value]) -> tuple[RequestKey, Targets]:  # hot
    """What a flush of the trace would make, and the objects that receive it."""
    if trace.mutated:
        return _request_with_writes(trace, alive)
    fresh = [v for v in alive if v.buffer is None]
    if len(fresh) == 1:
        return (fresh[0].position,), Targets(fresh)
    fresh.sort(key=_position_of)
    return tuple([v.position for v in fresh]), Targets(fresh)


def spare_other_traces(trace: Trace, targets: Targets) -> None:
    """Give the traces of other threads copies of what they have still to read and this one is
    about to overwrite.
    """
    others = [other for other in list(every_trace) if other is not trace and other.leaves]
    if not others:
        return
    homes = [home for _, home in targets.written]
    windows = [w.buffer for home in homes for r in home.windows or () if (w := r()) is not None]
    overwritten = {id(buffer) for buffer in (*homes, *windows)}
    for other in others:
        other.leaves = [
            copy_buffer(leaf) if id(leaf) in overwritten else leaf for leaf in other.leaves
        ]


def _request_with_writes(trace: Trace, alive: list[Value]) -> tuple[Request, Targets]:
    written: dict[int, int] = {}  # position -> leaf
    homes: dict[int, tuple[Value, Any]] = {}
    kept: dict[int, Value] = {}
    late: list[int] = []
    outliving: list[Value] = []
    for storage_ref, old_ref, leaf in trace.mutated:
        storage: Storage | None = storage_ref()
        if storage is None or storage.value.buffer is not None:
            continue
        value = storage.value
        if value.epoch != trace.epoch or value.position in written:
            continue
        written[value.position] = leaf
        homes[value.position] = (value, storage.buffer)
        old = old_ref()
        if old is not None and old.buffer is storage.buffer:
            kept[leaf] = old
        if storage.buffer.windows:
            outliving += [w for w in (r() for r in storage.buffer.windows) if w is not None]
            if any(b is storage.buffer for b in trace.window_bases):
                late.append(value.position)
    own = {id(value) for value, _ in homes.values()}
    fresh = [v for v in alive if v.buffer is None and id(v) not in own]
    fresh.sort(key=_position_of)
    positions = tuple([v.position for v in fresh])
    # in order of position: the same step may meet its writes in another order the next time
    at = sorted(written)
    leaves = sorted(kept)
    request = Request(
        positions, tuple((p, written[p]) for p in at), tuple(leaves), tuple(sorted(late))
    )
    copied = [kept[leaf] for leaf in leaves] + outliving
    return request, Targets(fresh, [homes[p] for p in at], copied)


hooks.execute = execute
_MANY_WINDOWS = 64


def make_window(value: Value, view: AnyView) -> tuple[Value, AnyView | None]:
    """A Value on the part of a realised value's memory that starts where `view` does."""
    kind = view.dtype if type(view) is Recast else value.type.dtype
    low, high, shape, inner = views.window(view)
    base = value.buffer
    start = base.address + low * kind.itemsize
    made = Value(
        TensorType(shape, kind), buffers.wrap(base, start, (high - low) * kind.itemsize)
    )
    made.claimed = True
    made.buffer.is_foreign = base.is_shared
    if base.windows is None:
        base.windows = []
    elif len(base.windows) > _MANY_WINDOWS:
        base.windows = [r for r in base.windows if r() is not None]
    base.windows.append(weakref.ref(made))
    if not any(views.marks(view)):
        return made, inner
    whole = View(view.shape, view.strides, view.offset - low)
    return made, views.seen_as(whole, view)


hooks.make_window = make_window


def copy_value(value: Value) -> Value:
    """A Value with the contents that a realised one has now."""
    return Value(value.type, _copy(value.buffer, value.type.nbytes))


hooks.copy_value = copy_value


def copy_buffer(buffer: Any) -> Any:
    """A block of memory with the contents that another one has now; None for none."""
    return None if buffer is None else _copy(buffer, buffer.nbytes)


hooks.copy_buffer = copy_buffer


def number_in_memory(number: Any, type: TensorType) -> Value:
    """A realised 0-d value that holds a Python number."""
    value = Value(type, buffers.Buffer(type.nbytes))
    value.buffer.as_numpy(type.dtype.storage, ())[...] = number
    return value


hooks.number_in_memory = number_in_memory


def lower_path(edge: Edge, wanted: tuple[int, ...]) -> Lowered:
    """Lower what the wanted positions depend on, in order of recording."""
    path = edge.path()
    maker = makers_of(path)
    needed = needed_for(wanted, maker)
    k = Builder()
    refs: dict[int, Ref] = {}
    lowered = Lowered(k, {}, {}, {}, {})
    leaf_count = number_count = 0
    for step in path:
        if step.kind == "leaf":
            if step in needed:
                refs[step.first] = k.leaf(step.first, step.outs[0].stored, step.outs[0].dtype)
            lowered.leaves[step.first] = leaf_count
            leaf_count += 1
        elif step.kind == "number":
            if step in needed:
                refs[step.first] = k.scalar(step.first, step.outs[0].dtype)
            lowered.numbers[step.first] = number_count
            number_count += 1
        elif step in needed:
            _lower_step(k, step, refs)
    for position in wanted:
        step = maker[position]
        type = step.outs[position - step.first]
        lowered.types[position] = type
        k.origin = step
        lowered.results[position] = _natural(k, refs[position])
    return lowered


def makers_of(path: Sequence[Edge]) -> dict[int, Edge]:
    """The step that each position of a path comes from."""
    return {p: step for step in path for p in range(step.first, step.first + len(step.outs))}


def needed_for(wanted: Sequence[int], maker: dict[int, Edge]) -> set[Edge]:
    """The steps that the wanted positions depend on."""
    needed: set[Edge] = set()
    stack = [maker[p] for p in wanted]
    while stack:
        step = stack.pop()
        if step not in needed:
            needed.add(step)
            stack.extend(maker[o.position] for o in step.operands)
    return needed


def _lower_step(k: Builder, step: Edge, refs: dict[int, Ref]) -> None:
    assert step.op is not None
    if isinstance(step.op, LevelOp) or any(o.type.levels for o in step.operands):
        from rushlight.ir.batch import lower_batched  # only where `vmap` is used

        refs.update(enumerate(lower_batched(k, step, refs), step.first))
        return
    operands = []
    for operand in step.operands:
        ref = refs[operand.position]
        if operand.view is not None:
            ref = k.seen(ref, operand.view)
        if ref.weak != operand.type.weak:
            ref = ref.weakened(operand.type.weak)
        assert ref.shape == operand.type.shape, (step.op.name, ref.shape, operand)
        operands.append(ref)
    k.origin = step
    named = dict(zip(step.op.attrs, step.attrs, strict=True))
    made = step.op.lower(k, *operands, **named)
    results = made if isinstance(made, tuple) else (made,)
    for i, (ref, type) in enumerate(zip(results, step.outs, strict=True)):
        assert ref.shape == type.shape and ref.dtype is type.dtype, (
            f"{step.op.name}: lowered to {ref.dtype}{ref.shape}, the type rule said {type}"
        )
        refs[step.first + i] = ref


def _natural(k: Builder, ref: Ref) -> Node:
    """The node whose elements in order are the result (the parts in turn if it is complex)."""
    if ref.dtype.is_complex:
        ref = k.interleaved(ref)
    node, view = k._plain(ref.arg)
    if view is None and node.op != "leaf" and node.op not in SINGLE:
        return node
    return k.node("cast", [(node, view)], (), ref.shape, ref.dtype)


def make_program(edge: Edge, request: Request) -> ReferenceProgram | NativeProgram:
    wanted = request.fresh + tuple(p for p, _ in request.written)
    with _collector_at_rest():
        lowered = lower_path(edge, wanted)
        if config.process.backend == "reference":
            return ReferenceProgram(lowered, request)
        from rushlight.native import NativeProgram  # with LLVM: no import should wait for it

        return NativeProgram(lowered, request)


@contextlib.contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A plan is very many objects that stay: looking through them again and again for garbage
    took a fifth of the time of planning.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def keep_leaves(targets: Targets) -> None:
    """Copy leaves that are about to be overwritten and that somebody still holds."""
    for value in targets.kept:
        value.buffer = _copy(value.buffer, value.type.nbytes)
        value.claimed = False


def hand_out(targets: Targets, made: Sequence[Any]) -> None:  # hot
    """Make the values of a request real, in buffers that were filled."""
    for value, buffer in zip(targets.fresh, made, strict=True):
        value.buffer = buffer
    for value, home in targets.written:
        value.buffer = home
        value.claimed = True


class ReferenceProgram:
    """Evaluates a lowered path with NumPy."""

    is_whole = True

    def __init__(self, lowered: Lowered, request: Request) -> None:
        self.lowered = lowered
        self.request = request

    def run(self, trace: Inputs, targets: Targets) -> None:
        lowered = self.lowered
        inputs = inputs_of(lowered, trace)
        nodes = list(lowered.results.values())
        try:
            arrays = interpret.evaluate(nodes, inputs)
        except interpret.IndexOutOfRange as found:
            raise failures.error_of(found.node, inputs) from None
        except interpret.HostFailed as failed:
            raise failures.host_error(failed) from failed.error
        results = dict(zip(lowered.results, zip(arrays, nodes, strict=True), strict=True))
        keep_leaves(targets)
        made = [buffers.Buffer(value.type.nbytes) for value in targets.fresh]
        for value, buffer in zip(targets.fresh, made, strict=True):
            write_buffer(buffer, *results[value.position])
        try:
            for value, home in targets.written:
                write_buffer(home, *results[value.position])
            hand_out(targets, made)
        except BaseException as error:
            raise failures.LeftHalfway(error) from None


def inputs_of(lowered: Lowered, trace: Inputs) -> Callable[[Node], Any]:
    """What leaves and numbers of a lowered path are in a trace, as arrays."""

    def inputs(node: Node) -> Any:
        position = node.attrs[0]
        if node.op == "scalar":
            number = trace.numbers[lowered.numbers[position]]
            if node.dtype is dt.uint64:  # kept as the signed number with its bits
                number %= 1 << 64
            return np.asarray(number, node.dtype.compute)
        return read_buffer(trace.leaves[lowered.leaves[position]], node.dtype, node.shape)

    return inputs


def read_buffer(buffer: Any, kind: dt.dtype, shape: tuple[int, ...]) -> Any:
    """A buffer's elements as an array in the dtype's compute type."""
    stored = buffer.as_numpy(kind.storage, shape)
    if kind is dt.bfloat16:
        return (stored.astype(np.uint32) << 16).view(np.float32)
    return stored.astype(kind.compute)


def write_buffer(buffer: Any, array: Any, node: Node) -> None:
    """A node's value as the elements of a buffer."""
    stored = buffer.as_numpy(node.dtype.storage, node.shape)
    if node.dtype is dt.bfloat16:
        bits = np.ascontiguousarray(interpret.round_bfloat16(array)).view(np.uint32)
        stored[...] = (bits >> 16).reshape(node.shape)
    else:
        stored[...] = array


def _copy(buffer: Any, nbytes: int) -> Any:
    made = buffers.Buffer(nbytes)
    made.as_numpy(np.uint8, (nbytes,))[:] = buffer.as_numpy(np.uint8, (nbytes,))
    return made
