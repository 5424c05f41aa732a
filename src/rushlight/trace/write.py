"""In-place writes: the next Value of a storage, and the gradient history of its tensor.

Note: in-place and views. A write through a view replaces a region of the base's Value. Its
gradient node belongs to the base: the base's gradient has the region masked out, the written
value's gradient reads it. Views made earlier re-derive their history from the base when next
used (`current_node`), by replaying their chain of view ops.
"""

from __future__ import annotations

from typing import Any  # tensors come later

from rushlight import config, errors, views
from rushlight.ops.registry import NOT_DIFFERENTIABLE, OPS, Op, TensorType, recorder
from rushlight.trace import origin
from rushlight.trace.inference import check_written
from rushlight.trace.record import make_tensor, set_view, value_tensor
from rushlight.trace.tape import AccumulateGrad, Node
from rushlight.trace.trace import hooks, local, recording, write_storage
from rushlight.trace.value import Value
from rushlight.views import AnyView, Recast, View


def view_tensor(op: Op, x: Any, view: AnyView, attrs: tuple[Any, ...]) -> Any:
    """A tensor on x's storage that reads through `view`; the gradient edge of `op` if
    needed.
    """
    out = make_tensor(hooks.tensor_class, x._storage, x._storage.value.type)
    if type(x._view) is Recast and type(view) is View:
        view = views.seen_as(view, x._view)
    set_view(out, view)
    base = x if x._base is None else x._base
    out._base = base
    out._chain = ((op, attrs),) if x._base is None else (*x._chain, (op, attrs))
    out._seen = base._rebased
    if not config.scopes.grad_enabled:
        if base._node is not None:
            out._chain = (*out._chain, (_MADE_WITHOUT_GRADIENTS, ()))
    elif current_node(x) is not None:
        _record_view_node(op, x, out, attrs)
    return out


recorder.view = view_tensor


def current_node(x: Any) -> Node | None:
    """x's gradient node; a view first catches up with in-place writes to its base."""
    base = x._base
    if base is not None and base._rebased != x._seen:
        _rederive(x)
    node: Node | None = x._node
    return node


hooks.current_node = current_node


_OUTPUTS_OF_ONE_CALL = ("split", "unbind")  # view ops whose results are not written to


_MADE_WITHOUT_GRADIENTS = Op(  # a mark in the chain of a view whose history nobody knows
    "made_without_gradients",
    type=lambda x: x,
    lower=lambda k, x: x,
    vjp=NOT_DIFFERENTIABLE,
)


def _check_alone(x: Any, what: str) -> None:
    """Raise if x is a view whose history cannot be followed through writes, as PyTorch does:
    one of several outputs of a call, or made by a custom Function or without gradients.
    """
    for op, _ in x._chain:
        if op is _MADE_WITHOUT_GRADIENTS:
            raise errors.view_without_gradients_in_place(what)
        if op.name in _OUTPUTS_OF_ONE_CALL:
            raise errors.one_of_several_in_place(op.name, what)
        if op.name == "function":
            raise errors.custom_view_in_place(what)


def tracks_gradients(x: Any) -> bool:
    """Whether x has gradient history, also where that cannot be followed any more."""
    base = x._base
    if base is not None and base._rebased != x._seen:
        return base._node is not None
    return x._node is not None


def _rederive(x: Any) -> None:
    """Follow the writes to x's base: its history anew, also where none is recorded now."""
    base = x._base
    if base._node is not None:
        _check_alone(x, "its base or another view of its base was written to in place")
    x._seen = base._rebased
    x._node = None
    if base._node is None:
        return
    step = base
    with config.gradients(True):
        for op, attrs in x._chain:
            step = recorder.apply_view(op, step, attrs)
    x._node, x._output = step._node, step._output


def _record_view_node(op: Op, x: Any, out: Any, attrs: tuple[Any, ...]) -> None:
    with recording:
        trace = local.trace
        node = x._node
        if node.epoch != trace.epoch:
            trace.bears(node, x._storage.value)
            trace.join_node(node)
        trace.step(("view", op, attrs, x._shape, node.index, x._output))
        made = Node(op, attrs, ((node, x._output),))
        made.saved = ((None, None, x._shape, x.dtype),)
        made.out_types = (out_type(out),)
        trace.add_node(made)
        out._node = made


def out_type(t: Any) -> TensorType:
    return TensorType(t._shape, t.dtype)


def check_writable(x: Any, source: Any, op_name: str) -> None:
    """Raise what PyTorch raises for writes that would lose or corrupt something."""
    if config.process.has_inference:
        check_written(x)
    if config.scopes.grad_enabled:
        if isinstance(x._node, AccumulateGrad):
            raise errors.leaf_in_place(op_name)
        base = x._base
        if base is not None:
            if isinstance(base._node, AccumulateGrad):
                raise errors.view_of_leaf_in_place(op_name)
            if base._node is not None or tracks_gradients(source):
                _check_alone(x, f"{op_name} writes to it")
    check_apart(x, op_name)


