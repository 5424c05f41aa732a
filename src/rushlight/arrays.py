"""Tensors of numbers, nested sequences and NumPy arrays: on their memory, or copies."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any  # the API takes numbers, nested lists, arrays

import numpy as np

from rushlight import config, errors, float8, large_joins, views
from rushlight import dtypes as dt
from rushlight.advice import warn_caller
from rushlight.devices import check_usable
from rushlight.dtypes import dtype
from rushlight.layout import Size, check_layout
from rushlight.ops import creation
from rushlight.ops.fill_value import holds
from rushlight.ops.registry import OPS, TensorType, recorder
from rushlight.runtime import buffers
from rushlight.trace.inference import note_data
from rushlight.trace.record import make_tensor, set_view
from rushlight.trace.trace import hooks
from rushlight.trace.value import Storage, Value
from rushlight.views import Recast, Shape, View

if TYPE_CHECKING:
    from rushlight.tensor import Tensor


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor on the memory of a NumPy array: writes to either are seen by both."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.flags.writeable:
        warn_caller(
            "from_numpy: the NumPy array is not writable, and tensors always are: a write to "
            "the tensor changes the array all the same. Copy the array to protect it."
        )
    return tensor_on(ndarray, dt.of_numpy(ndarray.dtype))


def tensor_on(array: Any, kind: dtype) -> Tensor:
    """A tensor on the memory of an array of stored bits of a dtype."""
    if any(s < 0 for s in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with "
            "negative strides are not currently supported. (You can probably work around this "
            "by making a copy of your array with array.copy().)"
        )
    buffer = buffers.wrap_array(array)
    buffer.is_foreign = True
    count = buffer.nbytes // kind.itemsize
    is_plain = array.flags.c_contiguous
    value = Value(TensorType(tuple(array.shape) if is_plain else (count,), kind), buffer)
    note_data(value)
    storage = Storage(value)
    storage.buffer = buffer
    value.claimed = True
    out = make_tensor(hooks.tensor_class, storage, value.type)
    if not is_plain:
        strides = tuple(s // kind.itemsize for s in array.strides)
        set_view(out, View(tuple(array.shape), strides, 0))
    return out


def from_file(
    filename: Any, shared: bool | None = None, size: int = 0, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`size` elements on the memory of a mapped file.

    shared: what is written to the tensor is written to the file, which is made or extended if
    need be; otherwise the file is only read, and must be long enough, or RuntimeError.
    """
    check_layout(layout)
    kind = config.default_dtype() if dtype is None else dtype
    path, needed = os.fspath(filename), size * kind.itemsize
    if shared:
        with open(path, "ab") as file:
            if file.tell() < needed:
                file.truncate(needed)
    elif os.path.getsize(path) < needed:
        raise RuntimeError(
            f"from_file: {path} has {os.path.getsize(path)} bytes, and {size} elements of "
            f"{kind!r} need {needed}"
        )
    if not size:
        return tensor_of_array(np.empty(0, kind.storage), kind)
    mapped = np.memmap(path, kind.storage, "r+" if shared else "c", shape=(size,))
    return recorder.on_device(tensor_on(np.asarray(mapped), kind), device or "cpu")


def tensor_of_array(array: Any, kind: dtype) -> Tensor:
    """A tensor with a copy of an array's elements."""
    array = np.asarray(array)
    value = Value(TensorType(tuple(array.shape), kind))
    value.buffer = buffers.Buffer(value.type.nbytes)
    stored = value.buffer.as_numpy(kind.storage, array.shape)
    if kind is dt.bfloat16:
        from rushlight.loops.interpret import round_bfloat16  # only for this dtype

        bits = np.ascontiguousarray(round_bfloat16(array.astype(np.float32))).view(np.uint32)
        stored[...] = (bits >> 16).reshape(array.shape)
    elif kind.is_float8:
        stored[...] = float8.encoded(array, kind.name)
    else:
        with np.errstate(all="ignore"):
            stored[...] = array
    note_data(value)
    return make_tensor(hooks.tensor_class, Storage(value), value.type)


