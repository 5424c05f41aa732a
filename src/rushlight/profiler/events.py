"""Events of a profile, and what they come to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rushlight.profiler import report
from rushlight.profiler.report import time_text


@dataclass(frozen=True, slots=True)
class Interval:
    """From when to when, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class _Times:
    """What an event and an average have in common: times in microseconds, as text too."""

    name: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = self_device_time_total = cuda_time_total = 0.0
    device_memory_usage = self_device_memory_usage = 0
    is_async = is_remote = is_legacy = False
    use_device = None
    node_id = -1

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        return 0.0

    cuda_time = device_time
    cpu_time_str = property(lambda self: time_text(self.cpu_time))
    cpu_time_total_str = property(lambda self: time_text(self.cpu_time_total))
    self_cpu_time_total_str = property(lambda self: time_text(self.self_cpu_time_total))
    device_time_str = property(lambda self: time_text(self.device_time))
    device_time_total_str = property(lambda self: time_text(self.device_time_total))


@dataclass(slots=True, eq=False)
class FunctionEvent(_Times):
    """One kernel, flush, or range of the user's.

    `ranges`: the user's ranges in which the operations of a kernel were recorded. `nbytes`:
    what it reads and writes. `form`: the kind of kernel.
    """

    name: str
    time_range: Interval
    thread: int
    is_kernel: bool = False
    is_user_annotation: bool = False
    form: str = ""
    stack: list[str] = field(default_factory=list)
    input_shapes: list[list[int]] = field(default_factory=list)
    flops: int = 0
    nbytes: int = 0
    ranges: tuple[str, ...] = ()
    cpu_memory_usage: int = 0
    id: int = -1
    cpu_parent: FunctionEvent | None = None
    cpu_children: list[FunctionEvent] = field(default_factory=list)
    count: int = 1

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]  # it follows from the interval
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


@dataclass(slots=True, eq=False)
class FunctionEventAvg(_Times):
    """All events of one name. `work_time_total`: of a range, the time of the kernels whose
    operations were recorded in it.
    """

    name: str = ""
    count: int = 0
    cpu_time_total: float = 0.0
    self_cpu_time_total: float = 0.0
    work_time_total: float = 0.0
    cpu_memory_usage: int = 0
    self_cpu_memory_usage: int = 0
    flops: int = 0
    nbytes: int = 0
    form: str = ""
    is_kernel: bool = False
    is_user_annotation: bool = False
    stack: list[str] = field(default_factory=list)
    input_shapes: list[list[int]] | str = ""

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Count another event, or other events, in."""
        if not self.count:
            self.name, self.form, self.stack = other.name, other.form, list(other.stack)
            self.is_kernel, self.is_user_annotation = other.is_kernel, other.is_user_annotation
            self.input_shapes = other.input_shapes
        self.count += other.count
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(other, name, 0))
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.name} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


_SUMMED = (
    "cpu_time_total", "self_cpu_time_total", "work_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "flops", "nbytes",
)  # fmt: skip


class EventList(list[Any]):
    """Events in order of time, or averages."""

    def __init__(
        self, events: Iterable[Any] = (), *, profile_memory: bool = False,
        with_flops: bool = False, with_stack: bool = False, is_average: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(events)
        self._columns = {
            "profile_memory": profile_memory,
            "with_flops": with_flops,
            "with_stack": with_stack,
        }
        if not is_average:
            self.sort(key=lambda event: (event.time_range.start, -event.time_range.end))
            _nest(self)

    @property
    def self_cpu_time_total(self) -> float:
        """All time in events, in microseconds."""
        return sum(event.self_cpu_time_total for event in self)

    def total_average(self) -> FunctionEventAvg:
        """One average of everything."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.name = "Total"
        return total

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """The events by name; by shapes of what they read too, or by their first lines."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: list[Any] = [event.name, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            key.append(tuple(event.stack[:group_by_stack_n]))
            average = found.setdefault(tuple(key), FunctionEventAvg())
            average.add(event)
            if not group_by_input_shapes:
                average.input_shapes = ""
            average.stack = event.stack[:group_by_stack_n]
        for name, spent in _work_by_range(self).items():
            for average in found.values():
                if average.is_user_annotation and average.name == name:
                    average.work_time_total = spent
        return EventList(found.values(), is_average=True, **self._columns)

    def table(
        self, sort_by: str | None = None, row_limit: int = 100,
        max_src_column_width: int = 75, max_name_column_width: int = 55,
        max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """The events as text, the largest `sort_by` first: 'cpu_time_total',
        'self_cpu_time_total', 'cpu_time', 'cpu_memory_usage', 'flops', 'count' ...
        """
        events = [e for e in self if not top_level_events_only or _is_top(e)]
        if sort_by is not None:
            sort_by = sort_by.replace("cuda", "device")
            events.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        widths = (max_name_column_width, max_shapes_column_width, max_src_column_width)
        total = self.self_cpu_time_total
        return report.table(
            events[:row_limit], total, header, widths, time_unit, **self._columns
        )

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto."""
        report.write_trace(path, self, {})

    def export_stacks(self, path: str, metric: str) -> None:
        """Write, for flame graphs, the lines of events and their microseconds."""
        if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
            raise ValueError(
                "metric should be one of: ['self_cpu_time_total', 'self_cuda_time_total', "
                "'self_xpu_time_total', 'self_privateuse1_time_total']"
            )
        report.write_stacks(path, self, metric)


def _is_top(event: Any) -> bool:
    return getattr(event, "cpu_parent", None) is None


def _nest(events: Iterable[FunctionEvent]) -> None:
    """Make each event the child of the shortest on its thread that contains it."""
    around: dict[int, list[FunctionEvent]] = {}
    for number, event in enumerate(events):
        event.id = number
        event.cpu_parent, event.cpu_children = None, []
        outer = around.setdefault(event.thread, [])
        while outer and outer[-1].time_range.end < event.time_range.end:
            outer.pop()
        if outer:
            event.cpu_parent = outer[-1]
            outer[-1].cpu_children.append(event)
        outer.append(event)


def _work_by_range(events: Iterable[FunctionEvent]) -> dict[str, float]:
    """Microseconds of kernels with operations that were recorded in each range."""
    spent: dict[str, float] = {}
    for event in events:
        for name in event.ranges:
            spent[name] = spent.get(name, 0.0) + event.cpu_time_total
    return spent
