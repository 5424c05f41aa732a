"""Sampling images at grids of positions.

Positions are in [-1, 1] over each spatial dimension, x (the last) first. A sample is a sum of
corners: products of an element and of the weight of one tap for each spatial dimension. It is
linear in the image, and its derivatives by the grid are samples too, with derivatives of the
weights; so one op with the orders of these, and its transpose, are closed under derivatives.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.advice import warn_caller
from rushlight.argument_kinds import IntList
from rushlight.ops.elementwise import scaled
from rushlight.ops.joining import stack
from rushlight.ops.ranges import LINSPACE
from rushlight.ops.registry import Op, TensorType, public
from rushlight.views import View

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
Sizes = tuple[int, ...]
Tap = tuple[Any, Any]  # positions (whole numbers), weights


@public("F")
def grid_sample(
    input: Any,
    grid: Any,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Any:
    """Values of (N, C, H, W) at positions (N, h, w, 2), or of (N, C, D, H, W) at
    (N, d, h, w, 3), which go from -1 to 1.

    padding_mode: what lies outside: zeros, the nearest element, or the reflected image.
    align_corners: whether -1 and 1 are the centres of the outermost elements, or their edges.

    >>> import rushlight as torch
    >>> image = torch.tensor([[[[1.0, 3.0]]]])
    >>> torch.nn.functional.grid_sample(image, torch.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[2.]]]])
    """
    if mode not in MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or "
            f"'bicubic', but got: '{mode}'"
        )
    if padding_mode not in PADDINGS:
        raise ValueError(
            f"nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )
    return _sampled(input, grid, mode, padding_mode, _aligned("grid_sample", align_corners))


def _aligned(op: str, given: bool | None) -> bool:
    """`align_corners`, False by default; PyTorch warns of that still."""
    if given is None:
        warn_caller(
            f"{op}: align_corners is False by default; say so (or True) to avoid this warning."
        )
    return bool(given)


def _by_number(name: str) -> None:
    def function(
        input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
    ) -> Any:
        mode, padding = MODES[interpolation_mode], PADDINGS[padding_mode]
        return _sampled(input, grid, mode, padding, bool(align_corners))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "`grid_sample` with its modes by number, in the order of its docstring."
    public("torch")(function)


for _name in ("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"):
    _by_number(_name)


def _check(x: Any, grid: Any, mode: str) -> None:
    sizes = f"input with sizes {list(x.shape)} and grid with sizes {list(grid.shape)}"
    if x.ndim not in (4, 5) or x.ndim != grid.ndim:
        raise RuntimeError(
            f"grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, "
            f"but got {sizes}"
        )
    if x.shape[0] != grid.shape[0]:
        raise RuntimeError(
            f"grid_sampler(): expected grid and input to have same batch size, but got {sizes}"
        )
    if grid.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but "
            f"got {sizes}"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but got "
            f"{sizes}"
        )
    if mode == "bicubic" and x.ndim != 4:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    if x.dtype is not grid.dtype:
        raise errors.mixed_dtypes("grid_sampler", x.dtype, grid.dtype)
    if not x.dtype.is_floating_point:
        raise errors.not_implemented_for("grid_sampler", x.dtype, "a floating dtype")


def _sampled(x: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    _check(x, grid, mode)
    plain = (0,) * (x.ndim - 2)
    return GRID_SAMPLE(x, grid, mode=mode, padding=padding, align=align, orders=plain)


# -- the ops


def _corners(
    k: Any, grid: Any, sizes: Sizes, mode: str, padding: str, align: bool, orders: Sizes
) -> Iterator[tuple[Any, list[Any], Any]]:
    """Of each product of one tap a dimension: whether it is inside (N, 1, *out), where it reads
    along each dimension, and its weight. The weight is the derivative of these orders by the
    grid.
    """
    taps = []
    for d, (size, order) in enumerate(zip(sizes, orders, strict=True)):
        last = len(grid.shape) - 1
        at = k.slice(grid, last, last - 2 - d, 1)
        at = k.reshape(at, (grid.shape[0], 1, *grid.shape[1:-1]))
        taps.append(_taps(k, at, size, mode, padding, align, order))
    for corner in itertools.product(*taps):
        is_inside: Any = True
        weight: Any = 1
        places = []
        for (at, part), size in zip(corner, sizes, strict=True):
            is_here = (at >= 0) & (at <= _number(k, size - 1, at))
            places.append(k.cast(k.select(is_here, at, 0), dt.int64))
            is_inside = is_here & is_inside
            weight = part * weight
        yield is_inside, places, weight


def _reads(sizes: Sizes, shape: Sizes, places: list[Any]) -> tuple[View, list[Any]]:
    """The view of a contiguous image, and the indices into it, at which a corner's elements of
    the results' shape (N, C, *out) lie.
    """
    count, channels, *out = shape
    strides = views.contiguous_strides((count, channels, *sizes))
    view = View(shape, (*strides[:2], *(0,) * len(out)), 0)
    return view, list(zip(places, strides[2:], sizes, strict=True))


def grid_sample_lower(k: Any, x: Any, grid: Any, **how: Any) -> Any:
    wide, sizes = k.wide(x), x.shape[2:]
    shape = (*x.shape[:2], *grid.shape[1:-1])
    total = k.full(shape, 0, wide.dtype)
    for is_inside, places, weight in _corners(k, k.wide(grid), sizes, **how):
        read = k.gather(wide, *_reads(sizes, shape, places))
        total = total + k.select(is_inside, read * weight, 0)
    return k.cast(total, x.dtype)


def grid_spread_lower(k: Any, g: Any, grid: Any, sizes: Sizes, **how: Any) -> Any:
    wide = k.wide(g)
    total = k.full((*g.shape[:2], *sizes), 0, wide.dtype)
    for is_inside, places, weight in _corners(k, k.wide(grid), sizes, **how):
        part = k.select(is_inside, wide * weight, 0)
        total = k.scatter("add", total, part, *_reads(sizes, g.shape, places))
    return k.cast(total, g.dtype)


def _by_grid(g: Any, x: Any, grid: Any, orders: Sizes, **how: Any) -> Any:
    """The gradient by the grid of what is linear in g and in the image x."""
    slopes = []
    for d in reversed(range(len(orders))):
        raised = tuple(o + (i == d) for i, o in enumerate(orders))
        slopes.append(scaled(g, GRID_SAMPLE(x, grid, orders=raised, **how)).sum(1))
    return stack(slopes, -1)


def _grid_sample_vjp(g: Any, out: Any, x: Any, grid: Any, **how: Any) -> Any:
    by_image = GRID_SPREAD(g, grid, sizes=tuple(x.shape[2:]), **how)
    return by_image, _by_grid(g, x, grid, **how)


def _grid_spread_vjp(h: Any, out: Any, g: Any, grid: Any, sizes: Sizes, **how: Any) -> Any:
    return GRID_SAMPLE(h, grid, **how), _by_grid(g, h, grid, **how)


_HOW = ("mode", "padding", "align", "orders")
GRID_SAMPLE = Op(  # an image at a grid's positions, or a derivative of that by the grid
    "grid_sampler",
    attrs=_HOW,
    type=lambda x, grid, **_: TensorType((*x.shape[:2], *grid.shape[1:-1]), x.dtype),
    lower=grid_sample_lower,
    vjp=_grid_sample_vjp,
)
GRID_SPREAD = Op(  # its transpose: added up where they were read
    "grid_spread",
    attrs=("sizes", *_HOW),
    type=lambda g, grid, sizes, **_: TensorType((*g.shape[:2], *sizes), g.dtype),
    lower=grid_spread_lower,
    vjp=_grid_spread_vjp,
)


# -- positions


def _number(k: Any, value: float, like: Any) -> Any:
    """A number that follows from a size, in the dtype of positions."""
    return k.cast(k.extent(float(value)), like.dtype)


def _taps(
    k: Any, grid: Any, size: int, mode: str, padding: str, align: bool, order: int
) -> list[Tap]:
    """Which elements along one dimension are read, and how much of each: the derivative of this
    order by the grid.
    """
    half = _number(k, (size - 1 if align else size) / 2, grid)
    if align:
        at = (grid + 1) / 2 * _number(k, size - 1, grid)
    else:
        at = ((grid + 1) * _number(k, size, grid) - 1) / 2
    if mode == "bicubic":
        low = k.floor(at)
        places = [_kept(k, low + i, size, padding, align)[0] for i in (-1, 0, 1, 2)]
        weights = _cubic_weights(at - low, order)
    else:
        at, slope = _kept(k, at, size, padding, align)
        low = k.round(at) if mode == "nearest" else k.floor(at)
        places = [low] if mode == "nearest" else [low, low + 1]
        weights = _linear_weights(k, at - low, slope, order)[-len(places) :]
        if mode == "nearest":
            weights = [k.full(at.shape, 0.0 if order else 1.0, at.dtype)]
    for _ in range(order):
        weights = [w * half for w in weights]
    return list(zip(places, weights, strict=True))


def _linear_weights(k: Any, part: Any, slope: Any, order: int) -> list[Any]:
    if order > 1:
        return [k.full(part.shape, 0, part.dtype)] * 2
    return [-slope, slope] if order else [1 - part, part]


_A = -0.75  # of Keys' kernel
_OUTER = (_A, -5 * _A, 8 * _A, -4 * _A)
_INNER = (_A + 2, -(_A + 3), 0.0, 1.0)


def _cubic_weights(t: Any, order: int) -> list[Any]:
    """Keys' kernel at the four taps around a position with fraction t, or its derivative."""
    turned = (-1) ** order
    ahead = [_polynomial(_OUTER, t + 1, order), _polynomial(_INNER, t, order)]
    behind = [_polynomial(_INNER, 1 - t, order), _polynomial(_OUTER, 2 - t, order)]
    return [*ahead, *(w * turned for w in behind)]


