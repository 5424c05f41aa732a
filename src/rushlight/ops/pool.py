"""Pooling: means of windows, and the settings that all pooling shares."""

from __future__ import annotations

import functools
import operator
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import (
    FEW_ELEMENTS,
    Pads,
    Sizes,
    padded,
    sizes_for,
    spread_pads,
    window_elements,
    window_view,
)


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
            f"is too small (kernel {list(kernel)}, stride {list(stride)}, padding "
            f"{list(padding)})"
        )
    return tuple(out)


def settings(
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
            f"{list(sizes)} and {list(apart)}"
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
            f"sizes after the batch, but got {list(x.shape)}"
        )
    out = pooled_size(op, x.shape[-count:], sizes, steps, pads, apart, ceil)
    return (*found, out)


def reach_pads(
    size: Sizes, kernel: Sizes, stride: Sizes, low: Sizes, dilation: Sizes, out: Sizes
) -> Pads:
    """Pads that let the last window be read in full."""
    pads = []
    for n, w, s, p, d, o in zip(size, kernel, stride, low, dilation, out, strict=True):
        pads.append((p, max((o - 1) * s + d * (w - 1) + 1 - n - p, 0)))
    return tuple(pads)


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
        is_unrolled = like.dtype.is_integral or views.numel(kernel) <= FEW_ELEMENTS
        return float(count) if is_unrolled else k.cast(k.extent(float(count)), like.dtype)
    shape = like.shape
    total = None
    for d, (n, w, s, p, q) in enumerate(zip(size, kernel, stride, low, high, strict=True)):
        axis = len(shape) - len(kernel) + d
        start = k.iota(shape, axis) * s - p
        end = k.min(start + w, k.extent(n + q if count == "padded" else n))
        start = start if count == "padded" else k.max(start, 0)
        total = end - start if total is None else total * (end - start)
    return k.cast(total, like.dtype)


def _windows_sum(k: Any, x: Any, out: Sizes, kernel: Sizes, stride: Sizes) -> Any:
    count = len(kernel)
    windows = window_view(k, x, out, kernel, stride, (1,) * count)
    if views.numel(kernel) <= FEW_ELEMENTS:
        exact = dt.float64 if x.dtype is dt.float32 else x.dtype
        parts = [k.cast(part, exact) for _, part in window_elements(k, windows, count)]
        return k.cast(functools.reduce(operator.add, parts), x.dtype)
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
    wide = padded(k, k.wide(x), reach_pads(size, kernel, stride, low, one, out))
    total = _windows_sum(k, wide, out, kernel, stride)
    divisor = _divisor(k, size, total, kernel, stride, low, count, high)
    if x.dtype.is_integral:
        return k.truncdiv(total, int(divisor) if isinstance(divisor, float) else divisor)
    return k.cast(total / divisor, x.dtype)


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
    covered = tuple(o * w for o, w in zip(out, kernel, strict=True))
    is_apart = kernel == stride and not any(low) and all(map(operator.le, covered, size))
    if is_apart and views.numel(kernel) > FEW_ELEMENTS:
        rest = tuple((0, n - c) for n, c in zip(size, covered, strict=True))
        return k.cast(padded(k, _repeated(k, share, kernel), rest), g.dtype)
    one = (1,) * len(kernel)
    pads = spread_pads(out, size, kernel, stride, tuple((p, p) for p in low), one)
    spread = padded(k, share, pads, 0, tuple(s - 1 for s in stride))
    return k.cast(_windows_sum(k, spread, size, kernel, one), g.dtype)


def _repeated(k: Any, x: Any, times: Sizes) -> Any:
    """x (*lead, *at) with each element repeated along each spatial dimension."""
    lead, at = x.shape[: -len(times)], x.shape[-len(times) :]
    apart = [n for size in at for n in (size, 1)]
    grown = [n for size, count in zip(at, times, strict=True) for n in (size, count)]
    x = k.expand(k.reshape(x, (*lead, *apart)), (*lead, *grown))
    return k.reshape(x, (*lead, *(s * t for s, t in zip(at, times, strict=True))))


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


def avg_pool(
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
    sizes, steps, pads, _, out = settings(
        op, x, count, kernel, stride, padding, 1, bool(ceil_mode)
    )
    if not x.dtype.is_floating_point and x.dtype is not dt.int64:
        raise errors.not_implemented_for(op, x.dtype, "a floating dtype or int64")
    how: Any = "padded" if count_include_pad else "inside"
    if divisor_override is not None:
        how = int(divisor_override)
    elif not ceil_mode and (count_include_pad or not any(pads)):
        how = views.numel(sizes)
    return AVG_POOL(x, kernel=sizes, stride=steps, low=pads, out=out, count=how, high=pads)


@public("torch", "F")
def avg_pool1d(
    input: Any,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of each window.

    >>> torch.avg_pool1d(torch.arange(6.0).view(1, 1, 6), 2)
    tensor([[[0.5000, 2.5000, 4.5000]]])
    """
    return avg_pool(
        "avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, None
    )


def _public_avg(count: int) -> None:
    op = f"avg_pool{count}d"

    def function(
        input: Any,
        kernel_size: Ints,
        stride: Ints | None = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Any:
        return avg_pool(
            op, count, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
            divisor_override,
        )  # fmt: skip

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The mean of each window."
    public("F", out=True)(function)


_public_avg(2)
_public_avg(3)


def _lp_pool(
    op: str, count: int, x: Any, p: float, kernel: Any, stride: Any, ceil: bool
) -> Any:
    sizes = sizes_for(op, "kernel_size", kernel, count)
    mean = avg_pool(op, count, x.pow(p), sizes, stride, 0, ceil, True, None)
    size = mean.abs().relu()  # whose derivative at zero is zero
    total = mean.sign() * size * views.numel(sizes)
    return total.pow(1.0 / p)


def _public_lp(count: int) -> None:
    op = f"lp_pool{count}d"

    def function(
        input: Any,
        norm_type: float,
        kernel_size: Ints,
        stride: Ints | None = None,
        ceil_mode: bool = False,
    ) -> Any:
        return _lp_pool(op, count, input, norm_type, kernel_size, stride, ceil_mode)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = "The p-norm of each window."
    public("F")(function)


for _count in (1, 2, 3):
    _public_lp(_count)
