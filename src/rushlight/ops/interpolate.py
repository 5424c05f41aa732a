"""Resampling along dimensions by tables: interpolation, averages over uneven windows, padding
by index, and shuffles of pixels.

A table says, for every output position, which elements are read (`index`, one row a tap) and
how much of each (`weight`). Tables are calculated once by size and kept.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any  # operands are tensors

import numpy as np

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.advice import warn_deprecated
from rushlight.argument_kinds import IntList
from rushlight.dtypes import dtype
from rushlight.ops.adaptive_pool import adaptive_edges
from rushlight.ops.elementwise import CAST
from rushlight.ops.registry import Op, TensorType, public, recorder
from rushlight.views import View

Array = Any  # NumPy arrays of tables


# -- the ops


def _tap(k: Any, table: Any, tap: int, shape: tuple[int, ...], dim: int) -> Any:
    """One row of a table, broadcastable along `dim` of `shape`."""
    row = k.slice(table, 0, tap, 1)
    return k.reshape(row, tuple(table.shape[1] if d == dim else 1 for d in range(len(shape))))


def _along(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


def _line_view(base: tuple[int, ...], shape: tuple[int, ...], dim: int) -> tuple[View, int]:
    strides = list(views.contiguous_strides(base))
    step = strides[dim]
    strides[dim] = 0
    return View(shape, tuple(strides), 0), step


def take_lower(k: Any, x: Any, index: Any, dim: int) -> Any:
    shape = _along(x.shape, dim, index.shape[1])
    view, step = _line_view(x.shape, shape, dim)
    return k.gather(x, view, [(_tap(k, index, 0, shape, dim), step, x.shape[dim])])


def put_lower(k: Any, g: Any, index: Any, dim: int, size: int) -> Any:
    shape = _along(g.shape, dim, size)
    wide = k.wide(g)
    view, step = _line_view(shape, g.shape, dim)
    at = [(_tap(k, index, 0, g.shape, dim), step, size)]
    return k.cast(k.scatter("add", k.full(shape, 0, wide.dtype), wide, view, at), g.dtype)


TAKE = Op(  # elements along dim by a table of one row
    "take_along",
    attrs=("dim",),
    type=lambda x, index, dim: TensorType(_along(x.shape, dim, index.shape[1]), x.dtype),
    lower=take_lower,
    vjp=lambda g, out, x, index, dim: (PUT(g, index, dim=dim, size=x.shape[dim]), None),
)
PUT = Op(  # its transpose: added up where they were taken
    "put_along",
    attrs=("dim", "size"),
    type=lambda g, index, dim, size: TensorType(_along(g.shape, dim, size), g.dtype),
    lower=put_lower,
    vjp=lambda h, out, g, index, dim, size: (TAKE(h, index, dim=dim), None),
)


def _weighted(k: Any, x: Any, weight: Any, padded: bool) -> Any:
    """x by a row of weights. Where a table is `padded`, what weighs nothing is not there: an
    infinite element makes no NaN of it.
    """
    weight = k.cast(weight, x.dtype)
    return k.select(weight.equals(0.0), 0.0, x * weight) if padded else x * weight


def resample_lower(k: Any, x: Any, index: Any, weight: Any, dim: int, padded: bool) -> Any:
    shape = _along(x.shape, dim, index.shape[1])
    view, step = _line_view(x.shape, shape, dim)
    wide = k.wide(x)
    total = None
    for tap in range(index.shape[0]):
        read = k.gather(wide, view, [(_tap(k, index, tap, shape, dim), step, x.shape[dim])])
        part = _weighted(k, read, _tap(k, weight, tap, shape, dim), padded)
        total = part if total is None else total + part
    return k.cast(total, x.dtype)


def resample_grad_lower(
    k: Any, g: Any, index: Any, weight: Any, dim: int, size: int, padded: bool
) -> Any:
    shape = _along(g.shape, dim, size)
    view, step = _line_view(shape, g.shape, dim)
    wide = k.wide(g)
    total = k.full(shape, 0, wide.dtype)
    for tap in range(index.shape[0]):
        part = _weighted(k, wide, _tap(k, weight, tap, g.shape, dim), padded)
        at = [(_tap(k, index, tap, g.shape, dim), step, size)]
        total = k.scatter("add", total, part, view, at)
    return k.cast(total, g.dtype)


RESAMPLE = Op(  # along dim, the sum over taps of weight * element
    "resample",
    attrs=("dim", "padded"),
    type=lambda x, index, weight, dim, padded: TensorType(
        _along(x.shape, dim, index.shape[1]), x.dtype
    ),
    lower=resample_lower,
    vjp=lambda g, out, x, index, weight, dim, padded: (
        RESAMPLE_GRAD(g, index, weight, dim=dim, size=x.shape[dim], padded=padded),
        None,
        None,
    ),  # fmt: skip
)
RESAMPLE_GRAD = Op(
    "resample_grad",
    attrs=("dim", "size", "padded"),
    type=lambda g, index, weight, dim, size, padded: TensorType(
        _along(g.shape, dim, size), g.dtype
    ),
    lower=resample_grad_lower,
    vjp=lambda h, out, g, index, weight, dim, size, padded: (
        RESAMPLE(h, index, weight, dim=dim, padded=padded),
        None,
        None,
    ),  # fmt: skip
)


def _by_table(x: Any, table: tuple[Any, Any], dim: int, padded: bool = False) -> Any:
    index, weight = table
    if config.process.has_places:
        weight = recorder.beside(weight, x)
    return RESAMPLE(x, index, weight, dim=dim, padded=padded)


# -- tables


def _tensor(array: Array, kind: dtype) -> Any:
    from rushlight.arrays import tensor_of_array  # tensors come after ops

    return tensor_of_array(array, kind)


def _work(kind: dtype) -> Any:
    """The NumPy type that positions are calculated in: what the elements are calculated in."""
    return np.float64 if kind is dt.float64 else np.float32


def _step(size: int, out: int, scale: float | None, align: bool, work: Any) -> Any:
    """The distance between neighbouring output positions in the input."""
    if align:
        return work(0 if out <= 1 else (size - 1) / (out - 1))
    return work(1.0 / scale) if scale else work(size / out)


def _centres(size: int, out: int, scale: float | None, align: bool, work: Any) -> Array:
    step = _step(size, out, scale, align, work)
    at = np.arange(out, dtype=work)
    return at * step if align else (at + work(0.5)) * step - work(0.5)


@functools.lru_cache(maxsize=512)
def _nearest_table(size: int, out: int, scale: float | None, is_exact: bool) -> Any:
    step = _step(size, out, scale, False, np.float32)
    at = np.arange(out, dtype=np.float32)
    place = np.floor((at + np.float32(0.5)) * step if is_exact else at * step).astype(np.int64)
    return _tensor(np.clip(place, 0, size - 1)[None], dt.int64)


@functools.lru_cache(maxsize=512)
def _linear_table(size: int, out: int, scale: float | None, align: bool, kind: dtype) -> Any:
    work = _work(kind)
    at = _centres(size, out, scale, align, work)
    at = np.maximum(at, 0)
    low = np.minimum(at.astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = np.clip(at - low.astype(work), 0, 1)
    return _tables([low, high], [1 - part, part], kind)


def _cubic(t: Array, a: float) -> list[Array]:
    """Keys' kernel at the four taps around a position with fraction t."""

    def inner(x: Array) -> Array:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x: Array) -> Array:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]


