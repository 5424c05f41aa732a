"""Sizes that vary from step to step, and the parts of a program that they touch.

Note: varying sizes. A path holds every size, so a loop over data that grows (a cache of keys
and values, say) would plan a new program each time, though most of it is what it was. Where
steps at one place of the paths differ in one size, again and again, that size is known to vary
(`note`). From then on a program ends before the first step that the size touches, and the next
one before the first step that it does not touch: what is steady is found again, and only the
rest is planned. This is done where nothing records gradients; where something does, a program
ends before the optimizer's step if it is new. Values do not depend on where a program ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any  # keys of any kind

from rushlight.ops.registry import TensorType

OFTEN = 4  # different sizes at one place of a path
MOST = 10_000  # kinds of types that are kept
NONE: frozenset[int] = frozenset()
_TOUCHED = frozenset((-1,))  # no size of any type

_kinds: set[Any] = set()  # dtype, axis, and the other sizes
_sizes: dict[TensorType, frozenset[int]] = {}  # of types that were asked about


def forget() -> None:
    """Begin anew, as if no size had varied."""
    _kinds.clear()
    _sizes.clear()


def is_known() -> bool:
    """Whether any size is known to vary."""
    return bool(_kinds)


def sizes_of(type: TensorType) -> frozenset[int]:  # hot
    """Those sizes of a type that vary."""
    found = _sizes.get(type)
    if found is None:
        shape = type.shape if _may_vary(type) else ()
        found = frozenset([n for i, n in enumerate(shape) if _kind(type, i) in _kinds])
        if len(_sizes) >= MOST:
            _sizes.clear()
        _sizes[type] = found
    return found


def note(types: Sequence[TensorType], others: Iterable[Sequence[TensorType]]) -> None:
    """Learn from the types of a step, and those of other steps at the same place."""
    alike = [o for o in others if len(o) == len(types)]
    if len(alike) + 1 < OFTEN:
        return
    for i, type in enumerate(types):
        if _may_vary(type):
            _note_one(type, {o[i] for o in alike})


def _note_one(type: TensorType, others: set[TensorType]) -> None:
    for axis in range(len(type.shape)):
        kind = _kind(type, axis)
        sizes = {
            o.shape[axis] for o in others if len(o.shape) > axis and _kind(o, axis) == kind
        }
        if len(sizes | {type.shape[axis]}) >= OFTEN:
            if len(_kinds) >= MOST:
                _kinds.clear()
            _kinds.add(kind)
            _sizes.clear()


def _may_vary(type: TensorType) -> bool:
    """One dimension of numbers says too little: every bias would be of its kind."""
    is_telling = len(type.shape) > 1 or type.dtype.is_integral
    return is_telling and not type.weak and not type.levels


def _kind(type: TensorType, axis: int) -> Any:
    shape = type.shape
    return type.dtype, axis, shape[:axis], shape[axis + 1 :]


def touching(types: Iterable[TensorType], before: frozenset[int] = NONE) -> frozenset[int]:
    """The varying sizes that a step of these types has to do with, where those in `before` vary
    already; none if it has to do with none.
    """
    found: set[int] = set()
    is_touched = False
    for type in types:
        found |= sizes_of(type)
        is_touched = is_touched or not before.isdisjoint(type.shape)
    if not found and not is_touched:
        return NONE
    return before | (found - {1}) | _TOUCHED  # a size of 1 is nearly everywhere
