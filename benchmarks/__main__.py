"""Train the same model code with Rushlight and its peers, in turns; print one table of ratios.

python -m benchmarks --vs torch [--workloads gpt_6x256,lstm] [--compile] [--jax] [--micro]
python -m benchmarks --vs torch --ops [--only REGEX] [--sizes 1000000,64]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from benchmarks import micro, operation_table
from benchmarks.tables import figure, ratio, table
from benchmarks.turns import Contender, ContenderFailed, Result, compare, start_difference
from benchmarks.workloads import WORKLOADS

JAX_WORKLOADS = ("mlp_tiny", "mlp_mnist")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--library", default="rushlight", help="the module that is measured")
    parser.add_argument("--vs", default="torch", help="the module it is measured against")
    parser.add_argument("--workloads", default=",".join(WORKLOADS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=8.0, help="per library and workload")
    parser.add_argument("--compile", action="store_true", help="also both under compile")
    parser.add_argument("--autocast", action="store_true", help="bfloat16 autocast in all")
    parser.add_argument("--jax", action="store_true", help="also JAX jit on the perceptrons")
    parser.add_argument("--micro", action="store_true", help="also the micro-benchmarks")
    parser.add_argument("--ops", action="store_true", help="the table of single operations")
    parser.add_argument("--only", default="", metavar="REGEX", help="of their names")
    parser.add_argument("--sizes", default="1000000,64", help="elements of an operation")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def contenders(options: argparse.Namespace, workload: str) -> list[Contender]:
    """The measured library first, its peer second, then the extras."""
    flags = ("--autocast",) if options.autocast else ()
    names = [options.library, options.vs]
    found = [Contender(name, name, flags) for name in names]
    if options.compile:
        found += [Contender(f"{n} compile", n, (*flags, "--compile")) for n in names]
    if options.jax and workload in JAX_WORKLOADS and importlib.util.find_spec("jax"):
        found.append(Contender("jax jit", "jax"))
    return found


def run(options: argparse.Namespace, workload: str) -> list[Result]:
    def report(contender: Contender, failure: ContenderFailed) -> None:
        print(f"{workload}: {contender.label} failed:\n{failure}", file=sys.stderr)

    return compare(
        contenders(options, workload),
        workload,
        options.threads,
        seconds=options.seconds,
        on_failure=report,
    )


def by_label(results: list[Result]) -> dict[str, Result]:
    return {result.label: result for result in results}


def rows(options: argparse.Namespace, name: str, results: list[Result], peak: float) -> Any:
    """One line a contender: its step, and how many times as long as the measured library's."""
    ours, peer = (by_label(results).get(label) for label in (options.library, options.vs))
    floor = WORKLOADS[name].flops / peak * 1e3
    for result in results:
        against = result.step_ms / ours.step_ms if ours and result is not ours else None
        apart = start_difference(result, peer) if peer and result is not peer else None
        yield [
            name,
            result.label,
            figure(result.step_ms),
            ratio(against),
            figure(floor),
            ratio(result.step_ms / floor),
            figure(result.first_step_s),
            figure(result.peak_mib),
            "-" if apart is None else f"{apart:.0e}",
        ]
        name = ""


HEAD = [
    "workload",
    "library",
    "ms/step",
    "time/ours",
    "floor ms",
    "time/floor",
    "first s",
    "peak MiB",
    "loss apart",
]


def processor() -> str:
    """The processor's name where the system tells, or its architecture."""
    details = Path("/proc/cpuinfo")
    text = details.read_text() if details.exists() else ""
    names = [line for line in text.splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.machine()


def machine() -> dict[str, Any]:
    """What the figures depend on and a reader cannot guess."""
    versions = {}
    for name in ("rushlight", "torch", "jax", "numpy", "llvmlite"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **versions,
    }


def operations(options: argparse.Namespace) -> dict[str, Any]:
    """Print the table of single operations; the same as plain data."""
    rows = operation_table.measure(
        (options.library, options.vs),
        options.threads,
        operation_table.chosen(options.only),
        [int(size) for size in options.sizes.split(",")],
    )
    print(f"{machine()}\n{options.threads} threads; the fastest turns, libraries in turns\n")
    print(operation_table.text(rows))
    return {"operations": operation_table.report(rows)}


def workloads(options: argparse.Namespace) -> dict[str, Any]:
    """Print the table of training steps, and the micro-benchmarks; the same as plain data."""
    names = options.workloads.split(",")
    unknown = [name for name in names if name not in WORKLOADS]
    if unknown:
        raise SystemExit(f"unknown workloads {unknown}; there are {list(WORKLOADS)}")
    peak = micro.peak_flops(options.vs, options.threads)
    report: dict[str, Any] = {"peak_gflops": peak / 1e9, "workloads": {}}
    lines = []
    for name in names:
        print(f"{name}: {WORKLOADS[name].about} ...", file=sys.stderr, flush=True)
        results = run(options, name)
        lines += rows(options, name, results, peak)
        report["workloads"][name] = {result.label: result.summary() for result in results}
    print(f"{machine()}\n{options.threads} threads; peak (best float32 matmul found):")
    print(f"{peak / 1e9:.0f} GF/s; medians of blocks of 10 steps, libraries in turns\n")
    print(table(HEAD, lines))
    if options.micro:
        report["micro"] = micro.measure(options.library, options.vs, options.threads)
        print("\n" + micro.text(report["micro"]))
    return report


def main() -> None:
    options = arguments()
    found = operations(options) if options.ops else workloads(options)
    if options.json:
        report = {"machine": machine(), "threads": options.threads, **found}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