@functools.lru_cache(maxsize=512)
def _cubic_table(size: int, out: int, scale: float | None, align: bool, kind: dtype) -> Any:
    at = _centres(size, out, scale, align, _work(kind))
    low = np.floor(at)
    weights = _cubic(at - low, -0.75)
    places = [np.clip(low.astype(np.int64) + i, 0, size - 1) for i in (-1, 0, 1, 2)]
    return _tables(places, weights, kind)


def _tables(places: Sequence[Array], weights: Sequence[Array], kind: dtype) -> tuple[Any, Any]:
    keep = dt.float64 if kind is dt.float64 else dt.float32
    return _tensor(np.stack(places), dt.int64), _tensor(np.stack(weights), keep)


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _keys(x: Array) -> Array:
    x, a = np.abs(x), -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


@functools.lru_cache(maxsize=512)
def _smooth_table(
    size: int, out: int, scale: float | None, align: bool, kind: dtype, is_cubic: bool
) -> Any:
    """Antialiased: the kernel is stretched over all the elements that an output stands for."""
    step = float(_step(size, out, scale, align, np.float64))
    stretch = max(step, 1.0)
    support = stretch * (2.0 if is_cubic else 1.0)
    windows = []
    for i in range(out):
        centre = step * (i + 0.5)
        start = max(int(centre - support + 0.5), 0)
        stop = min(int(centre + support + 0.5), size)
        places = np.arange(start, max(stop, start + 1))
        weight = (_keys if is_cubic else _triangle)((places - centre + 0.5) / stretch)
        windows.append((places, weight / weight.sum()))
    return _padded_windows(windows, kind)


