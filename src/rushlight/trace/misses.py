"""Recordings that left the known paths: what was new about a step, against its nearest sibling.

Only called on a miss, and only where the parent already had a child: a first recording is no
miss.
"""

from __future__ import annotations

import warnings
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any  # keys of any kind

from rushlight.ops.registry import TensorType
from rushlight.trace import origin
from rushlight.trace.trie import Edge, Operand

MANY = 64  # children of one parent that do the same: something differs every time
_COMPARED = 8  # siblings looked at


@dataclass(frozen=True, slots=True)
class Miss:
    """One new step: where it was made, what it is, and how it differs from a known one."""

    where: str
    label: str
    name: str
    differences: tuple[str, ...]

    def __str__(self) -> str:
        module = f" in {self.label}" if self.label else ""
        return f"{self.where}{module}: {self.name}: {'; '.join(self.differences)}"


recent: deque[Miss] = deque(maxlen=256)
_warned: set[tuple[str, str]] = set()


def note_op(parent: Edge, edge: Edge) -> None:
    """Remember how a new op differs from what was recorded at the same place before."""
    assert edge.op is not None
    same = siblings(parent, edge)
    if same:
        found = min((differences(edge, e) for e in same), key=len)
    elif parent.parent is None:
        return  # another program from its first step on
    else:
        names = sorted({_name(e) for e in _latest(parent)})
        found = [f"another step than before ({', '.join(names)})"]
    _note(parent, edge, Miss(edge.where, edge.label, edge.op.name, tuple(found)))


def siblings(parent: Edge, edge: Edge) -> list[Edge]:
    """The latest steps that are what this one is, at the same place of other paths."""
    return [e for e in _latest(parent) if e.kind == edge.kind and e.op is edge.op]


def _latest(parent: Edge) -> list[Edge]:
    return list(islice(reversed(parent.children.values()), 1, 1 + _COMPARED))


def note_step(parent: Edge, edge: Edge, key: Any) -> None:
    """The same for a tensor or number that joins."""
    known = [k for k, e in parent.children.items() if e.kind == edge.kind and e is not edge]
    if edge.kind == "mark" or (parent.parent is None and not known):
        return
    where, label = origin.of_caller()
    other = known[-1] if known else None
    if edge.kind == "number":
        found = "a Python number where there was none before"
    elif isinstance(key, TensorType) and isinstance(other, TensorType):
        found = f"a tensor of {_type(key)}, not {_type(other)}"
    else:
        found = "a tensor where there was none before"
    _note(parent, edge, Miss(where, label, "input", (found,)))


def _note(parent: Edge, edge: Edge, miss: Miss) -> None:
    recent.append(miss)
    count = len(parent.children)
    if edge.op is None or count <= MANY or count % 16 != 1:
        return
    same = sum(e.op is edge.op and e.where == edge.where for e in parent.children.values())
    if same > MANY and (miss.where, miss.name) not in _warned:
        _warned.add((miss.where, miss.name))
        _warn(miss, same)


def _warn(miss: Miss, count: int) -> None:
    path, _, line = miss.where.rpartition(":")
    text = (
        f"rushlight: {miss.name} has been recorded in {count} different ways at this line, and "
        f"each is planned anew. Last time: {'; '.join(miss.differences)}. A value that "
        "changes every step should be a tensor, or an operand of arithmetic."
    )
    warnings.warn_explicit(text, UserWarning, path or "unknown", int(line or 0))


def differences(edge: Edge, other: Edge) -> list[str]:
    """How a step differs from another of the same op."""
    assert edge.op is not None
    found = []
    for name, new, old in zip(edge.op.attrs, edge.attrs, other.attrs, strict=True):
        if new != old:
            found.append(f"{name}={new!r}, not {old!r}")
    if len(edge.operands) != len(other.operands):
        found.append(f"{len(edge.operands)} operands, not {len(other.operands)}")
        return found
    for i, (new, old) in enumerate(zip(edge.operands, other.operands, strict=True)):
        found += _operand_difference(f"operand {i + 1}", new, old)
    return found or ["gradients are recorded differently"]


def _operand_difference(name: str, new: Operand, old: Operand) -> list[str]:
    if new.type != old.type:
        return [f"{name} is {_type(new.type)}, not {_type(old.type)}"]
    if new.position != old.position:
        return [f"{name} is another value"]
    if new.view != old.view:
        return [f"{name} is another view of its tensor"]
    return []


def _type(type: TensorType) -> str:
    return f"{type.dtype.name}{list(type.shape)}"


def _name(edge: Edge) -> str:
    return edge.op.name if edge.op is not None else edge.kind
