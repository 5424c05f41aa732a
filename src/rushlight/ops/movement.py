"""Views of a tensor's own elements, writes through views, and rearrangements that copy.

A view op's `type` rule returns the View it takes of its operand's storage; nothing is recorded but the gradient edge.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn  # operands are tensors

from rushlight import dtype as dt
from rushlight import errors, views
from rushlight.ops.registry import Op, TensorType, public, recorder
from rushlight.views import Shape, View


def view_op(name: str, view: Callable[..., View], attrs: tuple[str, ...], vjp: Callable[..., Any]) -> Op:
    """A view op: `view(x, **attrs)` gives the View of x's storage."""

    def no_lowering(*_: Any, **__: Any) -> NoReturn:
        raise AssertionError(f"{name} is a view and is never lowered")

    return Op(name, attrs=attrs, type=view, lower=no_lowering, vjp=vjp)


def take_view(op: Op, x: Any, **attrs: Any) -> Any:
    return recorder.apply_view(op, x, tuple(attrs[a] for a in op.attrs))


def own_view(x: Any) -> View:
    """The view through which a tensor reads its storage."""
    return View(x._shape, x._strides, x._offset)


# -- writes and embeddings: the transposes of views -------------------------------------------------------

WRITE = Op(  # the storage's next Value: `source` written at `view` of `base`
    "write",
    attrs=("view",),
    type=lambda base, source, view: TensorType(base.shape, base.dtype),
    lower=lambda k, base, source, view: k.update(base, [(source, view)], base.shape, base.dtype),
    vjp=None,
)


def _write_region_vjp(g: Any, out: Any, base: Any, source: Any, chain: Any) -> Any:
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
EMBED = Op(  # zeros of `shape` with x's elements at `view`
    "embed",
    attrs=("shape", "view"),
    type=lambda x, shape, view: TensorType(shape, x.dtype),
    lower=lambda k, x, shape, view: k.update(
        k.full(shape, 0, x.dtype), [(x, view)], shape, x.dtype
    ),
    vjp=lambda g, out, x, shape, view: take_view(
        AS_STRIDED, g.contiguous(), shape=view.shape, strides=view.strides, offset=view.offset
    ),
)


# -- view ops ----------------------------------------------------------------------------------------------


def reshape_view(x: Any, shape: Shape) -> View:
    found = views.try_reshape(own_view(x), shape)
    if found is None:
        raise errors.bad_view("view", x._shape, x._strides, shape)
    return found


RESHAPE = view_op("view", reshape_view, ("shape",), lambda g, out, x, shape: g.reshape(x.shape))
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


def _slice_vjp(g: Any, out: Any, x: Any, dim: int, start: int, length: int, step: int) -> Any:
    own = list(views.contiguous_strides(x.shape))
    offset = start * own[dim] if length else 0
    own[dim] *= step
    shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
    return EMBED(g, shape=tuple(x.shape), view=View(shape, tuple(own), offset))


SLICE = view_op("slice", slice_view, ("dim", "start", "length", "step"), _slice_vjp)
AS_STRIDED = view_op(
    "as_strided",
    lambda x, shape, strides, offset: View(shape, strides, offset),
    ("shape", "strides", "offset"),
    lambda g, out, x, shape, strides, offset: _as_strided_vjp(g, x, View(shape, strides, offset)),
)


def _as_strided_vjp(g: Any, x: Any, view: View) -> Any:
    """Adds every element of g where it was read (x is taken to be contiguous)."""
    return SCATTER_VIEW(g, shape=tuple(x.shape), view=view)


def _scatter_view_lower(k: Any, g: Any, shape: Shape, view: View) -> Any:
    index = k.full(view.shape, view.offset, dt.int64)
    for d, stride in enumerate(view.strides):
        index = index + k.iota(view.shape, d) * stride
    flat = k.full((views.numel(shape),), 0, g.dtype)
    nothing = View(view.shape, (0,) * len(view.shape), 0)
    out = k.scatter("add", flat, g, nothing, [(index, 1, views.numel(shape))])
    return k.reshape(out, shape)


SCATTER_VIEW = Op(
    "scatter_view",
    attrs=("shape", "view"),
    type=lambda g, shape, view: TensorType(shape, g.dtype),
    lower=_scatter_view_lower,
    vjp=lambda h, out, g, shape, view: take_view(
        AS_STRIDED, h.contiguous(), shape=view.shape, strides=view.strides, offset=view.offset
    ),
)


def sizes_of(args: tuple[Any, ...]) -> Shape:
    """Sizes given as `f(2, 3)` or `f((2, 3))`."""
    if len(args) == 1 and isinstance(args[0], Sequence):
        args = tuple(args[0])
    return tuple(int(a) for a in args)


@public("Tensor")
def view(input: Any, *shape: Any) -> Any:
    """The same elements under another shape, sharing memory; RuntimeError if that needs a copy."""
    sizes = views.resolve_shape("view", sizes_of(shape), input.shape)
    return take_view(RESHAPE, input, shape=sizes)


@public("Tensor")
def reshape(input: Any, *shape: Any) -> Any:
    """The same elements under another shape: a view where possible, otherwise a copy."""
    sizes = views.resolve_shape("reshape", sizes_of(shape), input.shape)
    if views.try_reshape(own_view(input), sizes) is None:
        input = input.clone()
    return take_view(RESHAPE, input, shape=sizes)


@public("Tensor")
def permute(input: Any, *dims: Any) -> Any:
    """The dimensions in another order, sharing memory."""
    order = tuple(views.dim_index("permute", d, input.ndim) for d in sizes_of(dims))
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute: dims {list(order)} must name each of the {input.ndim} dimensions once"
        )
    return take_view(PERMUTE, input, dims=order)


@public("torch", "Tensor", aliases=("swapaxes", "swapdims"))
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged, sharing memory."""
    a = views.dim_index("transpose", dim0, input.ndim)
    b = views.dim_index("transpose", dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return take_view(PERMUTE, input, dims=tuple(order))


@public("Tensor")
def expand(input: Any, *sizes: Any) -> Any:
    """Broadcast to a larger shape without copying (-1 keeps a size)."""
    wanted = sizes_of(sizes)
    extra = len(wanted) - input.ndim
    if extra < 0:
        raise RuntimeError(
            f"expand: the number of sizes provided ({len(wanted)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({input.ndim})"
        )
    shape = tuple(
        input.shape[i - extra] if size == -1 and i >= extra else size
        for i, size in enumerate(wanted)
    )
    for i, own in enumerate(input.shape):
        if own != 1 and own != shape[i + extra]:
            raise RuntimeError(
                f"expand: The expanded size of the tensor ({shape[i + extra]}) must match the "
                f"existing size ({own}) at non-singleton dimension {i + extra}.  Target sizes: "
                f"{list(wanted)}.  Tensor sizes: {list(input.shape)}"
            )
    if any(s < 0 for s in shape):
        raise RuntimeError(f"expand: invalid sizes {list(wanted)}")
    return take_view(EXPAND, input, shape=shape)
