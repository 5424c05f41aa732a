"""Maxima of windows at random, nearly even distances (Graham, 2014)."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.random import rand
from rushlight.ops.ranges import ARANGE
from rushlight.ops.registry import public
from rushlight.ops.windows import Sizes, sizes_for


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


def _starts(sample: Any, size: int, kernel: int, out: int) -> Any:
    """First elements of the windows (N, C, out) from one random number a plane (N, C)."""
    steps = ARANGE(0, 1, length=out, dtype=sample.dtype)
    if out == 1:
        return (steps + sample.unsqueeze(-1) * 0).to(dt.int64) + (size - kernel)
    step = (size - kernel) / (out - 1)
    offset = sample.unsqueeze(-1)
    made = ((steps + offset) * step).to(dt.int64) - (offset * step).to(dt.int64)
    is_last = steps == out - 1
    return made.masked_fill(is_last, size - kernel)


def _windows(samples: Any, size: Sizes, kernel: Sizes, out: Sizes) -> Any:
    """Flat positions in the plane, (N, C, *out, *kernel)."""
    count = len(size)
    total: Any = 0
    for d, step in enumerate(views.contiguous_strides(size)):
        # PyTorch draws for the planes of 3-d data in order, for those of 2-d data in reverse
        sample = samples[..., d if count == 3 else count - 1 - d]
        start = _starts(sample, size[d], kernel[d], out[d])
        start = start.reshape(*start.shape[:2], *_line(count, d, out[d]), *(1,) * count)
        within = ARANGE(0, 1, length=kernel[d], dtype=dt.int64)
        total = total + (start + within.reshape(_line(count, d, kernel[d]))) * step
    return total


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
    elif tuple(samples.shape) != (batch, channels, count):
        raise RuntimeError(
            f"{op}: Expect _random_samples to be of shape {[batch, channels, count]}; got "
            f"{list(samples.shape)}"
        )
    places = _windows(samples.detach(), size, kernel, out)
    places = places.reshape(batch, channels, views.numel(out), views.numel(kernel))
    planes = x.reshape(batch, channels, views.numel(size))
    flat = places.reshape(batch, channels, places.shape[2] * places.shape[3])
    read = planes.gather(2, flat).reshape(places.shape)
    values, which = read.max(-1)
    index = places.gather(-1, which.unsqueeze(-1))
    shape = (*x.shape[:-count], *out)
    return values.reshape(shape), index.reshape(shape)


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
