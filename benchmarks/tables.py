"""Plain tables of results, wide enough for a terminal and fit to paste."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (cell.strip() for cell in cells)
        aligned = [first.ljust(widths[0])]
        aligned += [cell.rjust(width) for cell, width in zip(others, widths[1:])]
        return "  ".join(aligned).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(head), rule, *map(line, rows)])


def figure(value: float | None, digits: int = 3) -> str:
    """A number to a few significant digits; a dash where there is none."""
    if value is None:
        return "-"
    if value >= 10 ** (digits - 1):
        return f"{value:.0f}"
    return f"{value:.{digits}g}"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"
