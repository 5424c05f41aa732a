"""Reductions of neighbouring parts of a dimension whose lengths are data."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops import batching
from rushlight.ops.advanced import SCATTER
from rushlight.ops.creation import FILL
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import public
from rushlight.ops.scatter_reduce import REDUCED
from rushlight.ops.sort import made_of

Array = np.ndarray[Any, Any]
_KINDS = {"sum": "add", "mean": "add", "prod": "mul", "max": "max", "min": "min"}
_OF_NOTHING = {"sum": 0.0, "mean": math.nan, "prod": 1.0, "max": -math.inf, "min": math.inf}
_OP = "segment_reduce"


def _bounds(
    data: Any, lengths: Any, offsets: Any, axis: int, unsafe: bool
) -> tuple[Array, Array]:
    """Where each segment begins, and how long it is."""
    given = lengths if offsets is None else offsets
    if given.dtype not in (dt.int64, dt.int32):
        raise errors.not_implemented_for(_OP, given.dtype, "int32 or int64 bounds")
    if given.ndim > data.ndim or given.ndim != axis + 1:
        raise RuntimeError(
            f"{_OP}(): Expected axis to be the last dimension of "
            f"{'lengths' if offsets is None else 'offsets'} but got {axis}."
        )
    numbers = given.detach()._numbers()
    if offsets is not None:
        starts, sizes = numbers[..., :-1], np.diff(numbers, axis=-1)
    else:
        starts, sizes = np.cumsum(numbers, -1) - numbers, numbers
        if not unsafe and (sizes.sum(-1) != data._shape[axis]).any():
            raise RuntimeError(
                f"{_OP}(): Expected all rows of lengths along axis to sum to "
                f"data.size(lengths.dim()-1) = {data._shape[axis]}"
            )
    if (sizes < 0).any():
        raise RuntimeError(f"{_OP}(): lengths contains negative value!")
    return starts, sizes


def _segment_of(starts: Array, sizes: Array, size: int) -> Array:
    """The segment of every position of the axis; one past the last for those in none."""
    count = sizes.shape[-1]
    out = np.full((*sizes.shape[:-1], size), count)
    for row in np.ndindex(sizes.shape[:-1]):
        for i, (start, length) in enumerate(zip(starts[row], sizes[row], strict=True)):
            out[row][start : start + length] = i
    return out


@public("torch")
@batching.by_sample
def segment_reduce(
    data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Any:  # fmt: skip
    """sum, mean, prod, max or min of neighbouring parts along `axis`.

    lengths: how long the parts are; or offsets: where they begin, and where the last ends. Both
    have the dimensions of `data` up to the axis. initial: what every part begins with.

    >>> import rushlight as torch
    >>> torch.segment_reduce(torch.arange(4.0), "sum", lengths=torch.tensor([1, 3]))
    tensor([0., 6.])
    """
    if reduce not in _KINDS:
        raise RuntimeError(
            f"{_OP}(): reduce argument must be either sum, prod, mean, max or min, got {reduce}"
        )
    if indices is not None:
        raise RuntimeError(f"{_OP}(): indices based reduction is not supported yet.")
    if lengths is None and offsets is None:
        raise RuntimeError(f"{_OP}(): Either lengths or offsets must be defined.")
    if not data.dtype.is_floating_point:
        raise errors.not_implemented_for(_OP, data.dtype, "a floating dtype")
    at = views.dim_index(_OP, axis, data.ndim)
    starts, sizes = _bounds(data, lengths, offsets, at, unsafe)
    return _reduced(data, reduce, starts, sizes, at, initial)


def _reduced(data: Any, reduce: str, starts: Array, sizes: Array, at: int, initial: Any) -> Any:
    shape, count = data._shape, sizes.shape[-1]
    rest = (1,) * (data.ndim - at - 1)
    nothing = _OF_NOTHING[reduce] if initial is None else initial
    is_extreme = reduce in ("max", "min")
    first = _OF_NOTHING[reduce] if is_extreme else nothing
    first = 0.0 if reduce == "mean" and initial is None else first
    base = FILL(first, shape=(*shape[:at], count + 1, *shape[at + 1 :]), dtype=data.dtype)
    places = made_of(_segment_of(starts, sizes, shape[at]), dt.int64)
    index = places.reshape((*places._shape, *rest)).expand(shape)
    op = SCATTER if reduce in ("sum", "mean") else REDUCED
    out = op(base, data, index, dim=at, kind=_KINDS[reduce]) if data.numel() else base
    out = out.narrow(at, 0, count)
    if is_extreme and initial is not None:
        is_beaten = out < initial if reduce == "max" else out > initial
        return WHERE(is_beaten, initial, out)
    if reduce != "mean":
        return out.clone()
    members = made_of(sizes, data.dtype).reshape((*sizes.shape, *rest))
    return WHERE(members == 0, nothing, out / members.clamp(min=1))