def _padded_windows(windows: list[tuple[Array, Array]], kind: dtype) -> tuple[Any, Any]:
    """Windows of different lengths as one table; missing taps weigh nothing."""
    widest = max((len(p) for p, _ in windows), default=1)
    places = np.array([[*p, *[p[0]] * (widest - len(p))] for p, _ in windows], np.int64)
    weights = np.array([[*w, *[0.0] * (widest - len(w))] for _, w in windows])
    places, weights = places.reshape(-1, widest), weights.reshape(-1, widest)
    return _tables(list(places.T), list(weights.T), kind)


@functools.lru_cache(maxsize=512)
def _average_table(size: int, out: int, kind: dtype) -> Any:
    edges = adaptive_edges(size, out)
    windows = [(np.arange(a, b), np.full(b - a, 1.0 / (b - a))) for a, b in edges]
    return _padded_windows(windows, kind)


def averaged(x: Any, dim: int, out: int) -> Any:
    """Means over `out` windows that divide a dimension as evenly as they can."""
    if out == x.shape[dim]:
        return x
    return _by_table(x, _average_table(x.shape[dim], out, x.dtype), dim, padded=True)


# -- interpolate

_MODES = {
    "nearest": (3, 4, 5), "nearest-exact": (3, 4, 5), "area": (3, 4, 5),
    "linear": (3,), "bilinear": (4,), "trilinear": (5,), "bicubic": (4,),
}  # fmt: skip


def _check_mode(x: Any, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if mode in ("nearest", "area", "nearest-exact") and align_corners is not None:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | "
            "bilinear | bicubic | trilinear"
        )
    if antialias and not (mode in ("bilinear", "bicubic") and x.ndim == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if mode not in _MODES or x.ndim not in _MODES[mode]:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.ndim}D) for the "
            f"modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact "
            f"(got {mode})"
        )


