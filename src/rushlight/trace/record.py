"""The recorder: the hot path from a user's call to a pending tensor.

Note: the key of a step. `(op, attrs, grad?, position, view, gradient node, ...)` names
everything the outcome depends on, so one dictionary look-up finds the edge that already knows
the result types. The index of each operand's gradient node is part of it, hence a path also
fixes the structure of the tape, and a whole `backward()` can be remembered at an edge.
"""

from __future__ import annotations

import weakref
from typing import Any, NoReturn  # the Tensor class comes later

from rushlight import config, errors
from rushlight.ops.registry import OF_NUMBERS, Op, TensorType, recorder
from rushlight.trace import misses, origin, varying
from rushlight.trace.tape import Node, next_sequence
from rushlight.trace.trace import (
    MAX_PENDING,
    Trace,
    hooks,
    local,
    number_type,
    recording,
)
from rushlight.trace.trie import Edge, Operand
from rushlight.trace.value import Storage, Value
from rushlight.views import AnyView, Recast, View

_weak = weakref.ref


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
        held: list[Value | None] = []  # None for Python numbers
        needs = False
        for x in operands:
            index = -1
            view = value = None
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
                    if trace.epoch != epoch:
                        return record(op, operands, attrs)
                if grad:
                    node = x._node if x._base is None else hooks.current_node(x)
                    if node is not None:
                        if node.epoch != epoch:
                            if trace.bears(node, value):
                                return record(op, operands, attrs)
                            trace.join_node(node)
                        index = node.index
                        needs = True
                place = value.position
            else:
                place = trace.number_position(x)
            key += (place, view, index)
            held.append(value)
        whole_key = tuple(key)
        edge = trace.edge.children.get(whole_key)
        if edge is None:
            edge = _miss(trace, op, operands, attrs, whole_key)
            if edge is None:
                return record(op, operands, attrs)
        trace.edge = edge
        node = None
        if needs:
            pairs = tuple(
                (x._node, x._output) if isinstance(x, tensor_class) else _NOWHERE
                for x in operands
            )
            kept = tuple(
                [
                    (v or trace.new_value(x.type, x.position)) if k else None
                    for v, k, x in zip(held, edge.keeps, edge.operands, strict=True)
                ]
            )
            node = _node(trace, edge, pairs, kept)
        return (
            _result(trace, edge, node) if edge.out is not None else _results(trace, edge, node)
        )


def record_one(op: Op, x: Any, attrs: tuple[Any, ...]) -> Any:  # hot
    """`record` of one operand."""
    if not isinstance(x, hooks.tensor_class):
        x = number_tensor(x) if op.name in OF_NUMBERS else refused(op, x)
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
            if trace.epoch != epoch:
                return record_one(op, x, attrs)
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
                    if edge is None:
                        return record_one(op, x, attrs)
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
            if edge is None:
                return record_one(op, x, attrs)
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
                if trace.epoch != epoch:
                    return record_two(op, a, b, attrs)
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
                if trace.epoch != epoch:
                    return record_two(op, a, b, attrs)
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
            if edge is None:
                return record_two(op, a, b, attrs)
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


recorder.record, recorder.record_one, recorder.record_two = record, record_one, record_two
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
    return TensorType(x._shape, x.dtype, False, value_type.levels)


