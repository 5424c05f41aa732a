"""Views of a tensor's own elements, writes through views, and their transposes.

A view op's `type` rule returns the View it takes of its operand's storage; nothing is recorded
but the gradient edge.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.config import scopes
from rushlight.ops.registry import OPS, Linearity, Op, TensorType, recorder
from rushlight.views import AnyView, Recast, Shape, View


def view_op(
    name: str,
    view: Callable[..., AnyView],
    attrs: tuple[str, ...],
    vjp: Callable[..., Any],
) -> Op:
    """A view op: `view(x, **attrs)` gives the View of x's storage."""

    def no_lowering(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError(f"{name} is a view and is never lowered")

    return Op(name, attrs=attrs, type=view, lower=no_lowering, vjp=vjp)


def take_view(op: Op, x: Any, **attrs: Any) -> Any:
    return recorder.view(op, x, op.type(x, **attrs), op.in_order(attrs))


def own_view(x: Any) -> View:
    """The view through which a tensor reads its storage."""
    return View(x._shape, x._strides, x._offset)


def check_no_leaf(op: str, x: Any) -> None:
    """Raise where gradients are recorded and x is to become another view or memory, but is a
    leaf that collects them, or a view of one.
    """
    if not scopes.grad_enabled:
        return
    if x.requires_grad and x.is_leaf:
        raise errors.leaf_in_place(op)
    if x._base is not None and x._base.requires_grad and x._base.is_leaf:
        raise errors.view_of_leaf_in_place(op)


# -- writes and embeddings: the transposes of views


def _write_vjp(g: Any, out: Any, base: Any, source: Any, view: AnyView) -> Any:
    op = OPS["recast"] if type(view) is Recast else AS_STRIDED
    g = in_order(g)
    rest = g.clone()
    hole = take_view(op, rest, **view._asdict())
    recorder.write(hole, hole * 0, "write")
    return rest, take_view(op, g, **view._asdict())


def _write_lower(k: Any, base: Any, source: Any, view: AnyView) -> Any:
    place = View(view.shape, view.strides, view.offset)
    return k.update(base, [(k.marked(source, view), place)], base.shape, base.dtype)


WRITE = Op(  # the storage's next Value: `source` written at `view` of `base`
    "write",
    attrs=("view",),
    type=lambda base, source, view: TensorType(base.shape, base.dtype),
    lower=_write_lower,
    vjp=_write_vjp,
    jvp=Linearity.TOGETHER,
)


def _write_region_vjp(g: Any, out: Any, base: Any, source: Any, chain: Any) -> Any:
    g = in_order(g)
    region = g
    for op, attrs in chain:
        region = recorder.apply_view(op, region, attrs)
    rest = g.clone()
    hole = rest
    for op, attrs in chain:
        hole = recorder.apply_view(op, hole, attrs)
    recorder.write(hole, hole * 0, "write")
    return rest, region


WRITE_REGION = Op(  # only a gradient node: the history of a base after a write through a view
    "write_region",
    attrs=("chain",),
    type=lambda base, source, chain: base,
    lower=lambda k, base, source, chain: base,
    vjp=_write_region_vjp,
)


def _overwritten_vjp(g: Any, out: Any, x: Any, name: str, by: str, where: str) -> NoReturn:
    raise errors.overwritten(name, by, where)


OVERWRITTEN = Op(  # only a gradient node: the history of contents that are no longer there
    "overwritten",
    attrs=("name", "by", "where"),
    type=lambda x, name, by, where: x,
    lower=lambda k, x, name, by, where: x,
    vjp=_overwritten_vjp,
)


def in_order(x: Any) -> Any:
    """x itself if it is all of its storage, in order; otherwise a copy that is."""
    return x if x._view is None else x.clone()


EMBED = Op(  # zeros of `shape` with x's elements at `view`
    "embed",
    attrs=("shape", "view"),
    type=lambda x, shape, view: TensorType(shape, x.dtype),
    lower=lambda k, x, shape, view: k.update(
        k.full(shape, 0, x.dtype), [(x, view)], shape, x.dtype
    ),
    vjp=lambda g, out, x, shape, view: take_view(
        AS_STRIDED, in_order(g), shape=view.shape, strides=view.strides, offset=view.offset
    ),
)


EMBED_ADD = Op(  # `total` with x's elements added at `view`
    "embed_add",
    attrs=("view",),
    type=lambda total, x, view: TensorType(total.shape, total.dtype),
    lower=lambda k, total, x, view: k.update(
        total, [(k.as_strided(total, *view) + x, view)], total.shape, total.dtype
    ),
    vjp=lambda g, out, total, x, view: (
        g,
        take_view(
            AS_STRIDED, in_order(g), shape=view.shape, strides=view.strides, offset=view.offset
        ),
    ),
)


class Placed:
    """A gradient that is zero but at `view`: sums of many (the slices of a sequence, say) are
    made in one piece of memory.
    """

    __slots__ = ("part", "shape", "view")

    def __init__(self, part: Any, *, shape: Shape, view: View) -> None:
        self.part, self.shape, self.view = part, shape, view

    @property
    def dtype(self) -> Any:
        return self.part.dtype

    def tensor(self) -> Any:
        return EMBED(self.part, shape=self.shape, view=self.view)

    def added_to(self, total: Any) -> Any:
        return EMBED_ADD(total, self.part, view=self.view)


def embedding(view: Callable[..., View]) -> Callable[..., Any]:
    """The derivative of a view op that reads no element twice."""

    def vjp(g: Any, out: Any, x: Any, **attrs: Any) -> Any:
        place = view(Plain(tuple(x.shape)), **attrs)
        return Placed(g, shape=tuple(x.shape), view=place)

    return vjp


class Plain:
    """The metadata of a contiguous tensor, for view rules."""

    def __init__(self, shape: Shape) -> None:
        self._shape, self._strides, self._offset = shape, views.contiguous_strides(shape), 0


# -- view ops


def reshape_view(x: Any, shape: Shape) -> View:
    found = views.try_reshape(own_view(x), shape)
    if found is None:
        raise errors.bad_view("view", x._shape, x._strides, shape)
    return found


RESHAPE = view_op(
    "reshape", reshape_view, ("shape",), lambda g, out, x, shape: g.reshape(x.shape)
)
PERMUTE = view_op(
    "permute",
    lambda x, dims: views.permute(own_view(x), dims),
    ("dims",),
    lambda g, out, x, dims: g.permute([dims.index(d) for d in range(len(dims))]),
)
EXPAND = view_op(
    "expand",
    lambda x, shape: views.expand(own_view(x), shape),
    ("shape",),
    lambda g, out, x, shape: g,  # the engine sums over expanded dimensions
)


def slice_view(x: Any, dim: int, start: int, length: int, step: int) -> View:
    shape, strides, offset = list(x._shape), list(x._strides), x._offset
    if length:
        offset += start * strides[dim]
    shape[dim] = length
    strides[dim] *= step
    return View(tuple(shape), tuple(strides), offset)


SLICE = view_op("slice", slice_view, ("dim", "start", "length", "step"), embedding(slice_view))


def select_view(x: Any, dim: int, index: int) -> View:
    shape, strides = x._shape, x._strides
    offset = x._offset + index * strides[dim]
    return View(shape[:dim] + shape[dim + 1 :], strides[:dim] + strides[dim + 1 :], offset)


SELECT = view_op("select", select_view, ("dim", "index"), embedding(select_view))


def pick_view(x: Any, items: tuple[Any, ...]) -> View:
    """Basic indexing, dimension by dimension: None (a new one), an int, or (start, length,
    step).
    """
    shape: list[int] = []
    strides: list[int] = []
    offset, dim = x._offset, 0
    for item in items:
        if item is None:
            shape.append(1)
            strides.append(0)
            continue
        if isinstance(item, int):
            offset += item * x._strides[dim]
        else:
            start, length, step = item
            shape.append(length)
            strides.append(x._strides[dim] * step)
            offset += start * x._strides[dim] if length else 0
        dim += 1
    return View((*shape, *x._shape[dim:]), (*strides, *x._strides[dim:]), offset)


PICK = view_op("pick", pick_view, ("items",), embedding(pick_view))


def diagonal_view(x: Any, offset: int, dim1: int, dim2: int) -> View:
    shape, strides = x._shape, x._strides
    rows, columns = shape[dim1], shape[dim2]
    length = min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns)
    length = max(length, 0)
    start = x._offset
    if length:
        start += offset * strides[dim2] if offset >= 0 else -offset * strides[dim1]
    rest = [d for d in range(len(shape)) if d not in (dim1, dim2)]
    return View(
        (*(shape[d] for d in rest), length),
        (*(strides[d] for d in rest), strides[dim1] + strides[dim2]),
        start,
    )


