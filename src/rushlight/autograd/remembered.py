"""Walks of the tape that are remembered by the path that they start from.

Note: memoised backward. A trace's path fixes the tape made in it (`trace/record.py`), so when
the whole walk stays inside the trace, with no hooks, its outcome is a function of the path: the
edge where the walk ends and the positions of the gradients. The next time the trace jumps
there, and nodes are only marked as freed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any  # tensors come later

from rushlight.ops.registry import TensorType
from rushlight.trace.record import make_tensor, set_view
from rushlight.trace.tape import Node
from rushlight.trace.trace import hooks, write_storage
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage
from rushlight.views import AnyView

if TYPE_CHECKING:
    from rushlight.autograd.engine import Walk

Result = tuple[int, TensorType, int, AnyView | None]  # whose, and how it is read


@dataclass(slots=True)
class Memo:
    """What a remembered walk did: where it ended, and the gradients by accumulator, or by
    what they were asked for.
    """

    end: Edge
    numbers: list[Any]
    gradients: list[Result]
    freed: list[int]


def backward(trace: Any, root: Any, gradient: Any, walk: Walk) -> None:  # hot
    """The walk from one root to all leaves, as it was on this path before if it was."""
    states: list[Any] = []
    for node in trace.accumulators:
        target = node.target()
        is_wanted = target is not None and target._node is not None
        existing = target._grad if is_wanted else None
        if existing is None:
            states.append(is_wanted)
        else:
            value = existing._storage.value
            if value.epoch != trace.epoch:
                trace.join(value)
            states.append((value.position, existing._view))
    node = root._node
    key = (node.index, root._output, walk.retain_graph, tuple(states))
    edge = trace.edge
    memos = edge.memos
    memo = None if memos is None else memos.get(key)
    if memo is not None:
        _replay(trace, memo)
        return
    before = Before(trace)
    accumulators = list(trace.accumulators)
    walk.start([root], [gradient])
    walk.run()
    if not before.stayed_inside(trace):
        return
    results = []
    for i, accumulator in enumerate(accumulators):
        target = accumulator.target()
        if target is None or target._node is None or target._grad is None:
            continue
        if accumulator in walk.reached:
            results.append((i, *_described(target._grad)))
    before.remember(key, trace, results, walk.freed)


class Before:
    """Where a trace is before a walk that may be remembered."""

    __slots__ = ("edge", "epoch", "leaves", "numbers")

    def __init__(self, trace: Any) -> None:
        self.edge, self.epoch = trace.edge, trace.epoch
        self.leaves, self.numbers = len(trace.leaves), len(trace.numbers)

    def stayed_inside(self, trace: Any) -> bool:
        is_same = trace.epoch == self.epoch and len(trace.leaves) == self.leaves
        return bool(is_same and trace.is_memoisable)

    def remember(
        self, key: tuple[Any, ...], trace: Any, results: list[Result], freed: list[int]
    ) -> None:
        if self.edge.memos is None:
            self.edge.memos = {}
        self.edge.memos[key] = Memo(trace.edge, trace.numbers[self.numbers :], results, freed)


def _described(x: Any) -> tuple[TensorType, int, AnyView | None]:
    value = x._storage.value
    return value.type, value.position, x._view


def gradients(
    trace: Any,
    key: tuple[Any, ...],
    walk: Walk,
    roots: Sequence[Any],
    targets: Sequence[tuple[Node, int]],
    seeds: Sequence[Any],
) -> list[Any]:
    """What the walk finds, as it was found before on this path if it was."""
    memo = None if trace.edge.memos is None else trace.edge.memos.get(key)
    if memo is not None:
        return _handed_out(trace, memo, len(targets))
    before, first = Before(trace), trace.edge.next
    walk.start(roots, seeds)
    found = walk.run_to(targets)
    results = [(i, *_described(g)) for i, g in enumerate(found) if g is not None]
    positions = [position for _, _, position, _ in results]
    # a gradient that is another one, or what was given, has to be the same tensor again
    are_new = len(set(positions)) == len(positions) and all(p >= first for p in positions)
    if are_new and before.stayed_inside(trace):
        before.remember(key, trace, results, walk.freed)
    return found


def key_of(
    trace: Any,
    roots: Sequence[Any],
    targets: Sequence[tuple[Node, int]],
    seeds: Sequence[Any],
    retain_graph: bool,
) -> tuple[Any, ...] | None:
    """What the outcome of a walk depends on besides the path; None where it cannot be said,
    because something lies outside of the trace.
    """
    epoch = trace.epoch
    key: list[Any] = ["gradients", retain_graph]
    for root, grad in zip(roots, seeds, strict=True):
        value, node = grad._storage.value, root._node
        if node.epoch != epoch or grad._view is not None:
            return None
        if value.epoch != epoch:
            if value.buffer is None or value.buffer.is_shared or value.type.is_meta:
                return None
            trace.join(value)
        key += (node.index, root._output, value.position)
    for node, output in targets:
        if node.epoch != epoch:
            return None
        key += (node.index, output)
    return tuple(key)


def _handed_out(trace: Any, memo: Memo, count: int) -> list[Any]:  # hot
    """Jump to where the remembered walk ended; the gradients that it found."""
    trace.edge = memo.end
    trace.numbers.extend(memo.numbers)
    found: list[Any] = [None] * count
    for i, type, position, view in memo.gradients:
        made = make_tensor(hooks.tensor_class, Storage(trace.new_value(type, position)), type)
        if view is not None:
            set_view(made, view)
        found[i] = made
    _let_go(trace, memo)
    return found


def _replay(trace: Any, memo: Memo) -> None:  # hot
    """Jump to where the remembered walk ended, and hand out its gradients."""
    trace.edge = memo.end
    trace.numbers.extend(memo.numbers)
    accumulators = trace.accumulators
    cls = hooks.tensor_class
    for i, type, position, view in memo.gradients:
        target = accumulators[i].target()
        if target is None:
            continue
        value = trace.new_value(type, position)
        if target._grad is None:
            grad = make_tensor(cls, Storage(value), type)
            if view is not None:
                set_view(grad, view)
            target._grad = grad
        else:
            write_storage(trace, target._grad._storage, value)
    _let_go(trace, memo)


def _let_go(trace: Any, memo: Memo) -> None:
    """Free the nodes that a remembered walk has come by."""
    nodes = trace.nodes
    for i in memo.freed:
        node = nodes[i]
        if node is not None:
            node.free()
            nodes[i] = None