def _output_sizes(
    x: Any, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """Output sizes, and the scale factors that positions are calculated by (None: from the
    sizes).
    """
    count = x.ndim - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = list(size) if isinstance(size, list | tuple) else [size] * count
        _check_count(x, sizes, count, "output spatial dimensions")
        return [views.whole_number("interpolate", "size", s) for s in sizes], [None] * count
    if scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    many = isinstance(scale_factor, list | tuple)
    factors = [float(f) for f in scale_factor] if many else [float(scale_factor)] * count
    _check_count(x, factors, count, "scale_factor")
    sizes = [math.floor(n * f) for n, f in zip(x.shape[2:], factors, strict=True)]
    return sizes, [None] * count if recompute else list(factors)


def _check_count(x: Any, given: Sequence[Any], count: int, what: str) -> None:
    if len(given) != count:
        raise ValueError(
            f"Input and {what} must have the same number of spatial dimensions. Got input with "
            f"spatial dimensions of {list(x.shape[2:])} and {what} of {list(given)}."
        )


def _resampled(
    x: Any, dim: int, out: int, scale: float | None, mode: str, align: bool, smooth: bool
) -> Any:
    size = x.shape[dim]
    if mode in ("nearest", "nearest-exact"):
        table = _nearest_table(size, out, scale, mode == "nearest-exact")
        return TAKE(x, table, dim=dim)
    if smooth:
        table = _smooth_table(size, out, scale, align, x.dtype, mode == "bicubic")
        return _by_table(x, table, dim, padded=True)
    if out == size and (align or scale in (None, 1.0)):
        return x
    make = _cubic_table if mode == "bicubic" else _linear_table
    return _by_table(x, make(size, out, scale, align, x.dtype), dim)


@public("F")
def interpolate(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Any:
    """(N, C, ...) resampled to `size`, or by `scale_factor`.

    mode: nearest, nearest-exact, area, linear, bilinear, trilinear or bicubic.

    >>> torch.nn.functional.interpolate(torch.tensor([[[0.0, 1.0]]]), 4, mode="linear")
    tensor([[[0.0000, 0.2500, 0.7500, 1.0000]]])
    """
    _check_mode(input, mode, align_corners, antialias)
    sizes, scales = _output_sizes(input, size, scale_factor, recompute_scale_factor)
    if min(sizes) < 1 or 0 in input.shape[1:]:
        raise RuntimeError(
            f"interpolate: Input and output sizes should be greater than 0, but got input "
            f"{list(input.shape)} and output {sizes}"
        )
    x = _calculable(input, mode)
    for d, (out, scale) in enumerate(zip(sizes, scales, strict=True)):
        if mode == "area":
            x = averaged(x, d + 2, out)
        else:
            x = _resampled(x, d + 2, out, scale, mode, bool(align_corners), antialias)
    if x.dtype is not input.dtype:
        return CAST(x.round().clamp(0, 255), dtype=input.dtype)
    return x.clone() if x is input else x


_OF_BYTES = ("nearest", "nearest-exact", "bilinear", "bicubic")


def _calculable(x: Any, mode: str) -> Any:
    """Floating values as they are; bytes too if they are only picked, or as floats."""
    if not x.dtype.is_integral:
        return x
    if x.dtype is not dt.uint8 or mode not in _OF_BYTES:
        raise errors.not_implemented_for(f"interpolate ({mode})", x.dtype, "a floating dtype")
    return x if mode.startswith("nearest") else CAST(x, dtype=dt.float32)


@public("F")
def upsample(
    input: Any,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Any:
    """The old name of `interpolate`."""
    warn_deprecated("nn.functional.upsample", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@public("F")
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """The old name of `interpolate(mode="nearest")`: see `interpolate`."""
    warn_deprecated("nn.functional.upsample_nearest", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


@public("F")
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """The old name of `interpolate(mode="bilinear", align_corners=True)`: see `interpolate`."""
    warn_deprecated("nn.functional.upsample_bilinear", "nn.functional.interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- padding


@functools.lru_cache(maxsize=512)
def _pad_table(size: int, low: int, high: int, mode: str) -> Any:
    at = np.arange(-low, size + high)
    if mode == "replicate":
        place = np.clip(at, 0, size - 1)
    elif mode == "circular":  # around what is left after negative pads have cropped
        cut = max(-low, 0)
        left = size - cut - max(-high, 0)
        place = np.arange(-max(low, 0), left + max(high, 0)) % left + cut
    else:  # reflect: the edge itself is not repeated
        place = np.abs(at)
        place = size - 1 - np.abs(size - 1 - place)
    return _tensor(place[None], dt.int64)


def _check_pad(x: Any, pads: list[tuple[int, int]], mode: str) -> None:
    if not (len(pads) + 1 <= x.ndim <= len(pads) + 2):
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now (got "
            f"{x.ndim}D input and {len(pads)} padded dimensions)"
        )
    for (low, high), size in zip(pads, x.shape[::-1], strict=False):
        limit = {"reflect": size - 1, "circular": size}.get(mode)
        if limit is not None and max(low, high) > limit:
            raise RuntimeError(
                "pad: Padding size should be less than the corresponding input dimension, but "
                f"got: padding ({low}, {high}) at a dimension of input {list(x.shape)} with "
                f"mode {mode}"
            )
        if size == 0 or size + low + high < 1:
            raise RuntimeError(
                f"pad: Expected non-empty input and output, but got input {list(x.shape)} and "
                f"padding {pads}"
            )


@public("F")
def pad(input: Any, pad: IntList, mode: str = "constant", value: float | None = None) -> Any:
    """Padded from the last dimension backwards by pairs (before, after).

    mode: constant (with `value`), reflect, replicate or circular.

    >>> torch.nn.functional.pad(torch.tensor([[1.0, 2.0]]), (1, 2), value=9.0)
    tensor([[9., 1., 2., 9., 9.]])
    """
    sizes = [int(p) for p in pad]
    if len(sizes) % 2:
        raise RuntimeError(f"pad: Padding length must be divisible by 2, got {sizes}")
    if len(sizes) // 2 > input.ndim:
        raise RuntimeError(
            "pad: Padding length should be less than or equal to two times the input dimension "
            f"but got padding length {len(sizes)} and input of dimension {input.ndim}"
        )
    pads = list(zip(sizes[::2], sizes[1::2], strict=True))
    if mode == "constant":
        from rushlight.ops import rearrange  # a later family

        return rearrange.constant_pad_nd(input, sizes, 0 if value is None else value)
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_pad(input, pads, mode)
    x = input
    for i, (low, high) in enumerate(pads):
        d = x.ndim - 1 - i
        if low or high:
            x = TAKE(x, _pad_table(x.shape[d], low, high, mode), dim=d)
    return x.clone() if x is input else x


# -- shuffles


def _apart(made: Any, x: Any) -> Any:
    """`made`, copied if it is still a view of x: shuffles never share memory."""
    return made.clone() if made._storage is x._storage else made


@public("torch", "F")
def pixel_shuffle(input: Any, upscale_factor: int) -> Any:
    """(*, C * r^2, H, W) to (*, C, H * r, W * r).

    >>> torch.pixel_shuffle(torch.arange(4.0).view(1, 4, 1, 1), 2)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    r = upscale_factor
    if input.ndim < 3 or r <= 0 or input.shape[-3] % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the "
            f"square of upscale_factor {r}, but got {list(input.shape)}"
        )
    *lead, channels, height, width = input.shape
    inner = (math.prod(lead), channels // (r * r), r, r, height, width)
    x = input.reshape(inner).permute(0, 1, 4, 2, 5, 3)
    return _apart(x.reshape(*lead, channels // (r * r), height * r, width * r), input)


@public("torch", "F")
def pixel_unshuffle(input: Any, downscale_factor: int) -> Any:
    """(*, C, H * r, W * r) to (*, C * r^2, H, W).

    >>> torch.pixel_unshuffle(torch.arange(4.0).view(1, 1, 2, 2), 2).flatten()
    tensor([0., 1., 2., 3.])
    """
    r = downscale_factor
    if input.ndim < 3 or r <= 0 or input.shape[-1] % r or input.shape[-2] % r:
        raise RuntimeError(
            "pixel_unshuffle expects height and width to be divisible by downscale_factor "
            f"{r}, but got {list(input.shape)}"
        )
    *lead, channels, height, width = input.shape
    inner = (math.prod(lead), channels, height // r, r, width // r, r)
    x = input.reshape(inner).permute(0, 1, 3, 5, 2, 4)
    return _apart(x.reshape(*lead, channels * r * r, height // r, width // r), input)


@public("torch", "F")
def channel_shuffle(input: Any, groups: int) -> Any:
    """Channels of different groups interleaved.

    >>> torch.channel_shuffle(torch.arange(4.0).view(1, 4, 1, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim < 3:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got {list(input.shape)}"
        )
    if groups <= 0 or input.shape[1] % groups:
        raise RuntimeError(
            f"channel_shuffle: number of channels must be divisible by groups. Got "
            f"{input.shape[1]} channels and {groups} groups."
        )
    shape = input.shape
    grouped = input.reshape(shape[0], groups, shape[1] // groups, *shape[2:])
    return _apart(grouped.transpose(1, 2).reshape(*shape), input)
