"""`torch.utils.flop_counter`: how many operations the products of a program take.

The recorded path of a stretch of code names every step that ran, backward included, also those
that were remembered. A multiplication and an addition count as two, as in PyTorch: only
products, convolutions and attention count; elementwise work and the state's part of recurrent
layers do not. Gradients that a backward records and nobody has are neither computed nor
counted.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from rushlight.trace import flush
from rushlight.trace.trace import local
from rushlight.trace.trie import Edge

__all__ = ["FlopCounterMode"]

Shape = tuple[int, ...]


def _of_contract(edge: Edge) -> int:
    """Two for each combination of all letters."""
    (equation,) = edge.attrs
    inputs = equation.partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for letters, shape in zip(inputs, _shapes(edge), strict=True):
        sizes.update(zip(letters, shape, strict=True))
    return 2 * math.prod(sizes.values())


def _of_linear(edge: Edge) -> int:
    x, weight, *_ = _shapes(edge)
    return 2 * math.prod(x) * weight[0]


def _of_convolution(edge: Edge) -> int:
    """Two for each element of the weight, sample and position of the result."""
    _, weight, *_ = _shapes(edge)
    samples, _, *positions = edge.outs[0].shape
    return 2 * math.prod(weight) * samples * math.prod(positions)


def _of_input_gradient(edge: Edge) -> int:
    g, weight, *_ = _shapes(edge)
    return 2 * math.prod(weight) * g[0] * math.prod(g[2:])


def _of_weight_gradient(edge: Edge) -> int:
    _, g = _shapes(edge)
    return 2 * math.prod(edge.outs[0].shape) * g[0] * math.prod(g[2:])


def _of_attention(edge: Edge) -> int:
    """The scores, and the weights times the values."""
    q, key, value, *_ = _shapes(edge)
    return 2 * math.prod(q[:-1]) * key[-2] * (q[-1] + value[-1])


def _of_attention_gradient(edge: Edge) -> int:
    """The scores again, and two products for each of those of the way forward."""
    _, _, _, q, key, value, *_ = _shapes(edge)
    return 2 * math.prod(q[:-1]) * key[-2] * (3 * q[-1] + 2 * value[-1])


_COUNTS: dict[str, Callable[[Edge], int]] = {
    "contract": _of_contract,
    "einsum": _of_contract,
    "linear": _of_linear,
    "convolution": _of_convolution,
    "convolution_transpose": _of_input_gradient,
    "convolution_weight_grad": _of_weight_gradient,
    "attention": _of_attention,
    "attention_grad": _of_attention_gradient,
}


def _shapes(edge: Edge) -> list[Shape]:
    return [operand.type.shape for operand in edge.operands]


def _computed(trace: Any) -> list[Edge]:
    """The steps of a trace without those of a backward whose results nobody reads."""
    path = [trace.root, *trace.edge.path()]
    spared = _within_backward(path)
    values = [ref() for ref in trace.live] + [ref() for _, ref, _ in trace.mutated]
    wanted = {v.position for v in values if v is not None and v.epoch == trace.epoch}
    found = []
    for i, edge in reversed(list(enumerate(path))):
        if i not in spared or not wanted.isdisjoint(range(edge.first, edge.next)):
            wanted.update(operand.position for operand in edge.operands)
            found.append(edge)
    return found[::-1]


def _within_backward(path: list[Edge]) -> set[int]:
    """The places of steps that a remembered backward has recorded."""
    places = {id(edge): i for i, edge in enumerate(path)}
    spared: set[int] = set()
    for i, edge in enumerate(path):
        for memo in (edge.memos or {}).values():
            end = places.get(id(getattr(memo, "end", None)), 0)
            spared.update(range(i + 1, end + 1))
    return spared


class FlopCounterMode:
    """Counts inside a `with` block, in all and for each module.

    display: print the table at the end. depth: of the modules that the table shows. mods:
    accepted; modules are found by themselves.

    >>> import rushlight as torch
    >>> from rushlight.utils.flop_counter import FlopCounterMode
    >>> with FlopCounterMode(display=False) as counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops()
    48
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: Any = None
    ) -> None:
        if custom_mapping:
            raise ValueError(
                "FlopCounterMode: custom_mapping names operators of PyTorch's, which are not "
                "the steps that are recorded here"
            )
        self.depth, self.display = depth, display
        self._counts: dict[str, dict[str, int]] = {}

    def __enter__(self) -> FlopCounterMode:
        flush()
        self._counts = defaultdict(lambda: defaultdict(int))
        self._trace = local.trace
        self._trace.watchers.append(self._watch)
        return self

    def __exit__(self, *_: object) -> None:
        self._trace.watchers.remove(self._watch)
        self._watch()
        flush()
        if self.display:
            print(self.get_table(self.depth))

    def _watch(self, _: Any = None) -> None:
        """Count what was recorded since the last flush."""
        for edge in _computed(self._trace):
            if edge.op is not None and edge.op.name in _COUNTS:
                self._add(edge, _COUNTS[edge.op.name](edge))

    def _add(self, edge: Edge, count: int) -> None:
        assert edge.op is not None
        parts = edge.label.split(".") if edge.label else []
        places = ["Global", *(".".join(parts[: i + 1]) for i in range(len(parts)))]
        for place in places:
            self._counts[place][edge.op.name] += count

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """For each module, and "Global" for all, the count of each kind of step."""
        return {place: dict(found) for place, found in self._counts.items()}

    def get_total_flops(self) -> int:
        """The count of all."""
        return sum(self._counts["Global"].values()) if "Global" in self._counts else 0

    def get_table(self, depth: int | None = None) -> str:
        """A line for each module down to a depth: its count, and its part of all."""
        deepest = self.depth if depth is None else depth
        total = self.get_total_flops()
        lines = [f"{'Module':<32} {'FLOP':>16}  {'% Total':>8}"]
        for place, found in self._counts.items():
            level = 0 if place == "Global" else 1 + place.count(".")
            if level > deepest:
                continue
            count = sum(found.values())
            part = 100 * count / total if total else 0.0
            lines.append(f"{' ' * level + place:<32} {count:>16,}  {part:>7.2f}%")
        return "\n".join(lines)
