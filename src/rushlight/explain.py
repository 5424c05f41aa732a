"""Why these kernels, this memory, this recompilation: in a user's words.

`explain(t)` shows the program that a pending tensor waits for, without running it;
`explain(function, ...)` calls the function and shows the programs that ran; `explain.misses()`
lists recent steps that left the known paths.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any  # users' functions and their arguments

from rushlight import compiled, pipeline
from rushlight.summaries import Summary, summary_of
from rushlight.tensor import Tensor
from rushlight.trace import misses
from rushlight.trace.trace import hooks, local
from rushlight.trace.trie import Edge


@dataclass(slots=True)
class Explanation:
    """The programs behind a tensor or a call, printed in full by `print`."""

    programs: list[Summary] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    misses: list[misses.Miss] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [str(p) for p in self.programs] + self.notes
        if self.misses:
            parts.append("recorded for the first time here:")
            parts += [f"      {m}" for m in self.misses]
        c = compiled.kernels.counters
        parts.append(
            f"this process: {c.kernels} kernels compiled and {c.disk_hits} found on disk, in "
            f"{c.seconds:.2f} s"
        )
        return "\n".join(parts)

    __repr__ = __str__


class Explain:
    """`explain(t)`, `explain(function, *args)` and `explain.misses()`."""

    def __call__(
        self, subject: Tensor | Callable[..., Any], *args: Any, **named: Any
    ) -> Explanation:
        """The kernels that a pending tensor waits for, or that a call ran."""
        if isinstance(subject, Tensor):
            return _of_tensor(subject)
        if callable(subject):
            return _of_call(subject, args, named)
        raise TypeError(
            f"explain: expected a tensor or a function, got {type(subject).__name__}"
        )

    @staticmethod
    def misses() -> list[misses.Miss]:
        """Recent steps that differed from what was recorded at the same place, oldest first."""
        return list(misses.recent)


explain = Explain()


def _of_tensor(t: Tensor) -> Explanation:
    value = t._storage.value
    trace = value.trace
    if value.buffer is not None or trace is None:
        return Explanation(notes=["already computed: no kernels are waiting"])
    if value.error is not None:
        return Explanation(notes=[f"failed: {value.error}"])
    alive = [v for v in (r() for r in trace.live) if v is not None]
    request, _ = pipeline.request_of(trace, alive)
    return Explanation(_summaries(pipeline.program_of(trace.edge, request)))


def _of_call(function: Callable[..., Any], args: Any, named: Any) -> Explanation:
    local.trace.flush()
    found = Explanation()
    execute = hooks.execute
    before = list(misses.recent)

    def watch(trace: Any, edge: Edge, alive: list[Any]) -> None:
        request, _ = pipeline.request_of(trace, alive)
        execute(trace, edge, alive)
        if edge.programs is not None and request in edge.programs:
            found.programs += _summaries(edge.programs[request])

    hooks.execute = watch
    try:
        kept = function(*args, **named)  # alive until the flush: its results are wanted
        local.trace.flush()
        del kept
    finally:
        hooks.execute = execute
    known = set(map(id, before))
    found.misses = [m for m in misses.recent if id(m) not in known]
    return found


def _summaries(program: Any) -> list[Summary]:
    if not program.is_whole:
        return [summary_of(part.program.graph) for part in program.parts]
    graph = getattr(program, "graph", None)  # the reference backend has none
    return [] if graph is None else [summary_of(graph)]
