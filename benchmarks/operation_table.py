"""Single operations of two libraries in turns: ratios, their geometric mean, the worst.

python -m benchmarks --ops [--only REGEX] [--sizes 1000000,64] [--json FILE]
"""

from __future__ import annotations

import contextlib
import re
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.operations import LARGE, OPERATIONS, SMALL, Operation, reason
from benchmarks.tables import figure, ratio, table
from benchmarks.turns import Conversation

FEWEST, PATIENCE, MOST = 6, 4, 24  # turns; without a better one in so many, no more follow
GAIN = 0.98  # of the best so far: a turn at least so much faster is a better one
COPY = "copy_"  # the operation whose rate makes the floors of those that move memory
PRODUCTS = ("matmul",)  # and those of products
SIZES = (LARGE, SMALL)


@dataclass
class Row:
    """One operation at one size in both libraries: the fastest turn of each, in seconds."""

    op: Operation
    size: int
    ours: float
    theirs: float
    bytes: int
    flops: int
    apart: float

    @property
    def ratio(self) -> float:
        """How many times as long as the measured library the other one takes."""
        return self.theirs / self.ours

    @property
    def why(self) -> str:
        if self.ratio >= 1:
            return ""
        found = reason(self.op.name)
        return found or ("recorded in Python, one flush" if self.size <= SMALL else "")

    def floor(self, rates: tuple[float, float]) -> float:
        """Seconds that its memory traffic or its work must take at these rates."""
        return max(self.bytes / rates[0], self.flops / rates[1])

    def summary(self) -> dict[str, Any]:
        return {
            "size": self.size,
            "ours_us": self.ours * 1e6,
            "theirs_us": self.theirs * 1e6,
            "ratio": self.ratio,
            "apart": self.apart,
            "why": self.why,
        }


def chosen(pattern: str) -> list[Operation]:
    found = [op for name, op in OPERATIONS.items() if re.search(pattern, name)]
    if not found:
        raise SystemExit(f"no operation matches {pattern!r}; there are {list(OPERATIONS)}")
    return found


def apart(ours: Sequence[float], theirs: Sequence[float]) -> float:
    """The largest relative difference of the sums of two libraries' results."""
    pairs = zip(ours, theirs, strict=True)
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)


def measure(
    libraries: tuple[str, str],
    threads: int,
    ops: Sequence[Operation],
    sizes: Sequence[int] = SIZES,
    *,
    seconds: float = 0.02,
    most: int = MOST,
) -> list[Row]:
    """The fastest turns of `seconds`, `most` at most, for every operation and size."""
    rows = []
    options = ["--threads", str(threads), "--seconds", str(seconds)]
    with contextlib.ExitStack() as stack:
        pair = [
            Conversation(["benchmarks.operation_player", name, *options], {})
            for name in libraries
        ]
        for player in pair:
            stack.callback(player.close)
        for op, size in progress([(op, size) for size in sizes for op in ops]):
            rows.append(turns(pair, op, size, most))
    return rows


def turns(pair: Sequence[Conversation], op: Operation, size: int, most: int) -> Row:
    """Noise only ever adds, so turns go on while either library still gets faster."""
    question = f"{size} {op.name}"
    start, peer_start = (player.ask(question) for player in pair)
    fastest = [float("inf"), float("inf")]
    last_gain = 0
    for turn in range(most):
        if turn >= max(FEWEST, last_gain + PATIENCE + 1):
            break
        for i in (0, 1) if turn % 2 else (1, 0):  # nobody always follows the other
            seconds = pair[i].ask(question)["seconds"]
            if seconds < fastest[i] * GAIN:
                last_gain = turn
            fastest[i] = min(fastest[i], seconds)
    work = (peer_start["bytes"], peer_start["flops"])
    return Row(op, size, *fastest, *work, apart(start["sums"], peer_start["sums"]))


def progress(cases: Sequence[tuple[Operation, int]]) -> Iterable[tuple[Operation, int]]:
    """The cases, with a bar on stderr."""
    width = 30
    for done, (op, size) in enumerate(cases, 1):
        bar = ("#" * (width * done // len(cases))).ljust(width, ".")
        text = f"[{bar}] {done}/{len(cases)} {op.name}, {size}"
        print(f"\r{text[:95].ljust(95)}", end="", file=sys.stderr, flush=True)
        yield op, size
    print(file=sys.stderr)


def rates(rows: Sequence[Row]) -> tuple[float, float]:
    """The better library's bytes a second in a copy, and operations a second in products."""
    best = {row.op.name: row for row in rows if row.size == LARGE}
    copy = best.get(COPY)
    moved = copy.bytes / min(copy.ours, copy.theirs) if copy else float("inf")
    products = [best[name] for name in PRODUCTS if name in best]
    work = max((r.flops / min(r.ours, r.theirs) for r in products), default=float("inf"))
    return moved, work


def geometric_mean(rows: Sequence[Row]) -> float:
    return statistics.geometric_mean(row.ratio for row in rows)


HEAD = ["operation", "ours us", "theirs us", "theirs/ours", "floor us", "ours/floor", "why"]


def text_of_size(rows: Sequence[Row], found: tuple[float, float]) -> str:
    lines = []
    for row in sorted(rows, key=lambda row: row.ratio):
        floor = row.floor(found)
        has_floor = row.size == LARGE and floor > 0
        cells = [figure(row.ours * 1e6), figure(row.theirs * 1e6), ratio(row.ratio)]
        cells += [figure(floor * 1e6 if has_floor else None)]
        cells += [ratio(row.ours / floor if has_floor else None)]
        lines.append([row.op.name, *cells, row.why])
    worst = min(rows, key=lambda row: row.ratio)
    return (
        f"{table(HEAD, lines)}\n\n{len(rows)} operations on {rows[0].size} elements: "
        f"geometric mean {ratio(geometric_mean(rows))}, worst {ratio(worst.ratio)} "
        f"({worst.op.name}), below one {sum(row.ratio < 1 for row in rows)}"
    )


def by_size(rows: Sequence[Row]) -> list[list[Row]]:
    sizes = dict.fromkeys(row.size for row in rows)
    return [[row for row in rows if row.size == size] for size in sizes]


def text(rows: Sequence[Row]) -> str:
    found = rates(rows)
    return "\n\n".join(text_of_size(part, found) for part in by_size(rows))


def report(rows: Sequence[Row]) -> dict[str, Any]:
    """The same for a file."""
    return {
        str(part[0].size): {
            "geometric_mean": geometric_mean(part),
            "worst": min(row.ratio for row in part),
            "operations": {row.op.name: row.summary() for row in part},
        }
        for part in by_size(rows)
    }
