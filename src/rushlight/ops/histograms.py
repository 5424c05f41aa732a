"""Histograms of one and of several dimensions: data is read and counted with NumPy.

A value belongs to the bin that begins at or before it and ends after it; the last bin has its
end too. What is outside all bins is not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ops import batching, return_types
from rushlight.ops.registry import public
from rushlight.ops.sort import found_by_numpy, made_of

Array = np.ndarray[Any, Any]
HISTOGRAM = found_by_numpy("histogram")
HISTOGRAMDD = found_by_numpy("histogramdd")

# -- edges


def _check_range(op: str, low: float, high: float) -> None:
    if not (math.isfinite(low) and math.isfinite(high)):
        raise RuntimeError(f"torch.{op}: range of [{low}, {high}] is not finite")
    if low > high:
        raise RuntimeError(
            f"torch.{op}: min should not exceed max, but got min {low} max {high}"
        )


def _ends(op: str, values: Array, given: Sequence[float] | None) -> tuple[float, float]:
    """The first and the last edge: as given, of the values, or 0 and 1 if there are none."""
    low, high = given or ((values.min(), values.max()) if values.size else (0.0, 1.0))
    low, high = float(low), float(high)
    _check_range(op, low, high)
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def _spaced(low: float, high: float, bins: int, kind: Any) -> Array:
    """Edges at equal distances; each half counts from its own end."""
    first, last = kind(low), kind(high)
    step = (last - first) / kind(bins)
    index = np.arange(bins + 1)
    rising, falling = (
        first + step * index.astype(kind),
        last - step * (bins - index).astype(kind),
    )
    edges: Array = np.where(index < (bins + 1) // 2, rising, falling).astype(kind)
    return edges


def _check_bins(op: str, bins: int) -> int:
    if bins <= 0:
        raise RuntimeError(f"torch.{op}(): bins must be > 0, but got {bins}")
    return bins


def _edges_of(op: str, bins: Any, values: Array, x: Any, given: Any) -> Array:
    """Edges given as a tensor, or as the number of bins between them."""
    if not hasattr(bins, "_storage"):
        low, high = _ends(op, values, given)
        return _spaced(low, high, _check_bins("histogram", int(bins)), values.dtype.type)
    if bins.dtype is not x.dtype:
        raise RuntimeError(
            f"torch.{op}: input tensor and bins tensors should have the same dtype, but got "
            f"{x.dtype!r} and {bins.dtype!r}"
        )
    if bins.ndim != 1:
        raise RuntimeError(
            f"torch.{op}: bins tensor should have one dimension, but got {bins.ndim}"
        )
    if not bins.numel():
        raise RuntimeError(f"torch.{op}: bins tensor should have at least 1 element")
    _check_bins("histogram", bins.numel() - 1)
    edges: Array = bins.detach()._numbers()
    return edges


# -- counting


def _places(values: Array, edges: Array) -> tuple[Array, Array]:
    """The bin of each value, and which values are in one."""
    inside = (values >= edges[0]) & (values <= edges[-1])
    found = np.searchsorted(edges, values, side="right") - 1
    return np.clip(found, 0, len(edges) - 2), inside


def _counted(columns: Array, edges: Sequence[Array], weights: Array | None) -> Array:
    """Counts, or sums of weights, of rows (one column a dimension)."""
    shape = tuple(len(e) - 1 for e in edges)
    index = np.zeros(len(columns), np.int64)
    keep = np.ones(len(columns), bool)
    for column, own, size in zip(columns.T, edges, shape, strict=True):
        place, inside = _places(column, own)
        index, keep = index * size + place, keep & inside
    chosen = None if weights is None else weights[keep].astype(np.float64)
    counts = np.bincount(index[keep], chosen, minlength=math.prod(shape))
    return counts.astype(np.float64).reshape(shape)


def _as_density(counts: Array, edges: Sequence[Array]) -> Array:
    counts = counts / counts.sum()
    for d, own in enumerate(edges):
        width = np.diff(own).astype(np.float64)
        counts = counts / width.reshape([-1 if i == d else 1 for i in range(len(edges))])
    return counts


def _checked_weight(op: str, x: Any, weight: Any, shape: Sequence[int]) -> Array | None:
    if weight is None:
        return None
    if weight.dtype is not x.dtype:
        raise RuntimeError(
            f"torch.{op}: if weight tensor is provided, input tensor and weight tensor should "
            f"have the same dtype, but got {x.dtype!r} and {weight.dtype!r}"
        )
    if weight._shape != tuple(shape):
        raise RuntimeError(
            f"torch.{op}: if weight tensor is provided it should have the shape "
            f"{errors.shape_text(shape)}, but got {errors.shape_text(weight._shape)}"
        )
    found: Array = weight.detach()._numbers().reshape(-1)
    return found


def _check_floating(op: str, x: Any) -> None:
    if x.dtype not in (dt.float32, dt.float64):
        raise errors.not_implemented_for(op, x.dtype, "float32 or float64")


@public("torch", "Tensor", out=True)
@batching.by_sample
def histogram(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """Counts (or sums of weights) in bins given by number or by edges, and the edges.

    >>> import rushlight as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 2.5, 4.0]), 3).hist
    tensor([1., 2., 1.])
    """
    _check_floating("histogram", input)
    values = input.detach()._numbers().reshape(-1)
    weights = _checked_weight("histogram", input, weight, input._shape)
    edges = _edges_of("histogram", bins, values, input, range)
    counts = _counted(values[:, None], [edges], weights)
    if density:
        counts = _as_density(counts, [edges])
    sources = [t for t in (input, bins, weight) if hasattr(t, "_storage")]
    hist, ends = (HISTOGRAM(made_of(a, input.dtype), *sources) for a in (counts, edges))
    return return_types.histogram(hist, ends)


@public("torch")
@batching.by_sample
def histogramdd(
    input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False
) -> Any:
    """`histogram` of points whose coordinates are the last dimension, and edges for each: the
    tensor of edges that was given, or a new one.

    bins: for each coordinate a number or edges, or one number for all. range: a first and a
    last edge for each.

    >>> torch.histogramdd(torch.tensor([[0.0, 0.0], [1.0, 1.0]]), bins=[2, 2]).hist
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"torch.histogramdd: input tensor should have at least 2 dimensions, but got "
            f"{input.ndim}"
        )
    _check_floating("histogramdd", input)
    count = input._shape[-1]
    wanted = [bins] * count if isinstance(bins, int) else list(bins)
    if len(wanted) != count:
        raise RuntimeError(
            f"histogramdd: The size of bins must be equal to the innermost dimension of the "
            f"input, {count}, but got {len(wanted)}"
        )
    if range is not None and len(range) != 2 * count:
        raise RuntimeError(
            f"torch.histogramdd: for a {count}-dimensional histogram range should have "
            f"{2 * count} elements, but got {len(range)}"
        )
    weights = _checked_weight("histogramdd", input, weight, input._shape[:-1])
    columns = input.detach()._numbers().reshape(-1, count)
    edges = [
        _edges_of("histogramdd", b, columns[:, d], input, range and range[2 * d : 2 * d + 2])
        for d, b in enumerate(wanted)
    ]
    counts = _counted(columns, edges, weights)
    counts = _as_density(counts, edges) if density else counts
    sources = [t for t in (input, *wanted, weight) if hasattr(t, "_storage")]
    hist, *made = (HISTOGRAMDD(made_of(a, input.dtype), *sources) for a in (counts, *edges))
    ends = (b if hasattr(b, "_storage") else e for b, e in zip(wanted, made, strict=True))
    return return_types.histogramdd(hist, tuple(ends))


@public("torch", "Tensor", out=True)
@batching.by_sample
def histc(input: Any, bins: int = 100, min: Any = 0, max: Any = 0) -> Any:
    """How many elements fall into each of `bins` equal intervals between min and max (of the
    elements' own, if these are equal).

    >>> torch.histc(torch.tensor([1.0, 2.0, 2.0]), bins=2, min=0, max=4)
    tensor([1., 2.])
    """
    _check_bins("histogram", bins)
    values = input.detach()._numbers().reshape(-1)
    low, high = float(min), float(max)
    if low == high and values.size:
        low, high = float(values.min()), float(values.max())
    _check_range("histc", low, high)
    if not input.dtype.is_floating_point:
        raise errors.not_implemented_for("histc", input.dtype, "a floating dtype")
    if low == high:
        low, high = low - 1, high + 1
    kind = values.dtype.type
    inside = values[(values >= low) & (values <= high)]
    steps = (inside - kind(low)) * kind(bins) / (kind(high) - kind(low))
    places = np.minimum(steps.astype(np.int64), bins - 1)
    return made_of(np.bincount(places, minlength=bins), input.dtype)
