"""Shapes, strides and affine views: the arithmetic every room shares. Plain integers only."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from functools import lru_cache
from operator import index
from typing import Any, NamedTuple  # Any: what is to be a number

from rushlight import errors
from rushlight.dtypes import dtype

Shape = tuple[int, ...]
REMEMBERED = 1 << 13  # answers about views, which a program asks again and again


class View(NamedTuple):
    """An affine view of a flat buffer, in elements: address = offset + sum(index * stride)."""

    shape: Shape
    strides: Shape
    offset: int


class Recast(NamedTuple):
    """A view that sees other elements than the buffer's own. All counts are in elements of
    `dtype`: so real tensors read the parts of complex ones, and complex tensors read pairs of
    real numbers. What is read is conjugated and negated as the marks say, and what is written
    is too before it is stored.
    """

    shape: Shape
    strides: Shape
    offset: int
    dtype: dtype
    is_conj: bool = False
    is_neg: bool = False


AnyView = View | Recast


def marks(view: AnyView | None) -> tuple[bool, bool]:
    """Whether what is read through the view is conjugated, and whether it is negated."""
    return (view.is_conj, view.is_neg) if type(view) is Recast else (False, False)


def seen_as(view: View, by: AnyView | None) -> AnyView:
    """Other elements, seen as the elements that `by` reads are."""
    return Recast(*view, *by[3:]) if type(by) is Recast else view


def numel(shape: Sequence[int]) -> int:
    return math.prod(shape)


def contiguous_strides(shape: Sequence[int]) -> Shape:
    return _contiguous_strides(tuple(shape))


@lru_cache(REMEMBERED)
def _contiguous_strides(shape: Shape) -> Shape:
    strides = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def whole(shape: Sequence[int]) -> View:
    return View(tuple(shape), contiguous_strides(shape), 0)


def is_contiguous(shape: Sequence[int], strides: Sequence[int]) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def is_whole(view: View, count: int) -> bool:
    """Whether the view reads all `count` elements of its buffer once, in order."""
    if view.offset != 0 or numel(view.shape) != count:
        return False
    return is_contiguous(view.shape, view.strides)


def broadcast_shapes(op: str, *shapes: Sequence[int]) -> Shape:
    """NumPy's broadcasting rule; RuntimeError names every shape."""
    first = shapes[0]
    if shapes.count(first) == len(shapes):
        return tuple(first)
    ndim = max(len(s) for s in shapes)
    out = [1] * ndim
    for axis in range(-1, -ndim - 1, -1):
        for shape in shapes:
            if -axis <= len(shape) and shape[axis] != 1:
                if out[axis] not in (1, shape[axis]):
                    raise errors.cannot_broadcast(op, shapes, axis)
                out[axis] = shape[axis]
    return tuple(out)


@lru_cache(REMEMBERED)
def expand(view: View, shape: Shape) -> View:
    """The view broadcast to `shape` (which must be a broadcast of it)."""
    extra = len(shape) - len(view.shape)
    strides = [0] * extra
    for size, own, stride in zip(shape[extra:], view.shape, view.strides, strict=True):
        strides.append(0 if own == 1 and size != 1 else stride)
    return View(tuple(shape), tuple(strides), view.offset)


@lru_cache(REMEMBERED)
def permute(view: View, dims: Shape) -> View:
    return View(
        tuple(view.shape[d] for d in dims), tuple(view.strides[d] for d in dims), view.offset
    )


@lru_cache(REMEMBERED)
def resolve_shape(op: str, shape: Shape, own: Shape) -> Shape:
    """`shape` with its one -1 filled in from the element count of `own`."""
    count = numel(own)
    unknown = [i for i, size in enumerate(shape) if size == -1]
    if len(unknown) > 1:
        raise RuntimeError(f"{op}: only one dimension can be inferred, got {list(shape)}")
    if any(size < -1 for size in shape):
        raise RuntimeError(f"{op}: invalid shape dimension in {list(shape)}")
    known = math.prod(size for size in shape if size != -1)
    if unknown:
        if known == 0 and count == 0:
            raise errors.ambiguous_minus_one(op, shape)
        if known == 0 or count % known:
            raise errors.bad_numel(op, shape, own)
        filled = list(shape)
        filled[unknown[0]] = count // known
        return tuple(filled)
    if known != count:
        raise errors.bad_numel(op, shape, own)
    return tuple(shape)


