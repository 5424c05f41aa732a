"""Where a NaN of the forward pass was born, for anomaly detection.

Note: births. While anomaly detection is on, each flush also asks of every float result whether
it holds a NaN. The first step that made one of operands without any is to blame, and whoever
reads a NaN hands the blame on, also from flush to flush (by buffer). A NaN that reaches no
root of a backward is nobody's business: `where` may have dropped it.
"""

from __future__ import annotations

import linecache
import math
import weakref
from collections.abc import Callable, Sequence
from typing import Any  # tensors and buffers

import numpy as np

from rushlight import config, errors
from rushlight.ops.registry import TensorType
from rushlight.trace.record import value_tensor
from rushlight.trace.trace import Trace, hooks, local
from rushlight.trace.trie import Edge

Blame = Edge | None  # the step that made a NaN; None for an input that held it
_blamed: weakref.WeakKeyDictionary[Any, Blame] = weakref.WeakKeyDictionary()  # by buffer


def inspect(trace: Trace) -> Callable[[], None]:
    """Ask of everything that a flush is about to compute; the rest is done after the flush."""
    path = trace.edge.path()
    flags: dict[int, Any] = {}
    with config.gradients_off():
        for step in path:
            for i, type in enumerate(step.outs):
                if _can_hold_nan(step, type):
                    value = trace.new_value(type, step.first + i)
                    flags[step.first + i] = value_tensor(value).isnan().any()
    leaves, numbers = list(trace.leaves), list(trace.numbers)
    alive = [v for v in (r() for r in trace.live) if v is not None and v.buffer is None]

    def finish() -> None:
        found = {p for p, flag in flags.items() if _holds(flag)}
        blames = _assign(path, found, leaves, numbers)
        for value in alive:
            if value.buffer is not None:
                _blamed.pop(value.buffer, None)
                if value.position in blames:
                    _blamed[value.buffer] = blames[value.position]

    return finish


hooks.inspect = inspect


def _can_hold_nan(step: Edge, type: TensorType) -> bool:
    is_recorded = step.op is not None or step.kind == "leaf"
    return is_recorded and type.numel > 0 and type.dtype.is_floating_point


def _holds(flag: Any) -> bool:
    buffer = flag._storage.value.buffer
    return buffer is not None and bool(buffer.as_numpy(np.bool_, ())[()])


def _assign(
    path: Sequence[Edge], found: set[int], leaves: Sequence[Any], numbers: Sequence[Any]
) -> dict[int, Blame]:
    """Who is to blame for the NaN at each position that holds one."""
    blames: dict[int, Blame] = {}
    next_leaf, next_number = iter(leaves), iter(numbers)
    for step in path:
        if step.kind == "leaf":
            buffer = next(next_leaf)
            if step.first in found:
                blames[step.first] = _blamed.get(buffer)
        elif step.kind == "number":
            number = next(next_number)
            if isinstance(number, float) and math.isnan(number):
                blames[step.first] = None
        else:
            given = [o.position for o in step.operands if o.position in blames]
            blame = blames[given[0]] if given else step
            for position in found.intersection(range(step.first, step.next)):
                blames[position] = blame
    return blames


def check_roots(roots: Sequence[Any]) -> None:
    """Raise where a tensor that gradients are taken of holds a NaN, and say where it came
    from.
    """
    local.trace.flush()
    for root in roots:
        if root.dtype.is_floating_point and np.isnan(root.detach()._numbers()).any():
            buffer = root._storage.value.buffer
            if buffer not in _blamed:
                raise errors.nan_before_backward("the forward pass was not watched", "", "")
            blame = _blamed[buffer]
            if blame is None or blame.op is None:
                raise errors.nan_before_backward("an input of the forward pass held it", "", "")
            made = f"{blame.op.name} made it of numbers"
            place = errors.origin_text(blame.where, blame.label)
            raise errors.nan_before_backward(made, place, source_line(blame.where))


def source_line(where: str) -> str:
    """The text of a line given as `file.py:12`, if it can be read."""
    file, _, line = where.rpartition(":")
    return linecache.getline(file, int(line)).strip() if file and line.isdigit() else ""
