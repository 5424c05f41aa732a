"""Tensors that the `forward` of a custom Function made and its `backward` reads.

Note: intermediates. `forward` records no gradient, so a tensor it made and kept on `ctx` looks
like a constant, and the second derivative of the Function would lack the terms through it. The
trace knows how it was made: when `backward` runs with gradients recorded, such tensors get
their history from the recorded path. Once that path is gone (values were computed in between),
a gradient that reaches one of them raises.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any  # ctx holds anything

from rushlight import errors, tree
from rushlight.autograd import engine
from rushlight.ops.complex_parts import RECAST
from rushlight.ops.registry import Op, TensorType
from rushlight.ops.view_ops import AS_STRIDED
from rushlight.trace.tape import Node, Saved
from rushlight.trace.trace import Trace, hooks, local, recording
from rushlight.trace.trie import Edge
from rushlight.trace.value import Value
from rushlight.trace.write import current_node
from rushlight.views import AnyView, Recast

Source = tuple[Node, int]  # a gradient node and one of its outputs
Place = tuple[int, AnyView | None]  # a position of the trace, and how it is read
_NOWHERE = (None, 0)


def _refuse(g: Any, out: Any, *inputs: Any, name: str) -> Any:
    raise errors.intermediate_forgotten(name)


FORGOTTEN = Op(  # only a gradient node: an intermediate of which nobody knows how it was made
    "forgotten",
    attrs=("name",),
    type=lambda *types, name: types[0],
    lower=lambda k, *refs, name: refs[0],
    vjp=_refuse,
)


class Forward:
    """The steps that one `forward` records, between entry and exit."""

    def __init__(self, name: str, args: Sequence[Any]) -> None:
        self.name = name
        self.trace: Trace = local.trace
        self.epoch, self.first = self.trace.epoch, self.trace.edge
        self.inputs = [
            (a._storage.value, a._view, (node, a._output))
            for a in args
            if isinstance(a, hooks.tensor_class) and (node := current_node(a)) is not None
        ]
        self.flushed: weakref.WeakSet[Value] = weakref.WeakSet()

    def __enter__(self) -> Forward:
        self.trace.watchers.append(self._note_flushed)
        self.trace.no_windows += [value for value, _, _ in self.inputs]
        return self

    def __exit__(self, *exc: object) -> None:
        self.trace.watchers.remove(self._note_flushed)
        del self.trace.no_windows[len(self.trace.no_windows) - len(self.inputs) :]

    def _note_flushed(self, alive: Iterable[Value]) -> None:
        self.flushed.update(
            v for v in alive if v.epoch != self.epoch or v.position >= self.first.next
        )


class History:
    """How the values of a `forward` came from its inputs, as far as the trace still knows."""

    def __init__(self, forward: Forward) -> None:
        trace = forward.trace
        self.name = forward.name
        self.epoch, self.first, self.last = trace.epoch, forward.first, trace.edge
        self.made_earlier = forward.flushed
        self.inputs = tuple(source for _, _, source in forward.inputs)
        self.sources: dict[Place, Source] = {}
        self.positions: set[int] = set()  # of the inputs
        self.is_whole = trace.epoch == forward.epoch
        for value, view, source in forward.inputs:
            if value.buffer is not None and value.buffer.is_shared:
                self.is_whole = False  # ops read copies of it: it has no one position
            elif value.buffer is not None and value.epoch != trace.epoch:
                with recording:
                    trace.join(value)  # nothing read it, but a view of it may have been kept
            if value.epoch == trace.epoch:
                self.sources.setdefault((value.position, view), source)
                self.positions.add(value.position)

    def explains(self, value: Value, is_view: bool) -> bool:
        """Whether `forward` made this from inputs that require gradients."""
        if value in self.made_earlier:
            return True
        if value.epoch != self.epoch:
            return False
        if not self.is_whole:
            return value.buffer is None
        if value.position in self.positions:
            return is_view  # a view of an input; anything else was detached from it
        return value.position in self._dependent()

    def _dependent(self) -> set[int]:
        """The positions after the inputs that a gradient could come from."""
        found = set(self.positions)
        for step in _steps(self.first, self.last):
            assert step.op is not None
            if step.op.is_differentiable and any(o.position in found for o in step.operands):
                found.update(range(step.first, step.next))
        return found

    def attach(self, states: Sequence[Saved]) -> list[Any]:
        """A handle with history for each intermediate, given as it was when it was kept."""
        made = [engine.restore(state) for state in states]
        sources: Sequence[Source | tuple[None, int]]
        if not self.is_whole or local.trace.epoch != self.epoch:
            sources = [self.forgotten(state) for state in states]
        else:
            places = [(value.position, view) for value, view, _, _ in states]  # type: ignore[union-attr]
            with recording:
                sources = _Derivation(self).sources_of(places)
        for tensor, source in zip(made, sources, strict=True):
            tensor._node, tensor._output = source
        return made

    def forgotten(self, state: Saved) -> Source:
        """A node that leads to every input and refuses to be walked."""
        node = Node(FORGOTTEN, (self.name,), self.inputs)
        node.saved = ((None, None, *state[2:]),) * len(self.inputs)
        node.out_types = (TensorType(*state[2:]),)
        return node, 0


def _steps(first: Edge, last: Edge) -> list[Edge]:
    """The ops recorded after `first`, up to `last`."""
    found = []
    edge = last
    while edge is not first and edge.parent is not None:
        if edge.op is not None:
            found.append(edge)
        edge = edge.parent
    return found[::-1]


class _Derivation:
    """Gradient nodes for steps that were recorded without any."""

    def __init__(self, history: History) -> None:
        self.trace = local.trace
        self.history = history
        self.sources = dict(history.sources)
        self.types = {  # of all values of the path, by position
            step.first + i: type
            for step in history.last.path()
            for i, type in enumerate(step.outs)
        }

    def sources_of(self, places: Sequence[Place]) -> list[Source | tuple[None, int]]:
        """Where gradients of what is read at `places` go."""
        for step in self._needed({position for position, _ in places}):
            self._add(step)
        return [self._source(*place) for place in places]

    def _needed(self, wanted: set[int]) -> list[Edge]:
        found = []
        for step in reversed(_steps(self.history.first, self.history.last)):
            if not wanted.isdisjoint(range(step.first, step.next)):
                found.append(step)
                wanted.update(o.position for o in step.operands)
        return found[::-1]

    def _add(self, step: Edge) -> None:
        """Make the node of a step, if a gradient can flow through it."""
        op = step.op
        assert op is not None
        if not op.is_differentiable:
            return
        pairs = tuple([self._source(o.position, o.view) for o in step.operands])
        if all(node is None for node, _ in pairs):
            return
        node = Node(op, step.attrs, pairs)
        node.edge, node.out_types = step, step.outs
        node.values = tuple(
            [
                self._value(o.position) if keeps else None
                for o, keeps in zip(step.operands, step.keeps, strict=True)
            ]
        )
        positions = range(step.first, step.next)
        if op.uses_out:
            node.outs = tuple([self._value(p) for p in positions])
        self._join(node)
        for output, position in enumerate(positions):
            kind = step.outs[output].dtype
            if kind.is_floating_point or kind.is_complex:
                self.sources[position, None] = (node, output)

    def _value(self, position: int) -> Value:
        return self.trace.new_value(self.types[position], position)

    def _source(self, position: int, view: AnyView | None) -> Source | tuple[None, int]:
        """The node that a gradient of a value, read through `view`, goes to."""
        known = self.sources.get((position, view))
        if known is not None or view is None:
            return known or _NOWHERE
        whole = self.sources.get((position, None))
        own = self.types[position]
        kind = view.dtype if type(view) is Recast else own.dtype
        if whole is None:
            is_other_view = any(place[0] == position for place in self.sources)
            state = (None, None, view.shape, kind)
            return self.history.forgotten(state) if is_other_view else _NOWHERE
        node = Node(RECAST if type(view) is Recast else AS_STRIDED, tuple(view), (whole,))
        node.saved = ((None, None, own.shape, own.dtype),)
        node.out_types = (TensorType(view.shape, kind),)
        self._join(node)
        self.sources[position, view] = (node, 0)
        return node, 0

    def _join(self, node: Node) -> None:
        for after, _ in node.next:
            if after is not None and after.epoch != self.trace.epoch:
                self.trace.join_node(after)
        self.trace.add_node(node)


class Kept:
    """The intermediates that a `ctx` was left with."""

    def __init__(self, forward: Forward, ctx: Any) -> None:
        self.history = History(forward)
        self.on_ctx = {
            id(t): _state(t)
            for value in vars(ctx).values()
            for t in tree.flatten(value)[0]
            if isinstance(t, hooks.tensor_class) and self._is_intermediate(t)
        }
        self.saved = [
            i
            for i, s in enumerate(ctx._saved)
            if s is not None and s.tensor is not None and self._is_intermediate(s.tensor)
        ]

    def __bool__(self) -> bool:
        return bool(self.on_ctx or self.saved)

    def _is_intermediate(self, t: Any) -> bool:
        is_smooth = t.dtype.is_floating_point or t.dtype.is_complex
        is_constant = not is_smooth or current_node(t) is not None
        return not is_constant and self.history.explains(t._storage.value, t._base is not None)

    @contextlib.contextmanager
    def with_history(self, ctx: Any) -> Iterator[None]:
        """Let `ctx` hold them with their histories."""
        states = [*self.on_ctx.values(), *(ctx._saved[i].state for i in self.saved)]
        made = self.history.attach(states)
        handles = dict(zip(self.on_ctx, made, strict=False))
        restored = dict(zip(self.saved, made[len(handles) :], strict=True))
        replaced = {"_saved": ctx._saved}
        ctx._saved = tuple(
            s.of(restored[i]) if i in restored else s for i, s in enumerate(ctx._saved)
        )
        for name, value in list(vars(ctx).items()):
            leaves, structure = tree.flatten(value)
            if any(id(leaf) in handles for leaf in leaves):
                replaced[name] = value
                leaves = [handles.get(id(leaf), leaf) for leaf in leaves]
                setattr(ctx, name, tree.unflatten(leaves, structure))
        try:
            yield
        finally:
            vars(ctx).update(replaced)


def _state(t: Any) -> Saved:
    return t._storage.value, t._view, t._shape, t.dtype
