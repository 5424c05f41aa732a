"""The recorder: the hot path from a user's call to a pending tensor.

Note: the key of a step. `(op, attrs, grad?, position, view, gradient node, ...)` names
everything the outcome depends on, so one dictionary look-up finds the edge that already knows
the result types. The index of each operand's gradient node is part of it, hence a path also
fixes the structure of the tape, and a whole `backward()` can be remembered at an edge.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any  # the Tensor class comes later

import numpy as np

from rushlight import config
from rushlight.dtypes import Category, of_number
from rushlight.ops.registry import NUMBER_TYPES, Op, TensorType, recorder
from rushlight.trace import misses, origin
from rushlight.trace.tape import Accumulate, Node, impure_epochs, next_sequence
from rushlight.trace.trie import Edge, Operand
from rushlight.trace.value import Storage, Value
from rushlight.views import View, numel

_epochs = itertools.count(1)
_weak = weakref.ref
SMALL_SHARED = 16 << 20  # bytes of shared memory that are copied rather than read at once
# Note: threads. A trace is a thread's own, but a value pending in it may be wanted by another,
# which then flushes it. So whoever records or flushes holds this lock: recording takes a
# microsecond, and a program uses all threads anyway. No code of the user's runs under it.
recording = threading.RLock()
if hasattr(os, "register_at_fork"):  # another thread of the parent may have held it
    os.register_at_fork(after_in_child=recording._at_fork_reinit)  # type: ignore[attr-defined]
MAX_PENDING = 50_000  # positions: a longer trace is flushed by itself
_PROBES = 3  # positions that anomaly detection adds for each at most, and the one itself
MAX_EDGES = 400_000  # edges kept in a thread's trie before it starts afresh


class Hooks:
    """What later rooms install: the handle class, and the executor of a flush."""

    tensor_class: type[Any]
    execute: Callable[[Trace, Edge, list[Any]], None]
    current_node: Callable[[Any], Node | None]
    uninterrupted: Callable[[], contextlib.AbstractContextManager[None]]
    copy_value: Callable[[Value], Value]
    reading: Callable[[], None] | None = None  # told when somebody looks at a tensor's memory
    number_in_memory: Callable[[Any, TensorType], Value]
    inspect: Callable[[Trace], Callable[[], None]]
    make_window: Callable[[Value, View], tuple[Value, View | None]]
    pack_node: Callable[[Trace, Node], None]


hooks = Hooks()


class Trace:
    """One thread's recording: the current edge, and what joined or was made since the flush."""

    def __init__(self) -> None:
        self.root = Edge(None, "root", 0)
        self.edges = 0
        self.packing: tuple[Any, ...] = ()  # hooks for saved tensors, the innermost last
        self.may_window = True  # off while an in-place form reads what it is about to write
        self.watchers: list[Callable[[list[Value]], None]] = []  # told what a flush will make
        self.no_windows: list[Value] = []  # views of these are read as views
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
        self.replaced: list[tuple[weakref.ref[Storage], TensorType, int]] = []  # pending values
        self.is_pure = True
        self.windows: dict[Any, tuple[Value, View | None]] = {}
        self.must_flush = False  # the step being recorded reads memory that may change
        self.window_bases: list[Any] = []  # buffers that windows of this trace read

    # -- joining

    def step(self, key: Any, kind: str, next: int) -> Edge:
        """Follow or make the edge of a step that is not an op."""
        parent = self.edge
        edge = parent.children.get(key)
        if edge is None:
            edge = parent.children[key] = Edge(parent, kind, next)
            self.edges += 1
            if len(parent.children) > 1:
                misses.note_step(parent, edge, key)
        self.edge = edge
        return edge

    def join(self, value: Value, kind: str = "") -> None:
        """A realised value met for the first time takes the next position."""
        if value.buffer is None:
            settle(value)
        # a realised Python number (saved for backward, say) is a leaf too: not the step of a
        # number
        if value.type.weak:
            kind = "leaf"
        key = (value.type, kind) if kind else value.type
        edge = self.step(key, "leaf", self.edge.next + 1)
        if not edge.outs:
            edge.outs = (value.type,)
            edge.first = edge.next - 1
        value.epoch = self.epoch
        value.position = edge.first
        value.trace = self
        self.leaves.append(value.buffer)

    def meet(self, value: Value) -> Value:
        """The value to record for an operand of another epoch.

        Note: shared memory. What NumPy also holds may change at any time, so an op reads it as
        it
        is when the op is recorded: a copy of it if it is small, and otherwise the memory
        itself,
        with a flush right after the op.
        """
        buffer = value.buffer
        if buffer is None or not buffer.is_shared:
            self.join(value)
            return value
        if buffer.nbytes <= SMALL_SHARED:
            value = hooks.copy_value(value)
            self.join(value)
            return value
        self.join(value, "shared")
        value.epoch = -1  # the next op reads it anew
        self.must_flush = True
        return value

    def window(self, value: Value, view: View) -> tuple[Value, View | None]:
        """What a view reads of a realised value, as a value of its own that starts there.

        Note: windows. The offset of a slice of data (a batch of a data set) must not be part of
        a step's key, or every batch would be a new program. A window shares memory with its
        base: a program that writes the base does so after everything has been read, and windows
        that outlive it are copied first. A view of everything (a reshape) always starts at the
        same place, so it needs no window.
        """
        if self.no_windows and any(value is v for v in self.no_windows):
            return value, view
        # by its buffer, which window_bases keeps alive: the id of a value could come again
        key = (id(value.buffer), value.type.dtype, view)
        known = self.windows.get(key)
        if known is not None:
            return known
        if numel(view.shape) == numel(value.type.shape):
            return value, view
        found = self.windows[key] = hooks.make_window(value, view)
        self.window_bases.append(value.buffer)
        return found

    def join_number(self, number: Any) -> Value:
        """A Python number as a pending weak 0-d value."""
        return self.number_value(self.number_position(number))

    def number_position(self, number: Any) -> int:  # hot
        """A Python number takes the next position."""
        kind = _NUMBER_TYPE_OF.get(number.__class__) or _number_type(number)
        if kind is _INTEGER and not -(1 << 63) <= number < 1 << 63:
            number = _wrapped(number)
        elif kind is _COMPLEX:
            value = hooks.number_in_memory(number, kind)
            self.join(value)
            return value.position
        edge = self.edge.children.get(kind)
        if edge is None:
            edge = self.step(kind, "number", self.edge.next + 1)
            edge.outs = (kind,)
            edge.first = edge.next - 1
        self.edge = edge
        self.numbers.append(number)
        return edge.first

    def number_value(self, position: int) -> Value:
        """The value of the number that has just joined at `position`."""
        return self.new_value(self.edge.outs[0], position)

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

    def bears(self, node: Node, value: Value) -> bool:
        """Compute a leaf (a parameter) that was made in this very trace before its first use.

        Otherwise the first step would hold the making of all parameters, and be a program that
        no later step needs. True if that was done: positions are to be looked up anew.
        """
        if value.buffer is not None or self.nodes or not isinstance(node, Accumulate):
            return False
        self.flush()
        return True

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

    # -- flush

    def flush(self) -> None:
        """Compute every pending value that is still alive; start a new epoch."""
        with recording, hooks.uninterrupted():
            if self.edge is self.root:
                return
            finish = self._inspected()
            edge = self.edge
            self.nodes = []
            self.accumulators = []
            self.windows = {}
            impure_epochs.discard(self.epoch)
            alive = [v for r in self.live if (v := r()) is not None]
            for watch in self.watchers:
                watch(alive)
            try:
                if alive or self.mutated:
                    hooks.execute(self, edge, alive)
            finally:
                self.restart()
            if finish is not None:
                finish()

    def _inspected(self) -> Callable[[], None] | None:
        """Under anomaly detection, what looks for NaNs once everything is computed."""
        if not config.scopes.anomaly or self.edge.next * _PROBES > MAX_PENDING:
            return None
        self.must_flush = False  # this is the flush
        return hooks.inspect(self)