def _miss(
    trace: Trace,
    op: Op,
    operands: tuple[Any, ...],
    attrs: tuple[Any, ...],
    key: tuple[Any, ...],
) -> Edge | None:
    """The first time a step is taken here: run the type rule (on the user's line) and make an
    edge. None if the program ended before this step: it is to be recorded anew.
    """
    if trace.ends_again(key):
        return None
    described = []
    for i, x in enumerate(operands):
        position, view = key[2 + 3 * i], key[3 + 3 * i]
        if isinstance(x, hooks.tensor_class):
            described.append(Operand(position, view, _operand_type(x)))
        else:
            described.append(Operand(position, None, number_type(x)))
    outs = _result_types(op, attrs, tuple([o.type for o in described]))
    parent = trace.edge
    types = (*(o.type for o in described), *outs)
    if varying.is_known() and trace.ends_before(types, key):
        return None
    edge = Edge(parent, "op", parent.next)
    edge.op, edge.attrs, edge.operands = op, attrs, tuple(described)
    edge.outs = outs
    if config.process.has_places:
        edge.outs = hooks.types_of_mixed(trace, op, operands, edge.operands, edge.outs)
    edge.next = parent.next + len(edge.outs)
    edge.where, edge.label = origin.of_caller()
    is_short = len(edge.outs) == 1 and edge.next <= MAX_PENDING and not trace.must_flush
    if is_short and not (op.is_differentiable and _ends_gradients(edge)):
        edge.out = edge.outs[0]
    edge.keeps = _kept(op, len(described))
    if config.process.has_inference and any(index >= 0 for index in key[4::3]):
        for x, is_kept in zip(operands, edge.keeps, strict=True):
            if is_kept and isinstance(x, hooks.tensor_class):
                hooks.check_saved(x, operands)
    parent.children[key] = edge
    trace.edges += 1
    if len(parent.children) > 1:
        misses.note_op(parent, edge)
    is_plain = trace.records_values_only
    if len(parent.children) >= varying.OFTEN and (is_plain or edge.is_source):
        alike = misses.siblings(parent, edge)
        varying.note(types, [(*(o.type for o in e.operands), *e.outs) for e in alike])
    if is_plain and varying.is_known():
        edge.sizes = varying.touching(types, parent.sizes)
    return edge


def _result_types(
    op: Op, attrs: tuple[Any, ...], types: tuple[TensorType, ...]
) -> tuple[TensorType, ...]:
    """What the type rule says, which long paths ask for again and again."""
    key = (op, attrs, types, config.default_dtype())
    found = _known_results.get(key)
    if found is None:
        found = op.result_types(types, dict(zip(op.attrs, attrs, strict=True)))
        if len(_known_results) >= _MOST_RESULTS:
            _known_results.clear()
        _known_results[key] = found
    return found


_known_results: dict[Any, tuple[TensorType, ...]] = {}
_MOST_RESULTS = 10_000


def _ends_gradients(edge: Edge) -> bool:
    """Whether a step makes integers of numbers that have gradients (`x.long()`)."""
    return edge.outs[0].dtype.is_integral and any(
        not operand.type.dtype.is_integral for operand in edge.operands
    )


def _kept(op: Op, count: int) -> tuple[bool, ...]:
    """Which of an op's operands its derivative rule reads."""
    if op.uses is None:
        return (True,) * count
    return tuple([i < len(op.uses) and op.uses[i] for i in range(count)])


def refused(op: Op, x: Any) -> NoReturn:
    """Raise for the operand of an op that takes one tensor, as PyTorch takes no number here."""
    number_type(x)  # raises for what is no number either
    raise errors.not_a_tensor(op.name, "input", x)


def number_tensor(number: Any) -> Any:
    """A Python number as a weak 0-d tensor (a run-time scalar of the trace)."""
    with recording:
        value = local.trace.join_number(number)
        return make_tensor(hooks.tensor_class, Storage(value), value.type)


def value_tensor(value: Value, view: AnyView | None = None) -> Any:
    """A handle on a value by itself, without gradient history."""
    t = make_tensor(hooks.tensor_class, Storage(value), value.type)
    if view is not None:
        set_view(t, view)
    return t


def alias(x: Any) -> Any:
    """Another handle on what x reads, without gradient history."""
    t = make_tensor(hooks.tensor_class, x._storage, x._storage.value.type)
    if x._view is not None:
        set_view(t, x._view)
    return t


hooks.alias = alias


def set_view(t: Any, view: AnyView) -> None:
    """Make the handle read its storage through `view`, a plain one in the storage's dtype."""
    natural = t._storage.value.type
    t._shape, t._strides, t._offset = view.shape, view.strides, view.offset
    if type(view) is Recast:
        t.dtype = view.dtype
        if view.dtype is not natural.dtype or view.is_conj or view.is_neg:
            t._view = view
            return
        view = View(view.shape, view.strides, view.offset)
    is_whole = (
        view.offset == 0 and view.shape == natural.shape and view.strides == natural.strides
    )
    t._view = None if is_whole else view