def joined(parts: Sequence[Tensor], dim: int, kind: dtype, shape: Shape) -> Tensor:
    """A tensor of `shape` with copies of the elements of others, one after the other along a
    dimension of theirs.
    """
    if any(p.dtype is not kind for p in parts):
        numbers = np.concatenate([p._numbers() for p in parts], dim)
        return tensor_of_array(numbers.reshape(shape), kind)
    value = Value(TensorType(shape, kind))
    value.buffer = buffers.Buffer(value.type.nbytes)
    address = value.buffer.address
    if not large_joins.join(parts, dim, kind, shape, address) and not _laid_in_turn(
        parts, dim, kind, address
    ):
        first = parts[0]._shape
        length = sum([p._shape[dim] for p in parts])
        stored = value.buffer.as_numpy(kind.storage, (*first[:dim], length, *first[dim + 1 :]))
        np.concatenate([p._array() for p in parts], dim, out=stored)
    return make_tensor(hooks.tensor_class, Storage(value), value.type)


def _laid_in_turn(parts: Sequence[Tensor], dim: int, kind: dtype, address: int) -> bool:
    """Copy parts that follow one another in the result's memory, whole; False, and nothing is
    copied, where they do not.
    """
    if any(size != 1 for size in parts[0]._shape[:dim]):
        return False
    if not all(p.is_contiguous() and type(p._view) is not Recast for p in parts):
        return False
    for p in parts:
        nbytes = views.numel(p._shape) * kind.itemsize
        ctypes.memmove(address, p.data_ptr(), nbytes)
        address += nbytes
    return True


def tensor_of_number(number: float, kind: dtype) -> Tensor:
    """A realised 0-d tensor; quick for what optimizers make at every step."""
    layout = _LAYOUTS.get(kind)
    if layout is None:
        return tensor_of_array(number, kind)
    value = Value(TensorType((), kind), buffers.Buffer(kind.itemsize))
    ctypes.memmove(value.buffer.address, layout.pack(number), kind.itemsize)
    note_data(value)
    return make_tensor(hooks.tensor_class, Storage(value), value.type)


_LAYOUTS = {dt.float32: struct.Struct("f"), dt.float64: struct.Struct("d")}


def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new leaf tensor with a copy of `data`: a number, nested sequences, or an array.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, hooks.tensor_class):
        warn_caller(
            "tensor: to copy a tensor, x.detach().clone() (and .requires_grad_()) says what is "
            "meant"
        )
        out = data.detach().clone()
        out = out if dtype is None else OPS["cast"](out, dtype=dtype)
        return creation.with_grad(out, requires_grad, device, data)
    array, kind = array_of(data)
    kind = dtype or kind
    if device is None and config.process.has_places:
        device = config.default_device()
    made = tensor_of_array(_in_range(array, kind), kind)
    return creation.with_grad(made, requires_grad, device)


