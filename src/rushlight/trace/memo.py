"""Remembered recordings: a pure function of tensors and numbers is recorded once, then jumped
over.

Note: what may be remembered. The function must only record ops on the tensors and numbers it is
given, write in place to some of those tensors, and not look at values. Its outcome is then a
function of the edge where it starts, of the key and of the operands' positions: the edge where
it ends, and the positions of the new contents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any  # tensors come later

from rushlight.config import scopes
from rushlight.dtypes import Category
from rushlight.ops.registry import NUMBER_TYPES, TensorType
from rushlight.trace.record import make_tensor, number_tensor
from rushlight.trace.trace import hooks, local, recording, write_storage
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage


@dataclass(slots=True)
class _Memo:
    end: Edge
    numbers: list[Any]
    writes: list[tuple[int, TensorType, int]]  # tensor index, type and position of its contents


def remembered(
    key: Hashable,
    function: Callable[[Sequence[Any]], None],
    tensors: Sequence[Any],
    numbers: Sequence[float],
) -> None:
    """Record `function(numbers as 0-d tensors)`, which writes in place to some of `tensors`."""
    if scopes.levels:  # every op has to be seen: its operands may have tangents
        function([number_tensor(n) for n in numbers])
        return
    with recording:
        trace = local.trace
        epoch = trace.epoch
        parts: list[Any] = [key, scopes.autocast]
        for t in tensors:
            value = t._storage.value
            if value.epoch != epoch:
                trace.join(value)
            parts.append(value.position)
            if t._view is not None:
                parts.append(t._view)
        positions = [trace.number_position(n) for n in numbers]
        start = trace.edge
        whole_key = tuple(parts)
        memo = None if start.memos is None else start.memos.get(whole_key)
        if memo is not None:
            trace.edge = memo.end
            trace.numbers.extend(memo.numbers)
            for i, type, position in memo.writes:
                write_storage(trace, tensors[i]._storage, trace.new_value(type, position))
            return
        _record(whole_key, function, tensors, positions)


def _record(key: Any, function: Any, tensors: Sequence[Any], positions: Sequence[int]) -> None:
    trace = local.trace
    joined = [trace.new_value(NUMBER_TYPES[Category.FLOATING], p) for p in positions]
    start, epoch = trace.edge, trace.epoch
    leaves, count = len(trace.leaves), len(trace.numbers)
    before = [t._storage.value for t in tensors]
    cls = hooks.tensor_class
    function([make_tensor(cls, Storage(v), v.type) for v in joined])
    if trace.epoch != epoch or len(trace.leaves) != leaves:
        return
    writes = []
    seen: set[int] = set()
    for i, (t, old) in enumerate(zip(tensors, before, strict=True)):
        value = t._storage.value
        if value is not old and id(t._storage) not in seen:
            seen.add(id(t._storage))
            writes.append((i, value.type, value.position))
    if start.memos is None:
        start.memos = {}
    start.memos[key] = _Memo(trace.edge, trace.numbers[count:], writes)
