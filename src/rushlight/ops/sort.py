"""Order and membership: sort, topk, unique, searchsorted.

Sorting finds positions between kernels (`order_keys.py`); values are then gathered, so that
gradients follow by themselves. NaN counts as the greatest value.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ir.host import takes_batches
from rushlight.ops import batching, return_types
from rushlight.ops.advanced import GATHER, gather_op
from rushlight.ops.bounds import check_known
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import check_one_tensor, check_operands, check_tensors
from rushlight.ops.extremes import amax_vjp
from rushlight.ops.order_keys import (
    BITS,
    POSITION,
    first_positions,
    has_keys,
    keys,
    median_positions,
    ranked_positions,
    sorted_positions,
)
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public

_LONG = 1024  # elements that a table of values pays for

# -- sorting


@takes_batches
def argsort_rows(rows: Any, descending: bool) -> Any:
    """Stable positions of the sorted order along the last dimension, of values that are too
    wide for keys; integers close to each other make keys nevertheless.
    """
    if rows.dtype.kind in "iu" and rows.shape[-1] <= POSITION:
        low, high = rows.min(), rows.max()
        if int(high) - int(low) < 1 << 31:
            rank = (high - rows if descending else rows - low).astype(np.int64, copy=False)
            return sorted_positions(rank << BITS | np.arange(rows.shape[-1]))
    return ranked_positions(rows, descending)


def _along_rows(k: Any, x: Any, dim: int, width: int, function: Any) -> Any:
    """`function` of rows along `dim`, giving `width` positions for each."""
    if 0 in x.shape or not width:
        return k.full((*x.shape[:dim], width, *x.shape[dim + 1 :]), 0, dt.int64)
    last = len(x.shape) - 1
    order = [d for d in range(last + 1) if d != dim] + [dim]
    made = function(k, k.permute(x, order))
    return k.permute(made, [order.index(d) for d in range(last + 1)])


def _by_host(k: Any, rows: Any, width: int, function: Any, **attrs: Any) -> Any:
    shape = (*rows.shape[:-1], width)
    return k.host(function, [(shape, dt.int64)], k.copy(rows), **attrs)[0]


def _sorted(k: Any, rows: Any, descending: bool) -> Any:
    length = rows.shape[-1]
    if has_keys(rows.dtype, length):
        return _by_host(k, keys(k, rows, descending), length, sorted_positions)
    return _by_host(k, rows, length, argsort_rows, descending=descending)


def _leading(k: Any, rows: Any, count: int, largest: bool) -> Any:
    if has_keys(rows.dtype, rows.shape[-1]):
        return first_positions(k, keys(k, rows, largest), count)
    return k.slice(_sorted(k, rows, largest), len(rows.shape) - 1, 0, count)


ARGSORT = Op(
    "argsort",
    attrs=("dim", "descending"),
    type=lambda x, dim, descending: TensorType(x.shape, dt.int64),
    lower=lambda k, x, dim, descending: _along_rows(
        k, x, dim, x.shape[dim], lambda k, rows: _sorted(k, rows, descending)
    ),
    vjp=NOT_DIFFERENTIABLE,
)
LEADING = Op(
    "leading",
    attrs=("dim", "count", "largest"),
    type=lambda x, dim, count, largest: TensorType(
        (*x.shape[:dim], count, *x.shape[dim + 1 :]), dt.int64
    ),
    lower=lambda k, x, dim, count, largest: _along_rows(
        k, x, dim, count, lambda k, rows: _leading(k, rows, count, largest)
    ),
    vjp=NOT_DIFFERENTIABLE,
)


SORTS = ("sort", "argsort", "msort", "topk")


def _check_sortable(op: str, x: Any) -> None:
    if x.dtype.is_complex:
        refuse = errors.refuses_complex if op in SORTS else errors.not_for_complex
        raise refuse(op, x.dtype)


def _order(op: str, x: Any, dim: int, descending: bool) -> tuple[Any, int]:
    _check_sortable(op, x)
    at = views.dim_index(op, dim, x.ndim)
    return ARGSORT(x.detach(), dim=at, descending=bool(descending)), at


def _number_sorted(x: Any) -> Any:
    return x.clone(), x.new_zeros((), dtype=dt.int64)


@public("torch", "Tensor", out=True)
def sort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> Any:
    """Values in order along a dimension, and where they were (always stable).

    >>> torch.sort(torch.tensor([3.0, 1.0, 2.0]))
    torch.return_types.sort(
    values=tensor([1., 2., 3.]),
    indices=tensor([1, 2, 0]))
    """
    if isinstance(dim, bool):  # sort(stable, dim, descending)
        dim, descending = descending if not isinstance(descending, bool) else -1, bool(stable)
    views.dim_index("sort", dim, input.ndim)
    if not input.ndim:
        return return_types.sort(*_number_sorted(input))
    indices, at = _order("sort", input, dim, descending)
    return return_types.sort(GATHER(input, indices, dim=at), indices)


@public("torch", "Tensor")
def argsort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool | None = False
) -> Any:
    """The positions that put a dimension in order (always stable).

    >>> torch.argsort(torch.tensor([3.0, 1.0, 2.0]))
    tensor([1, 2, 0])
    """
    return sort(input, dim, descending).indices


@public("torch", "Tensor", out=True)
def msort(input: Any) -> Any:
    """Values in order along the first dimension.

    >>> torch.msort(torch.tensor([[3.0, 1.0], [2.0, 4.0]]))
    tensor([[2., 1.],
            [3., 4.]])
    """
    return sort(input, 0).values


@public("torch", "Tensor", out=True)
def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """The k greatest (or least) values along a dimension, in order, and where they were.

    >>> torch.topk(torch.tensor([3.0, 1.0, 2.0]), 2)
    torch.return_types.topk(
    values=tensor([3., 2.]),
    indices=tensor([0, 2]))
    """
    _check_sortable("topk", input)
    if input.dtype is dt.bool_:
        raise errors.wrong_dtype("topk", input.dtype, "numbers")
    at = views.dim_index("topk", dim, input.ndim)
    count = k.__index__()
    size = input._shape[at] if input.ndim else 1
    if not 0 <= count <= size:
        raise RuntimeError(f"topk: selected index k out of range: {k} of {size}")
    if not input.ndim:
        return return_types.topk(*_number_sorted(input))
    indices = LEADING(input.detach(), dim=at, count=count, largest=bool(largest))
    return return_types.topk(GATHER(input, indices, dim=at), indices)


def _nth(op: str, x: Any, k: int, dim: int, keepdim: bool) -> tuple[Any, Any]:
    indices, at = _order(op, x, dim, False)
    place = indices.narrow(at, k, 1)
    values = GATHER(x, place, dim=at)
    return (values, place) if keepdim else (values.squeeze(at), place.squeeze(at))


@public("torch", "Tensor", out=True)
def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th least value along a dimension, and where it was.

    >>> torch.kthvalue(torch.tensor([3.0, 1.0, 2.0]), 2)
    torch.return_types.kthvalue(
    values=tensor(2.),
    indices=tensor(2))
    """
    if input.dtype is dt.bool_:
        raise errors.not_implemented_for("kthvalue", input.dtype, "numbers")
    at = views.dim_index("kthvalue", dim, input.ndim)
    size = input._shape[at] if input.ndim else 1
    if not 1 <= k <= size:
        if not size:
            raise IndexError(f"kthvalue(): Expected reduction dim {at} to have non-zero size.")
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {at}")
    if not input.ndim:
        return return_types.kthvalue(*_number_sorted(input))
    return return_types.kthvalue(*_nth("kthvalue", input, k - 1, at, keepdim))


