"""The recorder: the hot path from a user's call to a pending tensor.

Note: the key of a step. `(op, attrs, grad?, position, view, gradient node, ...)` names everything the outcome
depends on, so one dictionary look-up finds the edge that already knows the result types. The index of each
operand's gradient node is part of it, hence a path also fixes the structure of the tape, and a whole
`backward()` can be remembered at an edge.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any  # the Tensor class comes later

from rushlight import config
from rushlight.dtype import of_number
from rushlight.ops.registry import NUMBER_TYPES, Op, TensorType, recorder
from rushlight.trace import origin
from rushlight.trace.tape import Accumulate, Node, Saved, impure_epochs
from rushlight.trace.trie import Edge, Operand
from rushlight.trace.value import Storage, Value
from rushlight.views import View

_epochs = itertools.count(1)
MAX_PENDING = 50_000  # positions: a longer trace is flushed by itself
MAX_EDGES = 400_000  # edges kept in a thread's trie before it starts afresh


class Hooks:
    """What later rooms install: the handle class, and the executor of a flush."""

    tensor_class: type[Any]
    execute: Callable[[Trace, Edge, list[Any]], None]
    current_node: Callable[[Any], Node | None]


hooks = Hooks()


class Trace:
    """One thread's recording: the current edge, and what joined or was made since the flush."""

    def __init__(self) -> None:
        self.root = Edge(None, "root", 0)
        self.edges = 0
        self.lock = threading.RLock()
        self.restart()

    def restart(self) -> None:
        if self.edges > MAX_EDGES:
            self.root, self.edges = Edge(None, "root", 0), 0
        self.epoch = next(_epochs)
        self.edge = self.root
        self.leaves: list[Any] = []  # buffers, in order of joining
        self.numbers: list[Any] = []  # Python numbers, in order of joining
        self.live: list[weakref.ref[Value]] = []
        self.nodes: list[Node] = []
        self.accumulators: list[Accumulate] = []
        self.mutated: list[tuple[weakref.ref[Storage], weakref.ref[Value], int]] = []
        self.is_pure = True

    # -- joining ---------------------------------------------------------------------------------

    def step(self, key: Any, kind: str, next: int) -> Edge:
        """Follow or make the edge of a step that is not an op."""
        parent = self.edge
        edge = parent.children.get(key)
        if edge is None:
            edge = parent.children[key] = Edge(parent, kind, next)
            self.edges += 1
        self.edge = edge
        return edge

    def join(self, value: Value) -> None:
        """A realised value met for the first time takes the next position."""
        if value.buffer is None:
            self.settle(value)
        # a realised Python number (saved for backward, say) is a leaf too: not the step of a number
        key = (value.type, "leaf") if value.type.weak else value.type
        edge = self.step(key, "leaf", self.edge.next + 1)
        if not edge.outs:
            edge.outs = (value.type,)
            edge.first = edge.next - 1
        value.epoch = self.epoch
        value.position = edge.first
        value.trace = self
        self.leaves.append(value.buffer)

    def settle(self, value: Value) -> None:
        """Make real a value that is pending in another trace (or raise what went wrong there)."""
        if value.error is not None:
            raise value.error
        other: Trace | None = value.trace
        if other is None:
            raise RuntimeError("rushlight: a value has neither memory nor a trace")
        other.flush()
        if value.error is not None:
            raise value.error

    def join_number(self, number: Any) -> Value:
        """A Python number as a pending weak 0-d value."""
        kind = NUMBER_TYPES[of_number(number)]
        edge = self.step(kind, "number", self.edge.next + 1)
        if not edge.outs:
            edge.outs = (kind,)
            edge.first = edge.next - 1
        self.numbers.append(number)
        return self.new_value(kind, edge.first)

    def join_node(self, node: Node) -> None:
        """A gradient node from before this epoch (or a leaf's) gets an index in this trace."""
        is_leaf = isinstance(node, Accumulate)
        self.step(("node", is_leaf), "mark", self.edge.next)
        self.add_node(node)
        if is_leaf:
            self.accumulators.append(node)  # type: ignore[arg-type]
            if node.has_hooks:
                self.is_pure = False
        else:
            self.is_pure = False

    def add_node(self, node: Node) -> None:
        node.epoch = self.epoch
        node.index = len(self.nodes)
        self.nodes.append(node)

    def new_value(self, type: TensorType, position: int) -> Value:
        value = Value(type)
        value.epoch = self.epoch
        value.position = position
        value.trace = self
        self.live.append(weakref.ref(value))
        return value

    @property
    def is_memoisable(self) -> bool:
        return self.is_pure and self.epoch not in impure_epochs and not config.scopes.anomaly

    # -- flush -----------------------------------------------------------------------------------

    def flush(self) -> None:
        """Compute every pending value that is still alive; start a new epoch."""
        with self.lock:
            edge = self.edge
            if edge is self.root:
                return
            self.nodes = []
            self.accumulators = []
            impure_epochs.discard(self.epoch)
            alive = [v for v in (r() for r in self.live) if v is not None]
            try:
                if alive or self.mutated:
                    hooks.execute(self, edge, alive)
            finally:
                self.restart()


