"""One library in a process of its own, running single operations when told to.

    python -m benchmarks.operation_player LIBRARY [--threads N] [--seconds S]

Each line on stdin is a number of elements and an operation's name; the answer is one line of
JSON. The first time it is about the start: the bytes and the work of a call, and sums of its
results. After that it is the seconds a call took, the best of those that fit in the time of a
turn. A call is timed until its results are in memory.

Small operations are timed as user code meets them, many in a row: each takes the result of the
one before it where that is of the same kind (a chain), and otherwise tensors of its own; what
is not handed on is kept, and everything is in memory at the end.

With one thread the clock is that thread's own time, which other processes do not lengthen.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.contender import say
from benchmarks.operations import OPERATIONS, SMALL, Operation, Tensor, Torch
from benchmarks.probe import best, realise

CALLS = 20  # small operations in a row
SEED = 7


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="the module in torch's place")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.05, help="of a turn")
    return parser.parse_args()


def results_of(value: Any) -> Sequence[Tensor]:
    return value if isinstance(value, tuple | list) else (value,)


def realise_all(value: Any) -> None:
    for tensor in results_of(value):
        realise(tensor)


class Case:
    """An operation at one size: its tensors, and what is timed."""

    def __init__(self, torch: Torch, op: Operation, size: int) -> None:
        self.torch, self.op = torch, op
        self.rng = np.random.default_rng(SEED)
        self.size = size
        self.inputs = self.new_inputs()
        self.is_small = size <= SMALL
        self.calls = CALLS if self.is_small else 1

    def new_inputs(self) -> list[Tensor]:
        made = [make(self.torch, self.rng, self.size) for make in self.op.inputs]
        realise_all(made)
        return made

    def start(self) -> dict[str, Any]:
        """Run once; what the call moves and computes, and what came out, as plain numbers."""
        results = results_of(self.op.run(self.torch, *self.inputs))
        realise_all(results)
        self.run = self.timed(results)
        memory = {t.data_ptr(): t.numel() * t.element_size() for t in [*self.inputs, *results]}
        return {
            "bytes": sum(memory.values()),  # what is read and written in place counts once
            "flops": self.op.flops(*self.inputs) if self.op.flops else 0,
            "sums": [t.detach().double().abs().sum().item() for t in results],
        }

    def timed(self, results: Sequence[Tensor]) -> Callable[[], None]:
        if not self.is_small:
            return self.single
        first = self.inputs[0]
        is_chain = (
            len(results) == 1
            and (results[0].shape, results[0].dtype) == (first.shape, first.dtype)
            and not any(t.requires_grad for t in self.inputs)
        )
        if is_chain:
            return self.chain
        self.sets = [self.new_inputs() for _ in range(CALLS)]
        return self.row

    def single(self) -> None:
        realise_all(self.op.run(self.torch, *self.inputs))

    def chain(self) -> None:
        torch, run = self.torch, self.op.run
        x, *others = self.inputs
        for _ in range(CALLS):
            x = run(torch, x, *others)
        realise(x)

    def row(self) -> None:
        torch, run = self.torch, self.op.run
        kept = [run(torch, *tensors) for tensors in self.sets]
        for result in kept:
            realise_all(result)


def main() -> None:
    options = arguments()
    torch = importlib.import_module(options.library)
    torch.set_num_threads(options.threads)
    clock = time.thread_time if options.threads == 1 else time.perf_counter
    asked, case = "", None
    for line in sys.stdin:
        if case is None or line != asked:
            size, _, name = line.strip().partition(" ")
            asked, case = line, Case(torch, OPERATIONS[name], int(size))
            say(**case.start())
        else:
            fastest = best(case.run, seconds=options.seconds, least=3, clock=clock)
            say(seconds=fastest / case.calls)


if __name__ == "__main__":
    main()
