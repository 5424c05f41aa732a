"""Micro-benchmarks, each in fresh processes: import, recording, matmul, fusion, first steps.

python -m benchmarks.micro [--library rushlight] [--vs torch] [--threads 2]
"""

from __future__ import annotations

import argparse
import functools
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from benchmarks.tables import figure, ratio, table
from benchmarks.turns import Contender, Player, environment

# On some machines these are set to tie OpenBLAS to the kernels of an older processor, which
# would flatter everybody who is compared with NumPy.
SLOW_OPENBLAS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")


@functools.cache
def probe(library: str, what: str, threads: int) -> Any:
    """What `benchmarks.probe` answers in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.probe", library, what, "--threads"]
    env = environment()
    if library == "numpy":
        env = {name: value for name, value in env.items() if name not in SLOW_OPENBLAS}
        env["OPENBLAS_NUM_THREADS"] = str(threads)
    done = subprocess.run([*command, str(threads)], env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"probe {library} {what}: {done.stderr.splitlines()[-1:]}")
    return json.loads(done.stdout)


def peak_flops(vs: str, threads: int) -> float:
    """The best float32 rate that an existing library reaches here: what floors are made of."""
    rates = [probe(name, "matmul", threads)["float32"] for name in ("numpy", vs)]
    return max(max(rate.values()) for rate in rates) * 1e9


def import_seconds(library: str) -> float:
    probe_once = probe.__wrapped__  # each a fresh process, so no answer is remembered
    return min(probe_once(library, "import", 1)["seconds"] for _ in range(5))


def first_steps(library: str, threads: int) -> dict[str, float]:
    """Seconds of `gpt_6x256`'s first step with an empty and with a filled kernel cache."""
    contender = Contender(library, library)
    with tempfile.TemporaryDirectory() as folder:
        env = {"RUSHLIGHT_CACHE_DIR": folder}
        results = [Player(contender, "gpt_6x256", threads, env).finish() for _ in range(3)]
    cold, *warm = (result.first_step_s for result in results)
    return {"cold": cold, "warm": min(warm)}


def measure(library: str, vs: str, threads: int) -> dict[str, Any]:
    """Everything, by measurement and library."""
    both = (library, vs)
    return {
        "libraries": list(both),
        "import_s": {name: import_seconds(name) for name in (*both, "numpy")},
        "record_us": {name: probe(name, "record", threads) for name in both},
        "matmul_gflops": {name: probe(name, "matmul", threads) for name in (*both, "numpy")},
        "bandwidth_gb_s": {name: probe(name, "chain", threads) for name in both},
        "first_step_s": {name: first_steps(name, threads) for name in both},
    }


def by_library(title: str, values: dict[str, dict[str, float]], both: list[str]) -> str:
    ours, peer = both
    rows = [
        [key, figure(value), figure(values[peer][key]), ratio(value / values[peer][key])]
        for key, value in values[ours].items()
    ]
    return table([title, *both, f"{ours}/{peer}"], rows)


def matmul_rows(values: dict[str, Any], both: list[str]) -> Iterator[list[str]]:
    ours, peer = both
    for dtype, rates in values[ours].items():
        for size, rate in rates.items():
            theirs, numpys = values[peer][dtype][size], values["numpy"].get(dtype, {}).get(size)
            against_numpy = numpys and rate / numpys
            cells = [rate, theirs, numpys]
            ratios = [ratio(rate / theirs), ratio(against_numpy)]
            yield [f"{dtype} {size}^3", *(figure(cell) for cell in cells), *ratios]


def text(found: dict[str, Any]) -> str:
    both = found["libraries"]
    ours, peer = both
    imports = [[name, figure(value)] for name, value in found["import_s"].items()]
    bandwidth = found["bandwidth_gb_s"]
    copy = max(bandwidth[name]["copy"] for name in both)
    share = bandwidth[ours]["chain of 6"] / copy
    head = ["matmul, GF/s", ours, peer, "numpy", f"/{peer}", "/numpy"]
    parts = [
        table(["import", "s"], imports),
        by_library("recording or running an op, us", found["record_us"], both),
        table(head, list(matmul_rows(found["matmul_gflops"], both))),
        by_library("element-wise on 64 MiB, GB/s", bandwidth, both),
        f"{ours}'s chain of 6 at {share:.2f} of the better copy's bandwidth",
        by_library("first step of gpt_6x256, s", found["first_step_s"], both),
    ]
    return "\n\n".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro")
    parser.add_argument("--library", default="rushlight")
    parser.add_argument("--vs", default="torch")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    print(text(measure(options.library, options.vs, options.threads)))


if __name__ == "__main__":
    main()
