"""`x[index]` and `x[index] = value`: what an index means, and the ops behind index arrays.

An index is read from left to right into two parts: a basic part (ints, slices, None, Ellipsis),
which is one view, and index arrays on dimensions of that view. Arrays on neighbouring
dimensions put the dimensions of their broadcast shape in that place; otherwise these come
first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # indices are of many kinds

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.advice import warn_caller
from rushlight.ops import batching
from rushlight.ops.creation import FILL
from rushlight.ops.elementwise import WHERE
from rushlight.ops.fill_value import checked_value
from rushlight.ops.index_arrays import INDEX, INDEX_PUT, index_shape
from rushlight.ops.movement import bounded_index
from rushlight.ops.rearrange import FLIP
from rushlight.ops.registry import public, recorder
from rushlight.ops.view_ops import PICK, take_view
from rushlight.views import Shape

# -- reading an index


def _is_tensor(x: Any) -> bool:
    return hasattr(x, "_storage")


def as_tuple(index: Any) -> tuple[Any, ...]:
    """An index as a tuple; a list counts as one if it holds slices, None, lists or tensors."""
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32:
        special = (slice, list, tuple, type(None), type(...))
        if any(isinstance(i, special) or _is_tensor(i) for i in index):
            return tuple(index)
    return (index,)


def _array(item: Any) -> Any:
    """A list, range or array used as an index, as a tensor."""
    from rushlight.arrays import tensor, tensor_of_array  # ops come before tensors

    if isinstance(item, np.ndarray):
        made = tensor_of_array(item, dt.of_numpy(item.dtype))
    elif isinstance(item, str | bytes):
        raise TypeError(f"index: a tensor has no elements named {item!r}")
    elif isinstance(item, Sequence):
        made = tensor(list(item), device="cpu")
        is_mask = made.dtype in (dt.bool_, dt.uint8)
        if not made.numel() or (made.dtype.is_integral and not is_mask):
            made = made.to(dt.int64)  # NumPy's integers may be narrow
    else:
        raise IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
            f"are valid indices (got {type(item).__name__})"
        )
    return made


def _checked(item: Any) -> Any:
    if item.dtype not in (dt.int64, dt.int32, dt.uint8, dt.bool_):
        raise IndexError(
            f"tensors used as indices must be long, int, byte or bool tensors, not "
            f"{item.dtype!r}"
        )
    if item.dtype is dt.uint8:
        warn_caller("indexing with torch.uint8 is deprecated: it is a mask; use torch.bool")
    return item


def _item(item: Any) -> Any:
    """One part of an index in a plain form: None, Ellipsis, bool, int, slice or tensor."""
    if item is None or item is Ellipsis or isinstance(item, bool | int | slice):
        return item
    if _is_tensor(item):
        return _checked(item)
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, np.integer):
        return int(item)
    if errors.is_foreign_tensor(item):  # has __index__, but its dimensions count
        raise errors.foreign_tensor("an index", type(item))
    if hasattr(item, "__index__") and not isinstance(item, np.ndarray):
        return item.__index__()
    return _checked(_array(item))


def _width(item: Any) -> int:
    """How many dimensions of the tensor an index part uses up."""
    if item is None or isinstance(item, bool):
        return 0
    if _is_tensor(item) and item.dtype in (dt.bool_, dt.uint8):
        return len(item._shape)
    return 1


def _expand_ellipsis(x: Any, index: tuple[Any, ...]) -> list[Any]:
    items = [_item(i) for i in index]
    count = sum(_width(i) for i in items if i is not Ellipsis)
    missing = x.ndim - count
    if missing < 0:
        raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    rest = [i for i in items[at:] if i is not Ellipsis]
    return [*items[:at], *([slice(None)] * missing), *rest]


def _sliced(part: slice, size: int) -> tuple[int, int, int]:
    """First element, count and step of a slice; a slice that goes down is read upwards."""
    if part.step is not None and part.step.__index__() == 0:
        raise ValueError("slice step cannot be zero")
    start, stop, step = part.indices(size)
    count = max(0, -((start - stop) // step))
    if step < 0:
        return (start + (count - 1) * step if count else 0), count, -step
    return start, count, step


def _goes_down(part: slice) -> bool:
    return part.step is not None and part.step.__index__() < 0


class Parsed:
    """An index read: the basic part by dimension, index arrays on dimensions of its view, and
    the dimensions of the view that slices go through downwards.

    Note: slices that go down. No stride is negative, so `x[::-1]` is a copy, as for an index
    array; assigning to it writes to x all the same.
    """

    __slots__ = ("arrays", "items", "turned")

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.arrays: list[tuple[int, Any]] = []
        self.turned: tuple[int, ...] = ()

    def turn(self, viewed: Any) -> Any:
        """The view with those dimensions reversed (and back again)."""
        return FLIP(viewed, dims=self.turned) if self.turned else viewed


def parse(x: Any, index: Any) -> Parsed:
    """Read an index of x."""
    parsed = Parsed()
    dim = at = 0  # dimension of x, dimension of the view
    for item in _expand_ellipsis(x, as_tuple(index)):
        if isinstance(item, bool):
            parsed.items.append(None)
            parsed.arrays.append((at, _flag(item)))
            at += 1
        elif item is None:
            parsed.items.append(None)
            at += 1
        elif isinstance(item, int):
            parsed.items.append(bounded_index("index", item, x._shape[dim], dim))
            dim += 1
        elif isinstance(item, slice):
            parsed.items.append(_sliced(item, x._shape[dim]))
            if _goes_down(item):
                parsed.turned += (at,)
            dim += 1
            at += 1
        else:
            width = _width(item)
            if width == 0:  # a 0-d mask
                parsed.items.append(None)
                parsed.arrays.append((at, _flag(bool(item))))
                at += 1
                continue
            if item.dtype in (dt.bool_, dt.uint8):
                _check_mask(x, item, dim)
            parsed.items += [(0, s, 1) for s in x._shape[dim : dim + width]]
            parsed.arrays.append((at, item))
            dim += width
            at += width
    return parsed


def _flag(value: bool) -> Any:
    """A Python bool as an index array of a new dimension: its one element, or none."""
    from rushlight.arrays import tensor  # ops come before tensors

    return tensor([0] if value else [], dtype=dt.int64, device="cpu")


def _check_mask(x: Any, mask: Any, dim: int) -> None:
    for d, size in enumerate(mask._shape):
        if x._shape[dim + d] != size:
            raise IndexError(
                f"The shape of the mask {errors.shape_text(mask._shape)} at index {d} does not "
                f"match the shape of the indexed tensor {errors.shape_text(x._shape)} at index "
                f"{dim + d}"
            )


def _viewed(x: Any, items: list[Any]) -> Any:
    """The view of the basic part; x itself if that takes everything."""
    is_all = all(
        isinstance(i, tuple) and i == (0, s, 1) for i, s in zip(items, x._shape, strict=False)
    )
    if is_all and len(items) == x.ndim:
        return x
    return take_view(PICK, x, items=tuple(items))


def is_mask(index: Any) -> bool:
    return index.dtype is dt.bool_ or index.dtype is dt.uint8


def _without_masks(arrays: list[tuple[int, Any]]) -> tuple[Shape, list[Any]]:
    """Masks as the positions where they hold, which needs their values."""
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    dims: list[int] = []
    indices: list[Any] = []
    for at, index in arrays:
        if not is_mask(index):
            dims.append(at)
            indices.append(index)
            continue
        batching.refuse_sizes("an index that is a mask", index)
        for d, places in enumerate(np.nonzero(index._numbers())):
            dims.append(at + d)
            indices.append(tensor_of_array(places, dt.int64))
    return tuple(dims), indices


@public("Tensor", name="__getitem__")
def getitem(input: Any, key: Any) -> Any:
    """The elements at an index: a view for ints and slices, a copy for arrays, masks and slices
    that go down.

    >>> import rushlight as torch
    >>> x = torch.arange(6).view(2, 3)
    >>> x[1, ::2], x[[False, True]], x[:, [2, 0]]
    (tensor([3, 5]), tensor([[3, 4, 5]]), tensor([[2, 0],
            [5, 3]]))
    """
    if _is_tensor(key) and key.dtype is dt.int64 and input._shape:
        return INDEX(input, key, dims=(0,), wraps=True)
    parsed = parse(input, key)
    if not parsed.arrays:
        return parsed.turn(take_view(PICK, input, items=tuple(parsed.items)))
    viewed = parsed.turn(_viewed(input, parsed.items))
    dims, indices = _without_masks(parsed.arrays)
    return INDEX(viewed, *indices, dims=dims, wraps=True)


def slice_along(
    input: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """`input[start:end:step]` along one dimension, as a view."""
    at = views.dim_index("slice", dim, input.ndim)
    return getitem(input, (*(slice(None),) * at, slice(start, end, step)))


@public("Tensor", name="__setitem__")
def setitem(input: Any, key: Any, value: Any) -> None:
    """Write values, broadcast, at an index.

    >>> x = torch.zeros(3)
    >>> x[1:] = torch.tensor([1.0, 2.0])
    >>> x
    tensor([0., 1., 2.])
    """
    parsed = parse(input, key)
    viewed = _viewed(input, parsed.items)
    is_number = not _is_tensor(value)
    if is_number:
        value = _number(value, input)
    if not parsed.arrays:
        while value.ndim > viewed.ndim and value._shape[0] == 1:
            value = value.reshape(value._shape[1:])
        if parsed.turned:
            value = parsed.turn(value.expand(viewed._shape))
        recorder.write(viewed, value, "setitem")
        return
    if not is_number and value.dtype is not input.dtype and value.ndim:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype!r} "
            f"for the destination and {value.dtype!r} for the source."
        )
    made = _assigned(parsed.turn(viewed), value, parsed.arrays)
    recorder.write(viewed, parsed.turn(made), "index_put_")


def _number(value: Any, x: Any) -> Any:
    if isinstance(value, bool | int | float | complex):
        return FILL(checked_value("setitem", value, x.dtype), shape=(), dtype=x.dtype)
    if isinstance(value, np.generic):
        from rushlight.arrays import tensor  # ops come before tensors

        return tensor(value, dtype=x.dtype, device="cpu")
    raise TypeError(f"can't assign a {type(value).__name__} to a {type(x).__name__}")


def _assigned(viewed: Any, value: Any, arrays: list[tuple[int, Any]]) -> Any:
    """`viewed` with `value` at index arrays; one mask and one value need no look at the
    mask.
    """
    if len(arrays) == 1 and is_mask(arrays[0][1]) and not value.ndim:
        at, mask = arrays[0]
        after = viewed.ndim - at - mask.ndim
        wide = mask.reshape((*mask._shape, *([1] * after)))
        return WHERE(
            wide, value if value.dtype is viewed.dtype else value.to(viewed.dtype), viewed
        )
    dims, indices = _without_masks(arrays)
    shape = index_shape(viewed._shape, dims, [Shaped(i._shape) for i in indices])[0]
    while value.ndim > len(shape) and value._shape[0] == 1:
        value = value.reshape(value._shape[1:])
    return INDEX_PUT(viewed, value, *indices, dims=dims, accumulate=False, wraps=True)


class Shaped:
    """Only a shape, for shape rules."""

    __slots__ = ("shape",)

    def __init__(self, shape: Shape) -> None:
        self.shape = shape


# -- index_put


def _put_arrays(x: Any, indices: Any) -> list[tuple[int, Any]]:
    if not isinstance(indices, Sequence):
        raise TypeError("index_put: argument 'indices' must be tuple of Tensors")
    arrays, dim = [], 0
    for index in indices:
        if index is None:
            dim += 1
            continue
        _checked(index)
        width = max(_width(index), 1)
        if dim + width > x.ndim:
            raise IndexError(f"too many indices for tensor of dimension {x.ndim}")
        if is_mask(index):
            _check_mask(x, index, dim)
        arrays.append((dim, index))
        dim += width
    return arrays


@public("torch", "Tensor")
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """A copy with `values` at index arrays, or added there.

    >>> torch.index_put(torch.zeros(3), (torch.tensor([0, 2]),), torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    if values.dtype is not input.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {input.dtype!r} "
            f"for the destination and {values.dtype!r} for the source."
        )
    dims, arrays = _without_masks(_put_arrays(input, indices))
    return INDEX_PUT(input, values, *arrays, dims=dims, accumulate=bool(accumulate), wraps=True)


@public("torch", "Tensor", name="index_put_")
def index_put_(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Write (or add) `values` at index arrays.

    >>> x = torch.zeros(3)
    >>> x.index_put_((torch.tensor([0, 0]),), torch.tensor([1.0, 2.0]), True)
    tensor([3., 0., 0.])
    """
    return recorder.write(input, index_put(input, indices, values, accumulate), "index_put_")
