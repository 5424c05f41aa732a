"""Storages as objects: the memory under tensors, as bytes or as elements.

They are handles: making one computes nothing; asking for an address or a value does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any  # storages hold numbers of any dtype

from rushlight.devices import device
from rushlight.dtypes import dtype, float32, uint8
from rushlight.tensor import Tensor, tensor


class _Storage:
    """What both kinds share: a flat tensor over all of the memory."""

    _flat: Tensor

    @classmethod
    def _of(cls, x: Tensor) -> Any:
        made = object.__new__(cls)
        count = x._storage.value.type.nbytes // x.dtype.itemsize
        made._flat = x.detach().as_strided((count,), (1,), 0)
        return made

    @property
    def _storage(self) -> Any:
        return self._flat._storage

    def nbytes(self) -> int:
        return self._flat.nbytes

    def data_ptr(self) -> int:
        return self._flat.data_ptr()

    @property
    def device(self) -> device:
        return self._flat.device

    is_cuda = is_sparse = False

    def cpu(self) -> Any:
        return self

    def is_shared(self) -> bool:
        return False

    def is_pinned(self) -> bool:
        return False

    def share_memory_(self) -> Any:
        return self

    def clone(self) -> Any:
        return self._of(self._flat.clone())

    def copy_(self, source: Any, non_blocking: bool = False) -> Any:
        """Take the contents of a storage of the same size."""
        self._flat.copy_(source._flat)
        return self

    def fill_(self, value: Any) -> Any:
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
        if isinstance(index, slice):
            return self._of(self._elements()[index].clone())
        return self._elements()[index].item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements()[index] = value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Storage):
            return NotImplemented
        return self._storage is other._storage

    def __hash__(self) -> int:
        return id(self._storage)


class UntypedStorage(_Storage):
    """The bytes under a tensor."""

    def __new__(cls, size: int = 0, *, device: Any = None) -> UntypedStorage:
        made: UntypedStorage = cls._of(tensor([0] * size, dtype=uint8))
        return made

    def _elements(self) -> Tensor:
        return self._flat.view(uint8) if self._flat.dtype is not uint8 else self._flat

    def __len__(self) -> int:
        return self.nbytes()

    def resize_(self, size: int) -> UntypedStorage:
        """Another number of bytes (new ones are zero)."""
        self._flat.resize_(size // self._flat.element_size())
        return self

    def element_size(self) -> int:
        return 1

    def __repr__(self) -> str:
        kind = f"device={self.device}"
        return f"{_lines(self)}[torch.storage.UntypedStorage({kind}) of size {len(self)}]"

    def untyped(self) -> UntypedStorage:
        return self


class TypedStorage(_Storage):
    """The elements under a tensor."""

    def __new__(cls, *args: Any, dtype: dtype = float32, device: Any = None) -> TypedStorage:
        data = (
            args[0] if args and not isinstance(args[0], int) else [0] * (args[0] if args else 0)
        )
        made: TypedStorage = cls._of(tensor(list(data), dtype=dtype))
        return made

    @property
    def dtype(self) -> dtype:
        return self._flat.dtype

    def element_size(self) -> int:
        return self._flat.element_size()

    def untyped(self) -> UntypedStorage:
        made: UntypedStorage = UntypedStorage._of(self._flat)
        return made

    def __repr__(self) -> str:
        kind = f"dtype={self.dtype!r}, device={self.device}"
        return f"{_lines(self)}[torch.storage.TypedStorage({kind}) of size {len(self)}]"


def _lines(storage: _Storage) -> str:
    """The elements of a storage, one a line."""
    if storage.device.type == "meta":
        return "...\n"
    return "".join(f" {value}\n" for value in storage.tolist())
