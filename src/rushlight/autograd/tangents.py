"""Forward mode: tangents of values, carried along while ops are recorded.

Note: tangents. A Value never changes, so a level keeps the tangent of each Value beside it:
views read it as they read the Value, an in-place write gives the storage a new Value with a
tangent of its own, and what the tape saved still has its tangent when backward reads it. While
a level exists the recorder is replaced by `record`, which records the op and then, one level
further out, the op's derivative; without a level nothing is asked of anybody.

Levels nest. What is done for a level sees only the levels outside it, so derivatives of nested
functions can not be mixed up: a tangent belongs to one level, and is itself a value of the
levels outside.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any  # tensors come later

from rushlight import errors
from rushlight.autograd import engine
from rushlight.autograd.grad_mode import enable_grad
from rushlight.config import process, scopes
from rushlight.ops.complex_parts import RECAST
from rushlight.ops.registry import OPS, Linearity, Op, TensorType, recorder
from rushlight.ops.view_ops import AS_STRIDED, Placed, in_order, take_view
from rushlight.trace.inputs import input_of
from rushlight.trace.packing import without_hooks
from rushlight.trace.record import number_tensor
from rushlight.trace.trace import hooks
from rushlight.trace.value import Value
from rushlight.trace.write import current_node
from rushlight.views import Recast

_plain_record = recorder.record
_plain_alias = hooks.alias
_lock = threading.Lock()
_levels = 0  # in all threads


class Level:
    """One derivative that is being taken: which values have a tangent in it."""

    def __init__(self) -> None:
        self._tangents: weakref.WeakKeyDictionary[Value, Any] = weakref.WeakKeyDictionary()

    def holds(self, x: Any) -> bool:
        """Whether an operand has a tangent here."""
        return isinstance(x, hooks.tensor_class) and x._storage.value in self._tangents

    def tangent(self, x: Any) -> Any:
        """The tangent of a tensor, or None; it is seen through the tensor's view."""
        if not self.holds(x):
            return None
        whole = self._tangents[x._storage.value]
        if x._view is None:
            return whole
        op = RECAST if type(x._view) is Recast else AS_STRIDED
        return take_view(op, in_order(whole), **x._view._asdict())

    def set_tangent(self, x: Any, tangent: Any) -> None:
        """Give a tensor that is all of its storage a tangent of its shape and dtype."""
        assert x._view is None, "a tangent belongs to a whole value"
        if tangent.dtype is not x.dtype:
            tangent = OPS["cast"](tangent, dtype=x.dtype)
        if tangent._shape != x._shape:
            tangent = tangent.expand(x._shape)
        self._tangents[x._storage.value] = tangent

    def clear(self) -> None:
        self._tangents.clear()


def enter() -> Level:
    """A new innermost level."""
    global _levels
    with _lock:
        _levels += 1
        _switch(1)
    level = Level()
    scopes.levels = (*scopes.levels, level)
    return level


def leave(level: Level) -> None:
    """End the innermost level: its tangents are gone."""
    global _levels
    assert scopes.levels[-1] is level, "levels nest"
    scopes.levels = scopes.levels[:-1]
    level.clear()
    with _lock:
        _levels -= 1
        if not _levels:
            _switch(0)


def _switch(way: int) -> None:
    """Let everybody call what knows tangents (1), or what does not (0)."""
    for place, name, *functions in _SWITCHED:
        setattr(place, name, functions[way])


def has_tangent(x: Any) -> bool:
    """Whether x has a tangent in some level."""
    return any(level.holds(x) for level in scopes.levels)


@contextlib.contextmanager
def below(level: Level) -> Iterator[None]:
    """Only the levels outside `level` exist inside."""
    before = scopes.levels
    scopes.levels = before[: before.index(level)]
    try:
        yield
    finally:
        scopes.levels = before


def made_dual(primal: Any, tangent: Any, level: Level) -> Any:
    """A copy of `primal` with a tangent in `level`."""
    for name, x in (("primal", primal), ("tangent", tangent)):
        if not is_smooth(x):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {x.dtype!r}"
            )
    if primal._shape != tangent._shape:
        raise errors.tangent_of_another_shape(primal._shape, tangent._shape)
    with below(level):
        made = OPS["clone"](primal)
        level.set_tangent(made, tangent)
    return made


def unpacked(x: Any, level: Level) -> tuple[Any, Any]:
    """A tensor without its tangent in `level`, and the tangent or None."""
    if not level.holds(x):
        return x, None
    with below(level):
        return OPS["clone"](x), level.tangent(x)


def _alias(x: Any) -> Any:
    """The elements of x without derivatives: those of a dual tensor are copied."""
    for level in scopes.levels:
        if level.holds(x):
            before, scopes.levels = scopes.levels, ()
            try:
                x = OPS["clone"](x)
            finally:
                scopes.levels = before
    return _plain_alias(x)


def with_tangents(x: Any, source: Any) -> Any:
    """A copy of x with the tangents that `source` has here."""
    for level in scopes.levels:
        if level.holds(source):
            with below(level):
                x = OPS["clone"](x)
                level.set_tangent(x, level.tangent(source))
    return x


hooks.with_tangents = with_tangents


# -- recording