@lru_cache(REMEMBERED)
def try_reshape(view: View, shape: Shape) -> View | None:
    """The same elements in order under a new shape without copying; None if impossible."""
    count = numel(view.shape)
    if count == 0:
        return View(tuple(shape), contiguous_strides(shape), view.offset)
    groups = [
        (size, stride)
        for size, stride in zip(view.shape, view.strides, strict=True)
        if size != 1
    ]
    merged: list[list[int]] = []  # runs of dimensions that step as one
    for size, stride in groups:
        if merged and merged[-1][1] == stride * size:
            merged[-1][0] *= size
            merged[-1][1] = stride
        else:
            merged.append([size, stride])
    strides = [0] * len(shape)
    at = len(merged) - 1
    left = merged[at][0] if merged else 1
    step = merged[at][1] if merged else 1
    for axis in range(len(shape) - 1, -1, -1):
        size = shape[axis]
        if size == 1:
            strides[axis] = step
            continue
        if left == 1:
            at -= 1
            if at < 0:
                return None
            left, step = merged[at]
        if left % size:
            return None
        strides[axis] = step
        left //= size
        step *= size
    if left != 1 or at > 0:
        return None
    return View(tuple(shape), tuple(strides), view.offset)


def whole_number(op: str, name: str, given: Any) -> int:
    """A dimension, size, count or bound, also as a tensor of one element; a float is refused,
    since it would lose its fraction silently.
    """
    try:
        if not isinstance(given, bool):
            return index(given)
    except TypeError:
        pass
    raise TypeError(f"{op}(): argument '{name}' must be int, not {type(given).__name__}")


def whole_numbers(op: str, name: str, given: Sequence[Any]) -> Shape:  # hot
    """Several of them; PyTorch looks closely at the first only, and takes bools after it."""
    if ONLY_INT.issuperset(map(type, given)):
        return tuple(given)
    later = enumerate(given)
    return tuple(
        [whole_number(op, name, int(n) if i and isinstance(n, bool) else n) for i, n in later]
    )


ONLY_INT = frozenset((int,))


def flag(op: str, name: str, given: Any) -> bool:  # hot
    """What has to be a bool, not only true or false."""
    if given is True or given is False:
        return given
    raise errors.wrong_kind(op, name, 0, "bool", given)


def dim_index(op: str, dim: int, ndim: int) -> int:  # hot
    """A possibly negative dimension as 0 <= d < ndim (0-d tensors accept -1 and 0)."""
    if type(dim) is not int:
        dim = whole_number(op, "dim", dim)
    bound = max(ndim, 1)
    if not -bound <= dim < bound:
        raise errors.dim_out_of_range(op, dim, ndim)
    return dim + bound if dim < 0 else dim


def dim_indices(op: str, dims: int | Sequence[int] | None, ndim: int) -> Shape:
    """Reduced dimensions, sorted; None or an empty list means all of them."""
    if dims is None:
        return tuple(range(ndim))
    if hasattr(dims, "__index__"):
        at = dim_index(op, dims, ndim)  # type: ignore[arg-type]  # one number
        return (at,) if ndim else ()
    if not isinstance(dims, list | tuple):
        raise errors.wrong_kind(op, "dim", 0, "tuple of ints", dims)
    found = [dim_index(op, d, ndim) for d in whole_numbers(op, "dim", dims)]
    for d in found:
        if found.count(d) > 1:
            raise errors.repeated_dim(op, d)
    if not found:
        return tuple(range(ndim))
    return tuple(sorted(found)) if ndim else ()


def reduced_shape(shape: Sequence[int], dims: Sequence[int], keepdim: bool) -> Shape:
    if keepdim:
        return tuple(1 if i in dims else s for i, s in enumerate(shape))
    return tuple(s for i, s in enumerate(shape) if i not in dims)


