"""Pooling: maxima and means of windows, fixed or adaptive."""

from __future__ import annotations

import functools
from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.ops.indexing import only_last
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import Pads, Sizes, padded, sizes_for, spread_pads, window_view
from rushlight.views import View


def pooled_size(
    op: str,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil: bool,
) -> Sizes:
    """Sizes after pooling; with `ceil`, a last window may hang over, but not start outside."""
    out = []
    for n, w, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True):
        room = n + 2 * p - d * (w - 1) - 1
        count = (room + s - 1) // s + 1 if ceil else room // s + 1
        if ceil and (count - 1) * s >= n + p:
            count -= 1
        out.append(count)
    if min(out) < 1:
        raise RuntimeError(
            f"{op}: Given input size: {list(size)}. Calculated output size: {out}. Output size "
            f"is "
            f"too small (kernel {list(kernel)}, stride {list(stride)}, padding {list(padding)})"
        )
    return tuple(out)


def _settings(
    op: str,
    x: Any,
    count: int,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
    """Checked kernel, stride, padding, dilation and output sizes."""
    is_given = stride is not None and not (isinstance(stride, list | tuple) and not stride)
    found = (
        sizes_for(op, "kernel_size", kernel, count),
        sizes_for(op, "stride", stride if is_given else kernel, count),
        sizes_for(op, "padding", padding, count),
        sizes_for(op, "dilation", dilation, count),
    )
    sizes, steps, pads, apart = found
    if min(sizes) < 1 or min(apart) < 1:
        raise RuntimeError(
            f"{op}: kernel size and dilation should be greater than zero, but got "
            f"{list(sizes)} "
            f"and {list(apart)}"
        )
    if min(steps) < 1:
        raise RuntimeError(f"{op}: stride should be greater than zero, but got {list(steps)}")
    if min(pads) < 0:
        raise RuntimeError(f"{op}: padding must be non-negative, got {list(pads)}")
    for w, p, d in zip(sizes, pads, apart, strict=True):
        if p > ((w - 1) * d + 1) // 2:
            raise RuntimeError(
                f"{op}: pad should be at most half of effective kernel size, but got pad={p}, "
                f"kernel_size={w} and dilation={d}"
            )
    if x.ndim not in (count + 1, count + 2) or 0 in x.shape[-count - 1 :]:
        raise RuntimeError(
            f"{op}: Expected {count + 1}D or {count + 2}D (batch mode) tensor with non-zero "
            f"sizes "
            f"after the batch, but got {list(x.shape)}"
        )
    out = pooled_size(op, x.shape[-count:], sizes, steps, pads, apart, ceil)
    return (*found, out)


def _reach_pads(
    size: Sizes, kernel: Sizes, stride: Sizes, low: Sizes, dilation: Sizes, out: Sizes
) -> Pads:
    """Pads that let the last window be read in full."""
    pads = []
    for n, w, s, p, d, o in zip(size, kernel, stride, low, dilation, out, strict=True):
        pads.append((p, max((o - 1) * s + d * (w - 1) + 1 - n - p, 0)))
    return tuple(pads)


# -- maxima
#
#
#

_MAX = ("kernel", "stride", "padding", "dilation", "out")


def _lowest(kind: dt.dtype) -> Any:
    return dt.iinfo(kind).min if kind.is_integral else float("-inf")


def max_pool_lower(
    k: Any, x: Any, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, out: Sizes
) -> tuple[Any, Any]:
    count = len(kernel)
    size = x.shape[-count:]
    wide = k.wide(x)
    pads = _reach_pads(size, kernel, stride, padding, dilation, out)
    windows = window_view(
        k, padded(k, wide, pads, _lowest(wide.dtype)), out, kernel, stride, dilation
    )
    few = views.numel(kernel) <= FEW_POSITIONS
    highest, place = _compared(k, windows, kernel) if few else _reduced(k, windows, kernel)
    values = k.cast(highest, x.dtype)
    index = None
    for d, within in enumerate(place):
        axis = len(values.shape) - count + d
        at = k.iota(values.shape, axis) * stride[d] + within * dilation[d]
        if padding[d]:
            at = k.max(at - padding[d], 0)  # windows of nothing but -inf
        step = views.numel(size[d + 1 :])
        index = at * step if index is None else index + at * step
    return values, index


FEW_POSITIONS = 16
"""Windows of so many elements or fewer are compared side by side for 16 outputs at a time: as
rows of a reduction they would be too short.
"""


def _reduced(k: Any, windows: Any, kernel: Sizes) -> tuple[Any, list[Any]]:
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
    lead = len(windows.shape) - len(kernel)
    highest, within = None, [k.full(windows.shape[:lead], 0, dt.int64) for _ in kernel]
    for number in range(views.numel(kernel)):
        at = views.coordinates(kernel, number)
        x = windows
        for d, place in enumerate(at):
            x = k.slice(x, lead + d, place, 1)
        x = k.reshape(x, windows.shape[:lead])
        if highest is None:
            highest = x
            continue
        better = x > highest
        if x.dtype.is_floating_point:
            better = better | (x.differs(x) & highest.equals(highest))
        highest = k.select(better, x, highest)
        within = [k.select(better, p, w) for p, w in zip(at, within, strict=True)]
    return highest, within


def _max_type(x: TensorType, out: Sizes, **_: Any) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[: -len(out)], *out)
    return TensorType(shape, x.dtype), TensorType(shape, dt.int64)