def record(op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    """Record an op, and its derivative for every level in which an operand has a tangent."""
    levels = scopes.levels
    for i in range(len(levels) - 1, -1, -1):
        if any(levels[i].holds(x) for x in operands):
            scopes.levels = levels[:i]
            try:
                return _record_in(levels[i], op, operands, attrs)
            finally:
                scopes.levels = levels
    return _plain_record(op, operands, attrs)


def _record_one(op: Op, x: Any, attrs: tuple[Any, ...]) -> Any:
    return record(op, (x,), attrs)


def _record_two(op: Op, a: Any, b: Any, attrs: tuple[Any, ...]) -> Any:
    return record(op, (a, b), attrs)


def _record_in(level: Level, op: Op, operands: tuple[Any, ...], attrs: tuple[Any, ...]) -> Any:
    out = record(op, operands, attrs)
    if op.is_differentiable:
        outs = out if isinstance(out, tuple) else (out,)
        with without_hooks():  # users' hooks see what the program saves, not its tangents
            given = [level.tangent(x) for x in operands]
            found = tangents_of(op, attrs, operands, given, out)
        for each, tangent in zip(outs, found, strict=True):
            if tangent is not None:
                level.set_tangent(each, tangent)
    return out


def tangents_of(
    op: Op,
    attrs: tuple[Any, ...],
    operands: Sequence[Any],
    tangents: Sequence[Any],
    out: Any,
) -> Sequence[Any]:
    """The tangents of an op's results (None for results without derivative)."""
    operands = [x if isinstance(x, hooks.tensor_class) else number_tensor(x) for x in operands]
    if op.jvp is None or isinstance(out, tuple) or not is_smooth(out):
        return transposed(op, attrs, operands, tangents, out)
    named = dict(zip(op.attrs, attrs, strict=True))
    if op.jvp is Linearity.TOGETHER:
        pairs = zip(operands, tangents, strict=True)
        return (op(*(zeros_like(x) if t is None else t for x, t in pairs), **named),)
    if op.jvp is Linearity.EACH:
        return (_sum_of_each(op, operands, tangents, named),)
    return (op.jvp(tangents, out, *operands, **named),)


def _sum_of_each(
    op: Op, operands: Sequence[Any], tangents: Sequence[Any], named: dict[str, Any]
) -> Any:
    total = None
    for i, tangent in enumerate(tangents):
        if tangent is not None:
            part = op(*operands[:i], tangent, *operands[i + 1 :], **named)
            total = part if total is None else total + part
    return total


_SWITCHED = (  # where, the name, without levels and with them
    (recorder, "record", _plain_record, record),
    (recorder, "record_one", recorder.record_one, _record_one),
    (recorder, "record_two", recorder.record_two, _record_two),
    (recorder, "has_tangent", recorder.has_tangent, has_tangent),
    (hooks, "alias", _plain_alias, _alias),
    (hooks, "source_of_tangents", hooks.source_of_tangents, lambda x: x),
)


# -- the derivative, from its transpose


def transposed(
    op: Op,
    attrs: tuple[Any, ...],
    operands: Sequence[Any],
    tangents: Sequence[Any],
    out: Any,
) -> Sequence[Any]:
    """What the op's `vjp` says about tangents: it is linear in the cotangent, and its own
    transpose takes tangents of operands to tangents of results. The cotangent's value is read
    by nothing that is kept, so it is never computed.
    """
    outs = out if isinstance(out, tuple) else (out,)
    is_history = scopes.grad_enabled and any(
        x is not None and current_node(x) is not None for x in (*operands, *tangents)
    )
    with enable_grad():
        cotangents = [_cotangent(o) for o in outs]
        pulled = op.vjp(
            tuple(cotangents) if isinstance(out, tuple) else cotangents[0],
            out,
            *operands,
            **dict(zip(op.attrs, attrs, strict=True)),
        )
        pulled = pulled if isinstance(pulled, tuple) else (pulled,)
        if any(p is None and t is not None for p, t in zip(pulled, tangents, strict=True)):
            raise errors.not_differentiable(op.name)  # by that operand
        pairs = [
            (_fitted(p, x), t)
            for p, x, t in zip(pulled, operands, tangents, strict=True)
            if p is not None and t is not None
        ]
    found = _pull([(p, t) for p, t in pairs if p._node is not None], cotangents, is_history)
    return [
        (zeros_like(o) if f is None else f) if is_smooth(o) else None
        for o, f in zip(outs, found, strict=True)
    ]


def is_smooth(x: Any) -> bool:
    """Whether a tensor's dtype can have a derivative."""
    return bool(x.dtype.is_floating_point or x.dtype.is_complex)


def _pull(
    pairs: Sequence[tuple[Any, Any]], cotangents: Sequence[Any], is_history: bool
) -> list[Any]:
    """Gradients by the cotangents of the sum of products of pairs."""
    smooth = [c for c in cotangents if c._node is not None]
    if not pairs or not smooth:
        return [None] * len(cotangents)
    walk = engine.Walk(True, is_history)
    walk.start([p for p, _ in pairs], [t for _, t in pairs])
    found = iter(walk.run_to([(c._node, 0) for c in smooth]))
    return [next(found) if c._node is not None else None for c in cotangents]


def zeros_like(x: Any) -> Any:
    """Zeros of x's shape and dtype, in the same place."""
    made = engine.zeros(TensorType(x._shape, x.dtype))
    return recorder.beside(made, x) if process.has_places else made


def _cotangent(out: Any) -> Any:
    """What stands for the gradient of a result; derivatives by it are wanted."""
    made = zeros_like(out)
    if not is_smooth(out):
        return made
    cotangent = input_of(made, is_linked=False)
    cotangent._node.is_open = False  # nobody else asks for gradients by it
    return cotangent


def _fitted(grad: Any, operand: Any) -> Any:
    grad = engine.fit(grad, (None, None, operand._shape, operand.dtype))
    return grad.tensor() if isinstance(grad, Placed) else grad