class _Local(threading.local):
    def __init__(self) -> None:
        self.trace = Trace()
        every_trace.add(self.trace)


every_trace: weakref.WeakSet[Trace] = weakref.WeakSet()
local = _Local()


def record(op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:  # hot
    """Follow the edge of this step and return pending tensors for its results."""
    trace = local.trace
    epoch = trace.epoch
    tensor_class = hooks.tensor_class
    grad = config.scopes.grad_enabled and op.is_differentiable
    key: list[Any] = [op, attrs]
    held: list[Value] = []
    needs = False
    for x in operands:
        if isinstance(x, tensor_class):
            value = x._storage.value
            if value.epoch != epoch:
                trace.join(value)
            index = -1
            if grad:
                node = x._node
                base = x._base
                if base is not None and base._rebased != x._seen:
                    node = hooks.current_node(x)
                if node is not None:
                    if node.epoch != epoch:
                        trace.join_node(node)
                    index = node.index
                    needs = True
            key += (value.position, x._view, index)
        else:
            value = trace.join_number(x)
            key += (value.position, None, -1)
        held.append(value)
    parent = trace.edge
    found = parent.children.get(tuple(key))
    if found is None:
        found = _miss(trace, op, operands, attrs, key)
    trace.edge = found
    outs = found.outs
    if len(outs) == 1:
        position = found.first
        type = outs[0]
        value = Value(type)
        value.epoch, value.position, value.trace = epoch, position, trace
        trace.live.append(weakref.ref(value))
        result = make_tensor(tensor_class, Storage(value), type)
        if needs:
            result._node = record_node(trace, op, operands, attrs, held, (value,), outs)
        if found.next > MAX_PENDING:
            trace.flush()
        return result
    values = [trace.new_value(t, found.first + i) for i, t in enumerate(outs)]
    results = tuple(
        make_tensor(tensor_class, Storage(v), t) for v, t in zip(values, outs, strict=True)
    )
    if needs:
        node = record_node(trace, op, operands, attrs, held, tuple(values), outs)
        for i, result in enumerate(results):
            if result.dtype.is_floating_point or result.dtype.is_complex:
                result._node = node
                result._output = i
    return results


recorder.record = record


def make_tensor(cls: type[Any], storage: Storage, type: TensorType) -> Any:  # hot
    """A handle on the whole of a storage."""
    t = object.__new__(cls)
    t._storage = storage
    t._shape = type.shape
    t._strides = type.strides
    t._offset = 0
    t.dtype = type.dtype
    t._view = None
    t._node = None
    t._output = 0
    t._grad = None
    t._base = None
    t._rebased = 0
    return t


def record_node(
    trace: Trace,
    op: Op,
    operands: tuple[Any, ...],
    attrs: tuple[Any, ...],
    values: list[Value],
    outs: tuple[Value, ...],
    types: tuple[TensorType, ...],
) -> Node:  # hot
    """The gradient node of a step that was just recorded."""
    tensor_class = hooks.tensor_class
    after: list[tuple[Node | None, int]] = []
    saved: list[Saved] = []
    for x, value in zip(operands, values, strict=True):
        if isinstance(x, tensor_class):
            after.append((x._node, x._output))
            saved.append((value, x._view, x._shape, x.dtype))
        else:
            after.append((None, 0))
            saved.append((value, None, (), value.type.dtype))
    uses = op.uses
    if uses is not None:
        known = len(uses)
        for i, one in enumerate(saved):
            if i >= known or not uses[i]:
                saved[i] = (None, *one[1:])
    node = Node(op, attrs, tuple(after))
    node.saved = tuple(saved)
    node.outs = outs if op.uses_out else ()
    node.out_types = types
    trace.add_node(node)
    return node


def _operand_type(x: Any) -> TensorType:
    value_type: TensorType = x._storage.value.type
    if value_type.weak:
        return value_type
    return TensorType(x._shape, x.dtype)


def _miss(
    trace: Trace, op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...], key: list[Any]
) -> Edge:
    """The first time a step is taken here: run the type rule (on the user's line) and make an edge."""
    described = []
    for i, x in enumerate(operands):
        position, view = key[2 + 3 * i], key[3 + 3 * i]
        if isinstance(x, hooks.tensor_class):
            described.append(Operand(position, view, _operand_type(x)))
        else:
            described.append(Operand(position, None, NUMBER_TYPES[of_number(x)]))
    named = dict(zip(op.attrs, attrs, strict=True))
    outs = op.type(*(o.type for o in described), **named)
    parent = trace.edge
    edge = Edge(parent, "op", parent.next)
    edge.op, edge.attrs, edge.operands = op, attrs, tuple(described)
    edge.outs = outs if isinstance(outs, tuple) else (outs,)
    edge.next = parent.next + len(edge.outs)
    edge.where, edge.label = origin.of_caller()
    parent.children[tuple(key)] = edge
    trace.edges += 1
    return edge