MAX_POOL = Op(
    "max_pool",
    attrs=_MAX,
    type=_max_type,
    lower=max_pool_lower,
    vjp=lambda g, out_, x, kernel, **_: POOL_SCATTER(
        g[0], out_[1], size=tuple(x.shape[-len(kernel) :]), kind="add"
    ),
)


def _rows(shape: Sizes, count: int) -> tuple[int, int]:
    """How many planes, and elements in each."""
    return views.numel(shape[: len(shape) - count]), views.numel(shape[len(shape) - count :])


def pool_scatter_lower(k: Any, g: Any, index: Any, size: Sizes, kind: str) -> Any:
    rows, own = _rows(g.shape, len(size))
    area = views.numel(size)
    wide = k.reshape(k.wide(g), (rows, own))
    base = k.full((rows, area), 0, wide.dtype)
    view = View((rows, own), (area, 0), 0)
    place = k.reshape(index, (rows, own))
    made = k.scatter(kind, base, wide, view, [(place, 1, area)], "max_unpool")
    return k.cast(k.reshape(made, (*g.shape[: len(g.shape) - len(size)], *size)), g.dtype)


def pool_gather_lower(k: Any, x: Any, index: Any, count: int) -> Any:
    rows, own = _rows(index.shape, count)
    _, area = _rows(x.shape, count)
    view = View((rows, own), (area, 0), 0)
    place = k.reshape(index, (rows, own))
    return k.reshape(k.gather(x, view, [(place, 1, area)], "max_unpool"), index.shape)


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
    found = _settings(op, x, count, kernel, stride, padding, dilation, bool(ceil_mode))
    if x.dtype is dt.bool_ or x.dtype.is_complex:
        raise RuntimeError(f'{op}: "{op}" not implemented for {x.dtype!r}')
    made: tuple[Any, Any] = MAX_POOL(x, **dict(zip(_MAX, found, strict=True)))
    return made


