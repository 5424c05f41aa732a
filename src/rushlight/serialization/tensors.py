"""Tensors taken apart and put together: a storage's bytes, and the view of them that a tensor
is.

Everything that outlives a tensor goes through here: files (`save`, `load`), plain pickles and
`copy.deepcopy`. Tensors that share a storage before still share one after, and offsets and
strides are kept.
"""

from __future__ import annotations

import copy
import dataclasses
import sys
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

# dtype name -> the PyTorch storage class that stands for it in files. The dtypes missing here
# (uint16, float8, ...) are written as an untyped storage and a dtype beside it.
STORAGE_NAMES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
DTYPE_OF_STORAGE = {storage: dtype for dtype, storage in STORAGE_NAMES.items()}

# The integers that hold the bits of the dtypes that NumPy lacks.
CARRIERS = {
    "bfloat16": "uint16",
    "complex32": "uint32",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
}

ALIGNMENT = 64
_UNMARKED: Mapping[str, bool] = {}


def public() -> Any:  # Any: a module with lazily filled names
    """The public namespace. Late, because it imports this room."""
    import rushlight

    return rushlight


def short_name(dtype: Any) -> str:
    """`float32` for `torch.float32`."""
    return str(dtype).rsplit(".", 1)[-1]


@dataclasses.dataclass(slots=True)
class Bytes:
    """The bytes of one storage, with the tensors made over them, one for each dtype."""

    array: np.ndarray  # one-dimensional, uint8, writable
    device: str = "cpu"
    dtype: str = "uint8"
    bases: dict[str, Any] = dataclasses.field(default_factory=dict)

    def typed(self, dtype_name: str) -> Bytes:
        """The same storage, seen as elements of another dtype."""
        return self if dtype_name == self.dtype else dataclasses.replace(self, dtype=dtype_name)

    def base(self, dtype_name: str) -> Any:
        """The whole storage as a one-dimensional tensor."""
        if dtype_name not in self.bases:
            known = next(iter(self.bases.values()), None)
            self.bases[dtype_name] = (
                tensor_over(self.array, dtype_name)
                if known is None
                else known.view(getattr(public(), dtype_name))
            )
        return self.bases[dtype_name]

    def filled(self) -> None:
        """Say that the bytes were written after tensors were made over them."""
        for name, base in self.bases.items():
            if name in CARRIERS:
                base._array()[...] = self.array.view(CARRIERS[name])


