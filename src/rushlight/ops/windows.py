"""Windows over spatial dimensions: what convolutions, pooling, unfold and fold share.

Spatial shapes are tuples over the last dimensions; pads are pairs (before, after).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # builder references and tensors

from rushlight import views
from rushlight.argument_kinds import Ints
from rushlight.ops.registry import Op, TensorType, public

Sizes = tuple[int, ...]
Pads = tuple[tuple[int, int], ...]


def sizes_for(op: str, name: str, value: Any, count: int) -> Sizes:
    """One number for all dimensions, or one each."""
    if type(value) is int:
        return (value,) * count
    if isinstance(value, list | tuple):
        sizes = views.whole_numbers(op, name, value)
        if len(sizes) == 1:
            return sizes * count
        if len(sizes) != count:
            raise RuntimeError(
                f"{op}: expected {name} to be a single integer value or a list of {count} "
                f"values to match the spatial dimensions, but got {name}={list(sizes)}"
            )
        return sizes
    return (views.whole_number(op, name, value),) * count


def window_view(
    k: Any, x: Any, out: Sizes, kernel: Sizes, stride: Sizes, dilation: Sizes, split: Sizes = ()
) -> Any:
    """Windows of x (already padded) as a view (*lead, *out, *kernel).

    `split`: the sizes that replace the dimension before the spatial ones (channels by group).
    """
    lead = len(x.shape) - len(kernel)
    own = views.contiguous_strides(x.shape)
    shape, strides = list(x.shape[:lead]), list(own[:lead])
    if split:
        inner = [s * strides[-1] for s in views.contiguous_strides(split)]
        shape[-1:], strides[-1:] = split, inner
    spatial = own[lead:]
    steps = [s * t for s, t in zip(spatial, stride, strict=True)]
    steps += [s * d for s, d in zip(spatial, dilation, strict=True)]
    return k.as_strided(x, (*shape, *out, *kernel), (*strides, *steps))


FEW_ELEMENTS = 16
"""Windows of so many elements or fewer are worked on one element after the other, for many
windows at a time: as rows of a reduction they would be too short.
"""


def window_elements(k: Any, windows: Any, count: int) -> Iterator[tuple[Sizes, Any]]:
    """Each position within windows (*lead, *kernel), where the kernel has `count` dimensions,
    with the elements (*lead) that all windows have there.
    """
    lead = len(windows.shape) - count
    kernel = windows.shape[lead:]
    for number in range(views.numel(kernel)):
        at, part = views.coordinates(kernel, number), windows
        for d, place in enumerate(at):
            part = k.slice(part, lead + d, place, 1)
        yield at, k.reshape(part, windows.shape[:lead])


def padded(k: Any, x: Any, pads: Pads, value: Any = 0, gaps: Sizes = ()) -> Any:
    """x with `gaps` values between spatial neighbours, then padded or (negative pads)
    cropped.
    """
    lead = (0,) * (len(x.shape) - len(pads))
    more = [(max(a, 0), max(b, 0)) for a, b in pads]
    less = [(min(a, 0), min(b, 0)) for a, b in pads]
    x = k.pad(x, (*lead, *(a for a, _ in more)), (*lead, *(b for _, b in more)), value,
              (*lead, *gaps) if gaps else None)  # fmt: skip
    if not any(a or b for a, b in less):
        return x
    return k.pad(x, (*lead, *(a for a, _ in less)), (*lead, *(b for _, b in less)), value)


def spread_pads(
    small: Sizes, large: Sizes, kernel: Sizes, stride: Sizes, pads: Pads, dilation: Sizes
) -> Pads:
    """Pads with which windows of the gapped `small` have the positions of `large`: the
    transpose.
    """
    out = []
    for o, size, n, s, (low, _), d in zip(
        small, large, kernel, stride, pads, dilation, strict=True
    ):
        reach = d * (n - 1)
        gapped = (o - 1) * s + 1 if o else 0
        before = reach - low
        out.append((before, size + reach - before - gapped))
    return tuple(out)


# -- unfold and fold


def _blocks(
    size: Sizes, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes
) -> Sizes:
    return tuple(
        (n + 2 * p - d * (w - 1) - 1) // s + 1
        for n, w, s, p, d in zip(size, kernel, stride, padding, dilation, strict=True)
    )


def unfold_lower(
    k: Any, x: Any, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Any:
    blocks = _blocks(x.shape[2:], kernel, stride, padding, dilation)
    wide = padded(k, x, tuple((p, p) for p in padding))
    view = window_view(k, wide, blocks, kernel, stride, dilation)  # (N, C, *blocks, *kernel)
    count = len(kernel)
    order = [0, 1, *range(2 + count, 2 + 2 * count), *range(2, 2 + count)]
    columns = x.shape[1] * views.numel(kernel)
    return k.reshape(k.permute(view, order), (x.shape[0], columns, views.numel(blocks)))


def fold_lower(
    k: Any, x: Any, size: Sizes, kernel: Sizes, dilation: Sizes, padding: Sizes, stride: Sizes
) -> Any:
    """The sum over kernel positions of every block's element there, put where it was read."""
    blocks = _blocks(size, kernel, stride, padding, dilation)
    channels = x.shape[1] // views.numel(kernel)
    x = k.wide(k.reshape(x, (x.shape[0], channels, views.numel(kernel), *blocks)))
    total = None
    for i in range(views.numel(kernel)):
        at = views.coordinates(kernel, i)
        part = k.reshape(k.slice(x, 2, i, 1), (x.shape[0], channels, *blocks))
        pads = tuple(
            (a * d - p, n + p - a * d - ((b - 1) * s + 1))
            for a, d, p, n, b, s in zip(
                at, dilation, padding, size, blocks, stride, strict=True
            )
        )
        placed = padded(k, part, pads, 0, tuple(s - 1 for s in stride))
        total = placed if total is None else total + placed
    return total


