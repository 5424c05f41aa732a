"""The ops behind arrays of indices: reading at them, adding and writing there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # indices are of many kinds

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import WHERE
from rushlight.ops.ranges import ARANGE
from rushlight.ops.registry import Op, TensorType
from rushlight.views import Shape, View


def index_shape(own: Shape, dims: Shape, indices: Sequence[Any]) -> tuple[Shape, int, int]:
    """The result's shape, where the broadcast index dimensions stand in it, and how many."""
    try:
        common = views.broadcast_shapes("index", *(i.shape for i in indices))
    except RuntimeError:
        shapes = ", ".join(errors.shape_text(i.shape) for i in indices)
        raise IndexError(
            f"shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{shapes}"
        ) from None
    is_together = all(b - a == 1 for a, b in zip(dims, dims[1:], strict=False))
    at = dims[0] if is_together else 0
    rest = [s for d, s in enumerate(own) if d not in dims]
    return (*rest[:at], *common, *rest[at:]), at, len(common)


def _places(
    k: Any, own: View, dims: Shape, indices: Sequence[Any], wraps: bool
) -> tuple[View, list[tuple[Any, int, int]]]:
    """Where the elements chosen by `indices` lie: a view for the other dimensions, and
    steps. `wraps`: negative numbers count from the end.
    """
    shape, at, count = index_shape(own.shape, dims, indices)
    rest = [s for d, s in enumerate(own.strides) if d not in dims]
    strides = (*rest[:at], *([0] * count), *rest[at:])
    after = len(shape) - at - count
    steps = []
    for dim, index in zip(dims, indices, strict=True):
        whole = k.cast(index, dt.int64)
        size = own.shape[dim]
        whole = k.select(whole < 0, whole + k.extent(size), whole) if wraps else whole
        placed = (*([1] * (count - len(whole.shape))), *whole.shape, *([1] * after))
        steps.append((k.reshape(whole, placed), own.strides[dim], size))
    return View(shape, strides, own.offset), steps


def _label(wraps: bool) -> str:
    return errors.WRAPPED_INDEX if wraps else "index"


def _index_lower(k: Any, x: Any, *indices: Any, dims: Shape, wraps: bool) -> Any:
    plain, own = k.source_of(x)
    view, steps = _places(k, own, dims, indices, wraps)
    if 0 in view.shape:
        return k.full(view.shape, 0, x.dtype)
    return k.gather(plain, view, steps, _label(wraps))


def _index_type(x: TensorType, *indices: TensorType, dims: Shape, wraps: bool) -> TensorType:
    shape = index_shape(x.shape, dims, indices)[0]
    if any(x.shape[d] == 0 for d in dims) and views.numel(shape):
        raise IndexError("index is out of bounds for dimension with size 0")
    return TensorType(shape, x.dtype)


def _index_vjp(g: Any, out: Any, x: Any, *indices: Any, dims: Shape, wraps: bool) -> Any:
    summed = INDEX_SUM(g, *indices, shape=tuple(x.shape), dims=dims, wraps=wraps)
    return summed, *([None] * len(indices))


def index_op(name: str) -> Op:
    """Elements at arrays of indices, for a function whose errors and gradients are named so."""
    made = Op(
        name,
        attrs=("dims", "wraps"),
        type=_index_type,
        lower=_index_lower,
        vjp=_index_vjp,
        jvp=lambda t, out, x, *indices, **named: made(t[0], *indices, **named),
    )
    return made


INDEX = index_op("index")


def _put(
    k: Any,
    kind: str,
    base: Any,
    source: Any,
    dims: Shape,
    indices: Sequence[Any],
    wraps: bool,
) -> Any:
    view, steps = _places(k, views.whole(base.shape), dims, indices, wraps)
    if 0 in view.shape:
        return base
    return k.scatter(kind, base, source, view, steps, _label(wraps))


def _index_sum_lower(
    k: Any, g: Any, *indices: Any, shape: Shape, dims: Shape, wraps: bool
) -> Any:
    wide = k.wide(g)
    out = _put(k, "add", k.full(shape, 0, wide.dtype), wide, dims, indices, wraps)
    return k.cast(out, g.dtype)


INDEX_SUM = Op(  # zeros of `shape` with every element of g added where `index` read it
    "index_sum",
    attrs=("shape", "dims", "wraps"),
    type=lambda g, *indices, shape, dims, wraps: TensorType(shape, g.dtype),
    lower=_index_sum_lower,
    vjp=lambda h, out, g, *indices, shape, dims, wraps: (
        INDEX(h, *indices, dims=dims, wraps=wraps),
        *([None] * len(indices)),
    ),
)


def _index_put_lower(
    k: Any,
    base: Any,
    source: Any,
    *indices: Any,
    dims: Shape,
    accumulate: bool,
    wraps: bool,
) -> Any:
    if not accumulate:
        return _put(k, "set", base, k.cast(source, base.dtype), dims, indices, wraps)
    wide = k.cast(base, dt.int32) if base.dtype is dt.bool_ else k.wide(base)
    added = _put(k, "add", wide, k.cast(source, wide.dtype), dims, indices, wraps)
    return k.cast(added, base.dtype)


def _index_put_type(
    base: TensorType,
    source: TensorType,
    *indices: TensorType,
    dims: Shape,
    accumulate: bool,
    wraps: bool,
) -> TensorType:
    shape = _index_type(base, *indices, dims=dims, wraps=wraps).shape
    fits = len(source.shape) <= len(shape) and all(
        s in (1, t) for s, t in zip(reversed(source.shape), reversed(shape), strict=False)
    )
    if not fits:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {errors.shape_text(source.shape)} cannot "
            f"be broadcast to indexing result of shape {errors.shape_text(shape)}"
        )
    return TensorType(base.shape, base.dtype)


def only_last(g: Any, put: Callable[[Any], Any], read: Callable[[Any], Any]) -> Any:
    """g where an element was the last that was put in its place, and zero where another was put
    over it. `put` places integers in the way of the op, `read` finds them again.
    """
    order = ARANGE(0, 1, length=g.numel(), dtype=dt.int64).reshape(g.shape)
    return WHERE(read(put(order)) == order, g, 0)


def _index_put_vjp(
    g: Any,
    out: Any,
    base: Any,
    source: Any,
    *indices: Any,
    dims: Shape,
    accumulate: bool,
    wraps: bool,
) -> Any:
    named = {"dims": dims, "accumulate": accumulate, "wraps": wraps}
    chosen = INDEX(g, *indices, dims=dims, wraps=wraps)
    nothing = [None] * len(indices)
    if accumulate:
        return g, chosen, *nothing
    empty = FULL(shape=tuple(g.shape), value=-1, dtype=dt.int64)
    kept = only_last(
        chosen,
        lambda order: INDEX_PUT(empty, order, *indices, **named),
        lambda placed: INDEX(placed, *indices, dims=dims, wraps=wraps),
    )
    return INDEX_PUT(g, 0, *indices, **named), kept, *nothing


def index_put_op(name: str, vjp: Any = _index_put_vjp) -> Op:
    """Elements put or added at arrays of indices, for a function as in `index_op`."""
    return Op(
        name,
        attrs=("dims", "accumulate", "wraps"),
        type=_index_put_type,
        lower=_index_put_lower,
        vjp=vjp,
    )


INDEX_PUT = index_put_op("index_put")