def _polynomial(coefficients: Sequence[float], x: Any, order: int) -> Any:
    """A derivative of the polynomial with these coefficients, the highest power's first."""
    for _ in range(order):
        top = len(coefficients) - 1
        coefficients = [c * (top - i) for i, c in enumerate(coefficients[:-1])] or [0.0]
    total = x * 0 + coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    return total


def _kept(k: Any, at: Any, size: int, padding: str, align: bool) -> tuple[Any, Any]:
    """Positions brought inside as the padding says, and the slopes of that, which are zero at
    and outside the edges.
    """
    slope = k.full(at.shape, 1, at.dtype)
    if padding == "zeros":
        return at, slope
    if padding == "reflection":
        at, slope = _reflected(k, at, size, align)
    end = _number(k, size - 1, at)
    is_within = (at > 0) & (at < end)
    return k.select(at <= 0, 0, k.select(at >= end, end, at)), k.select(is_within, slope, 0)


def _reflected(k: Any, at: Any, size: int, align: bool) -> tuple[Any, Any]:
    """Positions reflected at the centres or the edges of the outermost elements."""
    if align and size == 1:
        return at * 0, k.full(at.shape, 0, at.dtype)
    low = 0.0 if align else -0.5
    span = _number(k, size - 1 if align else size, at)
    away = at - low
    slope = k.select(away < 0, -1, k.full(at.shape, 1, at.dtype))
    away = k.abs(away)
    turns = k.floor(away / span)
    extra = away - turns * span
    is_even = (turns - k.floor(turns / 2) * 2).equals(0)
    return k.select(is_even, extra + low, span + low - extra), k.select(is_even, slope, -slope)


