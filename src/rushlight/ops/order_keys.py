"""Sort keys: an element's rank and its position in one 64-bit integer.

The upper half orders the values (NaN is the greatest), the lower half is the position along the
row. So keys are all different: whatever sorts them puts equal values in order of position, the
quick ways of NumPy included, and the positions can be read off the result.
"""

from __future__ import annotations

from typing import Any  # builders and their references; arrays

import numpy as np

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.ir.host import takes_batches

BITS = 32  # of the position
POSITION = (1 << BITS) - 1
_RANK_OF_NAN = (1 << 31) - 1
_NO_KEY = (1 << 63) - 1
_MOST_MINIMA = 10  # that are found one after the other: beyond, a partition is as fast


def has_keys(kind: dtype, length: int) -> bool:
    """Whether values of a dtype and positions up to `length` fit a key."""
    return kind.itemsize <= 4 and length <= POSITION


def keys(k: Any, rows: Any, descending: bool) -> Any:
    """Keys of the elements of each row (the last dimension), in ascending order of value."""
    rank = k.cast(_rank_of_float(k, rows) if rows.dtype.is_floating_point else rows, dt.int64)
    if rows.dtype is dt.uint32:
        rank = rank - (1 << 31)
    if descending:
        rank = ~rank
    return k.shl(rank, BITS) | k.iota(rows.shape, len(rows.shape) - 1)


def _rank_of_float(k: Any, x: Any) -> Any:
    """Integers in the order of the floats: those of negative numbers run backwards."""
    x = k.wide(x)
    bits = k.bits(k.select(x.equals(0.0), 0.0, x))  # -0 and 0 are equal
    magnitude = k.shr(bits, 31) & ((1 << 31) - 1)
    return k.select(x.differs(x), _RANK_OF_NAN, bits ^ magnitude)


def first_positions(k: Any, x: Any, count: int) -> Any:
    """The positions of the `count` least keys of each row, in order."""
    last = len(x.shape) - 1
    shape = (*x.shape[:-1], count)
    if count > _MOST_MINIMA:
        return k.host(least_positions, [(shape, dt.int64)], x, count=count)[0]
    least = [k.reduce("min", x, (last,), True)]
    while len(least) < count:
        above = k.select(x > least[-1], x, _NO_KEY)
        least.append(k.reduce("min", above, (last,), True))
    return k.cat(least, last) & POSITION


@takes_batches
def least_positions(keys: Any, count: int) -> Any:
    """The same by NumPy."""
    if count >= keys.shape[-1]:
        return sorted_positions(keys)
    found = np.sort(np.partition(keys, count - 1, axis=-1)[..., :count], axis=-1)
    found &= POSITION
    return found


@takes_batches
def sorted_positions(keys: Any, bits: int = BITS) -> Any:
    """The positions of each row's keys in order, which are in their lowest bits and rise along
    the row.
    """
    from rushlight.runtime.radix import sorted_rows  # this runs in a program

    found = sorted_rows(keys, bits)
    found &= (1 << bits) - 1
    return found


def ranked_positions(rows: Any, descending: bool) -> Any:
    """The positions of each row's values in order, equal ones in order of position, of 64-bit
    numbers: their ranks leave no room for a position.
    """
    from rushlight.runtime.radix import argsorted_rows  # this runs in a program

    rank = _wide_rank(rows)
    return argsorted_rows(~rank if descending else rank)


def _wide_rank(rows: Any) -> Any:
    """Numbers as int64 in their order; NaN is the greatest."""
    if rows.dtype.kind == "f":
        bits = np.where(rows == 0, 0.0, rows).astype(np.float64, copy=False).view(np.int64)
        rank = bits ^ ((bits >> 63) & _NO_KEY)  # negative numbers run backwards
        return np.where(np.isnan(rows), _NO_KEY, rank)
    if rows.dtype == np.uint64:
        return (rows ^ np.uint64(1 << 63)).view(np.int64)
    return rows.astype(np.int64, copy=False)


@takes_batches
def median_positions(keys: Any, is_float: bool, skip_nan: bool) -> Any:
    """The position of the lower median of each row; of its first NaN unless these are
    skipped.
    """
    length = keys.shape[-1]
    if not is_float or (keys.max(-1) >> BITS != _RANK_OF_NAN).all():
        middle = (length - 1) // 2
        return np.partition(keys, middle, axis=-1)[..., middle, None] & POSITION
    ordered = np.sort(keys, axis=-1)
    count = (ordered >> BITS != _RANK_OF_NAN).sum(-1)
    places = np.where(count == 0, length - 1, count - 1) // 2
    if not skip_nan:
        places = np.where(count < length, count, places)
    return np.take_along_axis(ordered, places[..., None], -1) & POSITION
