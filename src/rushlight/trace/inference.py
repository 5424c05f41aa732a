"""Tensors made in inference mode: which they are, and what they may not do afterwards.

Note: marks. Nothing is noted while a step is recorded. What was made inside is marked when the
mode ends, or when a flush computes it: then it is every value that is still alive and was
recorded since the mode began, but for new contents of tensors from outside. The mode's begin
and end are steps of the path, and so is a marked leaf, so whether a step may save what it reads
is found out on the miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # tensors come later

from rushlight import config, errors
from rushlight.trace.tape import Input, starts_of
from rushlight.trace.trace import Trace, hooks, local, recording
from rushlight.trace.value import Value


def switch(is_on: bool) -> None:
    """Begin or end inference mode in this thread."""
    with recording:
        trace = local.trace
        if config.scopes.inference:
            mark_made(trace)
        if config.scopes.inference != is_on:
            trace.step(("inference", is_on))
        config.scopes.inference = is_on
        config.process.has_inference = True
        trace.inference_since = (trace.epoch, len(trace.live), trace.edge.next)


def mark_made(trace: Trace) -> None:
    """Mark what was recorded since the mode began and is alive."""
    epoch, first, _ = trace.inference_since
    for reference in trace.live[first if epoch == trace.epoch else 0 :]:
        value = reference()
        if value is not None and value.inference is None:
            value.inference = True


hooks.mark_made = mark_made


def note_contents(old: Value, new: Value) -> None:
    """New contents of a tensor are of the mode in which the tensor was made."""
    new.inference = is_made_inside(old)


hooks.note_contents = note_contents


def is_made_inside(value: Value) -> bool:
    """Whether a value was made in inference mode."""
    if value.inference is not None or not config.scopes.inference or value.buffer is not None:
        return value.inference is True
    trace = local.trace
    epoch, _, position = trace.inference_since
    return value.epoch == trace.epoch and (epoch != trace.epoch or value.position >= position)


def note_data(value: Value) -> None:
    """A tensor was made of data just now."""
    if config.scopes.inference:
        value.inference = True


def check_saved(x: Any, operands: Sequence[Any]) -> None:
    """Raise if a gradient that is being recorded would need what was made in inference mode and
    leads to a leaf: functions that are derived may be given such tensors, and may capture them.
    """
    if not is_made_inside(x._storage.value):
        return
    tensors = [o for o in operands if isinstance(o, hooks.tensor_class)]
    nodes = [n for t in tensors if (n := hooks.current_node(t)) is not None]
    if any(not isinstance(start, Input) for start in starts_of(nodes)):
        raise errors.inference_saved()


hooks.check_saved = check_saved


def check_written(x: Any) -> None:
    """Raise if x was made in inference mode, which has ended."""
    if not config.scopes.inference and x._storage.value.inference:
        raise errors.inference_in_place()
