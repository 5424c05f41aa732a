"""Small measurements of one library in a process of its own, answered as one line of JSON.

    python -m benchmarks.probe LIBRARY WHAT [--threads N]      WHAT: import record matmul chain

Times are the best of many short runs: noise on a shared machine only ever adds.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Callable
from typing import Any

Torch = Any  # the library under test

SIZES = (64, 128, 256, 512, 1024, 2048)
CHAIN_BYTES = 64 << 20


def best(
    run: Callable[[], object],
    *,
    seconds: float = 0.4,
    least: int = 5,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Seconds, by `clock`, of the fastest of the runs that fit in `seconds`, after one to warm
    up.
    """
    run()
    fastest, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < least or time.perf_counter() < end:
        before = clock()
        run()
        fastest = min(fastest, clock() - before)
        runs += 1
    return fastest


def realise(tensor: Any) -> None:
    """Have the value computed where it is lazy; costs nothing elsewhere, and copies nothing."""
    tensor.data_ptr()


def probe_record(torch: Torch) -> dict[str, float]:
    """Microseconds of Python per operation on 8 x 8, without the work that follows at a flush.

    For a library that does not record, this is the whole operation: the user's loop pays
    either.
    """
    x, w = torch.ones(8, 8), torch.ones(8, 8, requires_grad=True)

    def adds(y: Any) -> Any:
        for _ in range(120):
            y = y + x
        return y

    def mixed(y: Any) -> Any:
        for _ in range(20):
            y = (y @ x).relu() * x - y.mean(dim=1, keepdim=True).exp()
        return y

    def microseconds(chain: Callable[[Any], Any], start: Any, ops: int) -> float:
        realise(chain(start))  # the miss path, once
        fastest = float("inf")
        for _ in range(60):
            before = time.perf_counter()
            y = chain(start)
            fastest = min(fastest, time.perf_counter() - before)
            realise(y.detach())
        return fastest / ops * 1e6

    return {
        "add": microseconds(adds, x, 120),
        "add, with gradients": microseconds(adds, w, 120),
        "matmul relu mul mean exp sub": microseconds(mixed, x, 120),
    }


def probe_matmul(torch: Torch) -> dict[str, dict[str, float]]:
    """GF/s by dtype and size of square products."""
    rates: dict[str, dict[str, float]] = {}
    for dtype in (torch.float32, torch.bfloat16):
        row = rates.setdefault(str(dtype).removeprefix("torch.").rpartition(".")[2], {})
        for size in SIZES:
            a, b = (torch.randn(size, size).to(dtype) for _ in range(2))
            row[str(size)] = 2 * size**3 / best(lambda a=a, b=b: realise(a @ b)) / 1e9
    return rates


def numpy_matmul() -> dict[str, dict[str, float]]:
    import numpy as np  # here, where it is the library under test

    row = {}
    for size in SIZES:
        a, b = (np.random.default_rng(0).random((size, size), np.float32) for _ in range(2))
        row[str(size)] = 2 * size**3 / best(lambda a=a, b=b: a @ b) / 1e9
    return {"float32": row}


def probe_chain(torch: Torch) -> dict[str, float]:
    """GB/s (one read, one write) of six element-wise operations on 64 MiB, and of a copy."""
    x, out = torch.randn(CHAIN_BYTES // 4), torch.empty(CHAIN_BYTES // 4)

    def chain() -> None:
        realise(((x * 1.5 + 0.25).clamp(min=-1.0) * x - 0.5).abs())

    def copy() -> None:
        out.copy_(x)
        realise(out)

    moved = 2 * CHAIN_BYTES / 1e9
    return {"chain of 6": moved / best(chain), "copy": moved / best(copy)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library")
    parser.add_argument("what", choices=["import", "record", "matmul", "chain"])
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    before = time.perf_counter()
    library = importlib.import_module(options.library)
    seconds = time.perf_counter() - before
    if options.what == "import":
        answer: Any = {"seconds": seconds, "modules": len(sys.modules)}
    elif options.library == "numpy":
        answer = numpy_matmul()
    else:
        library.set_num_threads(options.threads)
        probes = {"record": probe_record, "matmul": probe_matmul, "chain": probe_chain}
        answer = probes[options.what](library)
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
