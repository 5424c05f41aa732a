"""The beginning and the end of a batch of `vmap`, and which batches there are.

Note: batches. Inside `vmap` a tensor stands for one sample of a batch, and the type of its
value names the batches (`TensorType.levels`). Nothing else knows: views, derivatives and
in-place writes are those of a sample, a step is found in the trie as always, and only its
lowering is made over all samples (`ir/batch.py`). A batch has a number, which is part of types
and so of paths: calls of the same function should use the same one. It is free again when
`vmap` is done and no gradient can come back into the batch any more.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any  # tensors and gradient nodes

from rushlight import dtypes as dt
from rushlight import errors, tree
from rushlight.ops.registry import LevelOp, Levels, TensorType


@dataclass(frozen=True, slots=True)
class Batch:
    """One call of `vmap` that is running."""

    number: int
    size: int
    randomness: str  # 'error', 'different' or 'same'

    @property
    def level(self) -> tuple[int, int]:
        return self.number, self.size


class _Active(threading.local):
    def __init__(self) -> None:
        self.batches: list[Batch] = []  # the innermost last
        self.noted: list[int] | None = None  # numbers of the batches that begin
        self.repeated: Iterator[int] = iter(())  # numbers that the next ones have


active = _Active()
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # another thread of the parent may have held it
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]
_running: list[int] = []  # numbers of all threads
_edges: dict[int, list[weakref.ref[Any]]] = {}  # gradient nodes that lead into a batch
_begun: dict[int, int] = {}  # the first gradient node that can be inside


@contextlib.contextmanager
def batch_of(size: int, randomness: str, sequence: int) -> Iterator[Batch]:
    """Run the body for every sample; gradient nodes from `sequence` on are inside."""
    number = next(active.repeated, None)
    with _lock:
        if number is None:
            number = 0
            while number in _running or _is_reachable(number):
                number += 1
            _begun[number] = sequence
        _running.append(number)
    if active.noted is not None:
        active.noted.append(number)
    batch = Batch(number, size, randomness)
    active.batches.append(batch)
    try:
        yield batch
    finally:
        active.batches.pop()
        with _lock:
            _running.remove(number)


@contextlib.contextmanager
def noting(numbers: list[int]) -> Iterator[None]:
    """Add the numbers of the batches that begin in the body."""
    before, active.noted = active.noted, numbers
    try:
        yield
    finally:
        active.noted = before
        if before is not None:
            before += numbers


@contextlib.contextmanager
def repeating(numbers: list[int]) -> Iterator[None]:
    """Give the batches of the body the numbers that they had when it was first run: what it
    computes again takes the place of what was computed then.
    """
    before, active.repeated = active.repeated, iter(list(numbers))
    try:
        yield
    finally:
        active.repeated = before


@contextlib.contextmanager
def outside() -> Iterator[Batch]:
    """Run the body outside of the innermost batch."""
    batch = active.batches.pop()
    try:
        yield batch
    finally:
        active.batches.append(batch)


def _is_reachable(number: int) -> bool:
    nodes = [n for n in (r() for r in _edges.get(number, ())) if n is not None and not n.freed]
    _edges[number] = [weakref.ref(n) for n in nodes]
    return bool(nodes)


def _crossing(number: int, out: Any) -> Any:
    """Note the gradient node of a tensor that was taken into a batch or out of it."""
    if out._node is not None:
        with _lock:
            _edges.setdefault(number, []).append(weakref.ref(out._node))
    return out


# -- into a batch and out of it


def _enter_type(x: TensorType, number: int, dim: int) -> TensorType:
    shape = x.shape[:dim] + x.shape[dim + 1 :]
    return TensorType(shape, x.dtype, False, tuple(sorted((*x.levels, (number, x.shape[dim])))))


def _leave_type(x: TensorType, level: tuple[int, int], dim: int) -> TensorType:
    rest = tuple([found for found in x.levels if found != level])
    return TensorType((*x.shape[:dim], level[1], *x.shape[dim:]), x.dtype, False, rest)


ENTER = LevelOp(  # samples along a dimension
    "enter_batch",
    attrs=("number", "dim"),
    type=_enter_type,
    lower=lambda k, x, number, dim: k.enter(x, number, dim),
    vjp=lambda g, out, x, number, dim: leave(g, (number, x.shape[dim]), dim),
    jvp=lambda tangents, out, x, number, dim: enter(tangents[0], number, dim),
)
LEAVE = LevelOp(  # all samples, along a new dimension
    "leave_batch",
    attrs=("level", "dim"),
    type=_leave_type,
    lower=lambda k, x, level, dim: k.leave(x, level, dim),
    vjp=lambda g, out, x, level, dim: enter(g, level[0], dim),
    jvp=lambda tangents, out, x, level, dim: leave(tangents[0], level, dim),
)
SPREAD = LevelOp(  # the same for every sample of more batches
    "spread_batch",
    attrs=("levels",),
    type=lambda x, levels: x.at(tuple(sorted({*x.levels, *levels}))),
    lower=lambda k, x, levels: k.repeat(x, levels),
    vjp=lambda g, out, x, levels: g,  # the engine sums it where that is due
    jvp=lambda tangents, out, x, levels: tangents[0],
)
SUM = LevelOp(  # the sum of all samples
    "sum_batch",
    attrs=("level",),
    type=lambda x, level: x.at(tuple([found for found in x.levels if found != level])),
    lower=lambda k, x, level: k.total(x, level),
    vjp=lambda g, out, x, level: g,
    jvp=lambda tangents, out, x, level: SUM(tangents[0], level=level),
)
COUNT = LevelOp(  # where in a stream of random numbers each sample draws
    "count_batch",
    attrs=("level", "count"),
    type=lambda first, level, count: TensorType(
        (), dt.int64, False, tuple(sorted((*first.levels, level)))
    ),
    lower=lambda k, first, level, count: (
        k.enter(k.iota((level[1],), 0) * k.extent(count), level[0], 0) + k.cast(first, dt.int64)
    ),
    vjp=None,
)


def enter(x: Any, number: int, dim: int) -> Any:
    """A tensor that stands for one slice of x along `dim`."""
    return _crossing(number, ENTER(x, number=number, dim=dim))


def leave(x: Any, level: tuple[int, int], dim: int) -> Any:
    """All samples of x along a new dimension; equal ones if x is not in that batch."""
    return _crossing(level[0], LEAVE(x, level=level, dim=dim))


# -- what is in which batch


def levels_of(x: Any) -> Levels:
    """The batches that a tensor is a sample of."""
    found: Levels = x._storage.value.type.levels
    return found


def spread_like(x: Any, *like: Any) -> Any:
    """x as a sample of every batch that one of `like` is in."""
    levels = {level for other in like for level in levels_of(other)}
    if not levels <= set(levels_of(x)):
        return SPREAD(x, levels=tuple(sorted(levels)))
    return x


def summed(g: Any, node: Any) -> Any:
    """A gradient of a node, summed over the batches that have samples only after it."""
    inside = {b.number for b in active.batches}
    for level in levels_of(g):
        if level[0] not in inside and node.sequence < _begun[level[0]]:
            g = SUM(g, level=level)
    return g


def check_stays(grad: Any, tensor: Any) -> None:
    """Raise for a gradient of each sample that a tensor from outside of the batch would get."""
    node = tensor._node
    if node is not None and any(node.sequence < _begun[n] for n, _ in levels_of(grad)):
        raise errors.backward_in_vmap(tensor._shape)


def whole(x: Any) -> Any:
    """All samples of a tensor, the batches as its first dimensions."""
    for level in reversed(levels_of(x)):
        x = leave(x, level, 0)
    return x


# -- functions that read elements


def refuse_sizes(op: str, *operands: Any) -> None:
    """Raise for an op whose result would have another shape for each sample."""
    if any(levels_of(x) for x in operands):
        raise errors.batched_dynamic_shape(op)


def by_sample(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that reads what it is given: inside `vmap` it is called for each sample."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if not active.batches:
            return function(*args, **kwargs)
        leaves, structure = tree.flatten((args, kwargs))
        levels = sorted({v for x in leaves if hasattr(x, "_storage") for v in levels_of(x)})
        if not levels:
            return function(*args, **kwargs)
        return _joined(inner, leaves, structure, levels[-1])

    return inner


def _joined(
    function: Callable[..., Any], leaves: list[Any], structure: Any, level: tuple[int, int]
) -> Any:
    """The results of calls for each sample of a batch, as samples of it."""
    from rushlight.ir.batch import warn_of_loop  # only inside of vmap
    from rushlight.ops.joining import stack  # a later family

    warn_of_loop(function.__name__, "")
    apart = [
        leave(x, level, 0).unbind(0)
        if hasattr(x, "_storage") and level in levels_of(x)
        else [x] * level[1]
        for x in leaves
    ]
    made = []
    for own in zip(*apart, strict=True):
        args, kwargs = tree.unflatten(list(own), structure)
        made.append(tree.flatten(function(*args, **kwargs)))
    columns = zip(*(found for found, _ in made), strict=True)
    joined = [enter(stack(parts), level[0], 0) for parts in columns]
    return tree.unflatten(joined, made[0][1])


# -- random numbers


def drawing() -> list[Batch]:
    """The batches whose samples draw numbers of their own."""
    for batch in active.batches:
        if batch.randomness == "error":
            raise errors.random_in_vmap()
    return [b for b in active.batches if b.randomness == "different"]


def counters(first: int, count: int, batches: list[Batch]) -> Any:
    """Where each sample draws `count` numbers of a stream that begins at `first`."""
    start: Any = first
    for batch in reversed(batches):
        start = COUNT(start, level=batch.level, count=count)
        count *= batch.size
    return start