def span(view: AnyView) -> tuple[int, int]:
    """The lowest and one past the highest element that a non-empty view touches."""
    low = high = view.offset
    for size, stride in zip(view.shape, view.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return low, high + 1


def window(view: AnyView) -> tuple[int, int, Shape, View | None]:
    """The elements from the first to the last that a view touches: the numbers of those, the
    shape that they have by themselves, and how they are read (None: as they are).
    """
    low, high = span(view) if numel(view.shape) else (0, 0)
    if is_contiguous(view.shape, view.strides):
        return low, high, view.shape, None
    return low, high, (high - low,), View(view.shape, view.strides, view.offset - low)


def has_overlap(view: View) -> bool:
    """Whether two indices of the view may address one element (exact for stride 0)."""
    dims = sorted(
        (abs(stride), size)
        for size, stride in zip(view.shape, view.strides, strict=True)
        if size > 1
    )
    reach = 0
    for stride, size in dims:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def has_no_gaps(view: View) -> bool:
    """Whether the view reads every element of a stretch of memory once, in any order."""
    step = 1
    dims = sorted((stride, size) for size, stride in zip(*view[:2], strict=True) if size != 1)
    for stride, size in dims:
        if stride != step:
            return False
        step *= size
    return True


class Sharing(enum.Enum):
    """How much memory two views have in common."""

    NOTHING = "nothing, or more than their bounds say"
    PART = "some elements, or all in another order"
    ALL = "the same elements in the same order"


def sharing(one: View, other: View, size: int, other_size: int) -> Sharing:
    """What two views of one memory share, whose elements have these sizes in bytes. Only views
    without gaps are compared: of others PyTorch does not say either.
    """
    if 0 in one.shape or 0 in other.shape or not (has_no_gaps(one) and has_no_gaps(other)):
        return Sharing.NOTHING
    start, end = one.offset * size, (one.offset + numel(one.shape)) * size
    begin, stop = other.offset * other_size, (other.offset + numel(other.shape)) * other_size
    if end <= begin or stop <= start:
        return Sharing.NOTHING
    is_same = (start, end, one.strides) == (begin, stop, other.strides)
    return Sharing.ALL if is_same else Sharing.PART


def coordinates(shape: Sequence[int], offset: int) -> Shape:
    """The index of the element at a linear offset of a contiguous array."""
    index = []
    for size in reversed(shape):
        index.append(offset % max(size, 1))
        offset //= max(size, 1)
    return tuple(reversed(index))


@lru_cache(REMEMBERED)
def read_through(outer: View, inner: View) -> View | None:
    """`compose`, or where `outer` reads all elements in order, `inner` under its shape."""
    if is_whole(outer, numel(inner.shape)):
        return try_reshape(inner, outer.shape)
    return compose(outer, inner)


def compose(outer: View, inner: View) -> View | None:
    """The view `outer` taken of the elements of `inner` (numbered in order), as one view.

    None where the composition is not affine (a dimension of `outer` runs across two dimensions
    of `inner` that do not step as one).
    """
    if inner.offset == 0 and is_contiguous(inner.shape, inner.strides):
        return outer
    if numel(outer.shape) == 0:
        return View(outer.shape, (0,) * len(outer.shape), inner.offset)
    steps = contiguous_strides(inner.shape)
    low, high = span(outer)
    if not inner.shape:
        return View(outer.shape, (0,) * len(outer.shape), inner.offset)
    # `room[d]`: how far index d may still move up and down as outer's dimensions add up
    start = list(coordinates(inner.shape, outer.offset))
    if low < 0 or high > numel(inner.shape):
        return None
    low_at, high_at = list(start), list(start)
    strides = []
    for size, stride in zip(outer.shape, outer.strides, strict=True):
        if size == 1 or stride == 0:
            strides.append(0)
            continue
        moved = _split_stride(size, stride, inner, steps)
        if moved is None:
            return None
        total = 0
        for d, step in moved:
            total += step * inner.strides[d]
            reach = step * (size - 1)
            if reach > 0:
                high_at[d] += reach
            else:
                low_at[d] += reach
        strides.append(total)
    for d, size in enumerate(inner.shape):
        if low_at[d] < 0 or high_at[d] >= size:
            return _compose_merged(outer, inner)
    offset = inner.offset + sum(i * s for i, s in zip(start, inner.strides, strict=True))
    return View(outer.shape, tuple(strides), offset)


def _split_stride(
    size: int, stride: int, inner: View, steps: Shape
) -> list[tuple[int, int]] | None:
    """A linear step over inner's elements as steps of its indices, or None if it must carry."""
    sign = 1 if stride > 0 else -1
    left = abs(stride)
    moved = []
    for d, step in enumerate(steps):
        if inner.shape[d] > 1 and left >= step:
            count, left = divmod(left, step)
            moved.append((d, sign * count))
    return moved if left == 0 else None


def _compose_merged(outer: View, inner: View) -> View | None:
    """Composition after joining those dimensions of `inner` that step as one, if that helps."""
    sizes: list[int] = []
    strides: list[int] = []
    for size, stride in zip(inner.shape, inner.strides, strict=True):
        if size == 1:
            continue
        if sizes and strides[-1] == stride * size:
            sizes[-1] *= size
            strides[-1] = stride
        else:
            sizes.append(size)
            strides.append(stride)
    if len(sizes) == len([s for s in inner.shape if s != 1]):
        return _compose_split(outer, inner)
    return compose(outer, View(tuple(sizes), tuple(strides), inner.offset))


def _compose_split(outer: View, inner: View) -> View | None:
    """Composition of an outer dimension that spans several inner ones exactly, by reshaping."""
    flat = numel(inner.shape)
    if (
        outer.offset == 0
        and is_contiguous(outer.shape, outer.strides)
        and numel(outer.shape) == flat
    ):
        return try_reshape(inner, outer.shape)
    return None
