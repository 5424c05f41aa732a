"""Storages as objects: the memory under tensors, as bytes or as elements.

They are handles: making one computes nothing; asking for an address or a value does.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, Self  # storages hold numbers of any dtype

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.arrays import from_file, from_numpy, tensor
from rushlight.devices import check_usable, device
from rushlight.dtypes import dtype, float32, uint8
from rushlight.ops.convert import TYPE_NAMES
from rushlight.ops.view_ops import memory_of
from rushlight.tensor import Tensor

_CONVERSIONS = {**dt.ALIASES, "bfloat16": dt.bfloat16, "char": dt.int8, "byte": uint8,
                "bool": dt.bool_, "complex_float": dt.complex64,
                "complex_double": dt.complex128}  # fmt: skip
_STORAGE_NAMES = {kind: name.replace("Tensor", "Storage") for name, kind in TYPE_NAMES.items()}


class _Storage:
    """What both kinds share: a flat tensor over all of the memory."""

    _flat: Tensor

    @classmethod
    def _of(cls, x: Tensor) -> Self:
        made = object.__new__(cls)
        made._flat = memory_of(x)
        return made

    @property
    def _storage(self) -> Any:
        return self._flat._storage

    def _as_tensor(self, kind: dtype) -> Tensor:
        """All of the memory as elements of a dtype."""
        return self._flat if self._flat.dtype is kind else self._flat.view(kind)

    def _typed(self, kind: dtype) -> TypedStorage:
        return TypedStorage._of(self._as_tensor(kind))

    def nbytes(self) -> int:
        return self._flat.nbytes

    def data_ptr(self) -> int:
        return self._flat.data_ptr()

    @property
    def device(self) -> device:
        return self._flat.device

    def get_device(self) -> int:
        return -1

    is_cuda = is_sparse = is_hpu = is_sparse_csr = resizable_cuda = False
    filename = None

    def cpu(self) -> Any:
        return self

    def cuda(self, device: Any = None, non_blocking: bool = False) -> Any:
        """Memory on a GPU: this build has none, and says so."""
        check_usable("cuda" if device is None else device)
        return self

    def is_shared(self) -> bool:
        return False

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def pin_memory(self, device: Any = None) -> Any:
        return self

    def share_memory_(self) -> Any:
        """Memory that other processes write too: there is none, and this says so."""
        raise errors.not_there("share_memory_", "memory that processes share")

    def resizable(self) -> bool:
        return not self._flat.is_meta

    def clone(self) -> Self:
        return self._of(self._flat.clone())

    def copy_(self, source: Any, non_blocking: bool = False) -> Self:
        """Take the contents of a storage of the same size."""
        self._flat.copy_(source._as_tensor(self._flat.dtype))
        return self

    def fill_(self, value: Any) -> Self:
        self._elements().fill_(value)
        return self

    def _elements(self) -> Tensor:
        return self._flat

    def __len__(self) -> int:
        return self._elements().numel()

    def size(self) -> int:
        return len(self)

    def tolist(self) -> list[Any]:
        return list(self._elements().tolist())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: Any) -> Any:
        return self._elements()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Storage):
            return NotImplemented
        return self._storage is other._storage

    def __hash__(self) -> int:
        return id(self._storage)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return memo.setdefault(id(self), self.clone())


class UntypedStorage(_Storage):
    """The bytes under a tensor: `UntypedStorage(4)`, or a sequence of bytes.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, 2.0]).untyped_storage().nbytes()
    8
    """

    def __new__(cls, *args: Any, device: Any = None) -> UntypedStorage:
        return cls._of(tensor(_contents(args), dtype=uint8, device=device))

    @staticmethod
    def from_buffer(
        buffer: Any,
        byte_order: str = "native",
        count: int = -1,
        offset: int = 0,
        *,
        dtype: dtype = uint8,
    ) -> UntypedStorage:
        """A copy of the bytes of an object, which are elements in this byte order."""
        if byte_order not in ("native", "little", "big"):
            raise ValueError(
                f"from_buffer: byte order is native, little or big: {byte_order!r}"
            )
        array = np.frombuffer(buffer, dtype.storage, count, offset).copy()
        if byte_order not in ("native", sys.byteorder):
            array = array.byteswap()
        return UntypedStorage._of(from_numpy(array.view(np.uint8)))

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The bytes of a mapped file: see `rushlight.from_file`.

        >>> import os, tempfile
        >>> import rushlight as torch
        >>> path = os.path.join(tempfile.mkdtemp(), "bytes")
        >>> with open(path, "wb") as file:
        ...     written = file.write(bytes([1, 2, 3]))
        >>> torch.UntypedStorage.from_file(path, nbytes=3).tolist()
        [1, 2, 3]
        """
        return UntypedStorage._of(from_file(filename, shared, nbytes, dtype=uint8))

    def _elements(self) -> Tensor:
        return self._as_tensor(uint8)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(self._elements()[index].clone())
        return super().__getitem__(index)

    def __len__(self) -> int:
        return self.nbytes()

    def new(self) -> UntypedStorage:
        return UntypedStorage(0)

    def resize_(self, size: int) -> UntypedStorage:
        """Another number of bytes (new ones are zero)."""
        self._flat.resize_(size // self._flat.element_size())
        return self

    def byteswap(self, dtype: dtype) -> None:
        """Exchange the order of the bytes of every element, in place."""
        parts = 2 if dtype.is_complex else 1
        rows = self._elements().reshape(-1, dtype.itemsize // parts)
        self._elements().copy_(rows.flip(1).reshape(-1))

    def element_size(self) -> int:
        return 1

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the type of storage; a dtype gives the bytes as its elements."""
        return "torch.storage.UntypedStorage" if dtype is None else self._typed(dtype)

    def untyped(self) -> UntypedStorage:
        return self

    def __repr__(self) -> str:
        kind = f"device={self.device}"
        return f"{_lines(self)}[torch.storage.UntypedStorage({kind}) of size {len(self)}]"


class TypedStorage(_Storage):
    """The elements under a tensor: `TypedStorage(4)`, a sequence, or an untyped storage."""

    def __new__(
        cls,
        *args: Any,
        wrap_storage: UntypedStorage | None = None,
        dtype: dtype | None = None,
        device: Any = None,
        _internal: bool = False,
    ) -> TypedStorage:
        kind = float32 if dtype is None else dtype
        if wrap_storage is not None:
            return wrap_storage._typed(kind)
        return cls._of(tensor(_contents(args), dtype=kind, device=device))

    @property
    def dtype(self) -> dtype:
        return self._flat.dtype

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        return super().__getitem__(index)

    def resize_(self, size: int) -> TypedStorage:
        """Another number of elements (new ones are zero)."""
        self._flat.resize_(size)
        return self

    def element_size(self) -> int:
        return self._flat.element_size()

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The name of the type of storage, or a copy as another."""
        if dtype is None:
            return f"torch.{self.pickle_storage_type()}"
        return TypedStorage._of(self._flat.type(dtype))

    def pickle_storage_type(self) -> str:
        """What PyTorch's files call this type of storage."""
        return _STORAGE_NAMES[self.dtype]

    def untyped(self) -> UntypedStorage:
        return UntypedStorage._of(self._flat)

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype!r}, device={self.device}"
        return f"{_lines(self)}[torch.storage.TypedStorage({kind}) of size {len(self)}]"


def _conversion(name: str, kind: dtype) -> None:
    """`storage.double()`: the elements converted; of an untyped storage, its bytes as such."""

    def of_elements(self: TypedStorage) -> TypedStorage:
        return TypedStorage._of(self._flat.to(kind))

    def of_bytes(self: UntypedStorage) -> TypedStorage:
        return self._typed(kind)

    for owner, method in ((TypedStorage, of_elements), (UntypedStorage, of_bytes)):
        method.__name__ = method.__qualname__ = name
        method.__doc__ = f"The elements of the storage as {kind!r}."
        setattr(owner, name, method)


for _name, _kind in _CONVERSIONS.items():
    _conversion(_name, _kind)


def _contents(args: tuple[Any, ...]) -> list[Any]:
    if not args:
        return []
    return [0] * args[0] if isinstance(args[0], int) else list(args[0])


def _lines(storage: _Storage) -> str:
    """The elements of a storage, one a line."""
    if storage.device.type == "meta":
        return "...\n"
    return "".join(f" {value}\n" for value in storage.tolist())