def _public_max(count: int) -> None:
    op = f"max_pool{count}d"

    def function(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        made = _max_pool(op, count, input, kernel_size, stride, padding, dilation, ceil_mode)
        return made if return_indices else made[0]

    def with_indices(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
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
            f"it "
            f"has a length of '{len(wanted)}'"
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
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
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


# -- means
#
#
#

# `count`: a divisor, or 'padded' or 'inside' for the elements of each window with or without
# padding
_AVG = ("kernel", "stride", "low", "out", "count", "high")


def _divisor(
    k: Any,
    size: Sizes,
    like: Any,
    kernel: Sizes,
    stride: Sizes,
    low: Sizes,
    count: Any,
    high: Sizes,
) -> Any:
    """How many elements each window has, as a number or a reference over positions."""
    if not isinstance(count, str):
        return float(count)
    shape = like.shape
    total = None
    for d, (n, w, s, p, q) in enumerate(zip(size, kernel, stride, low, high, strict=True)):
        axis = len(shape) - len(kernel) + d
        start = k.iota(shape, axis) * s - p
        end = k.min(start + w, n + q if count == "padded" else n)
        start = start if count == "padded" else k.max(start, 0)
        total = end - start if total is None else total * (end - start)
    return k.cast(total, like.dtype)


def _windows_sum(k: Any, x: Any, out: Sizes, kernel: Sizes, stride: Sizes) -> Any:
    count = len(kernel)
    windows = window_view(k, x, out, kernel, stride, (1,) * count)
    last = len(windows.shape)
    return k.reduce("sum", windows, tuple(range(last - count, last)))


def avg_pool_lower(
    k: Any,
    x: Any,
    kernel: Sizes,
    stride: Sizes,
    low: Sizes,
    out: Sizes,
    count: Any,
    high: Sizes,
) -> Any:
    size = x.shape[-len(kernel) :]
    one = (1,) * len(kernel)
    wide = padded(k, k.wide(x), _reach_pads(size, kernel, stride, low, one, out))
    total = _windows_sum(k, wide, out, kernel, stride)
    return k.cast(total / _divisor(k, size, total, kernel, stride, low, count, high), x.dtype)


def avg_grad_lower(
    k: Any,
    g: Any,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    low: Sizes,
    out: Sizes,
    count: Any,
    high: Sizes,
) -> Any:
    wide = k.wide(g)
    share = wide / _divisor(k, size, wide, kernel, stride, low, count, high)
    one = (1,) * len(kernel)
    pads = spread_pads(out, size, kernel, stride, tuple((p, p) for p in low), one)
    spread = padded(k, share, pads, 0, tuple(s - 1 for s in stride))
    return k.cast(_windows_sum(k, spread, size, kernel, one), g.dtype)


AVG_POOL = Op(
    "avg_pool",
    attrs=_AVG,
    type=lambda x, out, **_: TensorType((*x.shape[: -len(out)], *out), x.dtype),
    lower=avg_pool_lower,
    vjp=lambda g, out_, x, kernel, **how: AVG_POOL_GRAD(
        g, size=tuple(x.shape[-len(kernel) :]), kernel=kernel, **how
    ),
)
AVG_POOL_GRAD = Op(
    "avg_pool_grad",
    attrs=("size", *_AVG),
    type=lambda g, size, **_: TensorType((*g.shape[: -len(size)], *size), g.dtype),
    lower=avg_grad_lower,
    vjp=lambda h, out_, g, size, **how: AVG_POOL(h, **how),
)


def window_sum(x: Any, kernel: Sizes, first_pads: tuple[int, int]) -> Any:
    """Sums of windows with stride 1 that keep the size; padding in the first spatial
    dimension.
    """
    rest = (0,) * (len(kernel) - 1)
    return AVG_POOL(
        x,
        kernel=kernel,
        stride=(1,) * len(kernel),
        low=(first_pads[0], *rest),
        out=tuple(x.shape[-len(kernel) :]),
        count=1,
        high=(first_pads[1], *rest),
    )


def _avg_pool(
    op: str,
    count: int,
    x: Any,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: Any,
) -> Any:
    if divisor_override == 0:
        raise RuntimeError(f"{op}: divisor must be not zero")
    sizes, steps, pads, _, out = _settings(
        op, x, count, kernel, stride, padding, 1, bool(ceil_mode)
    )
    if not x.dtype.is_floating_point and x.dtype is not dt.int64:
        raise RuntimeError(f'{op}: "{op}" not implemented for {x.dtype!r}')
    if x.dtype is dt.int64:
        raise RuntimeError(f'{op}: "{op}" not implemented for {x.dtype!r}')
    how: Any = "padded" if count_include_pad else "inside"
    if divisor_override is not None:
        how = int(divisor_override)
    elif not ceil_mode and (count_include_pad or not any(pads)):
        how = views.numel(sizes)
    return AVG_POOL(x, kernel=sizes, stride=steps, low=pads, out=out, count=how, high=pads)


@public("torch", "F")
def avg_pool1d(
    input: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window."""
    return _avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


def _public_avg(count: int) -> None:
    op = f"avg_pool{count}d"

    def function(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        return _avg_pool(
            op, count, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override,
        )  # fmt: skip

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The mean of each window."
    public("F")(function)


_public_avg(2)
_public_avg(3)


def _lp_pool(
    op: str, count: int, x: Any, p: float, kernel: Any, stride: Any, ceil: bool
) -> Any:
    sizes = sizes_for(op, "kernel_size", kernel, count)
    mean = _avg_pool(op, count, x.pow(p), sizes, stride, 0, ceil, True, None)
    total = mean.sign() * mean.abs() * views.numel(sizes)
    return total.pow(1.0 / p)


def _public_lp(count: int) -> None:
    op = f"lp_pool{count}d"

    def function(
        input: Any,
        norm_type: float,
        kernel_size: Any,
        stride: Any = None,
        ceil_mode: bool = False,
    ) -> Any:
        return _lp_pool(op, count, input, norm_type, kernel_size, stride, ceil_mode)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The p-norm of each window."
    public("F")(function)


for _count in (1, 2, 3):
    _public_lp(_count)


# -- adaptive
#
#
#


def adaptive_edges(size: int, out: int) -> list[tuple[int, int]]:
    """The first and one past the last element of each window."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive_size(op: str, x: Any, output_size: Any, count: int) -> Sizes:
    if x.ndim not in (count + 1, count + 2) or 0 in x.shape[-count:]:
        raise RuntimeError(
            f"{op}: Expected {count + 1}D or {count + 2}D tensor with non-zero spatial sizes, "
            f"but "
            f"got {list(x.shape)}"
        )
    wanted = output_size if isinstance(output_size, list | tuple) else (output_size,) * count
    if len(wanted) == 1:
        wanted = tuple(wanted) * count
    if len(wanted) != count:
        raise RuntimeError(f"{op}: output_size must have {count} elements, got {list(wanted)}")
    size = tuple(
        int(n) if w is None else int(w) for w, n in zip(wanted, x.shape[-count:], strict=True)
    )
    if min(size) < 0:
        raise RuntimeError(
            f"{op}: elements of output_size must be greater than or equal to 0 but received "
            f"{list(size)}"
        )
    return size


def _adaptive_avg(op: str, count: int, x: Any, output_size: Any) -> Any:
    size = _adaptive_size(op, x, output_size, count)
    spatial = x.shape[-count:]
    if not x.dtype.is_floating_point:
        raise RuntimeError(f'{op}: "{op}" not implemented for {x.dtype!r}')
    if all(s == 1 for s in size):
        return x.mean(list(range(-count, 0)), keepdim=True)
    if 0 not in size and all(n % s == 0 for n, s in zip(spatial, size, strict=True)):
        kernel = tuple(n // s for n, s in zip(spatial, size, strict=True))
        return _avg_pool(op, count, x, kernel, None, 0, False, True, None)
    from rushlight.ops.interpolate import averaged  # resampling is a later family

    for d, s in enumerate(size):
        x = averaged(x, x.ndim - count + d, s)
    return x


@functools.lru_cache(maxsize=256)
def _adaptive_table(size: Sizes, out: Sizes) -> Any:
    """(positions, widest window) of flat indices into a plane; short windows repeat their
    first.
    """
    edges = [adaptive_edges(n, o) for n, o in zip(size, out, strict=True)]
    steps = views.contiguous_strides(size)
    windows = []
    for position in np.ndindex(*out):
        spans = [range(*edges[d][i]) for d, i in enumerate(position)]
        grid = np.meshgrid(*spans, indexing="ij")
        windows.append(
            np.asarray(sum(g * s for g, s in zip(grid, steps, strict=True))).reshape(-1)
        )
    widest = max((len(w) for w in windows), default=1)
    table = np.array(
        [np.concatenate([w, np.full(widest - len(w), w[0])]) for w in windows], np.int64
    ).reshape(len(windows), widest)
    from rushlight.tensor import tensor_of_array  # tensors come after ops

    return tensor_of_array(table, dt.int64)


def adaptive_max_lower(k: Any, x: Any, table: Any, out: Sizes) -> tuple[Any, Any]:
    rows, area = _rows(x.shape, len(out))
    positions, widest = table.shape
    flat = k.reshape(x, (rows, area))
    view = View((rows, positions, widest), (area, 0, 0), 0)
    windows = k.wide(
        k.gather(flat, view, [(k.reshape(table, (1, positions, widest)), 1, area)])
    )
    place = k.reduce("argmax", windows, (2,))
    picked = View((rows, positions), (0, widest), 0)
    index = k.gather(table, picked, [(place, 1, widest)])
    shape = (*x.shape[: len(x.shape) - len(out)], *out)
    values = k.cast(k.reduce("max", windows, (2,)), x.dtype)
    return k.reshape(values, shape), k.reshape(index, shape)


ADAPTIVE_MAX = Op(
    "adaptive_max_pool",
    attrs=("out",),
    type=lambda x, table, out: _max_type(x, out),
    lower=adaptive_max_lower,
    vjp=lambda g, out_, x, table, out: (
        POOL_SCATTER(g[0], out_[1], size=tuple(x.shape[-len(out) :]), kind="add"),
        None,
    ),
)


def _public_adaptive(count: int) -> None:
    avg, largest = f"adaptive_avg_pool{count}d", f"adaptive_max_pool{count}d"

    def mean(input: Any, output_size: Any) -> Any:
        return _adaptive_avg(avg, count, input, output_size)

    def maximum(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        made = with_indices(input, output_size)
        return made if return_indices else made[0]

    def with_indices(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        size = _adaptive_size(largest, input, output_size, count)
        table = _adaptive_table(tuple(input.shape[-count:]), size)
        return ADAPTIVE_MAX(input, table, out=size)

    for function, name in (
        (mean, avg), (maximum, largest), (with_indices, largest + "_with_indices"),
    ):  # fmt: skip
        function.__name__ = function.__qualname__ = name
        function.__doc__ = "Windows of sizes that give the wanted output size, pooled."
    public("F", *(("torch",) if count == 1 else ()))(mean)
    public("F", *(("torch",) if count == 1 else ()))(maximum)
    public("F")(with_indices)


for _count in (1, 2, 3):
    _public_adaptive(_count)