@takes_batches
def median_rows(rows: Any, skip_nan: bool) -> Any:
    """The position of the lower median of each row; of its first NaN unless these are
    skipped.
    """
    order = argsort_rows(rows, False)
    count = np.full(rows.shape[:-1], rows.shape[-1])
    if rows.dtype.kind == "f":
        missing = np.isnan(rows).sum(-1)
        count = np.where(missing == count, count, count - missing)
        if not skip_nan:
            found = np.take_along_axis(order, ((count - 1) // 2)[..., None], -1)
            first = np.isnan(rows).argmax(-1)[..., None]
            return np.where((missing > 0)[..., None], first, found)
    return np.take_along_axis(order, ((count - 1) // 2)[..., None], -1)


@takes_batches
def mode_rows(rows: Any) -> Any:
    """The last position of the most frequent value (the least of them) of each row; the first
    of a row of NaNs, which are all different.
    """
    flat = rows.reshape(-1, rows.shape[-1])
    out = np.zeros((len(flat), 1), np.int64)
    for i, row in enumerate(flat):
        values, counts = np.unique(row, return_counts=True, equal_nan=False)
        places = np.flatnonzero(row == values[counts.argmax()])
        out[i] = places[-1] if places.size else 0
    return out.reshape(*rows.shape[:-1], 1)


def _middle(k: Any, rows: Any, skip_nan: bool) -> Any:
    if not has_keys(rows.dtype, rows.shape[-1]):
        return _by_host(k, rows, 1, median_rows, skip_nan=skip_nan)
    named = {"is_float": rows.dtype.is_floating_point, "skip_nan": skip_nan}
    return _by_host(k, keys(k, rows, False), 1, median_positions, **named)


def _position_op(name: str, function: Any) -> Op:
    return Op(
        name,
        attrs=("dim",),
        type=lambda x, dim: TensorType((*x.shape[:dim], 1, *x.shape[dim + 1 :]), dt.int64),
        lower=lambda k, x, dim: _along_rows(k, x, dim, 1, function),
        vjp=NOT_DIFFERENTIABLE,
    )


MEDIAN = _position_op("median_position", lambda k, rows: _middle(k, rows, False))
NANMEDIAN = _position_op("nanmedian_position", lambda k, rows: _middle(k, rows, True))
MODE = _position_op("mode_position", lambda k, rows: _by_host(k, rows, 1, mode_rows))


def _at_position(op: Op, name: str, x: Any, dim: int, keepdim: bool, kind: Any) -> Any:
    _check_sortable(name, x)
    at = views.dim_index(name, dim, x.ndim)
    if not x.ndim:
        return kind(*_number_sorted(x))
    if not x._shape[at]:
        raise IndexError(f"{name}(): Expected reduction dim {at} to have non-zero size.")
    place = op(x.detach(), dim=at)
    values = GATHER(x, place, dim=at)
    return kind(values, place) if keepdim else kind(values.squeeze(at), place.squeeze(at))


_NOTHING = {  # what PyTorch's median of no integers is
    **dict.fromkeys((dt.int16, dt.int8, dt.uint8), 0),
    **{kind: dt.iinfo(kind).min for kind in (dt.int64, dt.int32)},
    dt.bool_: True,
}

EVENLY = Op(  # a value found among x's elements; all that equal it share its gradient
    "median",
    type=lambda x, value: value,
    lower=lambda k, x, value: value,
    vjp=lambda g, out, x, value: (amax_vjp(g, out, x, (0,), False), None),
)


def _median(name: str, op: Op, kind: Any) -> None:
    def function(input: Any, dim: Ints | None = None, keepdim: bool = False) -> Any:
        if input.dtype is dt.bool_ and (input.numel() or dim is not None):
            raise errors.not_implemented_for(name, input.dtype, "numbers")
        if dim is not None:
            return _at_position(op, name, input, dim, keepdim, kind)
        flat = input.reshape(-1)
        if not flat.numel():
            return unrelated(input.new_full((), _NOTHING.get(input.dtype, math.nan)), input)
        value = _at_position(op, name, flat.detach(), 0, False, kind)[0]
        return EVENLY(flat, value)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "The lower of the middle values, of all elements or along a dimension."
    public("torch", "Tensor", name=name, out=True)(function)


_median("median", MEDIAN, return_types.median)
_median("nanmedian", NANMEDIAN, return_types.nanmedian)


@public("torch", "Tensor", out=True)
def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Any:
    """The most frequent value along a dimension (the least of several), and where it is.

    >>> torch.mode(torch.tensor([1.0, 3.0, 3.0]))
    torch.return_types.mode(
    values=tensor(3.),
    indices=tensor(2))
    """
    return _at_position(MODE, "mode", input, dim, keepdim, return_types.mode)


# -- sets: their sizes depend on the data


def made_of(array: Any, kind: Any) -> Any:
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    return tensor_of_array(array, kind)


def _packed(first: Any, *rest: Any) -> Any:
    wanted = [r for r in rest if r is not None]
    return (first, *wanted) if wanted else first


def found_by_numpy(name: str) -> Op:
    """An op that takes what NumPy found and the tensors that this was found in: its result
    requires gradients if they do, and asking for them raises.
    """
    return Op(
        name,
        type=lambda found, *sources: found,
        lower=lambda k, found, *sources: found,
        vjp=None,
    )


UNIQUE = found_by_numpy("unique")
UNIQUE_CONSECUTIVE = found_by_numpy("unique_consecutive")


@public("torch", "Tensor")
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Any:  # fmt: skip
    """The different values, in order (or the different parts along `dim`).

    >>> torch.unique(torch.tensor([3.0, 1.0, 3.0]), return_counts=True)
    (tensor([1., 3.]), tensor([1, 2]))
    """
    _check_sortable("unique", input)
    batching.refuse_sizes("unique", input)
    values = input.detach()._numbers()
    axis = None if dim is None else views.dim_index("unique", dim, input.ndim)
    if axis is not None and 0 in input._shape and input._shape[axis]:
        raise RuntimeError(
            "There are 0 sized dimensions, and they aren't selected, so unique cannot be "
            "applied"
        )
    found, inverse, counts = _different(values, axis, return_inverse, return_counts)
    return _packed(
        UNIQUE(made_of(found, input.dtype), input),
        made_of(inverse, dt.int64) if return_inverse else None,
        made_of(counts, dt.int64) if return_counts else None,
    )


def _different(values: Any, axis: int | None, wants_inverse: bool, wants_counts: bool) -> Any:
    """The different values, where each is among them, and how often; None for what nobody
    wants.
    """
    if axis is None and values.dtype.kind in "iu" and values.size >= _LONG:
        low, high = values.min(), values.max()
        if int(high) - int(low) < values.size:
            return _different_by_table(values, low, wants_inverse)
    wanted: Any = {"return_inverse": wants_inverse, "return_counts": wants_counts}
    made = np.unique(values, axis=axis, equal_nan=False, **wanted)
    found, *more = made if any(wanted.values()) else (made,)
    inverse = (
        more[0].reshape(values.shape if axis is None else (-1,)) if wants_inverse else None
    )
    return found, inverse, more[-1] if wants_counts else None


def _different_by_table(values: Any, low: Any, wants_inverse: bool) -> Any:
    """The same of integers that are close to each other: counted in a table, not sorted."""
    wide = values if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
    place = (wide - low.astype(wide.dtype)).astype(np.int64, copy=False)
    table = np.bincount(place.reshape(-1))
    present = np.flatnonzero(table)
    found = present.astype(wide.dtype) + low.astype(wide.dtype)
    inverse = (np.cumsum(table > 0) - 1)[place] if wants_inverse else None
    return found.astype(values.dtype), inverse, table[present]


@public("torch", "Tensor")
def unique_consecutive(
    input: Any,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The values without immediate repetitions.

    >>> torch.unique_consecutive(torch.tensor([1.0, 1.0, 2.0, 1.0]))
    tensor([1., 2., 1.])
    """
    batching.refuse_sizes("unique_consecutive", input)
    values = input.detach()._numbers()
    rows = values.reshape(-1) if dim is None else np.moveaxis(values, dim, 0)
    differs = rows[1:] != rows[:-1]
    differs = differs.reshape(len(differs), -1).any(1) if len(rows) > 1 else np.zeros(0, bool)
    starts = np.concatenate([np.ones(min(len(rows), 1), bool), differs])
    found = rows[starts]
    if dim is not None:
        found = np.moveaxis(found, 0, dim)
    inverse = np.cumsum(starts) - 1
    counts = np.diff(np.append(np.flatnonzero(starts), len(rows)))
    return _packed(
        UNIQUE_CONSECUTIVE(made_of(found, input.dtype), input),
        made_of(inverse.reshape(values.shape if dim is None else (-1,)), dt.int64)
        if return_inverse
        else None,
        made_of(counts, dt.int64) if return_counts else None,
    )


@public("torch", "Tensor")
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number from 0 on occurs (or the sum of its weights).

    >>> torch.bincount(torch.tensor([0, 2, 2]))
    tensor([1, 0, 2])
    """
    if input.ndim != 1 and input.numel():
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if input.dtype.category is not dt.Category.INTEGRAL:
        raise errors.not_implemented_for("bincount", input.dtype, "integers")
    if minlength < 0:
        raise RuntimeError("minlength should be >= 0")
    batching.refuse_sizes("bincount", input)
    values = input.detach()._numbers().reshape(-1)
    if values.size and values.min() < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    if weights is None:
        return made_of(np.bincount(values, minlength=minlength), dt.int64)
    if weights._shape != input._shape:
        raise RuntimeError("weights should be 1-d and have the same length as input")
    count = max(minlength, int(values.max()) + 1 if values.size else 0)
    kind = weights.dtype if weights.dtype in (dt.float32, dt.float64) else dt.float64
    start = weights.new_zeros((count,), dtype=kind)
    return start.index_add(0, input.to(dt.int64), weights.to(kind))


@public("torch", "Tensor", out=True)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Any:
    """Whether each element is among the test elements.

    >>> torch.isin(torch.tensor([1.0, 2.0]), torch.tensor([2.0, 3.0]))
    tensor([False,  True])
    """
    from rushlight.arrays import tensor  # ops come before tensors

    check_one_tensor("isin", elements, test_elements)
    check_operands("isin", elements, test_elements)
    first, second = (
        e if hasattr(e, "_storage") else tensor(e) for e in (elements, test_elements)
    )
    for e in (first, second):
        if e.dtype.is_complex:
            raise errors.refuses_complex("isin", e.dtype)
    flat = second.reshape((1,) * first.ndim + (-1,))
    found = (first.unsqueeze(-1) == flat).any(-1)
    return ~found if invert else found


# -- places in sorted sequences


@takes_batches
def search_rows(sequence: Any, values: Any, side: str) -> Any:
    """Insertion points, row by row or in one sequence; NaN belongs at the end."""
    length = sequence.shape[-1]
    if sequence.ndim == 1:
        found = np.searchsorted(sequence, values, side=side)  # type: ignore[call-overload]
    else:
        found = np.zeros(values.shape, np.int64)
        for row in np.ndindex(sequence.shape[:-1]):
            found[row] = np.searchsorted(sequence[row], values[row], side=side)  # type: ignore[call-overload]
    return np.where(values != values, length, found)


def _search_lower(k: Any, sequence: Any, values: Any, side: str, dtype: Any) -> Any:
    from rushlight.ops.elementwise import promoted  # only here

    kind = promoted(*(TensorType(r.shape, r.dtype) for r in (sequence, values)))
    ready = [k.copy(k.cast(r, kind)) for r in (sequence, values)]
    return k.cast(k.host(search_rows, [(values.shape, dt.int64)], *ready, side=side)[0], dtype)


SORTED = gather_op("sorted_sequence", NOT_DIFFERENTIABLE)
SEARCH = Op(
    "searchsorted",
    attrs=("side", "dtype"),
    type=lambda sequence, values, side, dtype: TensorType(values.shape, dtype),
    lower=_search_lower,
    vjp=NOT_DIFFERENTIABLE,
)


@public("torch", out=True)
def searchsorted(
    sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None,
) -> Any:  # fmt: skip
    """Where values would be inserted to keep (rows of) a sequence sorted.

    >>> torch.searchsorted(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([3.0, 4.0]))
    tensor([1, 2])
    """
    from rushlight.arrays import tensor  # ops come before tensors

    if side not in (None, "left", "right"):
        raise RuntimeError(
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}"
        )
    check_tensors("searchsorted", sorted_sequence=sorted_sequence)
    check_operands("searchsorted", sorted_sequence, input)
    if side == "left" and right:
        raise RuntimeError("torch.searchsorted(): side and right can't be set to opposites")
    values = input if hasattr(input, "_storage") else tensor(input)
    for e in (sorted_sequence, values):
        if e.dtype.is_complex:
            raise errors.not_for_complex("searchsorted", e.dtype)
    if not sorted_sequence.ndim:
        raise RuntimeError("torch.searchsorted(): input sequence should have a dimension")
    is_flat = sorted_sequence.ndim == 1
    if not is_flat and sorted_sequence._shape[:-1] != values._shape[:-1]:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {errors.shape_text(sorted_sequence._shape)} and input value "
            f"tensor {errors.shape_text(values._shape)}"
        )
    if sorter is not None:
        if sorter._shape != sorted_sequence._shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size"
            )
        if sorter.dtype is not dt.int64:
            raise RuntimeError(
                f"torch.searchsorted(): sorter must be a tensor of long dtype but got "
                f"{sorter.dtype!r}"
            )
        check_known("searchsorted", "sorter", sorter, sorted_sequence._shape[-1])
        sorted_sequence = SORTED(sorted_sequence, sorter, dim=sorter.ndim - 1)
    where = "right" if right or side == "right" else "left"
    kind = dt.int32 if out_int32 else dt.int64
    return SEARCH(sorted_sequence.detach(), values.detach(), side=where, dtype=kind)


@public("torch", out=True)
def bucketize(
    input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False
) -> Any:
    """The bucket of each value among sorted boundaries.

    >>> torch.bucketize(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 3.0, 5.0]))
    tensor([1, 2])
    """
    check_operands("bucketize", input, boundaries)
    if boundaries.ndim != 1:
        raise RuntimeError(
            f"torch.searchsorted(): boundaries tensor must be 1 dimension, but got "
            f"dim({boundaries.ndim})"
        )
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)
