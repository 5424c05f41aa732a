"""Maxima of windows at random, nearly even distances (Graham, 2014)."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.max_pool import POOL_SCATTER, maxima
from rushlight.ops.random import rand
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import Sizes, sizes_for
from rushlight.views import View


def _out_size(op: str, size: Sizes, output_size: Any, output_ratio: Any) -> Sizes:
    if output_size is None and output_ratio is None:
        raise ValueError(f"{op} requires specifying either an output_size or an output_ratio")
    if output_size is not None:
        return sizes_for(op, "output_size", output_size, len(size))
    ratios = output_ratio
    if len(ratios) != len(size):
        raise ValueError(
            f"{op} requires output_ratio to either be a single Int or tuple of Ints."
        )
    return tuple(int(n * r) for n, r in zip(size, ratios, strict=True))


def _check(op: str, x: Any, kernel: Sizes, out: Sizes) -> None:
    count = len(kernel)
    if x.ndim not in (count + 1, count + 2) or 0 in x.shape[-count - 1 :]:
        raise RuntimeError(
            f"{op}: Expected {count + 1}D or {count + 2}D input with non-zero size for "
            f"non-batch dimensions, but got {list(x.shape)}"
        )
    if not x.dtype.is_floating_point:
        raise errors.not_implemented_for(op, x.dtype, "a floating dtype")
    if min(kernel) < 1 or min(out) < 1:
        raise RuntimeError(
            f"{op}: kernel and output sizes must be positive, got {kernel} and {out}"
        )
    for n, w, o in zip(x.shape[-count:], kernel, out, strict=True):
        if o + w - 1 > n:
            raise RuntimeError(
                f"{op}: pool size {w} too large relative to input size {n} (output size {o})"
            )


def _starts(k: Any, sample: Any, size: int, kernel: int, out: int) -> Any:
    """First elements (N, C, out) of the windows along a dimension from one random number a
    plane (N, C, 1), in the arithmetic of the numbers' dtype.
    """

    def rounded(x: Any) -> Any:
        return k.wide(k.cast(x, sample.dtype))

    last, wide = k.extent(size - kernel), k.wide(sample)
    shape = (*sample.shape[:2], out)
    if out == 1:
        return k.expand(last, shape)
    step = rounded(k.extent((size - kernel) / (out - 1)))
    place = k.iota(shape, 2)
    ends = rounded(rounded(k.cast(place, wide.dtype) + wide) * step)
    made = k.cast(ends, dt.int64) - k.cast(rounded(wide * step), dt.int64)
    return k.select(place >= k.extent(out - 1), last, made)


def fractional_max_lower(
    k: Any, x: Any, samples: Any, kernel: Sizes, out: Sizes
) -> tuple[Any, Any]:
    count, wide = len(kernel), k.wide(x)
    strides, ones = views.contiguous_strides(x.shape), (1,) * count
    view = View((*x.shape[:2], *out, *kernel), (*strides[:2], *(0,) * 2 * count), 0)
    starts, indices = [], []
    for d, (size, stride) in enumerate(zip(x.shape[2:], strides[2:], strict=True)):
        # PyTorch draws for the planes of 3-d data in order, for those of 2-d data in reverse
        sample = k.slice(samples, 2, d if count == 3 else count - 1 - d, 1)
        start = _starts(k, sample, size, kernel[d], out[d])
        start = k.reshape(start, (*x.shape[:2], *_line(count, d, out[d])))
        within = k.reshape(k.iota((kernel[d],), 0), _line(count, d, kernel[d]))
        starts.append(start)
        indices.append((k.reshape(start, (*start.shape, *ones)) + within, stride, size))
    highest, within = maxima(k, k.gather(wide, view, indices, "window"), kernel)
    place = k.full((*x.shape[:2], *out), 0, dt.int64)
    for start, at, stride in zip(starts, within, strides[2:], strict=True):
        place = place + (start + at) * k.extent(stride)
    return k.cast(highest, x.dtype), place


def _fractional_type(
    x: TensorType, samples: TensorType, out: Sizes, **_: Any
) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[:2], *out)
    return TensorType(shape, x.dtype), TensorType(shape, dt.int64)


FRACTIONAL_MAX = Op(  # of planes (N, C, *size): maxima of windows, and where in the plane
    "fractional_max_pool",
    attrs=("kernel", "out"),
    type=_fractional_type,
    lower=fractional_max_lower,
    vjp=lambda g, out_, x, samples, kernel, **_: (
        POOL_SCATTER(g[0], out_[1], size=tuple(x.shape[2:]), kind="add"),
        None,
    ),
    reads=1,
)


def _line(count: int, dim: int, size: int) -> Sizes:
    return tuple(size if d == dim else 1 for d in range(count))


def _pooled(
    op: str, count: int, x: Any, kernel_size: Any, output_size: Any, output_ratio: Any,
    samples: Any,
) -> tuple[Any, Any]:  # fmt: skip
    kernel = sizes_for(op, "kernel_size", kernel_size, count)
    size = tuple(x.shape[-count:])
    out = _out_size(op, size, output_size, output_ratio)
    _check(op, x, kernel, out)
    batch = 1 if x.ndim == count + 1 else x.shape[0]
    channels = x.shape[-count - 1]
    if samples is None:
        samples = rand((batch, channels, count), dtype=x.dtype)
    elif samples.shape[0] < batch or tuple(samples.shape[1:]) != (channels, count):
        raise RuntimeError(
            f"{op}: Expect _random_samples to be of shape {[batch, channels, count]}, or for "
            f"more samples; got {list(samples.shape)}"
        )
    elif samples.dtype is not x.dtype:
        raise errors.mixed_dtypes(op, x.dtype, samples.dtype)
    planes = x if x.ndim == count + 2 else x.unsqueeze(0)
    made = FRACTIONAL_MAX(planes, samples[:batch], kernel=kernel, out=out)
    return made if planes is x else tuple(part.squeeze(0) for part in made)


def _public(count: int) -> None:
    op = f"fractional_max_pool{count}d"

    def with_indices(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        return _pooled(
            op, count, input, kernel_size, output_size, output_ratio, _random_samples
        )

    def function(
        input: Any, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Any = None,
    ) -> Any:  # fmt: skip
        made = with_indices(
            input, kernel_size, output_size, output_ratio, _random_samples=_random_samples
        )
        return made if return_indices else made[0]

    for made, name in ((function, op), (with_indices, op + "_with_indices")):
        made.__name__ = made.__qualname__ = name
        made.__doc__ = "Maxima of windows at random distances that give the output size."
        public("F")(made)


for _count in (2, 3):
    _public(_count)