def check_apart(x: Any, op_name: str) -> None:
    """Raise if elements of x share memory with each other."""
    if (
        x._view is not None
        and 0 not in x._shape
        and any(
            stride == 0 and size > 1 for size, stride in zip(x._shape, x._strides, strict=True)
        )
    ):  # like PyTorch, only plain repetition is refused
        raise errors.overlapping_write(op_name, x._shape, x._strides)


def write(x: Any, source: Any, op_name: str) -> Any:
    """Make `source` (a tensor of x's shape after broadcasting) the contents of x; returns x."""
    with recording:
        if config.scopes.grad_enabled and x._base is not None:
            current_node(x)
        check_writable(x, source, op_name)
        if config.process.has_places:
            source = hooks.beside(source, x)
        if source._shape != x._shape:
            if views.broadcast_shapes(op_name, source._shape, x._shape) != x._shape:
                raise errors.shape_in_place(op_name, x._shape, source._shape)
            source = source.expand(x._shape)
        if source.dtype is not x.dtype:
            source = OPS["cast"](source, dtype=x.dtype)
        trace = local.trace
        _note_hidden_write(x, op_name)
        is_whole = x._view is None
        if is_whole:
            if source._view is not None or not _is_fresh(trace, source):
                source = OPS["clone"](source)
            write_storage(trace, x._storage, source._storage.value)
        else:
            _write_region(x, source)
        adopt_history(x, source)
        home = x._storage.buffer
        if home is not None and home.is_shared:
            local.trace.flush()
        return x


recorder.write = write


def _spread(value: Value, type: TensorType) -> Value:
    """A Value for every sample that `type` has."""
    with config.gradients_off():
        made = OPS["spread_batch"](value_tensor(value), levels=type.levels)
    return made._storage.value  # type: ignore[no-any-return]


hooks.spread = _spread


def _note_hidden_write(x: Any, op_name: str) -> None:
    """Let a gradient that needs what is about to be overwritten raise.

    Note: hidden writes. A write through `detach()`, or under `no_grad`, changes a tensor and
    not its history. What was computed from it before has its old Value. But a gradient that
    comes through the tensor from now on would be that of contents it no longer has; if its
    history saved those contents, PyTorch raises, and so do we. (`.data` promises to hide it.)
    """
    base = x if x._base is None else x._base
    if base._node is not None:
        if config.scopes.grad_enabled:
            return  # the write becomes part of the history
        owner = base
    else:
        follow = x._storage.owner
        owner = None if follow is None else follow()
    if owner is None:
        return
    node = owner._node
    if node is None or not node.saves(owner._storage.value):
        return
    where, _ = origin.of_caller()
    attrs = (node.name(), op_name, where)
    trace = local.trace
    if node.epoch != trace.epoch:
        trace.join_node(node)
    trace.step(("overwritten", attrs, node.index))
    made = Node(OPS["overwritten"], attrs, ((node, owner._output),))
    made.saved = ((None, None, owner._shape, owner.dtype),)
    made.out_types = (out_type(owner),)
    trace.add_node(made)
    owner._node, owner._output = made, 0
    owner._rebased += 1


def _is_fresh(trace: Any, source: Any) -> bool:
    """Whether the source's Value was just recorded and belongs to no other storage's life."""
    value = source._storage.value
    return bool(
        value.epoch == trace.epoch and value.buffer is None and source._storage.version == 0
    )


def _write_region(x: Any, source: Any) -> None:
    natural = make_tensor(hooks.tensor_class, x._storage, x._storage.value.type)
    with config.gradients_off():
        updated = OPS["write"](natural, source, view=x._view)
        if not _is_fresh(local.trace, updated):  # it was flushed as soon as it was recorded
            updated = OPS["clone"](updated)
    write_storage(local.trace, x._storage, updated._storage.value)


def adopt_history(x: Any, source: Any) -> None:
    """Make the history of what was written into x its own, or a part of its base's."""
    if not config.scopes.grad_enabled:
        return
    base, chain = (x, ()) if x._base is None else (x._base, x._chain)
    if base._node is None and source._node is None:
        return
    if base is x and (x._node is None or source._node is not None):
        x._node, x._output = source._node, source._output
        x._rebased += 1
        return
    trace = local.trace
    after = []
    for t in (base, source):
        node = t._node
        if node is not None and node.epoch != trace.epoch:
            trace.join_node(node)
        after.append((node, t._output if node is not None else 0))
    indices = tuple((n.index if n is not None else -1, i) for n, i in after)
    trace.step(("write", chain, base._shape, indices))
    made = Node(OPS["write_region"], (chain,), tuple(after))
    made.saved = tuple((None, None, t._shape, t.dtype) for t in (base, source))
    made.out_types = (out_type(base),)
    trace.add_node(made)
    base._node, base._output = made, 0
    base._rebased += 1
    if base is not x:
        _rederive(x)
