"""Pooling: maxima of windows, where they lie, and the way back."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ops.index_arrays import only_last
from rushlight.ops.pool import reach_pads, settings
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import (
    FEW_ELEMENTS,
    Sizes,
    padded,
    sizes_for,
    window_elements,
    window_view,
)
from rushlight.views import View

_MAX = ("kernel", "stride", "padding", "dilation", "out")


def _lowest(kind: dt.dtype) -> Any:
    return dt.iinfo(kind).min if kind.is_integral else float("-inf")


def max_pool_lower(
    k: Any, x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> tuple[Any, Any]:
    count = len(kernel)
    size = x.shape[-count:]
    wide = k.wide(x)
    pads = reach_pads(size, kernel, stride, padding, dilation, out)
    windows = window_view(
        k, padded(k, wide, pads, _lowest(wide.dtype)), out, kernel, stride, dilation
    )
    few = views.numel(kernel) <= FEW_ELEMENTS
    highest, place = _compared(k, windows, kernel) if few else maxima(k, windows, kernel)
    values = k.cast(highest, x.dtype)
    index = None
    for d, within in enumerate(place):
        axis = len(values.shape) - count + d
        at = k.iota(values.shape, axis) * stride[d] + within * dilation[d]
        if padding[d]:
            at = k.max(at - padding[d], 0)  # windows of nothing but -inf
        if d + 1 < count:
            at = at * k.extent(views.numel(size[d + 1 :]))
        index = at if index is None else index + at
    return values, index


def maxima(k: Any, windows: Any, kernel: Sizes) -> tuple[Any, list[Any]]:
    """Maxima of windows (*lead, *out, *kernel), and in each spatial dimension where within the
    window the first of them lies.
    """
    dims = tuple(range(len(windows.shape) - len(kernel), len(windows.shape)))
    place = k.reduce("argmax", windows, dims)
    within = []
    for size in reversed(kernel):
        within.append(k.remainder(place, size))
        place = k.floordiv(place, size)
    return k.reduce("max", windows, dims), within[::-1]


def _compared(k: Any, windows: Any, kernel: Sizes) -> tuple[Any, list[Any]]:
    """The same by comparing the elements of a window one after the other."""
    highest: Any = None
    within = [k.full(windows.shape[: -len(kernel)], 0, dt.int64) for _ in kernel]
    for at, x in window_elements(k, windows, len(kernel)):
        if highest is None:
            highest = x
            continue
        better = x > highest
        if x.dtype.is_floating_point:
            better = better | (x.differs(x) & highest.equals(highest))
        highest = k.select(better, x, highest)
        within = [k.select(better, p, w) for p, w in zip(at, within, strict=True)]
    return highest, within


def max_type(x: TensorType, out: Sizes, **_: Any) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[: -len(out)], *out)
    return TensorType(shape, x.dtype), TensorType(shape, dt.int64)


MAX_POOL = Op(
    "max_pool",
    attrs=_MAX,
    type=max_type,
    lower=max_pool_lower,
    vjp=lambda g, out_, x, kernel, **_: POOL_SCATTER(
        g[0], out_[1], size=tuple(x.shape[-len(kernel) :]), kind="add"
    ),
    reads=1,
)


def planes(shape: Sizes, count: int) -> tuple[int, int]:
    """How many planes, and elements in each."""
    return views.numel(shape[: len(shape) - count]), views.numel(shape[len(shape) - count :])


def pool_scatter_lower(k: Any, g: Any, index: Any, size: Sizes, kind: str) -> Any:
    rows, own = planes(g.shape, len(size))
    area = views.numel(size)
    wide = k.reshape(k.wide(g), (rows, own))
    base = k.full((rows, area), 0, wide.dtype)
    view = View((rows, own), (area, 0), 0)
    place = k.reshape(index, (rows, own))
    made = k.scatter(kind, base, wide, view, [(place, 1, area)])
    return k.cast(k.reshape(made, (*g.shape[: len(g.shape) - len(size)], *size)), g.dtype)


def pool_gather_lower(k: Any, x: Any, index: Any, count: int) -> Any:
    rows, own = planes(index.shape, count)
    _, area = planes(x.shape, count)
    view = View((rows, own), (area, 0), 0)
    place = k.reshape(index, (rows, own))
    return k.reshape(k.gather(x, view, [(place, 1, area)]), index.shape)


def _pool_scatter_vjp(h: Any, index: Any, size: Sizes, kind: str) -> Any:
    def read(placed: Any) -> Any:
        return POOL_GATHER(placed, index, count=len(size))

    def put(order: Any) -> Any:
        return POOL_SCATTER(order, index, size=size, kind="set")

    return only_last(read(h), put, read) if kind == "set" else read(h)


# zeros of spatial `size` with g added (or set) at flat indices of each plane
POOL_SCATTER = Op(
    "pool_scatter",
    attrs=("size", "kind"),
    type=lambda g, index, size, kind: TensorType(
        (*g.shape[: len(g.shape) - len(size)], *size), g.dtype
    ),
    lower=pool_scatter_lower,
    vjp=lambda h, out, g, index, size, kind: (_pool_scatter_vjp(h, index, size, kind), None),
)
POOL_GATHER = Op(
    "pool_gather",
    attrs=("count",),
    type=lambda x, index, count: TensorType(index.shape, x.dtype),
    lower=pool_gather_lower,
    vjp=lambda g, out, x, index, count: (
        POOL_SCATTER(g, index, size=tuple(x.shape[x.ndim - count :]), kind="add"),
        None,
    ),
)


def _max_pool(
    op: str,
    count: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
) -> tuple[Any, Any]:
    found = settings(op, x, count, kernel, stride, padding, dilation, bool(ceil_mode))
    if x.dtype is dt.bool_ or x.dtype.is_complex:
        raise errors.not_implemented_for(op, x.dtype, "real numbers")
    made: tuple[Any, Any] = MAX_POOL(x, **dict(zip(_MAX, found, strict=True)))
    return made


def _public_max(count: int) -> None:
    op = f"max_pool{count}d"

    def function(
        input: Any,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        made = _max_pool(op, count, input, kernel_size, stride, padding, dilation, ceil_mode)
        return made if return_indices else made[0]

    def with_indices(
        input: Any,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        return _max_pool(op, count, input, kernel_size, stride, padding, dilation, ceil_mode)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The maximum of each window (and its flat position in the plane)."
    with_indices.__name__ = with_indices.__qualname__ = op + "_with_indices"
    with_indices.__doc__ = f"{op} with indices."
    public("torch", "F")(function)
    public("F", *(("torch",) if count == 1 else ()))(with_indices)


for _count in (1, 2, 3):
    _public_max(_count)


def _unpooled_size(
    x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, output_size: Any, count: int
) -> Sizes:
    spatial = x.shape[-count:]
    default = tuple(
        (n - 1) * s + w - 2 * p
        for n, s, w, p in zip(spatial, stride, kernel, padding, strict=True)
    )
    if output_size is None:
        return default
    wanted = tuple(int(v) for v in output_size)
    if len(wanted) == count + 2:
        wanted = wanted[2:]
    if len(wanted) != count:
        raise ValueError(
            f"output_size should be a sequence containing {count} or {count + 2} elements, but "
            f"it has a length of '{len(wanted)}'"
        )
    for size, usual, s in zip(wanted, default, stride, strict=True):
        if not usual - s < size < usual + s:
            raise ValueError(
                f"invalid output_size {list(wanted)} (each must be within a stride of "
                f"{list(default)})"
            )
    return wanted


def _public_unpool(count: int) -> None:
    op = f"max_unpool{count}d"

    def function(
        input: Any,
        indices: Any,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        output_size: Any = None,
    ) -> Any:
        kernel = sizes_for(op, "kernel_size", kernel_size, count)
        steps = sizes_for(op, "stride", kernel if stride is None else stride, count)
        pads = sizes_for(op, "padding", padding, count)
        if indices.dtype is not dt.int64:
            raise RuntimeError(
                f"{op}: elements in indices should be type int64 but got: {indices.dtype!r}"
            )
        if tuple(indices.shape) != tuple(input.shape):
            raise RuntimeError(
                f"{op}: Expected shape of indices to be same as that of the input tensor "
                f"({list(input.shape)}) but got indices tensor with shape: "
                f"{list(indices.shape)}"
            )
        size = _unpooled_size(input, kernel, steps, pads, output_size, count)
        return POOL_SCATTER(input, indices, size=size, kind="set")

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "Zeros with the pooled values back at their indices."
    public("F")(function)


for _count in (1, 2, 3):
    _public_unpool(_count)
