"""`save`: an object graph to a file or a stream."""

from __future__ import annotations

import io
import os
import pickle
from typing import IO, Any

import numpy as np

from rushlight.serialization import legacy
from rushlight.serialization.archive import (
    ArchiveWriter,
    Source,
    archive_name,
    replacing,
    write_format_records,
)
from rushlight.serialization.pickling import Storages, pickler_class
from rushlight.serialization.settings import settings

DEFAULT_PROTOCOL = 2


def save(
    obj: object,
    f: Source,
    pickle_module: Any = pickle,  # Any: a module
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write an object to a path or a binary stream, in PyTorch's format.

    A path is replaced only when the new file is complete and on disk. `pickle_module` may be
    any whose `Pickler` extends the pure Python one (`dill`).

    >>> import io
    >>> import rushlight as torch
    >>> torch.save({"weight": torch.ones(2), "step": 3}, io.BytesIO())
    """
    storages = Storages(() if _use_new_zipfile_serialization else (None,))
    pickled = _pickled(obj, _base_pickler(pickle_module), pickle_protocol, storages)
    write = _write_archive if _use_new_zipfile_serialization else legacy.write
    if isinstance(f, str | os.PathLike):
        with replacing(f) as stream:
            write(stream, pickled, storages, archive_name(f))
    elif hasattr(f, "write"):
        write(f, pickled, storages, archive_name(f))
    else:
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )


def _base_pickler(module: Any) -> type:
    base: type = getattr(module, "_Pickler", None) or module.Pickler
    if not issubclass(base, pickle._Pickler):
        raise TypeError(
            f"save: pickle_module {module.__name__} has a pickler that cannot write tensors; "
            "its Pickler must extend pickle._Pickler"
        )
    return base


def _pickled(obj: object, base: type, protocol: int, storages: Storages) -> bytes:
    buffer = io.BytesIO()
    pickler_class(base)(buffer, protocol, storages).dump(obj)
    return buffer.getvalue()


def _write_archive(stream: IO[bytes], pickled: bytes, storages: Storages, name: str) -> None:
    with ArchiveWriter(stream, name) as writer:
        writer.write("data.pkl", pickled)
        write_format_records(writer)
        for key, array in storages.arrays():
            given = np.zeros(array.nbytes, np.uint8) if settings.skips_data else array
            writer.write(f"data/{key}", given)
        writer.write("version", b"3\n")