# -- affine maps


@public("F")
def affine_grid(theta: Any, size: IntList, align_corners: bool | None = None) -> Any:
    """The grid (N, H, W, 2) that `grid_sample` needs to apply affine maps `theta` (N, 2, 3) to
    images of this (output) size; (N, D, H, W, 3) for maps (N, 3, 4).

    >>> theta = torch.eye(2, 3)[None]
    >>> torch.nn.functional.affine_grid(theta, (1, 1, 1, 2), align_corners=False)
    tensor([[[[-0.5000,  0.0000],
              [ 0.5000,  0.0000]]]])
    """
    sizes = tuple(int(s) for s in size)
    if not theta.dtype.is_floating_point:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype!r}")
    if len(sizes) not in (4, 5):
        raise NotImplementedError(
            f"affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {sizes}."
        )
    count = len(sizes) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (count, count + 1):
        raise ValueError(
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for "
            f"size {sizes}. Got {list(theta.shape)}."
        )
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {sizes}")
    return affine_grid_generator(theta, sizes, _aligned("affine_grid", align_corners))


@public("torch")
def affine_grid_generator(theta: Any, size: IntList, align_corners: bool) -> Any:
    """`affine_grid` without its checks."""
    batch, _, *spatial = size
    count = len(spatial)
    out = theta[:, :, count].reshape(batch, *(1,) * count, count)
    for d, n in enumerate(spatial):
        shape = tuple(n if i == d else 1 for i in range(count))
        at = _centres(n, align_corners, theta.dtype).reshape(1, *shape, 1)
        column = theta[:, :, count - 1 - d].reshape(batch, *(1,) * count, count)
        out = out + at * column
    return out


def _centres(size: int, align: bool, kind: Any) -> Any:
    """Positions of elements in [-1, 1]."""
    if size <= 1:
        return LINSPACE(0.0, 0.0, steps=size, dtype=kind)
    edge = 1.0 if align else (size - 1) / size
    return LINSPACE(-edge, edge, steps=size, dtype=kind)
