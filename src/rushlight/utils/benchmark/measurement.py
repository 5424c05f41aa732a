"""What was measured of a statement, and how far the numbers can be trusted."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Iterable
from typing import Any

_UNITS = (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0))
_SPREAD_THAT_WARNS = 0.1  # of the middle half of the runs, relative to their median


def select_unit(t: float) -> tuple[str, float]:
    """The unit in which a time reads best, and its length in seconds."""
    fitting = [unit for unit in _UNITS if t >= unit[1]]
    return fitting[-1] if fitting else _UNITS[0]


@dataclasses.dataclass(init=True, repr=False, eq=True, frozen=True)
class TaskSpec:
    """Which statement was measured, and the words that a table shows for it."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement if it has none."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclasses.dataclass(init=True, repr=False)
class Measurement:
    """The times of several runs of a statement, each of `number_per_run` executions.

    >>> from rushlight.utils.benchmark import Measurement, TaskSpec
    >>> found = Measurement(10, [0.5, 0.25, 0.75], TaskSpec("f(x)", ""))
    >>> found.median, found.times
    (0.05, [0.05, 0.025, 0.075])
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    @property
    def times(self) -> list[float]:
        """Seconds of one execution, for each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median of `times`."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean of `times`."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The range of the middle half of `times`."""
        if len(self.times) < 2:
            return 0.0
        quarters = statistics.quantiles(self.times, n=4, method="inclusive")
        return quarters[2] - quarters[0]

    @property
    def significant_figures(self) -> int:
        """How many figures of the median are more than noise, by the spread of the runs."""
        if len(self.times) < 2 or self.median <= 0:
            return 1
        error = self.iqr / 1.35 / math.sqrt(len(self.times))  # of a normal distribution
        if error <= 0:
            return 5
        return max(1, min(5, 1 + math.floor(math.log10(self.median / error))))

    @property
    def has_warnings(self) -> bool:
        """Whether the runs differ so much that the median says little."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = _SPREAD_THAT_WARNS) -> bool:
        """Whether the middle half of the runs is within this part of the median."""
        return self.iqr < threshold * self.median

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def env(self) -> str:
        return "Unspecified env" if self.task_spec.env is None else self.task_spec.env

    @property
    def as_row_name(self) -> str:
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    def __getattr__(self, name: str) -> Any:
        """Fields of the task: `stmt`, `label`, `num_threads` and the others."""
        if name.startswith("_") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """One measurement for each task, with the runs of all that are of it."""
        by_task: dict[TaskSpec, list[float]] = {}
        for found in measurements:
            by_task.setdefault(found.task_spec, []).extend(found.times)
        return [Measurement(1, times, task) for task, times in by_task.items()]

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        runs = len(self.raw_times)
        lines = [f"{type(self).__name__}: {self.title}"]
        if runs > 1:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit}")
        else:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        threads = self.task_spec.num_threads
        lines.append(
            f"  {runs} measurement{'s' * (runs > 1)}, {self.number_per_run} runs per "
            f"measurement, {threads} thread{'s' * (threads > 1)}"
        )
        if runs > 1 and self.has_warnings:
            lines.append("  WARNING: the runs differ by more than a tenth: the machine is busy")
        return "\n".join(lines)
