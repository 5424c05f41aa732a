"""What is left of a flush in which a step failed, and what can be said about the failure.

Note: a failed flush. Ops run later than they are called, so by the time an index turns out to
be wrong, more has been recorded. Afterwards everything is as if the program had stopped at the
step that failed: storages have the contents they had before it, results that do not depend on
it are computed, and those that do raise its error whenever they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any  # arrays and storages

import numpy as np

from rushlight import errors, views
from rushlight.ir.node import Node
from rushlight.loops import interpret
from rushlight.trace.trace import Trace
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage, Value

_MANY_ELEMENTS = 1 << 24  # more are not calculated again only for a message
_SLOW_IN_NUMPY = frozenset(("contract", "attention", "attention_grad", "host"))


class StepFailed(Exception):
    """A recorded step cannot be computed; `error` is what the user is to see."""

    def __init__(self, step: Edge, error: Exception) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


class LeftHalfway(Exception):
    """A program was left by `error` when it had begun to write to memory of tensors."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(repr(error))
        self.error = error


# -- what is left


def survivors(
    trace: Trace, edge: Edge, alive: Sequence[Value], failed: StepFailed
) -> list[Value]:
    """Undo what was recorded from the failed step on; the values that can still be computed."""
    lost = _depending_on(failed.step, edge)
    known = {v.position: v for v in alive if v.buffer is None}
    found = {id(v): v for v in alive if v.buffer is None and v.position not in lost}
    for storage in _written(trace):
        value = _value_before(trace, storage, failed.step.first, known)
        if value is not None:
            storage.value = value
            found[id(value)] = value
    for value in alive:
        if value.buffer is None and value.position in lost:
            value.error = failed.error
    return [v for v in found.values() if v.buffer is None]


def largest_step(edge: Edge, wanted: Sequence[Value], error: MemoryError) -> StepFailed | None:
    """What there was no memory for: of the steps that values are made by, the first with the
    largest results.
    """
    positions = {v.position for v in wanted if v.buffer is None}
    steps = [step for step in _ancestors(edge, positions) if step.op is not None]
    if not steps:
        return None
    step = max(steps, key=lambda s: sum(type.nbytes for type in s.outs))
    assert step.op is not None
    where = errors.origin_text(step.where, step.label)
    error.add_note(f"the largest tensor on the way is made by {step.op.name}{where}")
    return StepFailed(step, error)


def _ancestors(edge: Edge, wanted: set[int]) -> list[Edge]:
    """The steps of a path that make these positions, in order."""
    found = []
    for step in reversed(edge.path()):
        if any(p in wanted for p in range(step.first, step.next)):
            found.append(step)
            wanted.update(o.position for o in step.operands)
    return found[::-1]


def _depending_on(failed: Edge, last: Edge) -> set[int]:
    """The positions that a step's results reach."""
    lost = set(range(failed.first, failed.next))
    for step in last.path():
        if step.first >= failed.next and any(o.position in lost for o in step.operands):
            lost.update(range(step.first, step.next))
    return lost


def _written(trace: Trace) -> list[Storage]:
    """Storages that were written in place since the last flush."""
    storages = [r() for r, *_ in trace.mutated] + [r() for r, *_ in trace.replaced]
    return list({id(s): s for s in storages if s is not None}.values())


def _value_before(
    trace: Trace, storage: Storage, limit: int, known: dict[int, Value]
) -> Value | None:
    """The last value of a storage from before position `limit`; None to leave it as it is."""
    current = storage.value
    if current.buffer is not None or current.epoch != trace.epoch or current.position < limit:
        return None
    for storage_ref, type, position in reversed(trace.replaced):
        if storage_ref() is storage and position < limit:
            return known.get(position) or trace.new_value(type, position)
    return _in_memory(trace, storage)


def _in_memory(trace: Trace, storage: Storage) -> Value | None:
    """What a storage's memory held before it was first written to."""
    for storage_ref, old_ref, _ in trace.mutated:
        if storage_ref() is storage:
            old = old_ref()
            if old is None or old.buffer is not storage.buffer:
                old = Value(storage.value.type, storage.buffer)
                old.claimed = True
            return old
    return None


def abandon(trace: Trace, values: Sequence[Value], error: BaseException) -> None:
    """Nothing can be computed: memory keeps its contents, and all values raise `error`."""
    if not isinstance(error, Exception):  # nobody reads a value to leave the program
        error = RuntimeError(f"a flush that was to compute this was left by {error!r}")
    for value in values:
        if value.buffer is None:
            value.error = error
    for storage in _written(trace):
        if storage.value.buffer is None:
            storage.value = _in_memory(trace, storage) or storage.value


# -- what can be said


@dataclass(frozen=True, slots=True)
class BadIndex:
    """The first index outside its range: its value, the size, and where it stands."""

    value: int
    size: int
    place: tuple[int, ...]


def error_of(node: Node, inputs: Callable[[Node], Any]) -> StepFailed:
    """The failure of a data check of `node`, for the user."""
    step: Edge = node.origin
    assert step.op is not None
    name, origin = step.op.name, (step.where, step.label)
    if name in errors.DIVISIONS:
        return StepFailed(step, errors.zero_division(name, *origin))
    refused = errors.refused_value(node.attrs[-1], name, *origin)
    if refused is not None:
        return StepFailed(step, refused)
    found = _bad_index(node, inputs)
    if found is None:
        return StepFailed(step, errors.index_out_of_range(name, *origin))
    what = (node.attrs[-1], found.value, found.size, found.place)
    return StepFailed(step, errors.index_out_of_range(name, *origin, what))


def host_error(failed: interpret.HostFailed) -> StepFailed:
    """The failure of a function in Python, with a note of the op that called it."""
    step: Edge = failed.node.origin
    assert step.op is not None
    error = failed.error
    if isinstance(error, np.linalg.LinAlgError):
        error = errors.LinAlgError(f"{step.op.name}: {error}")
    error.add_note(f"in {step.op.name}{errors.origin_text(step.where, step.label)}")
    return StepFailed(step, error)


def _bad_index(node: Node, inputs: Callable[[Node], Any]) -> BadIndex | None:
    """Calculate the indices of a gather or scatter again, if that is soon done."""
    args = node.args[1:] if node.op == "gather" else node.args[2:]
    sources = [n for n, _ in args]
    cone = interpret.ancestors(sources, {})
    if any(n.op in _SLOW_IN_NUMPY for n in cone) or sum(n.numel for n in cone) > _MANY_ELEMENTS:
        return None
    arrays = interpret.evaluate(sources, inputs)
    for array, (_, view), (_, size) in zip(arrays, args, node.attrs[-2], strict=True):
        own = array if view is None else interpret._read(array, _without_repeats(view))
        bad = np.argwhere((own < 0) | (own >= size))
        if len(bad):
            place = tuple(int(i) for i in bad[0])
            return BadIndex(int(own[place]), size, place)
    return None


def _without_repeats(view: views.View) -> views.View:
    """A view with the dimensions along which it repeats left out."""
    kept = [d for d, s in enumerate(view.strides) if s != 0]
    shape, strides = (tuple(x[d] for d in kept) for x in view[:2])
    return views.View(shape, strides, view.offset)