def settle(value: Value) -> None:
    """Make real a value that is pending in some trace, or raise what went wrong there."""
    with recording:
        if value.buffer is None and value.error is None and value.trace is not None:
            value.trace.flush()
        if value.error is not None:
            raise value.error
        if value.buffer is None:
            raise RuntimeError("rushlight: a flush did not make a value that is wanted")


_NUMBER_TYPE_OF = {
    bool: NUMBER_TYPES[Category.BOOL],
    int: NUMBER_TYPES[Category.INTEGRAL],
    float: NUMBER_TYPES[Category.FLOATING],
    complex: NUMBER_TYPES[Category.COMPLEX],
}


_INTEGER = NUMBER_TYPES[Category.INTEGRAL]
_COMPLEX = NUMBER_TYPES[Category.COMPLEX]


def _wrapped(number: int) -> int:
    """An unsigned 64-bit number as the signed one with its bits; OverflowError beyond."""
    if number >> 64:
        raise OverflowError(f"the Python integer {number} does not fit in 64 bits")
    return number - (1 << 64)


def _number_type(number: Any) -> TensorType:
    """The type of a number of another class than Python's own; TypeError for what is none."""
    if not isinstance(number, int | float | complex | np.number | np.bool_):
        raise TypeError(f"expected a Tensor or a number, but got {type(number).__name__}")
    return NUMBER_TYPES[of_number(number)]  # type: ignore[arg-type]


