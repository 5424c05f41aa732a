"""A step's parameters in batches that share flags and floats, and the update of all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rushlight.tensor import Tensor
from rushlight.trace.memo import remembered


class Batch(NamedTuple):
    """Parameters that a rule updates with the same flags and floats."""

    flags: Any
    hyper: tuple[float, ...]
    params: list[Tensor]
    grads: list[Tensor]
    states: list[tuple[Tensor, ...]]
    group: dict[str, Any]


class Watch:
    """Who is told of every step (a call being captured), if anybody."""

    step: Callable[[Any, list[Batch]], None] | None = None


def update_all(rule: Callable[..., None], batches: list[Batch]) -> None:
    """One optimizer step: tensor operations only, every write in place; recorded once."""
    key = (
        rule,
        tuple((b.flags, len(b.hyper), len(b.params), len(b.states[0])) for b in batches),
    )
    tensors = [t for b in batches for t in chain(b.params, b.grads, *b.states)]
    numbers = [float(n) for b in batches for n in b.hyper]

    def record(hyper: Sequence[Any]) -> None:
        at = 0
        for flags, floats, params, grads, states, _ in batches:
            own = tuple(hyper[at : at + len(floats)])
            at += len(floats)
            for param, grad, state in zip(params, grads, states, strict=True):
                rule(param, grad, state, flags, own)

    remembered(key, record, tensors, numbers)
