"""`load`: a file or a stream to an object graph, with or without trust in it."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from rushlight.serialization import legacy, names
from rushlight.serialization.archive import FIRST_BYTES, ArchiveReader, Source
from rushlight.serialization.locations import refuse_location, registered
from rushlight.serialization.machine import Machine
from rushlight.serialization.settings import byte_order
from rushlight.serialization.tensors import Bytes, item_size, public

# None, a device, a mapping of locations, or a function of (storage, location).
MapLocation = Any


def load(
    f: Source,
    map_location: MapLocation = None,
    pickle_module: Any = None,  # Any: a module
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,  # Any: passed on to the unpickler
) -> Any:
    """Read what `save`, here or in PyTorch, has written.

    By default only tensors, plain containers and what `add_safe_globals` allows are built, and
    anything else in the file is an UnpicklingError. `weights_only=False` builds every object,
    and by that can run any code that the file holds. `mmap=True` maps the tensors' data
    privately instead of reading it.

    >>> import io
    >>> import rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save({"step": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'step': 3}
    """
    weights_only = pickle_module is None if weights_only is None else weights_only
    if weights_only and pickle_module is not None:
        raise RuntimeError(
            "load: weights_only=True has its own unpickler; no pickle_module can be"
        )
    trust = None if weights_only else _Trust(pickle_module or pickle, pickle_load_args)
    locate = _locator(map_location)
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        try:
            return _load_path(path, locate, trust, mapped=bool(mmap))
        except (pickle.UnpicklingError, EOFError, RuntimeError) as error:
            if type(error) in _SAYS_WHY and repr(path) not in str(error):
                raise type(error)(f"{error} (in the file {path!r})") from error
            raise
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    return _load_stream(f, locate, trust)


_SAYS_WHY = (pickle.UnpicklingError, EOFError, RuntimeError)  # by a text, and nothing else


class _Trust:
    """A full unpickler, for `weights_only=False`."""

    def __init__(self, module: Any, arguments: Mapping[str, Any]) -> None:
        self._base = module.Unpickler
        self._arguments = dict(arguments)

    def load(self, stream: IO[bytes], persistent: Callable[[Any], Any]) -> Any:
        class Unpickler(self._base):  # type: ignore[misc, name-defined]
            def find_class(self, module: str, name: str) -> Any:
                return names.any_object(module, name, super().find_class)

            def persistent_load(self, identity: Any) -> Any:
                return persistent(identity)

        return Unpickler(stream, **self._arguments).load()


def unpickle(data: IO[bytes], persistent: Callable[[Any], Any], trust: _Trust | None) -> Any:
    """The next object in a stream of pickles."""
    if trust is not None:
        return trust.load(data, persistent)
    start = data.tell()
    machine = Machine(data.read(), persistent)
    try:
        result = machine.run()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(f"Weights only load failed: {error}") from error
    data.seek(start + machine.position)
    return result


Locate = Callable[[Bytes, str], Bytes]


def _load_path(path: str, locate: Locate, trust: _Trust | None, *, mapped: bool) -> Any:
    with open(path, "rb") as stream:
        is_archive = stream.read(4) == FIRST_BYTES
        stream.seek(0)
        if not is_archive:
            if mapped:
                raise RuntimeError("mmap can only be used with files in the zip format")
            return _load_other(stream, locate, trust)
    with ArchiveReader(path, mapped=mapped) as archive:
        return _load_archive(archive, locate, trust)


def _load_stream(stream: IO[bytes], locate: Locate, trust: _Trust | None) -> Any:
    for need in ("seek", "tell", "read"):
        if not hasattr(stream, need):
            raise AttributeError(
                f"{type(stream).__name__!r} object has no attribute {need!r}. You can only "
                "torch.load from a file that is seekable: read it into an io.BytesIO first."
            )
    start = stream.tell()
    is_archive = stream.read(4) == FIRST_BYTES
    stream.seek(start)
    if not is_archive:
        return _load_other(stream, locate, trust)
    with ArchiveReader(stream) as archive:
        return _load_archive(archive, locate, trust)


def _load_other(stream: IO[bytes], locate: Locate, trust: _Trust | None) -> Any:
    if not stream.read(1):
        raise EOFError("load: the file is empty")
    stream.seek(-1, io.SEEK_CUR)

    def unpickle_next(source: IO[bytes], persistent: Callable[[Any], Any]) -> Any:
        return unpickle(source, persistent, trust)

    return legacy.read(stream, unpickle_next, locate)


def _load_archive(archive: ArchiveReader, locate: Locate, trust: _Trust | None) -> Any:
    loaded: dict[str, Bytes] = {}
    has_order = archive.has("byteorder")
    order = archive.read("byteorder").decode() if has_order else byte_order()

    def persistent(identity: Any) -> Bytes:
        kind, key, location, count = storage_identity(identity)
        if key not in loaded:
            array = archive.read_array(f"data/{key}")
            wanted = count * item_size(kind.dtype)
            if array.size < wanted:
                raise RuntimeError(f"load: storage {key} has {array.size} bytes, not {wanted}")
            array = legacy.native_order(array, kind.dtype, order)
            loaded[key] = locate(Bytes(array, dtype=kind.dtype), location)
        return loaded[key].typed(kind.dtype)

    return unpickle(io.BytesIO(archive.read("data.pkl")), persistent, trust)


def storage_identity(identity: Any) -> tuple[names.StorageType, str, str, int]:
    """The parts of a persistent id, checked: it comes from the file."""
    if isinstance(identity, tuple) and len(identity) >= 5:
        tag, kind, key, location, count = identity[:5]
        plain = type(key) is str and type(location) is str and type(count) is int and count >= 0
        if tag == "storage" and isinstance(kind, names.StorageType) and plain:
            return kind, key, location, count
    raise pickle.UnpicklingError(f"the file refers to {identity!r}, which is no storage")


# Devices


def _locator(map_location: MapLocation) -> Locate:
    """A function that gives each storage its device."""
    if map_location is None:
        return _placed
    if callable(map_location) and not isinstance(map_location, public().device):
        return lambda data, location: _asked(map_location, data, location)
    if isinstance(map_location, Mapping):
        return lambda data, location: _placed(data, map_location.get(location, location))
    return lambda data, location: _placed(data, str(map_location))


def _placed(data: Bytes, location: Any) -> Bytes:
    kind = str(location).partition(":")[0]
    if kind == "cpu":
        return data
    if kind == "meta":
        return Bytes(np.empty(0, np.uint8), device="meta", dtype=data.dtype)
    found = registered(data.base(data.dtype).untyped_storage(), str(location))
    if found is None:
        refuse_location(str(location))
    if found.data_ptr() != data.base(data.dtype).untyped_storage().data_ptr():
        raise RuntimeError(
            "load: a registered deserializer must return the storage it was given"
        )
    return _placed(data, found.device)


def _asked(function: Callable[..., Any], data: Bytes, location: str) -> Bytes:
    storage = data.base(data.dtype).untyped_storage()
    answer = function(storage, location)
    if answer is None:
        return _placed(data, location)
    if answer.device.type == "cpu" and answer.data_ptr() != storage.data_ptr():
        raise RuntimeError("load: map_location must return the storage it was given, or None")
    return _placed(data, answer.device)
