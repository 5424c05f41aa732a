"""Recurrences in NumPy: the definition of what the kernels of `recurrence` compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # arrays of any dtype

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = dict[str, Array]


def states(cell: str, given: Mapping[str, Array]) -> Arrays:
    """All states of a cell, the first ones included, and what backward needs of each step."""
    made: dict[str, list[Array]] = {"hidden": [given["first_hidden"]], "kept": []}
    if cell == "lstm":
        made["memory"] = [given["first_memory"]]
    for x in given["given"]:
        h = made["hidden"][-1]
        products = h @ given["weight"].T
        if cell == "lstm":
            i, f, a, o = np.split(x + products, 4, -1)
            i, f, a, o = _sigmoid(i), _sigmoid(f), np.tanh(a), _sigmoid(o)
            made["memory"].append(f * made["memory"][-1] + i * a)
            made["hidden"].append(o * np.tanh(made["memory"][-1]))
            made["kept"].append(np.concatenate([i, f, a, o], -1))
        elif cell == "gru":
            (r, z, n), inner = np.split(x, 3, -1), np.split(products + given["bias"], 3, -1)
            r, z = _sigmoid(r + inner[0]), _sigmoid(z + inner[1])
            n = np.tanh(n + r * inner[2])
            made["hidden"].append((h - n) * z + n)
            made["kept"].append(np.concatenate([r, z, n, inner[2]], -1))
        else:
            total = x + products
            made["hidden"].append(
                np.tanh(total) if cell == "rnn_tanh" else np.where(total <= 0, 0, total)
            )
    return {name: np.stack(steps) for name, steps in made.items() if steps}


def slopes(cell: str, given: Mapping[str, Array]) -> Arrays:
    """The gradients of the gates, of a GRU candidate's hidden part and of the first states."""
    hidden, weight, slope = given["hidden"], given["weight"], given["slope"]
    steps, units = len(hidden) - 1, weight.shape[1]
    made: dict[str, list[Array]] = {"gates": [], "candidate": []}
    h, c = slope[steps], np.zeros_like(hidden[0])
    outside = given.get("memory_slope", np.zeros_like(hidden))
    for t in reversed(range(steps)):
        if cell == "lstm":
            i, f, a, o = np.split(given["kept"][t], 4, -1)
            seen, before = np.tanh(given["memory"][t + 1]), given["memory"][t]
            c = c + outside[t + 1] + h * o * (1 - seen * seen)
            parts = [c * a * i * (1 - i), c * before * f * (1 - f), c * i * (1 - a * a)]
            parts.append(h * seen * o * (1 - o))
            h, c = np.concatenate(parts, -1) @ weight, c * f
        elif cell == "gru":
            r, z, n, inner = np.split(given["kept"][t], 4, -1)
            new = h * (1 - z) * (1 - n * n)
            parts = [new * inner * r * (1 - r), h * (hidden[t] - n) * z * (1 - z), new]
            made["candidate"].append(new * r)
            h = h * z + np.concatenate([*parts[:2], new * r], -1) @ weight
        else:
            out = hidden[t + 1]
            parts = [h * (1 - out * out) if cell == "rnn_tanh" else np.where(out <= 0, 0, h)]
            h = parts[0] @ weight
        made["gates"].append(np.concatenate(parts, -1))
        h = h + slope[t]
    shape = (0, hidden.shape[1], units)
    found = {k: np.stack(x[::-1]) if x else np.zeros(shape) for k, x in made.items()}
    return found | {"first_hidden": h, "first_memory": c + outside[0]}


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1 + np.tanh(0.5 * x))