_ATTRS = ("kernel", "dilation", "padding", "stride")
UNFOLD = Op(
    "im2col",
    attrs=_ATTRS,
    type=lambda x, kernel, dilation, padding, stride: TensorType(
        (
            x.shape[0],
            x.shape[1] * views.numel(kernel),
            views.numel(_blocks(x.shape[2:], kernel, stride, padding, dilation)),
        ),
        x.dtype,
    ),
    lower=unfold_lower,
    vjp=lambda g, out, x, **how: FOLD(g, size=tuple(x.shape[2:]), **how),
)
FOLD = Op(
    "col2im",
    attrs=("size", *_ATTRS),
    type=lambda x, size, kernel, **_: TensorType(
        (x.shape[0], x.shape[1] // views.numel(kernel), *size), x.dtype
    ),
    lower=lambda k, x, **how: k.cast(fold_lower(k, x, **how), x.dtype),
    vjp=lambda g, out, x, size, **how: UNFOLD(g, **how),
)


def _block_settings(
    op: str, kernel: Any, dilation: Any, padding: Any, stride: Any
) -> dict[str, Sizes]:
    how = {
        "kernel": sizes_for(op, "kernel_size", kernel, 2),
        "dilation": sizes_for(op, "dilation", dilation, 2),
        "padding": sizes_for(op, "padding", padding, 2),
        "stride": sizes_for(op, "stride", stride, 2),
    }
    for name, sizes in how.items():
        if min(sizes) < (0 if name == "padding" else 1):
            raise RuntimeError(
                f"{op}: {name} should be greater than zero, but got {list(sizes)}"
            )
    return how


@public("F")
def unfold(
    input: Any, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Any:
    """Sliding blocks of (N, C, H, W) as columns (N, C * kernel, blocks).

    >>> torch.nn.functional.unfold(torch.arange(9.0).view(1, 1, 3, 3), 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    how = _block_settings("unfold", kernel_size, dilation, padding, stride)
    if input.ndim == 3:
        return unfold(input.unsqueeze(0), kernel_size, dilation, padding, stride).squeeze(0)
    if input.ndim != 4 or 0 in input.shape[1:]:
        raise RuntimeError(
            "unfold: Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and "
            f"other non-zero dimensions for input, but got: {list(input.shape)}"
        )
    blocks = _blocks(
        input.shape[2:], how["kernel"], how["stride"], how["padding"], how["dilation"]
    )
    if min(blocks) < 1:
        raise RuntimeError(
            f"unfold: Given input with spatial size {list(input.shape[2:])}, "
            f"kernel_size={list(how['kernel'])}, the array of sliding blocks has shape "
            f"{list(blocks)}, but its components must be at least one."
        )
    return UNFOLD(input, **how)


@public("F")
def fold(
    input: Any,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Any:
    """Columns added up where `unfold` read them.

    >>> torch.nn.functional.fold(torch.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    how = _block_settings("fold", kernel_size, dilation, padding, stride)
    size = sizes_for("fold", "output_size", output_size, 2)
    if input.ndim == 2:
        return fold(
            input.unsqueeze(0), output_size, kernel_size, dilation, padding, stride
        ).squeeze(0)
    if input.ndim != 3:
        raise RuntimeError(
            f"fold: Expected 2D or 3D (batch mode) tensor for input, but got "
            f"{list(input.shape)}"
        )
    blocks = _blocks(size, how["kernel"], how["stride"], how["padding"], how["dilation"])
    columns = views.numel(how["kernel"])
    if min(blocks) < 1 or input.shape[1] % columns or input.shape[2] != views.numel(blocks):
        raise RuntimeError(
            f"fold: Given output_size={list(size)} and kernel_size={list(how['kernel'])}, "
            f"expected size of input's dimension 1 to be divisible by {columns} and its "
            f"dimension 2 to be the number of sliding blocks {list(blocks)}, but got input "
            f"{list(input.shape)}"
        )
    return FOLD(input, size=size, **how)
