"""The format before the zip archive: a few pickles in a row, then the storages' bytes.

Files of PyTorch 1.5 and older have it, and so have many weights on the web.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Callable
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from rushlight.serialization.archive import fill
from rushlight.serialization.tensors import Bytes, aligned_bytes, item_size

if TYPE_CHECKING:
    from rushlight.serialization.pickling import Storages

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
_COUNT = struct.Struct("<q")
_TYPE_SIZES = {"short": 2, "int": 4, "long": 4}

# Any, below: what the file holds is unknown until it is checked.
UnpickleNext = Callable[[IO[bytes], Callable[[Any], Any]], Any]


def read(
    stream: IO[bytes], unpickle_next: UnpickleNext, locate: Callable[[Bytes, str], Bytes]
) -> Any:
    """The object in a file of the old format."""
    loaded: dict[str, Bytes] = {}

    def persistent(identity: Any) -> Bytes:
        # Late: loading imports this file.
        from rushlight.serialization.loading import storage_identity

        kind, key, location, count = storage_identity(identity)
        if len(identity) > 5 and identity[5] is not None:
            raise pickle.UnpicklingError(
                "views between storages (PyTorch 0.3) are not supported"
            )
        if key not in loaded:
            array = aligned_bytes(count * item_size(kind.dtype))
            loaded[key] = locate(Bytes(array, dtype=kind.dtype), location)
        return loaded[key].typed(kind.dtype)

    _check_heading(stream, unpickle_next)
    result = unpickle_next(stream, persistent)
    for key in unpickle_next(stream, _no_storage):
        if key not in loaded:
            raise RuntimeError(f"load: the file lists a storage {key!r} that nothing uses")
        _read_storage(stream, loaded[key])
    return result


def write(stream: IO[bytes], pickled: bytes, storages: Storages, name: str) -> None:
    """Write the old format; `name` has no place in it."""
    system = {
        "protocol_version": VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": _TYPE_SIZES,
    }
    keys = list(storages.tensors)
    for part in (MAGIC, VERSION, system):
        stream.write(pickle.dumps(part, protocol=2))
    stream.write(pickled)
    stream.write(pickle.dumps(keys, protocol=2))
    for key, array in storages.arrays():
        stream.write(_COUNT.pack(array.size // storages.item_size(key)))
        stream.write(array.data)


def native_order(array: np.ndarray, dtype_name: str, order: str) -> np.ndarray:
    """Bytes of the other byte order turned into this machine's, in place."""
    if order not in ("little", "big"):
        raise ValueError(f"load: unknown byte order {order!r}")
    if order != sys.byteorder:
        parts = 2 if dtype_name.startswith("complex") else 1
        width = item_size(dtype_name) // parts
        words = array[: array.size // width * width].view(f"u{width}")
        words.byteswap(inplace=True)
    return array


def _check_heading(stream: IO[bytes], unpickle_next: UnpickleNext) -> None:
    if unpickle_next(stream, _no_storage) != MAGIC:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = unpickle_next(stream, _no_storage)
    if version != VERSION:
        raise RuntimeError(f"load: protocol version {version} is not known, only {VERSION}")
    system = unpickle_next(stream, _no_storage)
    if not system.get("little_endian", True):
        raise RuntimeError("load: old files of big-endian machines are not supported")


def _read_storage(stream: IO[bytes], data: Bytes) -> None:
    width = item_size(data.dtype)
    (count,) = _COUNT.unpack(stream.read(_COUNT.size))
    if data.device == "meta":
        stream.seek(count * width, io.SEEK_CUR)
        return
    if count * width != data.array.size:
        promised = data.array.size // width
        raise RuntimeError(f"load: a storage of {count} elements instead of {promised}")
    fill(stream, data.array)
    data.filled()


def _no_storage(identity: Any) -> Any:
    raise pickle.UnpicklingError(f"the file refers to {identity!r} before any storage")
