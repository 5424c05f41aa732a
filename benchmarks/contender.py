"""One library in a process of its own, training one workload when told to.

    python -m benchmarks.contender LIBRARY WORKLOAD [--threads N] [--compile] [--autocast]

Each line on stdin is a number of steps; the answer on stdout is one line of JSON with the
seconds they took. The last step's loss is read, as a training loop that logs every tenth step
would. The first line of output, before any question, tells about the start: seconds to import,
seconds of the first step, losses of the first steps. After the last question comes the peak of
resident memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import resource
import sys
import time
from typing import Any

START_LOSSES = 5


def peak_mib() -> float:
    """The largest resident set this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", help="the module in torch's place: torch, rushlight or jax")
    parser.add_argument("workload")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 autocast")
    return parser.parse_args()


def start(options: argparse.Namespace) -> tuple[Any, float]:
    """The step function, and the seconds that importing its library took."""
    before = time.perf_counter()
    if options.library == "jax":
        from benchmarks import jax_peer  # JAX is optional, and reads its flags when imported

        return jax_peer.training_step(options.workload), time.perf_counter() - before
    torch = importlib.import_module(options.library)
    import_seconds = time.perf_counter() - before
    from benchmarks.workloads import training_step  # NumPy's own import is not the library's

    torch.set_num_threads(options.threads)
    return training_step(
        torch, options.workload, compiled=options.compile, autocast=options.autocast
    ), import_seconds


def main() -> None:
    step, import_seconds = start(arguments())
    base = peak_mib()
    before = time.perf_counter()
    losses = [step().item()]
    first_step = time.perf_counter() - before
    losses += [step().item() for _ in range(START_LOSSES - 1)]
    say(import_s=import_seconds, first_step_s=first_step, losses=losses)
    for line in sys.stdin:
        step()  # untimed: threads wake, caches fill again after the other library's turn
        before = time.perf_counter()
        for _ in range(int(line)):
            loss = step()
        loss.item()
        say(seconds=time.perf_counter() - before)
    say(peak_mib=peak_mib(), before_mib=base)


if __name__ == "__main__":
    main()
