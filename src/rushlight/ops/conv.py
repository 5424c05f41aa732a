"""Convolutions: the forward map and both its gradients, each a contraction over windows.

The three ops are the partial maps of one bilinear form, so the derivative of each is made of
the others. A transposed convolution is the gradient by the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ops import depthwise
from rushlight.ops.elementwise import CAST, conjugate
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.windows import Pads, Sizes, padded, sizes_for, window_view
from rushlight.views import View

HOW = ("stride", "padding", "dilation", "groups")


def output_size(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Pads, dilation: Sizes
) -> Sizes:
    return tuple(
        (n + low + high - d * (w - 1) - 1) // s + 1
        for n, w, s, (low, high), d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def _letters(count: int, groups: int) -> tuple[str, str, str]:
    """Letters of the positions, of the kernel, and of the group (absent for one group)."""
    return "xyzuvw"[:count], "ijkpqr"[:count], "" if groups == 1 else "g"


def _grouped(k: Any, x: Any, dim: int, groups: int) -> Any:
    """Dimension `dim` split in (groups, rest), unless there is one group."""
    if groups == 1:
        return x
    shape = (*x.shape[:dim], groups, x.shape[dim] // groups, *x.shape[dim + 1 :])
    return k.reshape(x, shape)


def _channels(x: Any, groups: int) -> Sizes:
    return (x.shape[1],) if groups == 1 else (groups, x.shape[1] // groups)


def _weighed(
    k: Any, weight: Any, windows: Any, count: int, groups: int, dtype: dt.dtype
) -> Any:
    """Windows (n, [g,] c, *at, *kernel) times weight ([g,] m, c, *kernel), summed over channels
    and kernel: (n, [g,] m, *at). Weights are repeated for each sample so that results lie so.
    """
    m, c, *kernel = weight.shape[-2 - count :]
    if depthwise.fits(groups, m, c, kernel):
        return k.cast(depthwise.weighed(k, weight, windows, count), dtype)
    at, inner, g = _letters(count, groups)
    own = (windows.shape[0], *weight.shape)
    each = k.expand(k.reshape(weight, (1, *weight.shape)), own)
    return k.contract(f"n{g}mc{inner},n{g}c{at}{inner}->n{g}m{at}", each, windows, dtype)


def _wide_dtype(kind: dt.dtype) -> dt.dtype:
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


# -- forward


def conv_type(
    x: TensorType,
    weight: TensorType,
    *bias: TensorType,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> TensorType:
    size = output_size(x.shape[2:], weight.shape[2:], stride, padding, dilation)
    return TensorType((x.shape[0], weight.shape[0], *size), x.dtype)


def conv_lower(
    k: Any,
    x: Any,
    weight: Any,
    *bias: Any,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Any:
    kernel = weight.shape[2:]
    size = output_size(x.shape[2:], kernel, stride, padding, dilation)
    split = _channels(x, groups)
    windows = window_view(k, padded(k, x, padding), size, kernel, stride, dilation, split)
    kind = _wide_dtype(x.dtype) if bias else x.dtype
    out = _weighed(k, _grouped(k, weight, 0, groups), windows, len(kernel), groups, kind)
    out = k.reshape(out, (x.shape[0], weight.shape[0], *size))
    if bias:
        out = out + k.reshape(k.wide(bias[0]), (1, weight.shape[0], *(1 for _ in size)))
    return k.cast(out, x.dtype)


def conv_vjp(g: Any, out: Any, x: Any, weight: Any, bias: Any = None, **how: Any) -> Any:
    grads = (
        CONV_INPUT_GRAD(g, conjugate(weight), size=tuple(x.shape[2:]), **how),
        CONV_WEIGHT_GRAD(conjugate(x), g, kernel=tuple(weight.shape[2:]), **how),
    )
    if bias is None:
        return grads
    return (*grads, g.sum([d for d in range(g.ndim) if d != 1]))


CONV = Op("convolution", attrs=HOW, type=conv_type, lower=conv_lower, vjp=conv_vjp)


# -- the gradients


@dataclass(frozen=True, slots=True)
class _Phase:
    """Every stride-th position from `first` in one dimension of a convolution's input: which
    elements of the kernel reach them, and which elements of the output they meet there.
    """

    first: int
    size: int
    tap: int  # of the kernel: the first that reaches, how many do, and how far apart
    taps: int
    tap_step: int
    apart: int  # elements of the output between those that neighbouring taps meet
    pads: tuple[int, int]  # with which windows of the output lie at these positions


def _phases(
    size: int, small: int, kernel: int, stride: int, low: int, dilation: int
) -> list[_Phase]:
    """The phases that any tap reaches. Position y meets output (y + low - tap * dilation) /
    stride where that is whole.
    """
    step = stride // gcd(stride, dilation)
    apart = dilation // gcd(stride, dilation)
    found = []
    for first in range(min(stride, size)):
        reach = [t for t in range(kernel) if (first + low - t * dilation) % stride == 0]
        if not reach:
            continue
        shift = (first + low - reach[0] * dilation) // stride
        count = -(-(size - first) // stride)
        pads = ((len(reach) - 1) * apart - shift, count + shift - small)
        found.append(_Phase(first, count, reach[0], len(reach), step, apart, pads))
    return found


def input_grad_lower(
    k: Any,
    g: Any,
    weight: Any,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
    kind: dt.dtype | None = None,
) -> Any:
    """Windows of g times the kernel turned round: for each phase of the stride those elements
    of the kernel that reach it. Where phases are many, all products are made first.

    kind: the result's dtype, if it is not that of g.
    """
    kind = kind or g.dtype
    if views.numel(stride) > MOST_PHASES and all(d == 1 for d in dilation):
        return _overlapped(k, g, weight, size, stride, padding, groups, kind)
    shape = (g.shape[0], weight.shape[1] * groups, *size)
    dims = [
        _phases(large, small, taps, step, low, apart)
        for large, small, taps, step, (low, _), apart in zip(
            size, g.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True
        )
    ]
    pads = [_widest([phase.pads for phase in phases]) for phases in dims]
    wide = padded(k, g, tuple(pads))
    lows = tuple(low for low, _ in pads)
    own = views.contiguous_strides(shape)
    placed = []
    for phases in product(*dims):
        part = _phase_grad(k, wide, weight, phases, lows, groups, kind)
        strides = [s * o for s, o in zip(stride, own[2:], strict=True)]
        offset = sum(p.first * o for p, o in zip(phases, own[2:], strict=True))
        placed.append((part, View(part.shape, (*own[:2], *strides), offset)))
    is_whole = sum(views.numel(part.shape) for part, _ in placed) == views.numel(shape)
    return k.update(None if is_whole else k.full(shape, 0, kind), placed, shape, kind)


MOST_PHASES = 16


def _overlapped(
    k: Any,
    g: Any,
    weight: Any,
    size: Sizes,
    stride: Sizes,
    padding: Pads,
    groups: int,
    kind: dt.dtype,
) -> Any:
    """Each element of g times the whole kernel, laid down a stride apart and added up. Pieces
    of the kernel as long as the stride do not overlap: each is laid down by movement alone.
    """
    kernel, at = weight.shape[2:], g.shape[2:]
    count, (n, c) = len(kernel), (g.shape[0], weight.shape[1] * groups)
    here, inner, group = _letters(count, groups)
    weight = _grouped(k, weight, 0, groups)
    made = k.contract(
        f"{group}mc{inner},n{group}m{here}->n{group}c{inner}{here}",
        weight, _grouped(k, g, 1, groups), _wide_dtype(g.dtype),
    )  # fmt: skip
    made = k.reshape(made, (n, c, *kernel, *at))
    pieces = [-(-w // s) for w, s in zip(kernel, stride, strict=True)]
    rest = [p * s - w for p, s, w in zip(pieces, stride, kernel, strict=True)]
    none = (0,) * count
    made = k.pad(made, (0, 0, *none, *none), (0, 0, *rest, *none), 0)
    order = [0, 1, *(axis for d in range(count) for axis in (2 + count + d, 2 + d))]
    total: Any = None
    for place in product(*(range(p) for p in pieces)):
        part, pads = made, []
        for d, (piece, s, (low, _)) in enumerate(zip(place, stride, padding, strict=True)):
            part = k.slice(part, 2 + d, piece * s, s)
            before = piece * s - low
            pads.append((before, size[d] - before - at[d] * s))
        covered = tuple(a * s for a, s in zip(at, stride, strict=True))
        part = padded(k, k.reshape(k.permute(part, order), (n, c, *covered)), tuple(pads))
        total = part if total is None else total + part
    return k.cast(total, kind)


def _widest(pads: list[tuple[int, int]]) -> tuple[int, int]:
    return max((low for low, _ in pads), default=0), max((high for _, high in pads), default=0)


def _phase_grad(
    k: Any,
    wide: Any,
    weight: Any,
    phases: Sequence[_Phase],
    lows: Sizes,
    groups: int,
    kind: dt.dtype,
) -> Any:
    """The gradient at the positions of one phase; `wide` is the output's gradient with `lows`
    zeros before it.
    """
    count, taps = len(phases), tuple(p.taps for p in phases)
    apart = tuple(p.apart for p in phases)
    reach = tuple(n - a * (t - 1) for n, a, t in zip(wide.shape[2:], apart, taps, strict=True))
    one, split = (1,) * count, _channels(wide, groups)
    windows = window_view(k, wide, reach, taps, one, apart, split)
    turned, lead = _grouped(k, weight, 0, groups), len(windows.shape) - 2 * count
    for d, (phase, low) in enumerate(zip(phases, lows, strict=True)):
        windows = k.slice(windows, lead + d, low - phase.pads[0], phase.size)
        axis = len(turned.shape) - count + d
        turned = k.slice(turned, axis, phase.tap, phase.taps, phase.tap_step)
        turned = k.flip(turned, [axis])
    axis = len(turned.shape) - count - 1
    turned = k.permute(
        turned, [*range(axis - 1), axis, axis - 1, *range(axis + 1, axis + 1 + count)]
    )
    out = _weighed(k, turned, windows, count, groups, kind)
    sizes = tuple(p.size for p in phases)
    return k.reshape(out, (wide.shape[0], weight.shape[1] * groups, *sizes))


def _leading(x: Any, shape: Any) -> Any:
    """The part of x of this shape: an output padding of a stride or more makes x longer."""
    for d, size in enumerate(shape):
        if x.shape[d] != size:
            x = x.narrow(d, 0, size)
    return x


CONV_INPUT_GRAD = Op(
    "convolution_transpose",
    attrs=("size", *HOW),
    type=lambda g, weight, size, stride, padding, dilation, groups: TensorType(
        (g.shape[0], weight.shape[1] * groups, *size), g.dtype
    ),
    lower=input_grad_lower,
    vjp=lambda h, out, g, weight, size, **how: (
        _leading(CONV(h, conjugate(weight), **how), g.shape),
        CONV_WEIGHT_GRAD(h, conjugate(g), kernel=tuple(weight.shape[2:]), **how),
    ),
)


CONV_TRANSPOSE_WIDE = Op(  # in float32, of half precision: a bias is added before it is rounded
    "convolution_transpose_wide",
    attrs=("size", *HOW),
    type=lambda g, weight, size, stride, padding, dilation, groups: TensorType(
        (g.shape[0], weight.shape[1] * groups, *size), dt.float32
    ),
    lower=lambda k, g, weight, **how: input_grad_lower(k, g, weight, **how, kind=dt.float32),
    vjp=lambda h, out, g, weight, size, **how: CONV_INPUT_GRAD.vjp(
        CAST(h, dtype=g.dtype), None, g, weight, size=size, **how
    ),
)


def weight_grad_lower(
    k: Any,
    x: Any,
    g: Any,
    kernel: Sizes,
    stride: Sizes,
    padding: Pads,
    dilation: Sizes,
    groups: int,
) -> Any:
    split = _channels(x, groups)
    windows = window_view(
        k, padded(k, x, padding), g.shape[2:], kernel, stride, dilation, split
    )
    at, inner, group = _letters(len(kernel), groups)
    g = _grouped(k, g, 1, groups)
    if depthwise.fits(groups, g.shape[2] if groups > 1 else 0, split[-1], kernel):
        out = k.cast(depthwise.weights_grad(k, windows, g, len(kernel)), x.dtype)
        return k.reshape(out, (g.shape[1] * g.shape[2], 1, *kernel))
    out = k.contract(f"n{group}m{at},n{group}c{at}{inner}->{group}mc{inner}", g, windows)
    return k.reshape(out, (g.shape[-len(kernel) - 1] * groups, x.shape[1] // groups, *kernel))


CONV_WEIGHT_GRAD = Op(
    "convolution_weight_grad",
    attrs=("kernel", *HOW),
    type=lambda x, g, kernel, stride, padding, dilation, groups: TensorType(
        (g.shape[1], x.shape[1] // groups, *kernel), g.dtype
    ),
    lower=weight_grad_lower,
    vjp=lambda h, out, x, g, kernel, **how: (
        CONV_INPUT_GRAD(conjugate(g), h, size=tuple(x.shape[2:]), **how),
        _leading(CONV(conjugate(x), h, **how), g.shape),
    ),
)


# -- checks and the public functions


def _check(op: str, x: Any, weight: Any, bias: Any, count: int, groups: int) -> None:
    if weight.ndim != count + 2:
        raise RuntimeError(f"{op}: Expected {count + 2}D weight, got {list(weight.shape)}")
    if x.ndim not in (count + 1, count + 2):
        raise RuntimeError(
            f"{op}: Expected {count + 1}D (unbatched) or {count + 2}D (batched) input to {op}, "
            f"but got input of size: {list(x.shape)}"
        )
    for other in (weight, bias):
        if other is not None and other.dtype is not x.dtype:
            raise errors.mixed_dtypes(op, x.dtype, other.dtype)
    if groups <= 0:
        raise RuntimeError(f"{op}: non-positive groups is not supported, got {groups}")
    if weight.shape[0] % groups:
        raise RuntimeError(
            f"{op}: Given groups={groups}, expected weight to be divisible by {groups} at "
            f"dimension 0, but got weight of size {list(weight.shape)}"
        )


def _check_steps(op: str, stride: Sizes, dilation: Sizes) -> None:
    if min(stride) <= 0:
        raise RuntimeError(f"{op}: non-positive stride is not supported, got {list(stride)}")
    if min(dilation) <= 0:
        raise RuntimeError(f"{op}: dilation should be greater than zero, got {list(dilation)}")


def _pads(op: str, padding: Any, kernel: Sizes, stride: Sizes, dilation: Sizes) -> Pads:
    if isinstance(padding, str):
        if padding == "valid":
            return ((0, 0),) * len(kernel)
        if padding != "same":
            raise RuntimeError(f"{op}: Invalid padding string: '{padding}'")
        if any(s != 1 for s in stride):
            raise RuntimeError(
                f"{op}: padding='same' is not supported for strided convolutions"
            )
        totals = [d * (n - 1) for n, d in zip(kernel, dilation, strict=True)]
        return tuple((t // 2, t - t // 2) for t in totals)
    sizes = sizes_for(op, "padding", padding, len(kernel))
    if min(sizes) < 0:
        raise RuntimeError(f"{op}: negative padding is not supported, got {list(sizes)}")
    return tuple((p, p) for p in sizes)


def _convolve(
    op: str,
    count: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Any:
    _check(op, x, weight, bias, count, groups)
    if x.ndim == count + 1:
        batch = x.unsqueeze(0)
        return _convolve(
            op, count, batch, weight, bias, stride, padding, dilation, groups
        ).squeeze(0)
    kernel = tuple(weight.shape[2:])
    steps = sizes_for(op, "stride", stride, count)
    apart = sizes_for(op, "dilation", dilation, count)
    _check_steps(op, steps, apart)
    pads = _pads(op, padding, kernel, steps, apart)
    if x.shape[1] != weight.shape[1] * groups:
        raise RuntimeError(
            f"{op}: Given groups={groups}, weight of size {list(weight.shape)}, expected "
            f"input{list(x.shape)} to have {weight.shape[1] * groups} channels, but got "
            f"{x.shape[1]} channels instead"
        )
    _check_bias(op, bias, weight.shape[0], weight)
    if (0 in kernel and x.shape[1]) or min(
        output_size(x.shape[2:], kernel, steps, pads, apart)
    ) < 1:
        raise RuntimeError(
            f"{op}: Calculated padded input size per channel: {list(x.shape[2:])} with padding "
            f"{list(pads)}. Kernel size: {list(kernel)}. Kernel size can't be greater than "
            "actual input size"
        )
    how = {"stride": steps, "padding": pads, "dilation": apart, "groups": int(groups)}
    return CONV(x, weight, **how) if bias is None else CONV(x, weight, bias, **how)


def _check_bias(op: str, bias: Any, channels: int, weight: Any) -> None:
    if bias is not None and tuple(bias.shape) != (channels,):
        raise RuntimeError(
            f"{op}: Given weight of size {list(weight.shape)}, expected bias to be "
            f"1-dimensional with {channels} elements, but got bias of size {list(bias.shape)} "
            "instead"
        )


def _transpose(
    op: str,
    count: int,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    _check(op, x, weight, bias, count, groups)
    if x.ndim == count + 1:
        batch = x.unsqueeze(0)
        return _transpose(
            op, count, batch, weight, bias, stride, padding, output_padding, groups, dilation
        ).squeeze(0)
    if x.shape[1] != weight.shape[0]:
        raise RuntimeError(
            f"{op}: Given transposed=1, weight of size {list(weight.shape)}, expected "
            f"input{list(x.shape)} to have {weight.shape[0]} channels, but got {x.shape[1]} "
            "channels instead"
        )
    _check_bias(op, bias, weight.shape[1] * groups, weight)
    kernel = tuple(weight.shape[2:])
    steps = sizes_for(op, "stride", stride, count)
    apart = sizes_for(op, "dilation", dilation, count)
    _check_steps(op, steps, apart)
    pads = _pads(op, padding, kernel, steps, apart)
    extra = sizes_for(op, "output_padding", output_padding, count)
    for e, s, d in zip(extra, steps, apart, strict=True):
        if e < 0 or e >= max(s, d):
            raise RuntimeError(
                f"{op}: output padding must be smaller than either stride or dilation, but got "
                f"output_padding {list(extra)}, stride {list(steps)}, dilation {list(apart)}"
            )
    size = tuple(
        (n - 1) * s - 2 * p + d * (w - 1) + e + 1
        for n, s, (p, _), d, w, e in zip(
            x.shape[2:], steps, pads, apart, kernel, extra, strict=True
        )
    )
    if min(size) < 1:
        raise RuntimeError(
            f"{op}: Given input size per channel: {list(x.shape[2:])}. Calculated output size "
            f"per channel: {list(size)}. Output size is too small"
        )
    how = {"stride": steps, "padding": pads, "dilation": apart, "groups": int(groups)}
    if bias is None:
        return CONV_INPUT_GRAD(x, weight, size=size, **how)
    bias = bias.reshape(1, -1, *(1 for _ in size))
    if _wide_dtype(x.dtype) is x.dtype:
        return CONV_INPUT_GRAD(x, weight, size=size, **how) + bias
    wide = CONV_TRANSPOSE_WIDE(x, weight, size=size, **how) + CAST(bias, dtype=dt.float32)
    return CAST(wide, dtype=x.dtype)


def _public_conv(count: int) -> Any:
    op = f"conv{count}d"

    def function(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Any = 0,
        dilation: Ints = 1,
        groups: int = 1,
    ) -> Any:
        if type(groups) is not int:
            groups = views.whole_number(op, "groups", groups)
        return _convolve(op, count, input, weight, bias, stride, padding, dilation, groups)

    function.__name__ = function.__qualname__ = op
    function.__doc__ = (
        f"Convolution over {count} spatial dimensions of (N, C, ...) or (C, ...)."
    )
    return public("torch", "F")(function)


def _public_transpose(count: int) -> Any:
    op = f"conv_transpose{count}d"

    def function(
        input: Any,
        weight: Any,
        bias: Any = None,
        stride: Ints = 1,
        padding: Any = 0,
        output_padding: Ints = 0,
        groups: int = 1,
        dilation: Ints = 1,
    ) -> Any:
        return _transpose(
            op, count, input, weight, bias, stride, padding, output_padding, groups, dilation
        )

    function.__name__ = function.__qualname__ = op
    function.__doc__ = f"The gradient of conv{count}d by its input, as a layer of its own."
    return public("torch", "F")(function)


conv1d, conv2d, conv3d = (_public_conv(n) for n in (1, 2, 3))
conv_transpose1d, conv_transpose2d, conv_transpose3d = (_public_transpose(n) for n in (1, 2, 3))


@public("torch", "F")
def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """conv1d of (time, batch, channels) by weights (width, channels in, channels out).

    >>> torch.conv_tbc(torch.ones(3, 1, 2), torch.ones(3, 2, 1), torch.zeros(1))
    tensor([[[6.]]])
    """
    for name, x, ndim in (("input", input, 3), ("weight", weight, 3), ("bias", bias, 1)):
        if x.ndim != ndim:
            raise RuntimeError(
                f"conv_tbc: {name} must have {ndim} dimensions, got {list(x.shape)}"
            )
    if input.shape[2] != weight.shape[1] or bias.shape[0] != weight.shape[2]:
        raise RuntimeError(
            f"conv_tbc: channels of input {list(input.shape)}, weight {list(weight.shape)} and "
            f"bias {list(bias.shape)} do not agree"
        )
    made = conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return made.permute(2, 0, 1)
