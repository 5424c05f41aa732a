"""The old names of tensor and storage types: `torch.FloatTensor`, `torch.LongStorage` and so
on.
"""

from __future__ import annotations

from typing import Any  # constructors take sizes, data and tensors

from rushlight import config
from rushlight.arrays import legacy_tensor
from rushlight.dtypes import dtype
from rushlight.ops.convert import TYPE_NAMES, dtype_named
from rushlight.storage import TypedStorage, UntypedStorage
from rushlight.tensor import Tensor


class _TypedTensor(type):
    """A tensor class that stands for a dtype: makes plain tensors, and knows them again."""

    _dtype: dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return legacy_tensor(*args, dtype=cls._dtype, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls._dtype

    def __repr__(cls) -> str:
        return f"<class 'torch.{cls.__name__}'>"


class _TypedStorage(type):
    _dtype: dtype

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return TypedStorage(*args, dtype=cls._dtype, **kwargs)

    def from_buffer(cls, buffer: Any, byte_order: str = "native") -> TypedStorage:
        """A copy of the bytes of an object, which are in this byte order."""
        return UntypedStorage.from_buffer(
            buffer, byte_order=byte_order, dtype=cls._dtype
        )._typed(cls._dtype)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, TypedStorage) and instance.dtype is cls._dtype


for _name, _kind in TYPE_NAMES.items():
    globals()[_name] = _TypedTensor(_name, (), {"_dtype": _kind, "dtype": _kind})
    _store = _name.replace("Tensor", "Storage")
    globals()[_store] = _TypedStorage(_store, (), {"_dtype": _kind, "dtype": _kind})


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype by the name of a tensor type."""
    config.set_default_dtype(dtype_named(t))
