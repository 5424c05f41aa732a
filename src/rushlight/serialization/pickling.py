"""How an object graph becomes the `data.pkl` of a file: a pickle that names PyTorch's
functions.

Tensors, dtypes, devices and sizes are written under the names that PyTorch has for them, so
that a file of tensors and plain containers can be read where Rushlight is not installed. The
pickler is the pure Python one: the C pickler can only name what can be imported.
"""

from __future__ import annotations

import collections
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np

from rushlight.serialization.tensors import (
    STORAGE_NAMES,
    item_size,
    marks_of,
    public,
    short_name,
    storage_array,
    user_attributes,
)

Reduction = tuple[Any, ...]

# Asked for every object in a graph, so the common ones are let through first.
_PLAIN = frozenset({int, float, bool, str, bytes, type(None), dict, list, tuple, type})


class Name:
    """A global that the reader will look up; it need not exist here."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __call__(self, *_: Any) -> None:  # Any: never called; pickle asks that it could be
        raise TypeError(f"{self.module}.{self.name} is a name in a file, not a function")


class _StorageReference:
    """Written as a persistent id: the record that holds a storage, and its type."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor


class Storages:
    """The storages met while pickling, each with the key of its record.

    `tail` ends every persistent id: the format before the archive has one more field.
    """

    def __init__(self, tail: tuple[None, ...] = ()) -> None:
        self.tail = tail
        self._keys: dict[tuple[int, int], str] = {}
        self._dtypes: dict[str, str] = {}
        self.tensors: dict[str, Any] = {}  # keeps the storages alive until they are written

    def key_of(self, tensor: Any) -> str:
        storage = tensor.untyped_storage()
        place = (storage.data_ptr(), storage.nbytes())
        new = str(len(self.tensors))
        key = self._keys.setdefault(place, new) if place[1] else new
        dtype = self._dtypes.setdefault(key, _storage_type(tensor).name)
        if dtype != _storage_type(tensor).name:
            raise RuntimeError(
                "save: cannot save several tensors that view the same data as different types "
                f"({dtype} and {_storage_type(tensor).name}); clone one of them"
            )
        self.tensors.setdefault(key, tensor)
        return key

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """Each key with the bytes of its storage, in the order of their first use."""
        for key, tensor in self.tensors.items():
            yield key, storage_array(tensor)

    def item_size(self, key: str) -> int:
        """The bytes of one element, as the file's storage type counts them."""
        return element_size(self.tensors[key])


def pickler_class(base: type) -> type:
    """A pickler that writes tensors PyTorch's way on top of a pure Python pickler.

    `base` is `pickle._Pickler`, or the `Pickler` of a `pickle_module` that extends it (dill).
    """

    class TensorPickler(base):  # type: ignore[misc]
        def __init__(self, file: Any, protocol: int, storages: Storages) -> None:
            super().__init__(file, protocol=protocol)
            self._storages = storages

        def persistent_id(self, obj: Any) -> tuple[Any, ...] | None:
            if type(obj) is _StorageReference:
                return _persistent_id(obj.tensor, self._storages)
            return None

        def reducer_override(self, obj: Any) -> Any:
            return reduction_of(obj)

        def save_global(self, obj: Any, name: str | None = None) -> None:
            if isinstance(obj, public().dtype):
                obj, name = _name("torch", short_name(obj)), None
            if type(obj) is not Name:
                super().save_global(obj, name)
            elif id(obj) in self.memo:
                self.write(self.get(self.memo[id(obj)][0]))
            else:
                self.write(pickle.GLOBAL + f"{obj.module}\n{obj.name}\n".encode())
                self.memoize(obj)

    return TensorPickler


def reduction_of(obj: Any) -> Any:
    """How to write what has another name in files; NotImplemented for everything else."""
    if type(obj) in _PLAIN:
        return NotImplemented
    if type(obj) is Name:
        return obj.name
    torch = public()
    if isinstance(obj, torch.Tensor):
        return _tensor_reduction(obj)
    if isinstance(obj, torch.Size):
        return _name("torch", "Size"), (tuple(obj),)
    if isinstance(obj, torch.device):
        index = () if obj.index is None else (obj.index,)
        return _name("torch", "device"), (obj.type, *index)
    if isinstance(obj, torch.dtype):
        return short_name(obj)  # a bare name: save_global writes it
    return NotImplemented


_names: dict[tuple[str, str], Name] = {}


def _name(module: str, name: str) -> Name:
    """One object for each name, so that the pickler's memo writes it once."""
    return _names.setdefault((module, name), Name(module, name))


def _storage_type(tensor: Any) -> Name:
    storage = STORAGE_NAMES.get(short_name(tensor.dtype))
    return _name("torch", storage) if storage else _name("torch.storage", "UntypedStorage")


def _persistent_id(tensor: Any, storages: Storages) -> tuple[Any, ...]:
    key, kind = storages.key_of(tensor), _storage_type(tensor)
    count = tensor.untyped_storage().nbytes() // element_size(tensor)
    return "storage", kind, key, tensor.device.type, count, *storages.tail


def element_size(tensor: Any) -> int:
    """The bytes that a file counts as one element: single bytes for an untyped storage."""
    name = short_name(tensor.dtype)
    return item_size(name) if name in STORAGE_NAMES else 1


def _tensor_reduction(tensor: Any) -> Reduction:
    torch = public()
    attributes = user_attributes(tensor)
    hooks: Any = collections.OrderedDict()
    if type(tensor) is torch.nn.Parameter:
        plain = _bare_reduction(tensor, requires_grad=False)
        arguments = (_Reduced(plain), bool(tensor.requires_grad), hooks)
        if attributes:
            rebuild = _name("torch._utils", "_rebuild_parameter_with_state")
            return rebuild, (*arguments, attributes)
        return _name("torch._utils", "_rebuild_parameter"), arguments
    function, arguments = _bare_reduction(tensor, requires_grad=bool(tensor.requires_grad))
    if type(tensor) is torch.Tensor and not attributes:
        return function, arguments
    kind = _name("torch", "Tensor") if type(tensor) is torch.Tensor else type(tensor)
    rebuild = _name("torch._tensor", "_rebuild_from_type_v2")
    return rebuild, (function, kind, arguments, attributes)


def _bare_reduction(tensor: Any, *, requires_grad: bool) -> Reduction:
    size, stride = tuple(tensor.shape), tuple(tensor.stride())
    hooks: Any = collections.OrderedDict()
    if tensor.device.type == "meta":
        rebuild = _name("torch._utils", "_rebuild_meta_tensor_no_storage")
        return rebuild, (tensor.dtype, size, stride, requires_grad)
    offset = tensor.storage_offset()
    arguments = (_StorageReference(tensor.detach()), offset, size, stride, requires_grad, hooks)
    marks = marks_of(tensor)
    metadata = (marks,) if marks else ()
    if short_name(tensor.dtype) in STORAGE_NAMES:
        return _name("torch._utils", "_rebuild_tensor_v2"), (*arguments, *metadata)
    return _name("torch._utils", "_rebuild_tensor_v3"), (*arguments, tensor.dtype, *metadata)


class _Reduced:
    """An object that is nothing but its reduction: the bare tensor inside a Parameter."""

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction

    def __reduce__(self) -> Reduction:
        return self._reduction
