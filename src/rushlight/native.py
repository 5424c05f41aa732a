"""A compiled path: how the leaves, numbers and results of a trace map to a graph's buffers."""

from __future__ import annotations

from typing import Any  # buffers

from rushlight import errors
from rushlight.compiled import CheckFailed, CompiledGraph
from rushlight.pipeline import Lowered, Request, Targets, keep_leaves
from rushlight.runtime import buffers
from rushlight.trace.record import Trace


class NativeProgram:
    """A compiled path, and how a trace's leaves, numbers and results map to its buffers."""

    def __init__(self, lowered: Lowered, request: Request) -> None:
        fresh = len(request.fresh)
        written = {fresh + i: leaf for i, (_, leaf) in enumerate(request.written)}
        late = {fresh + i for i, (p, _) in enumerate(request.written) if p in request.late}
        results = [
            lowered.results[p] for p in request.fresh + tuple(p for p, _ in request.written)
        ]
        self.graph = CompiledGraph(lowered.k, results, written, late)
        self.leaves = [lowered.leaves[p] for p in self.graph.leaves]
        self.numbers = [lowered.numbers[n.attrs[0]] for n in self.graph.numbers]
        self.fresh_units = [self.graph.unit_of.get(h, -1) for h in self.graph.homes[:fresh]]

    def run(self, trace: Trace, targets: Targets) -> None:  # hot
        if targets.kept:
            keep_leaves(targets)
        leaves = trace.leaves
        made = [buffers.Buffer(v.type.nbytes) for v in targets.fresh]
        numbers = trace.numbers
        try:
            self.graph.run(
                [leaves[i].address for i in self.leaves],
                [numbers[i] for i in self.numbers],
                [b.address for b in made],
            )
        except CheckFailed as failed:
            self._keep_finished(targets, made, failed.unit)
            step = failed.node.origin
            raise errors.index_out_of_range(step.op.name, step.where, step.label) from None
        for value, buffer in zip(targets.fresh, made, strict=True):
            value.buffer = buffer
        for value, home in targets.written:
            value.buffer = home
            value.claimed = True

    def _keep_finished(self, targets: Targets, made: list[Any], failed: int) -> None:
        for value, buffer, unit in zip(targets.fresh, made, self.fresh_units, strict=True):
            if unit < failed:
                value.buffer = buffer