DIAGONAL = view_op(
    "diagonal", diagonal_view, ("offset", "dim1", "dim2"), embedding(diagonal_view)
)
AS_STRIDED = view_op(
    "as_strided",
    lambda x, shape, strides, offset: View(shape, strides, offset),
    ("shape", "strides", "offset"),
    lambda g, out, x, shape, strides, offset: SCATTER_VIEW(
        g, shape=tuple(x.shape), view=View(shape, strides, offset)
    ),
)


def unfold_view(x: Any, dim: int, size: int, step: int) -> View:
    shape, strides = list(x._shape), list(x._strides)
    if not shape:
        return View((size,), (1,), x._offset)
    own = strides[dim]
    shape[dim] = (shape[dim] - size) // step + 1
    strides[dim] = own * step
    return View((*shape, size), (*strides, own), x._offset)


def _unfold_vjp(g: Any, out: Any, x: Any, dim: int, size: int, step: int) -> Any:
    view = unfold_view(Plain(tuple(x.shape)), dim, size, step)
    rule = EMBED if size <= step else SCATTER_VIEW
    return rule(g, shape=tuple(x.shape), view=view)


UNFOLD = view_op("unfold", unfold_view, ("dim", "size", "step"), _unfold_vjp)


def _scatter_view_lower(k: Any, g: Any, shape: Shape, view: View) -> Any:
    index = k.full(view.shape, view.offset, dt.int64)
    for d, stride in enumerate(view.strides):
        index = index + k.iota(view.shape, d) * stride
    flat = k.full((views.numel(shape),), 0, g.dtype)
    nothing = View(view.shape, (0,) * len(view.shape), 0)
    out = k.scatter("add", flat, g, nothing, [(index, 1, views.numel(shape))])
    return k.reshape(out, shape)


SCATTER_VIEW = Op(  # adds every element of g where `view` read it (x is taken to be contiguous)
    "scatter_view",
    attrs=("shape", "view"),
    type=lambda g, shape, view: TensorType(shape, g.dtype),
    lower=_scatter_view_lower,
    vjp=lambda h, out, g, shape, view: take_view(
        AS_STRIDED, in_order(h), shape=view.shape, strides=view.strides, offset=view.offset
    ),
)


# -- memory


def stored_elements(x: Any) -> int:
    """How many elements of x's dtype its storage has room for."""
    natural = x._storage.value.type
    return int(natural.numel * natural.dtype.itemsize // x.dtype.itemsize)


def memory_of(x: Any) -> Any:
    """All of x's memory as elements of its dtype as they are there, without history."""
    place = View((stored_elements(x),), (1,), 0)
    return take_view(OPS["recast"], x.detach(), **Recast(*place, x.dtype)._asdict())
