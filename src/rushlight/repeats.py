"""Where a recorded path repeats itself, so that it can be made of parts that are planned once.

Note: turns. A path holds every step, so a recurrence would be planned anew for each length, and
gradients summed up over many batches for each order of their sizes. Loops are found on paths
that are planned: the same ops, again and again, one turn after the other. A loop that was met
on `OFTEN` paths, or that makes one very long, is worth parts of its own (`Loop.is_known`):
paths are then cut between its turns, where the least is carried from one to the next.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rushlight.ops.registry import Op
from rushlight.trace.trie import Edge
from rushlight.views import numel

OFTEN = 3  # paths that were planned whole
LONG = 3_000  # steps of loops on one path, which takes about a second to plan
SHORTEST = 32  # steps between two cuts
MOST = 1_000  # loops that are kept
FEWEST = 64  # steps of a loop
_TURNS = 3  # that make one
_WINDOW = 8  # steps by which it is seen that something comes again
_DISTANCES = 64  # that are looked at
_BEFORE = 16  # steps before a cut by which its place is known, at most


@dataclass(slots=True)
class Loop:
    """Something that paths do again and again, turn after turn."""

    paths: int = 0  # that were planned with it
    is_known: bool = False  # paths are cut between its turns


Place = tuple[tuple[Op, ...], Op]  # the ops before and after a cut

_loops: dict[tuple[int, frozenset[Op]], Loop] = {}  # by what a turn does
_places: set[Place] = set()  # where turns of known loops end
_lengths: set[int] = set()  # of what is before such a place
_after: set[Op] = set()


def cuts(steps: Sequence[Edge]) -> list[int]:
    """Learn from the ops of a new path; before which of them it is to be cut."""
    ops: list[Op] = [step.op for step in steps]  # type: ignore[misc]  # they are ops
    if len(ops) < FEWEST:
        return []
    _learn(steps, ops)
    found = []
    last = 0
    for i, op in enumerate(ops):
        if op in _after and i - last >= SHORTEST and _ends_at(ops, i):
            found.append(i)
            last = i
    return found


def _ends_at(ops: Sequence[Op], i: int) -> bool:
    return any((tuple(ops[max(i - n, 0) : i]), ops[i]) in _places for n in _lengths)


def forget() -> None:
    """Begin anew, as if no loop had been met."""
    for known in (_loops, _places, _lengths, _after):
        known.clear()


def _learn(steps: Sequence[Edge], ops: Sequence[Op]) -> None:
    if len(_loops) > MOST:
        forget()
    found = list(_repeats(ops))
    is_long = sum(period * turns for _, period, turns in found) >= LONG
    for first, period, turns in found:
        if period * turns < FEWEST:
            continue
        loop = _loops.setdefault((period, frozenset(ops[first : first + period])), Loop())
        loop.paths += 1
        if not loop.is_known and (loop.paths > OFTEN or is_long):
            loop.is_known = True
            i = _least_carried(steps, first, first + turns * period, period)
            before = tuple(ops[i - min(period, _BEFORE) : i])
            _places.add((before, ops[i]))
            _lengths.add(len(before))
            _after.add(ops[i])


def _repeats(ops: Sequence[Op]) -> Iterator[tuple[int, int, int]]:
    """The parts of a sequence that repeat themselves: where each begins, its period, and how
    often it is there. What lies in another that has a shorter period is left out.
    """
    numbers: dict[Op, int] = {}
    kinds = np.array([numbers.setdefault(op, len(numbers)) for op in ops])
    found: list[tuple[int, int]] = []
    for period in _distances(kinds.tolist()):
        is_other = np.flatnonzero(kinds[period:] != kinds[:-period])
        breaks = np.concatenate([[-1], is_other, [len(kinds) - period]])
        is_long = np.diff(breaks) > (_TURNS - 1) * period
        for before, end in zip(breaks[:-1][is_long].tolist(), breaks[1:][is_long].tolist()):
            first, turns = before + 1, (end - before - 1 + period) // period
            last = first + turns * period
            if any(a <= first and last <= b for a, b in found):
                continue
            found.append((first, end + period))
            yield first, period, turns


def _distances(kinds: Sequence[int]) -> list[int]:
    """After how many steps the same few steps come again, the shortest first."""
    last: dict[tuple[int, ...], int] = {}
    distances: Counter[int] = Counter()
    for i in range(len(kinds) - _WINDOW + 1):
        window = tuple(kinds[i : i + _WINDOW])
        if window in last:
            distances[i - last[window]] += 1
        last[window] = i
    return sorted(distance for distance, _ in distances.most_common(_DISTANCES))


def _least_carried(steps: Sequence[Edge], first: int, end: int, period: int) -> int:
    """Before which step of the second turn the fewest elements are waiting for later steps of
    the loop.
    """
    made = {p: i for i in range(first, end) for p in range(steps[i].first, steps[i].next)}
    last_use: dict[int, int] = {}
    for i in range(first, end):
        for operand in steps[i].operands:
            if operand.position in made:
                last_use[operand.position] = i
    changes = np.zeros(end - first + 1, np.int64)
    for position, i in last_use.items():
        begins = made[position]
        size = numel(steps[begins].outs[position - steps[begins].first].shape)
        changes[begins + 1 - first] += size
        changes[i + 1 - first] -= size
    carried = np.cumsum(changes)[period : 2 * period]
    return first + period + int(np.argmin(carried))