class _Local(threading.local):
    def __init__(self) -> None:
        self.trace = Trace()
        every_trace.add(self.trace)


every_trace: weakref.WeakSet[Trace] = weakref.WeakSet()
local = _Local()


def record(op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:  # hot
    """Follow the edge of this step and return pending tensors for its results."""
    count = len(operands)
    if count == 1:
        return record_one(op, operands[0], attrs)
    if count == 2:
        return record_two(op, operands[0], operands[1], attrs)
    with recording:
        trace = local.trace
        epoch = trace.epoch
        tensor_class = hooks.tensor_class
        grad = op.is_differentiable and config.scopes.grad_enabled
        key: list[Any] = [op, attrs]
        held: list[Value] = []
        needs = False
        for x in operands:
            index = -1
            view = None
            if isinstance(x, tensor_class):
                value = x._storage.value
                view = x._view
                if (
                    view is not None
                    and value.buffer is not None
                    and x._node is None
                    and trace.may_window
                ):
                    value, view = trace.window(value, view)
                if value.epoch != epoch:
                    value = trace.meet(value)
                if grad:
                    node = x._node if x._base is None else hooks.current_node(x)
                    if node is not None:
                        if node.epoch != epoch:
                            if trace.bears(node, value):
                                return record(op, operands, attrs)
                            trace.join_node(node)
                        index = node.index
                        needs = True
            else:
                value = trace.join_number(x)
            key += (value.position, view, index)
            held.append(value)
        whole_key = tuple(key)
        edge = trace.edge.children.get(whole_key)
        if edge is None:
            edge = _miss(trace, op, operands, attrs, whole_key)
        trace.edge = edge
        node = None
        if needs:
            pairs = tuple(
                (x._node, x._output) if isinstance(x, tensor_class) else _NOWHERE
                for x in operands
            )
            kept = tuple([v if k else None for v, k in zip(held, edge.keeps, strict=True)])
            node = _node(trace, edge, pairs, kept)
        return (
            _result(trace, edge, node) if edge.out is not None else _results(trace, edge, node)
        )


def record_one(op: Op, x: Any, attrs: tuple[Any, ...]) -> Any:  # hot
    """`record` of one operand."""
    if not isinstance(x, hooks.tensor_class):
        x = number_tensor(x)
    with recording:
        trace = local.trace
        epoch = trace.epoch
        value = x._storage.value
        view = x._view
        if (
            view is not None
            and value.buffer is not None
            and x._node is None
            and trace.may_window
        ):
            value, view = trace.window(value, view)
        if value.epoch != epoch:
            value = trace.meet(value)
        node = None
        if op.is_differentiable and config.scopes.grad_enabled:
            source = x._node if x._base is None else hooks.current_node(x)
            if source is not None:
                if source.epoch != epoch:
                    if trace.bears(source, value):
                        return record_one(op, x, attrs)
                    trace.join_node(source)
                key = (op, attrs, value.position, view, source.index)
                edge = trace.edge.children.get(key)
                if edge is None:
                    edge = _miss(trace, op, (x,), attrs, key)
                trace.edge = edge
                kept = (value,) if edge.keeps[0] else _NONE_KEPT
                node = _node(trace, edge, ((source, x._output),), kept)
                return (
                    _result(trace, edge, node)
                    if edge.out is not None
                    else _results(trace, edge, node)
                )
        key = (op, attrs, value.position, view, -1)
        edge = trace.edge.children.get(key)
        if edge is None:
            edge = _miss(trace, op, (x,), attrs, key)
        trace.edge = edge
        return (
            _result(trace, edge, None) if edge.out is not None else _results(trace, edge, None)
        )


def record_two(op: Op, a: Any, b: Any, attrs: tuple[Any, ...]) -> Any:  # hot
    """`record` of two operands."""
    with recording:
        trace = local.trace
        epoch = trace.epoch
        tensor_class = hooks.tensor_class
        grad = op.is_differentiable and config.scopes.grad_enabled
        value_a = value_b = node_a = node_b = view_a = view_b = None
        index_a = index_b = -1
        if isinstance(a, tensor_class):
            value_a = a._storage.value
            view_a = a._view
            if (
                view_a is not None
                and value_a.buffer is not None
                and a._node is None
                and trace.may_window
            ):
                value_a, view_a = trace.window(value_a, view_a)
            if value_a.epoch != epoch:
                value_a = trace.meet(value_a)
            place_a = value_a.position
            if grad:
                node_a = a._node if a._base is None else hooks.current_node(a)
                if node_a is not None:
                    if node_a.epoch != epoch:
                        if trace.bears(node_a, value_a):
                            return record_two(op, a, b, attrs)
                        trace.join_node(node_a)
                    index_a = node_a.index
        else:
            place_a = trace.number_position(a)
        if isinstance(b, tensor_class):
            value_b = b._storage.value
            view_b = b._view
            if (
                view_b is not None
                and value_b.buffer is not None
                and b._node is None
                and trace.may_window
            ):
                value_b, view_b = trace.window(value_b, view_b)
            if value_b.epoch != epoch:
                value_b = trace.meet(value_b)
            place_b = value_b.position
            if grad:
                node_b = b._node if b._base is None else hooks.current_node(b)
                if node_b is not None:
                    if node_b.epoch != epoch:
                        if trace.bears(node_b, value_b):
                            return record_two(op, a, b, attrs)
                        trace.join_node(node_b)
                    index_b = node_b.index
        else:
            place_b = trace.number_position(b)
        key = (op, attrs, place_a, view_a, index_a, place_b, view_b, index_b)
        edge = trace.edge.children.get(key)
        if edge is None:
            edge = _miss(trace, op, (a, b), attrs, key)
        trace.edge = edge
        node = None
        if node_a is not None or node_b is not None:
            keeps_a, keeps_b = edge.keeps
            if not keeps_a:
                value_a = None
            elif value_a is None:
                value_a = trace.new_value(edge.operands[0].type, place_a)
            if not keeps_b:
                value_b = None
            elif value_b is None:
                value_b = trace.new_value(edge.operands[1].type, place_b)
            pair_a = (node_a, a._output) if node_a is not None else _NOWHERE
            pair_b = (node_b, b._output) if node_b is not None else _NOWHERE
            node = _node(trace, edge, (pair_a, pair_b), (value_a, value_b))
        return (
            _result(trace, edge, node) if edge.out is not None else _results(trace, edge, node)
        )


recorder.record = record
_NOWHERE = (None, 0)
_NONE_KEPT = (None,)
_new = object.__new__


def _node(
    trace: Trace, edge: Edge, pairs: tuple[Any, ...], values: tuple[Value | None, ...]
) -> Node:  # hot
    """The gradient node of a step that is being recorded."""
    node: Node = _new(Node)
    node.edge = edge
    node.op = edge.op
    node.attrs = edge.attrs
    node.next = pairs
    node.values = values
    node.outs = ()
    node.out_types = edge.outs
    node.sequence = next_sequence()
    nodes = trace.nodes
    node.epoch = trace.epoch
    node.index = len(nodes)
    nodes.append(node)
    return node


def _result(trace: Trace, edge: Edge, node: Node | None) -> Any:  # hot
    """The pending tensor of a step with one result."""
    type = edge.out
    value: Value = _new(Value)
    value.type = type  # type: ignore[assignment]  # not None: the caller looked
    value.buffer = None
    value.claimed = False
    value.epoch = trace.epoch
    value.position = edge.first
    value.trace = trace
    trace.live.append(_weak(value))
    storage: Storage = _new(Storage)
    storage.value = value
    t = _new(hooks.tensor_class)
    t._storage = storage
    t._shape = type.shape  # type: ignore[union-attr]
    t._strides = type.strides  # type: ignore[union-attr]
    t._offset = 0
    t.dtype = type.dtype  # type: ignore[union-attr]
    t._view = None
    t._output = 0
    t._grad = None
    t._base = None
    t._rebased = 0
    t._node = node
    if node is not None:
        if edge.op.uses_out:  # type: ignore[union-attr]
            node.outs = (value,)
        if trace.packing:
            hooks.pack_node(trace, node)
    return t


def _results(trace: Trace, edge: Edge, node: Node | None) -> Any:
    """The pending tensors of a step with several results, or of the last step of a long
    trace.
    """
    values = [trace.new_value(t, edge.first + i) for i, t in enumerate(edge.outs)]
    cls = hooks.tensor_class
    results = tuple([make_tensor(cls, Storage(v), v.type) for v in values])
    if node is not None:
        node.outs = tuple(values) if edge.op.uses_out else ()  # type: ignore[union-attr]
        for i, result in enumerate(results):
            if result.dtype.is_floating_point or result.dtype.is_complex:
                result._node, result._output = node, i
        if trace.packing:
            hooks.pack_node(trace, node)
    if edge.next > MAX_PENDING or trace.must_flush:
        trace.flush()
    return results if len(results) != 1 else results[0]


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


def _operand_type(x: Any) -> TensorType:
    value_type: TensorType = x._storage.value.type
    if value_type.weak:
        return value_type
    return TensorType(x._shape, x.dtype)


def _miss(
    trace: Trace,
    op: Op,
    operands: tuple[Any, ...],
    attrs: tuple[Any, ...],
    key: tuple[Any, ...],
) -> Edge:
    """The first time a step is taken here: run the type rule (on the user's line) and make an
    edge.
    """
    described = []
    for i, x in enumerate(operands):
        position, view = key[2 + 3 * i], key[3 + 3 * i]
        if isinstance(x, hooks.tensor_class):
            described.append(Operand(position, view, _operand_type(x)))
        else:
            described.append(Operand(position, None, _number_type(x)))
    named = dict(zip(op.attrs, attrs, strict=True))
    outs = op.type(*(o.type for o in described), **named)
    parent = trace.edge
    edge = Edge(parent, "op", parent.next)
    edge.op, edge.attrs, edge.operands = op, attrs, tuple(described)
    edge.outs = outs if isinstance(outs, tuple) else (outs,)
    edge.next = parent.next + len(edge.outs)
    edge.where, edge.label = origin.of_caller()
    if len(edge.outs) == 1 and edge.next <= MAX_PENDING and not trace.must_flush:
        edge.out = edge.outs[0]
    edge.keeps = _kept(op, len(described))
    parent.children[key] = edge
    trace.edges += 1
    if len(parent.children) > 1:
        misses.note_op(parent, edge)
    return edge


def _kept(op: Op, count: int) -> tuple[bool, ...]:
    """Which of an op's operands its derivative rule reads."""
    if op.uses is None:
        return (True,) * count
    return tuple([i < len(op.uses) and op.uses[i] for i in range(count)])


def number_tensor(number: Any) -> Any:
    """A Python number as a weak 0-d tensor (a run-time scalar of the trace)."""
    with recording:
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
    elif old.epoch == trace.epoch:
        trace.replaced.append((weakref.ref(storage), old.type, old.position))
    storage.value = value
    storage.version += 1


def flush() -> None:
    """Compute everything that this thread has recorded and somebody can still see."""
    local.trace.flush()
