"""A profile as text, and as files that viewers read."""

from __future__ import annotations

import gzip
import json
import os
import socket
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rushlight import version

if TYPE_CHECKING:
    from rushlight.profiler.events import EventList

_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def time_text(microseconds: float, unit: str | None = None) -> str:
    """A time in the unit that fits, or in the one that is given."""
    if unit is None:
        unit = next((u for u, size in _UNITS.items() if microseconds >= size), "us")
    if unit not in _UNITS:
        raise ValueError(f"time_unit is one of {list(_UNITS)}, got {unit!r}")
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def memory_text(nbytes: int) -> str:
    """A number of bytes in the unit that fits."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def table(
    events: Sequence[Any], total: float, header: str | None, widths: tuple[int, int, int],
    time_unit: str | None, *, profile_memory: bool, with_flops: bool, with_stack: bool,
) -> str:  # fmt: skip
    """Rows of events under PyTorch's headings; of ranges also the time of what was recorded in
    them ("Work").
    """
    if not events:
        return ""
    name_width, shapes_width, source_width = widths
    share = lambda spent: f"{100 * spent / total:.2f}%" if total else "0.00%"  # noqa: E731
    columns: list[tuple[str, list[str]]] = [
        ("Name", [_cut(e.name, name_width) for e in events]),
        ("Self CPU %", [share(e.self_cpu_time_total) for e in events]),
        ("Self CPU", [time_text(e.self_cpu_time_total, time_unit) for e in events]),
        ("CPU total %", [share(e.cpu_time_total) for e in events]),
        ("CPU total", [time_text(e.cpu_time_total, time_unit) for e in events]),
        ("CPU time avg", [time_text(e.cpu_time, time_unit) for e in events]),
        ("# of Calls", [str(e.count) for e in events]),
    ]
    if any(getattr(e, "work_time_total", 0) for e in events):
        spent = [getattr(e, "work_time_total", 0.0) for e in events]
        columns.append(("Work", [time_text(s, time_unit) if s else "--" for s in spent]))
    if profile_memory:
        columns.append(("CPU Mem", [memory_text(e.cpu_memory_usage) for e in events]))
        columns.append(("Self CPU Mem", [memory_text(e.self_cpu_memory_usage) for e in events]))
    if any(e.input_shapes for e in events):
        columns.append(
            ("Input Shapes", [_cut(str(e.input_shapes), shapes_width) for e in events])
        )
    if with_stack and any(e.stack for e in events):
        lines = [e.stack[0] if e.stack else "" for e in events]
        columns.append(("Source Location", [_end(line, source_width) for line in lines]))
    if with_flops:
        scale, word = _flops_scale(max(e.flops for e in events))
        shown = [f"{e.flops / scale:.3f}" if e.flops else "--" for e in events]
        columns.append((f"Total {word}", shown))
    text = _grid(columns)
    title = f"{header}\n" if header else ""
    return f"{title}{text}Self CPU time total: {time_text(total, time_unit)}\n"


def _grid(columns: Sequence[tuple[str, Sequence[str]]]) -> str:
    widths = [max(len(head), *map(len, cells), 12) for head, cells in columns]
    rule = "  ".join("-" * width for width in widths)
    rows = [[head for head, _ in columns], *zip(*(cells for _, cells in columns), strict=True)]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule, ""])


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else "..." + text[-max(width - 3, 0) :]


def _flops_scale(largest: int) -> tuple[float, str]:
    for scale, word in ((1e12, "TFLOPs"), (1e9, "GFLOPs"), (1e6, "MFLOPs"), (1e3, "KFLOPs")):
        if largest >= scale:
            return scale, word
    return 1.0, "FLOPs"


def write_trace(path: str, events: EventList, metadata: dict[str, Any]) -> None:
    """The events in the format of Chrome's trace viewer; compressed if the name ends in .gz."""
    rows: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": os.getpid(), "tid": 0, "ts": 0,
         "args": {"name": "rushlight"}}
    ]  # fmt: skip
    rows += [_trace_row(event) for event in events]
    made = {
        "schemaVersion": 1,
        "producer": f"rushlight {version.__version__}",
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        **metadata,
        "traceEvents": rows,
        "traceName": path,
    }
    if path.endswith(".gz"):
        with gzip.open(path, "wt") as packed:
            json.dump(made, packed)
    else:
        with open(path, "w") as plain:
            json.dump(made, plain)


def _trace_row(event: Any) -> dict[str, Any]:
    kind = "kernel" if event.is_kernel else "flush"
    args = {"form": event.form, "lines": event.stack, "Input Dims": event.input_shapes,
            "flops": event.flops, "bytes": event.nbytes,
            "ranges": list(event.ranges)}  # fmt: skip
    return {
        "ph": "X",
        "cat": "user_annotation" if event.is_user_annotation else kind,
        "name": event.name,
        "pid": os.getpid(),
        "tid": event.thread,
        "ts": event.time_range.start,
        "dur": event.cpu_time_total,
        "args": {key: value for key, value in args.items() if value},
    }


def write_stacks(path: str, events: Iterable[Any], metric: str) -> None:
    """A line for each event with lines: those, the outermost first, and its microseconds."""
    with open(path, "w") as out:
        for event in events:
            spent = int(getattr(event, metric, 0))
            if event.stack and spent > 0:
                lines = ";".join(line.translate(_PLAIN) for line in reversed(event.stack))
                out.write(f"{lines} {spent}\n")


_PLAIN = str.maketrans(" ;\t\n", "____")
