"""Sampling images at grids of positions.

Positions are in [-1, 1] over each spatial dimension, x (the last) first. A sample is a sum of
taps: products of a weight and an element for each spatial dimension. Gradients by the image are
sums at the elements that were read, those by the grid come from the weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.creation import LINSPACE
from rushlight.ops.elementwise import CAST, WHERE
from rushlight.ops.registry import public

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
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
        from rushlight.trace.origin import warn_caller  # the trace comes after ops

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
    kind = dt.float32 if x.dtype in (dt.float16, dt.bfloat16) else x.dtype
    wide, grid = CAST(x, dtype=kind), CAST(grid, dtype=kind)
    sizes = tuple(x.shape[2:])
    taps = [
        _taps(_centred(grid[..., -1 - d], size, align), size, mode, padding, align)
        for d, size in enumerate(sizes)
    ]
    planes = wide.reshape(*wide.shape[:2], views.numel(sizes))
    total: Any = 0
    for corner in itertools.product(*taps):
        total = _corner(planes, corner, sizes) + total
    made = total.reshape(*wide.shape[:2], *grid.shape[1:-1])
    return CAST(made, dtype=x.dtype)


def _corner(planes: Any, corner: Sequence[Tap], sizes: Sequence[int]) -> Any:
    """One tap of each dimension: the product of their weights times the element there, zero
    where that is outside.
    """
    index: Any = 0
    weight: Any = 1
    is_inside: Any = True
    for (at, part), size, step in zip(
        corner, sizes, views.contiguous_strides(tuple(sizes)), strict=True
    ):
        is_here = (at >= 0) & (at <= size - 1)
        is_inside = is_here & is_inside
        index = WHERE(is_here, at, 0).to(dt.int64) * step + index
        weight = part * weight
    count, channels, _ = planes.shape
    points = views.numel(index.shape[1:])
    weight, is_inside = (t.reshape(count, 1, points) for t in (weight, is_inside))
    read = planes.gather(2, index.reshape(count, 1, points).expand(count, channels, points))
    return WHERE(is_inside, read * weight, 0)


# -- positions


def _centred(at: Any, size: int, align: bool) -> Any:
    """Positions in [-1, 1] as numbers of elements."""
    return (at + 1) / 2 * (size - 1) if align else ((at + 1) * size - 1) / 2


def _taps(at: Any, size: int, mode: str, padding: str, align: bool) -> list[Tap]:
    """Which elements along one dimension are read, and how much of each."""
    if mode == "bicubic":
        low = at.detach().floor()
        weights = cubic_weights(at - low)
        places = [low + i for i in (-1, 0, 1, 2)]
        return [
            (_kept(place, size, padding, align), w)
            for place, w in zip(places, weights, strict=True)
        ]
    at = _kept(at, size, padding, align)
    if mode == "nearest":
        return [(at.detach().round(), at * 0 + 1)]
    low = at.detach().floor()
    part = at - low
    return [(low, 1 - part), (low + 1, part)]


def _kept(at: Any, size: int, padding: str, align: bool) -> Any:
    """Positions brought inside as the padding says; the gradient is zero at and outside the
    edges.
    """
    if padding == "zeros":
        return at
    if padding == "reflection":
        at = _reflected(at, (0.0, size - 1.0) if align else (-0.5, size - 0.5))
    return WHERE(at <= 0, 0.0, WHERE(at >= size - 1, size - 1.0, at))


def _reflected(at: Any, bounds: tuple[float, float]) -> Any:
    low, high = bounds
    span = high - low
    if span == 0:
        return at * 0
    away = at - low
    away = WHERE(away < 0, -away, away)
    turns = (away.detach() / span).floor()
    extra = away - turns * span
    return WHERE(turns % 2 == 0, extra + low, high - extra)


def cubic_weights(t: Any, a: float = -0.75) -> list[Any]:
    """Keys' kernel at the four taps around a position with fraction t."""

    def inner(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def outer(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [outer(t + 1), inner(t), inner(1 - t), outer(2 - t)]


# -- affine maps


@public("F")
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
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
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
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