def number_tensor(number: Any) -> Any:
    """A Python number as a weak 0-d tensor (a run-time scalar of the trace)."""
    value = local.trace.join_number(number)
    return make_tensor(hooks.tensor_class, Storage(value), value.type)


def value_tensor(value: Value, shape: Any = None, strides: Any = None, offset: int = 0) -> Any:
    """A handle on a value by itself, without gradient history."""
    t = make_tensor(hooks.tensor_class, Storage(value), value.type)
    if shape is not None:
        set_view(t, View(shape, strides, offset))
    return t


def set_view(t: Any, view: View) -> None:
    """Make the handle read its storage through `view`."""
    natural = t._storage.value.type
    t._shape, t._strides, t._offset = view
    is_whole = (
        view.offset == 0 and view.shape == natural.shape and view.strides == natural.strides
    )
    t._view = None if is_whole else view


def write_storage(trace: Trace, storage: Storage, value: Value) -> None:
    """Give a storage its next Value; memory it already has is written at the flush."""
    old = storage.value
    if old.buffer is not None and storage.buffer is None and not old.claimed:
        storage.buffer = old.buffer
        old.claimed = True
    if old.buffer is not None and storage.buffer is old.buffer:
        if old.epoch != trace.epoch:  # overwritten without having been read
            trace.join(old)
        trace.mutated.append((weakref.ref(storage), weakref.ref(old), old.position))
    storage.value = value
    storage.version += 1


def flush() -> None:
    """Compute everything that this thread has recorded and somebody can still see."""
    local.trace.flush()