def array_of(data: Any) -> tuple[Any, dtype]:
    """Nested data as a NumPy array, and the dtype PyTorch would infer."""
    if isinstance(data, np.ndarray | np.generic):
        return data, dt.of_numpy(data.dtype)
    if isinstance(data, list | tuple) and data and isinstance(data[0], np.ndarray):
        warn_caller("tensor: a list of NumPy arrays is slow; numpy.array(list) makes one of it")
    found: set[dtype | dt.Category] = set()
    plain = _plain_data(data, found)
    typed = any(isinstance(kind, dtype) for kind in found)
    try:
        array = np.array(plain)
    except OverflowError as error:
        raise RuntimeError(
            f"tensor: value cannot be converted without overflow: {error}"
        ) from None
    except ValueError:
        array = _ragged(plain)
    if not typed and _may_be_long(array):
        leaves = np.array(plain, dtype=object)
        if all(isinstance(leaf, int) for leaf in leaves.flat):
            return leaves, dt.int64
        if all(isinstance(leaf, int | float) for leaf in leaves.flat):
            array = leaves.astype(np.float64)
    if array.dtype == object:
        raise _not_numbers(data)
    if array.size == 0 and not typed:
        return array, config.default_dtype()
    if array.dtype.kind in "US":
        kind = _text_class(plain)
        if isinstance(plain, list) and isinstance(_first_leaf(plain), str):
            raise ValueError(f"tensor: too many dimensions '{kind}'")
        raise TypeError(f"new(): invalid data type '{kind}'")
    if typed:
        return array, functools.reduce(dt.promote_types, map(_kind_of, found))
    if array.dtype.kind == "f":
        return array, config.default_dtype()
    if array.dtype.kind == "c":
        return array, config.default_dtype().to_complex()
    return array, dt.bool_ if array.dtype.kind == "b" else dt.int64


_CATEGORIES = {
    bool: dt.Category.BOOL,
    int: dt.Category.INTEGRAL,
    float: dt.Category.FLOATING,
    complex: dt.Category.COMPLEX,
}


def _plain_data(data: Any, found: set[dtype | dt.Category]) -> Any:
    """Nested data without tensors. What decides the dtype is added to `found`: the dtypes of
    tensors, arrays and NumPy's numbers, and the categories of Python's.
    """
    if isinstance(data, hooks.tensor_class):
        found.add(data.dtype)
        return data.detach()._numbers()
    if isinstance(data, np.ndarray | np.generic):
        found.add(dt.of_numpy(data.dtype))
        return data
    is_list = isinstance(data, list | tuple)
    if is_list or (isinstance(data, Sequence) and not isinstance(data, str | bytes)):
        classes = set(map(type, data))
        if is_list and classes <= _CATEGORIES.keys():
            found.update(map(_CATEGORIES.__getitem__, classes))
            return data
        parts = [_plain_data(part, found) for part in data]
        return _as_numbers(data, parts) if _are_numbers(data) else parts
    if isinstance(data, int | float | complex):
        found.add(dt.of_number(data))
    return data


def _are_numbers(data: Sequence[Any]) -> bool:
    """Whether the tensors of a list count as numbers: those of one element, as in PyTorch."""
    tensors = [part for part in data if isinstance(part, hooks.tensor_class)]
    is_nested = any(isinstance(part, list | tuple | np.ndarray) for part in data)
    return bool(tensors) and not is_nested and all(x.numel() == 1 for x in tensors)


def _as_numbers(data: Sequence[Any], parts: list[Any]) -> list[Any]:
    return [
        plain.reshape(()) if isinstance(part, hooks.tensor_class) else plain
        for part, plain in zip(data, parts, strict=True)
    ]


def _kind_of(found: dtype | dt.Category) -> dtype:
    return found if isinstance(found, dtype) else dt.number_dtype(found, config.default_dtype())


def _may_be_long(array: Any) -> bool:
    """Whether integers of more than 64 bits may have been among the numbers of an array."""
    kind = array.dtype.kind
    return kind in "Ou" or (kind == "f" and bool((np.abs(array) >= 2.0**63).any()))


def _in_range(array: Any, kind: dtype) -> Any:
    """The array, after a check that a dtype holds its numbers."""
    if array.dtype == object:
        if kind is dt.uint64 and all(0 <= number < 1 << 64 for number in array.flat):
            return array.astype(np.uint64)
        if kind.is_integral and kind is not dt.bool_:
            raise ValueError("Overflow when unpacking long long")
        return array.astype(bool if kind is dt.bool_ else np.float64)
    if array.dtype.kind == "c" and not kind.is_complex:
        raise TypeError(f"tensor: complex numbers cannot be elements of {kind!r}")
    if kind.is_integral and array.dtype.kind in "if" and array.dtype != kind.storage:
        for end in (array.min(), array.max()) if array.size else ():
            if not holds(kind, end.item()):
                raise errors.value_overflows("tensor", end, kind)
    return array


