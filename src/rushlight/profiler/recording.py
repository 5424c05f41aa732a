"""What is noted while a profile is open: kernels, flushes, and ranges that the user named.

Note: ranges. Operations run later than they are called, so the time in which a range is open is
not that of its work. A range therefore leaves a mark in the recorded path when it opens and
closes, and a kernel knows the ranges in which its operations were recorded. The marks make a
path of its own: with ranges a profile plans the programs again, but compiles no kernel anew.
"""

from __future__ import annotations

import functools
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from rushlight import compiled
from rushlight.compiled import CompiledGraph
from rushlight.ir.node import Node, view_of
from rushlight.loops.kernel import Launch
from rushlight.profiler.events import FunctionEvent, Interval
from rushlight.runtime.buffers import memory_counters
from rushlight.schedule.fuse import Unit
from rushlight.summaries import computed, summary_of
from rushlight.trace.trace import hooks, local, recording
from rushlight.trace.trie import Edge
from rushlight.views import numel


class Recording:
    """The events of one profile, from `start` to `stop`. One records at a time."""

    def __init__(self) -> None:
        self.events: list[FunctionEvent] = []
        self._known: weakref.WeakKeyDictionary[CompiledGraph, list[_Item]] = (
            weakref.WeakKeyDictionary()
        )
        self._execute: Callable[..., None] | None = None

    def start(self) -> None:
        """Begin to note what runs, after what is pending has run."""
        global current
        if current is not None:
            raise RuntimeError(
                "Profiler is already enabled on this thread: only one profile records at a time"
            )
        local.trace.flush()
        self._execute = hooks.execute
        hooks.execute = self._flush
        compiled.run_watched = self._run
        current = self

    def stop(self) -> None:
        """Run what is pending, and note no more."""
        if current is not self:
            return
        try:
            local.trace.flush()
        finally:  # what is pending may fail; the next profile is to work
            self.end()

    def end(self) -> bool:
        """Note no more from here on; whether anything was being noted."""
        global current
        if current is not self:
            return False
        hooks.execute = self._execute  # type: ignore[assignment]  # it was kept by start
        compiled.run_watched = None
        current = None
        return True

    def note(self, name: str, begin: int, end: int, **fields: Any) -> None:
        """Add an event, from times in nanoseconds."""
        interval = Interval(begin / 1e3, end / 1e3)
        self.events.append(FunctionEvent(name, interval, threading.get_ident(), **fields))

    def _flush(self, trace: Any, edge: Edge, alive: list[Any]) -> None:
        before = memory_counters().in_use
        begin = time.perf_counter_ns()
        try:
            assert self._execute is not None
            self._execute(trace, edge, alive)
        finally:
            grown = memory_counters().in_use - before
            self.note("flush", begin, time.perf_counter_ns(), cpu_memory_usage=grown)

    def _run(self, graph: CompiledGraph, table: Sequence[int]) -> None:
        known = self._known.get(graph)
        if known is None:
            known = self._known[graph] = _items(graph)

        def note(number: int, begin: int, end: int) -> None:
            item = known[number]
            self.note(item.name, begin, end, **item.fields)

        graph.program.run_timed(table, note)


current: Recording | None = None


class _Item:
    """What to say of a launch or a call of NumPy each time that it runs."""

    def __init__(self, name: str, **fields: Any) -> None:
        self.name = name
        self.fields = fields


def _items(graph: CompiledGraph) -> list[_Item]:
    """For each item of a program: the operations in it, their lines, shapes and work."""
    made = [_Item("check", is_kernel=True)] * len(graph.items)
    steps = [_steps(unit) for unit in graph.units]
    ranges = _ranges_of(set().union(*steps))
    kernels = summary_of(graph).kernels
    for unit, own, kernel, numbers in zip(graph.units, steps, kernels, graph.made, strict=True):
        launches = [n for n in numbers if isinstance(graph.items[n], Launch)] or list(numbers)
        for n in launches:
            made[n] = _Item(
                " + ".join(dict.fromkeys(kernel.ops)) or "copy",
                is_kernel=True,
                form=kernel.form,
                stack=list(kernel.where),
                input_shapes=[list(node.shape) for node in _inputs(unit)],
                flops=_flops(unit) // len(launches),
                nbytes=(kernel.bytes_read + kernel.bytes_written) // len(launches),
                ranges=tuple(dict.fromkeys(name for step in own for name in ranges[step])),
            )
    return made


def _inputs(unit: Unit) -> list[Node]:
    return sorted(unit.reads, key=lambda node: node.number)


def _flops(unit: Unit) -> int:
    """Multiplications and additions of a unit that multiplies matrices."""
    node = unit.epilogue_of or unit.single
    if node is None or node.op != "contract":
        return 0
    batch, rows, _, _ = node.attrs
    return 2 * node.numel * numel(view_of(node.args[0]).shape[batch + rows :])


def _steps(unit: Unit) -> set[Edge]:
    """The recorded steps that a unit computes."""
    return {node.origin for node in computed(unit) if node.origin is not None}


def _ranges_of(steps: set[Edge]) -> dict[Edge, tuple[str, ...]]:
    """The ranges that were open when each step of a path was recorded, the outermost first."""
    found: dict[Edge, tuple[str, ...]] = {}
    opened: list[str] = []
    for edge in max(steps, key=lambda step: step.next).path() if steps else ():
        match edge.attrs if edge.kind == "mark" else ():
            case ("range opens", name):
                opened.append(name)
            case ("range closes", name):
                opened.reverse()
                opened.remove(name)
                opened.reverse()
        if edge in steps:
            found[edge] = tuple(opened)
    return found


class record_function:
    """A range with a name: as a context, or around a function. Costs nothing without a profile.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("forward"):
    ...         y = torch.ones(8, 8).exp()
    >>> [average.key for average in prof.key_averages() if average.is_user_annotation]
    ['forward']
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._open: list[tuple[Recording, int]] = []

    def __enter__(self) -> record_function:
        if not isinstance(self.name, str):
            kind = type(self.name).__name__
            raise RuntimeError(f"record_function: expected a name that is a str, got {kind}")
        if current is not None:
            with recording:
                local.trace.open_range(self.name)
            self._open.append((current, time.perf_counter_ns()))
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._open:
            return
        session, begin = self._open.pop()
        with recording:
            local.trace.close_range(self.name)
        session.note(self.name, begin, time.perf_counter_ns(), is_user_annotation=True)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ranged(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return ranged
