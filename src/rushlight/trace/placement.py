"""Tensors on the `meta` device: shapes and dtypes without elements.

Note: meta. A meta tensor is recorded like any other, so it has views, gradients and in-place
writes. Its Value has a type of its own (`TensorType.on_meta`), which is part of a step's key:
steps on meta tensors are other edges, found or made like all edges. When such an edge is made,
the op's type rule runs as always and the results get meta types. A flush gives these values
NOWHERE instead of computing them. Nothing of this is looked at before the first tensor is put
elsewhere than on the CPU (`config.process.has_places`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn  # the Tensor class comes later

from rushlight import config, errors
from rushlight.devices import CPU, META, check_usable
from rushlight.devices import device as Device
from rushlight.ops.registry import Op, TensorType, recorder
from rushlight.trace.record import make_tensor, set_view
from rushlight.trace.trace import Trace, hooks, local
from rushlight.trace.trie import Operand
from rushlight.trace.value import Storage, Value
from rushlight.views import AnyView


class _Nowhere:
    """What stands in a meta value for its buffer: reading it raises."""

    address = nbytes = 0
    windows = owner = None
    is_foreign = is_shared = False

    def as_numpy(self, *_: Any, **__: Any) -> NoReturn:
        raise errors.no_data()

    def export(self, array: Any) -> NoReturn:
        raise errors.no_data()


NOWHERE = _Nowhere()


def meta_tensor(shape: Any, dtype: Any, view: AnyView | None = None) -> Any:
    """A tensor without elements; `view` reads its storage, which has the shape."""
    config.process.has_places = True
    value = Value(TensorType(tuple(shape), dtype).on_meta(), NOWHERE)
    made = make_tensor(hooks.tensor_class, Storage(value), value.type)
    if view is not None:
        set_view(made, view)
    return made


def is_meta(x: Any) -> bool:
    return bool(x._storage.value.type.is_meta)


def _no_lowering(*_: Any, **__: Any) -> NoReturn:
    raise AssertionError("a meta value is never computed")


def _from_meta(g: Any, out: Any, x: Any) -> NoReturn:
    raise errors.no_data()


TO_META = Op(
    "to_meta",
    type=lambda x: TensorType(x.shape, x.dtype).on_meta(),
    lower=_no_lowering,
    vjp=_from_meta,
)


def on_device(x: Any, place: Any) -> Any:
    """x on a device, itself if it is there; nothing can be copied out of meta."""
    if check_usable(place) is META:
        config.process.has_places = True
        return x if is_meta(x) else TO_META(x)
    if is_meta(x):
        raise errors.no_data()
    return x


def place_of(place: Any, like: Any) -> Device:
    """Where a factory's result is to be: on `place`, or with `like`."""
    if place is None:
        return META if like is not None and is_meta(like) else CPU
    return check_usable(place)


def placed(made: Any, place: Any, like: Any) -> Any:
    """A factory's result in its place (`place_of`)."""
    if place_of(place, like) is META:
        view = made._view
        return meta_tensor(made._storage.value.type.shape, made.dtype, view)
    return made


def by_name(factory: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a factory gives a program: on the default device if none is named.

    A mark tells what is put on the CPU so from constants that operations make.
    """
    if kwargs.get("device") is None:
        kwargs["device"] = config.default_device()
    made = factory(*args, **kwargs)
    value, trace = made._storage.value, local.trace
    if value.epoch == trace.epoch:
        trace.step(("placed", value.position), attrs=(value.position,))
    return made


# -- what the recorder asks


def with_elements(alive: list[Value]) -> list[Value]:
    """The values that a flush has to compute; those on meta are done."""
    rest = []
    for value in alive:
        if value.type.is_meta:
            value.buffer = NOWHERE
        else:
            rest.append(value)
    return rest


def types_of_mixed(
    trace: Trace,
    op: Op,
    operands: tuple[Any, ...],
    described: tuple[Operand, ...],
    outs: tuple[TensorType, ...],
) -> tuple[TensorType, ...]:
    """The types of a step's results: on meta if an operand is.

    Numbers, 0-d tensors and constants that an operation itself made may stand beside meta
    tensors; what a program put on the CPU may not.
    """
    tensors = [
        (x, d) for x, d in zip(operands, described, strict=True) if hasattr(x, "_storage")
    ]
    if op is TO_META or not any(is_meta(x) for x, _ in tensors):
        return outs
    for x, operand in tensors:
        if x._shape and not is_meta(x) and not _is_constant(trace, operand.position):
            raise errors.mixed_devices(op.name, "cpu", "meta")
    return tuple([type.on_meta() for type in outs])


def _is_constant(trace: Trace, position: int) -> bool:
    """Whether a pending value comes from nothing that a program put on the CPU."""
    path = trace.edge.path()
    maker = {p: s for s in path for p in range(s.first, s.first + len(s.outs))}
    placed_by_name = {s.attrs[0] for s in path if s.kind == "mark" and s.attrs}
    stack = [position]
    while stack:
        step = maker[stack.pop()]
        if step.first in placed_by_name:
            return False
        if step.kind == "leaf" and not step.outs[0].dtype.is_integral:
            return False
        stack.extend(operand.position for operand in step.operands)
    return True


def beside(source: Any, x: Any) -> Any:
    """What is written into x: on meta if x is, and never from meta to memory."""
    if is_meta(x):
        return on_device(source, META)
    if is_meta(source):
        raise errors.no_data()
    return source


hooks.with_elements = with_elements
hooks.types_of_mixed = types_of_mixed
hooks.beside = beside
recorder.place_of = place_of
recorder.beside = beside
recorder.placed = placed
recorder.by_name = by_name
recorder.on_device = on_device
