"""Pooling to a wanted output size: windows of sizes that give it."""

from __future__ import annotations

import functools
from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.max_pool import POOL_SCATTER, max_type, planes
from rushlight.ops.pool import avg_pool
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import Sizes
from rushlight.views import View


def adaptive_edges(size: int, out: int) -> list[tuple[int, int]]:
    """The first and one past the last element of each window."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def _adaptive_size(op: str, x: Any, output_size: Any, count: int) -> Sizes:
    if count > 1 and isinstance(output_size, list | tuple) and x.ndim <= len(output_size):
        raise ValueError(
            f"{op}: Input dimension should be at least {count + 1}, got shape {list(x.shape)}"
        )
    if x.ndim not in (count + 1, count + 2) or 0 in x.shape[-count:]:
        raise RuntimeError(
            f"{op}: Expected {count + 1}D or {count + 2}D tensor with non-zero spatial sizes, "
            f"but got {list(x.shape)}"
        )
    wanted = output_size if isinstance(output_size, list | tuple) else (output_size,) * count
    if len(wanted) == 1:
        wanted = tuple(wanted) * count
    if len(wanted) != count:
        raise RuntimeError(f"{op}: output_size must have {count} elements, got {list(wanted)}")
    size = tuple(
        int(n) if w is None else views.whole_number(op, "output_size", w)
        for w, n in zip(wanted, x.shape[-count:], strict=True)
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
        raise errors.not_implemented_for(op, x.dtype, "a floating dtype")
    if all(s == 1 for s in size):
        return x.mean(list(range(-count, 0)), keepdim=True)
    if 0 not in size and all(n % s == 0 for n, s in zip(spatial, size, strict=True)):
        kernel = tuple(n // s for n, s in zip(spatial, size, strict=True))
        return avg_pool(op, count, x, kernel, None, 0, False, True, None)
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
    from rushlight.arrays import tensor_of_array  # tensors come after ops

    return tensor_of_array(table, dt.int64)


def adaptive_max_lower(k: Any, x: Any, table: Any, out: Sizes) -> tuple[Any, Any]:
    rows, area = planes(x.shape, len(out))
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


def adaptive_max_type(x: TensorType, table: TensorType, out: Sizes) -> Any:
    if not x.dtype.is_floating_point:
        raise errors.not_implemented_for("adaptive_max_pool", x.dtype, "a floating dtype")
    return max_type(x, out)


ADAPTIVE_MAX = Op(
    "adaptive_max_pool",
    attrs=("out",),
    type=adaptive_max_type,
    lower=adaptive_max_lower,
    vjp=lambda g, out_, x, table, out: (
        POOL_SCATTER(g[0], out_[1], size=tuple(x.shape[-len(out) :]), kind="add"),
        None,
    ),
    reads=1,
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
    public("F")(maximum)
    public("F")(with_indices)
    if count == 1:
        public("torch", name=largest)(with_indices)


for _count in (1, 2, 3):
    _public_adaptive(_count)