def tensor_over(data: np.ndarray, dtype_name: str) -> Any:
    """A one-dimensional tensor of the named dtype with the content of a uint8 array.

    It shares the array's memory, unless NumPy lacks the dtype.
    """
    torch = public()
    width = item_size(dtype_name)
    whole = data[: data.size // width * width]
    if dtype_name not in CARRIERS:
        made = torch.from_numpy(whole.view(np.dtype(dtype_name)))
        made._storage.buffer.is_foreign = False  # read for this tensor: nobody else holds it
        return made
    tensor = torch.empty(len(whole) // width, dtype=getattr(torch, dtype_name))
    tensor._array()[...] = whole.view(CARRIERS[dtype_name])
    return tensor


def item_size(dtype_name: str) -> int:
    return np.dtype(CARRIERS.get(dtype_name, dtype_name)).itemsize


def aligned_bytes(count: int) -> np.ndarray:
    """Uninitialised bytes that begin where a vector load wants them."""
    room = np.empty(count + ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + count]


def whole_storage(tensor: Any) -> Any:
    """All of a tensor's storage as a one-dimensional tensor of its dtype, sharing the
    memory.
    """
    from rushlight.ops.view_ops import memory_of  # late, as the public namespace

    return memory_of(tensor)


def storage_array(tensor: Any) -> np.ndarray:
    """The bytes of a tensor's storage, without a copy."""
    array: np.ndarray = whole_storage(tensor)._array().view(np.uint8)
    return array


def resolved(tensor: Any) -> Any:
    """The tensor itself, or a copy without a pending conjugation or negation."""
    return tensor.resolve_conj().resolve_neg()


def marks_of(tensor: Any) -> dict[str, bool]:
    """What PyTorch's files say of a tensor beside its view of a storage."""
    marks = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    return {name: True for name, is_set in marks.items() if is_set}


def marked(tensor: Any, marks: Mapping[str, bool]) -> Any:
    """The tensor that reads what `marks_of` said, from memory that `tensor` reads as it is."""
    if marks.get("conj"):
        tensor = tensor.conj()
    if marks.get("neg"):
        tensor = tensor._neg_view()
    return tensor.detach()


def user_attributes(tensor: Any) -> dict[str, Any]:
    """What a user hung on a tensor; its own bookkeeping stays behind."""
    attributes = getattr(tensor, "__dict__", {})
    return {name: value for name, value in attributes.items() if name != "_retains_grad"}


def check_fits(count: int, offset: int, size: Sequence[int], stride: Sequence[int]) -> None:
    """Refuse a view that would read outside its storage: sizes in a file are not to be
    trusted.
    """
    numbers = [offset, *size, *stride]
    plain = all(type(number) is int and number >= 0 for number in numbers)
    if not plain or len(size) != len(stride):
        raise RuntimeError(f"load: size {size}, stride {stride}, offset {offset} is no view")
    if 0 in size:
        return
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if last >= count:
        raise RuntimeError(
            f"load: a tensor of size {tuple(size)}, stride {tuple(stride)} and offset {offset} "
            f"reaches element {last}, outside its storage of {count} elements"
        )


def view_of(
    data: Bytes, dtype_name: str, offset: int, size: Sequence[int], stride: Sequence[int]
) -> Any:
    """The tensor that sees `data` through an offset, a size and a stride."""
    if data.device == "meta":
        torch = public()
        return torch.empty_strided(
            tuple(size), tuple(stride), dtype=getattr(torch, dtype_name), device="meta"
        )
    check_fits(data.array.size // item_size(dtype_name), offset, size, stride)
    return data.base(dtype_name).as_strided(tuple(size), tuple(stride), offset)


# Plain pickles


class _StorageBox:
    """Stands for a storage in a plain pickle.

    The pickler remembers objects by identity for as long as one dump lasts, and keeps them
    alive for that long; so two tensors over one storage must hand it the same box. The box
    keeps its storage alive, so an address cannot be reused while its box exists.
    """

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes_from_pickle, (storage_array(self.tensor).tobytes(), sys.byteorder)


_being_pickled: weakref.WeakValueDictionary[tuple[int, int], _StorageBox] = (
    weakref.WeakValueDictionary()
)


def bytes_from_pickle(raw: bytes, byteorder: str) -> Bytes:
    """Undo the pickle of a storage."""
    if byteorder != sys.byteorder:
        raise RuntimeError("a pickled tensor can be read only on a machine of its byte order")
    array = aligned_bytes(len(raw))
    array[:] = np.frombuffer(raw, dtype=np.uint8)
    return Bytes(array)


def _box_of(tensor: Any) -> _StorageBox:
    storage = tensor.untyped_storage()
    if not storage.nbytes():
        return _StorageBox(tensor)
    return _being_pickled.setdefault(
        (storage.data_ptr(), storage.nbytes()), _StorageBox(whole_storage(tensor))
    )


def reduce_tensor(tensor: Any) -> tuple[Any, tuple[Any, ...]]:
    """What `Tensor.__reduce_ex__` returns: how any pickler writes a tensor."""
    name = short_name(tensor.dtype)
    attributes = user_attributes(tensor)
    meta = tensor.device.type == "meta"
    data = None if meta else _box_of(tensor)
    view = (tensor.storage_offset(), tuple(tensor.shape), tuple(tensor.stride()))
    return rebuild_tensor, (
        type(tensor),
        data,
        name,
        *view,
        bool(tensor.requires_grad),
        attributes,
        marks_of(tensor),
    )


def rebuild_tensor(
    kind: type,
    data: Bytes | _StorageBox | None,
    dtype_name: str,
    offset: int,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    attributes: dict[str, Any],
    marks: Mapping[str, bool] = _UNMARKED,
) -> Any:
    """The inverse of `reduce_tensor`."""
    if isinstance(data, _StorageBox):  # a shallow copy, which pickles nothing
        tensor = data.tensor.as_strided(size, stride, offset)
    else:
        data = data if data is not None else Bytes(np.empty(0, np.uint8), device="meta")
        tensor = view_of(data, dtype_name, offset, size, stride)
    return dressed(marked(tensor, marks), kind, requires_grad, attributes)


def dressed(tensor: Any, kind: type, requires_grad: bool, attributes: dict[str, Any]) -> Any:
    """A bare tensor given its class, its gradient flag and the attributes a user hung on it."""
    torch = public()
    if issubclass(kind, torch.nn.Parameter):
        tensor = kind(tensor, requires_grad)
    else:
        if kind is not torch.Tensor:
            tensor = torch.Tensor._make_subclass(kind, tensor.detach())
        tensor.requires_grad_(requires_grad)
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


# Deep copies


_COPIED_STORAGES = "rushlight: storages copied so far"


def deepcopy_tensor(tensor: Any, memo: dict[Any, Any]) -> Any:
    """What `Tensor.__deepcopy__` returns: a leaf over a copy of the storage.

    Tensors that share a storage are copied, within one `copy.deepcopy`, to tensors that share
    one. A computed tensor (an activation that a module remembers) keeps its value and leaves
    its gradient history behind.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    with public().no_grad():
        copied = _copied_view(tensor, memo)
    copied = dressed(copied, type(tensor), tensor.requires_grad and tensor.is_leaf, {})
    memo[id(tensor)] = copied
    for name, value in user_attributes(tensor).items():
        setattr(copied, name, copy.deepcopy(value, memo))
    if tensor._grad is not None:
        copied.grad = copy.deepcopy(tensor._grad, memo)
    return copied


def _copied_view(tensor: Any, memo: dict[Any, Any]) -> Any:
    if tensor.device.type == "meta":
        return tensor.detach().clone()
    plain = resolved(tensor).detach()
    storage = plain.untyped_storage()
    copies = memo.setdefault(_COPIED_STORAGES, {})
    key = (storage.data_ptr(), storage.nbytes())
    if key not in copies or not storage.nbytes():
        # The original is kept beside its copy, so that its address stays taken.
        copies[key] = (plain, whole_storage(plain).clone())
    base = copies[key][1]
    base = base if base.dtype == plain.dtype else base.view(plain.dtype)
    return base.as_strided(tuple(plain.shape), tuple(plain.stride()), plain.storage_offset())
