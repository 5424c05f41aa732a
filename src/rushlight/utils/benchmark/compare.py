"""Measurements side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from rushlight.utils.benchmark.measurement import Measurement, select_unit

_BEST, _NEAR, _END = "\033[92m\033[1m", "\033[34m", "\033[0m"


class Compare:
    """A table for each label: a row for each sub-label and number of threads, a column for
    each description.

    >>> from rushlight.utils.benchmark import Compare, Measurement, TaskSpec
    >>> tasks = [TaskSpec("f(x)", "", "", "f", "8", name) for name in ("old", "new")]
    >>> print(Compare([Measurement(1, [2e-3], tasks[0]), Measurement(1, [1e-3], tasks[1])]))
    [f, times in ms]
                 |  old  |  new
    1 thread: 8  |  2.0  |  1.0
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trims = self._colours = self._warns = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        for found in results:
            if not isinstance(found, Measurement):
                raise ValueError(f"Compare: expected a Measurement, got {type(found)}")
            self._results.append(found)

    def trim_significant_figures(self) -> None:
        """Show only figures that are more than noise."""
        self._trims = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show the shortest time of each row, and those near it, in colour."""
        self._colours = True

    def highlight_warnings(self) -> None:
        """Mark times whose runs differ by more than a tenth with an exclamation mark."""
        self._warns = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(found.task_spec.label for found in merged)
        return "\n\n".join(
            self._table(label, [m for m in merged if m.task_spec.label == label])
            for label in labels
        )

    def _table(self, label: str | None, results: list[Measurement]) -> str:
        unit, scale = select_unit(min(found.median for found in results))
        columns = list(dict.fromkeys(_column(found) for found in results))
        rows = dict.fromkeys(_row(found) for found in results)
        cells: list[list[str]] = [["", *columns]]
        for row in rows:
            own = {_column(found): found for found in results if _row(found) == row}
            best = min(found.median for found in own.values())
            cells.append([row, *(self._cell(own.get(name), scale, best) for name in columns)])
        widths = [max(map(_width, column)) for column in zip(*cells, strict=True)]
        lines = [f"[{label or 'statements'}, times in {unit}]"]
        lines += [_line(line, widths) for line in cells]
        return "\n".join(lines)

    def _cell(self, found: Measurement | None, scale: float, best: float) -> str:
        if found is None:
            return ""
        text = f"{found.median / scale:.1f}"
        if self._trims:
            figures = found.significant_figures
            text = f"{float(f'{found.median / scale:.{figures}g}'):.10g}"
        if self._warns and found.has_warnings:
            text += " (!)"
        if self._colours and found.median <= 1.2 * best:
            text = f"{_BEST if found.median == best else _NEAR}{text}{_END}"
        return text


def _column(found: Measurement) -> str:
    return found.task_spec.description or found.env


def _row(found: Measurement) -> str:
    threads = found.task_spec.num_threads
    return f"{threads} thread{'s' * (threads > 1)}: {found.as_row_name}"


def _width(text: str) -> int:
    for code in (_BEST, _NEAR, _END):
        text = text.replace(code, "")
    return len(text)


def _line(cells: list[str], widths: list[int]) -> str:
    first = cells[0].ljust(widths[0])
    rest = zip(cells[1:], itertools.islice(widths, 1, None), strict=True)
    padded = [" " * (width - _width(cell)) + cell for cell, width in rest]
    return "  |  ".join([first, *padded])