def _ragged(data: Any) -> Any:
    """Raise for nested data whose parts have other shapes than the first of them. Where the
    first has no elements the tensor has none, whatever else there is: as in PyTorch.
    """
    shape: tuple[int, ...] = ()
    first = data
    while _is_nested(first):
        shape = (*shape, len(first))
        first = first[0] if len(first) else None
    if 0 in shape and not _text_class(data):
        return np.empty(shape)
    _check_parts(data, shape, 0)
    raise ValueError(f"tensor: too many dimensions: {len(shape)}")


def _is_nested(data: Any) -> bool:
    return isinstance(data, list | tuple) or (isinstance(data, np.ndarray) and data.ndim > 0)


def _check_parts(data: Any, shape: Shape, depth: int) -> None:
    if depth == len(shape):
        if _is_nested(data):
            raise TypeError(
                f"tensor: expected a number at dim {depth}, as the first element is one, but "
                f"got a sequence ({type(data).__name__})"
            )
        return
    if not _is_nested(data):
        raise TypeError(
            f"tensor: not a sequence: expected one of length {shape[depth]} at dim {depth}, "
            f"but got {type(data).__name__}"
        )
    if len(data) != shape[depth]:
        raise ValueError(
            f"tensor: expected sequence of length {shape[depth]} at dim {depth} (got "
            f"{len(data)})"
        )
    for part in data:
        _check_parts(part, shape, depth + 1)


def _first_leaf(data: Any) -> Any:
    while isinstance(data, list) and data:
        data = data[0]
    return data


def _text_class(data: Any) -> str:
    """The class of the first text in nested data."""
    if not isinstance(data, list):
        return type(data).__name__ if isinstance(data, str | bytes) else ""
    return next(filter(None, map(_text_class, data)), "")


def _not_numbers(data: Any) -> Exception:
    others = (
        leaf for leaf in np.array(data, dtype=object).flat if not isinstance(leaf, _NUMBERS)
    )
    return RuntimeError(f"Could not infer dtype of {type(next(others, data)).__name__}")


_NUMBERS = (bool, int, float, complex, np.number, np.bool_)


def legacy_tensor(
    *args: Any, dtype: dtype | None = None, device: Any = None, size: Any = None,
    data: Any = None,
) -> Tensor:  # fmt: skip
    """`Tensor(2, 3)` is memory of that shape (zeros); `Tensor([..])` holds the data.

    Another tensor is shared, so it must have the dtype of a typed constructor.
    """
    check_usable(device)
    kind = dtype or config.default_dtype()
    if size is not None or data is not None:
        args = (Size(size) if data is None else data,)
    if len(args) != 1 or isinstance(args[0], int | np.integer):
        return _of_shape(args or (0,), kind)
    source = args[0]
    if isinstance(source, Size):
        return _of_shape(source, kind)
    if isinstance(source, hooks.tensor_class):
        if dtype is not None and source.dtype is not dtype:
            raise TypeError(f"new(): expected a tensor of {dtype!r}, got {source.dtype!r}")
        return source.detach()
    if hasattr(source, "_as_tensor"):  # a storage
        return source._as_tensor(kind)
    if isinstance(source, str):
        raise TypeError("new(): invalid data type 'str'")
    if not (hasattr(source, "__len__") or hasattr(source, "__iter__")):
        raise TypeError(f"new(): data must be a sequence (got {type(source).__name__})")
    return tensor(source, dtype=kind, device="cpu")


def _of_shape(sizes: Sequence[Any], kind: dtype) -> Tensor:
    shape = tuple([size.__index__() for size in sizes])
    if any(size < 0 for size in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    made: Tensor = creation.in_memory(creation.FULL(shape=shape, value=0, dtype=kind))
    return made
