"""A compiled path: how the leaves, numbers and results of a trace map to a graph's buffers."""

from __future__ import annotations

from rushlight import failures
from rushlight.compiled import CheckFailed, CompiledGraph
from rushlight.loops import interpret
from rushlight.pipeline import (
    Inputs,
    Lowered,
    Request,
    Targets,
    hand_out,
    inputs_of,
    keep_leaves,
)
from rushlight.runtime import buffers
from rushlight.runtime.program import Progress


class NativeProgram:
    """A compiled path, and how a trace's leaves, numbers and results map to its buffers."""

    is_whole = True

    def __init__(self, lowered: Lowered, request: Request) -> None:
        self.lowered = lowered
        fresh = len(request.fresh)
        written = {fresh + i: leaf for i, (_, leaf) in enumerate(request.written)}
        late = {fresh + i for i, (p, _) in enumerate(request.written) if p in request.late}
        results = [
            lowered.results[p] for p in request.fresh + tuple(p for p, _ in request.written)
        ]
        self.graph = CompiledGraph(lowered.k, results, written, late)
        self.leaves = [lowered.leaves[p] for p in self.graph.leaves]
        self.numbers = [lowered.numbers[n.attrs[0]] for n in self.graph.numbers]

    def run(self, trace: Inputs, targets: Targets) -> None:  # hot
        fresh, written, kept = targets
        if kept:
            keep_leaves(targets)
        leaves = trace.leaves
        made = [buffers.Buffer(v.type.nbytes) for v in fresh]
        numbers = trace.numbers
        progress = Progress() if written else None
        try:
            self.graph.run(
                [leaves[i].address for i in self.leaves],
                [numbers[i] for i in self.numbers] if self.numbers else (),
                [b.address for b in made],
                progress,
            )
            hand_out(targets, made)
        except CheckFailed as failed:
            raise failures.error_of(failed.node, inputs_of(self.lowered, trace)) from None
        except interpret.HostFailed as failed:
            raise failures.host_error(failed) from failed.error
        except BaseException as error:  # of the handler of a signal, for example
            if progress is not None:
                if progress.is_done:
                    hand_out(targets, made)
                elif progress.is_begun:
                    raise failures.LeftHalfway(error) from None
            raise
