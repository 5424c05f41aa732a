"""The container of a `.pt` file: a zip archive of uncompressed records at aligned offsets.

Names inside are `<archive>/data.pkl` (the object), `<archive>/data/<key>` (one record a
storage), and a few small records about the format. The layout is PyTorch's, so either can read
the other's.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import secrets
import stat
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, Any, Self

import numpy as np

from rushlight.serialization.settings import settings
from rushlight.serialization.tensors import ALIGNMENT, aligned_bytes

Source = str | os.PathLike[str] | IO[bytes]

FIRST_BYTES = b"PK\x03\x04"
_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_PADDING_ID = 0x4246  # the extra field that PyTorch pads with, too
_ZIP64_EXTRA = 20
_ZIP64_FROM = (1 << 31) - 1


class ArchiveWriter:
    """Writes records one after another into a binary stream."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._zip = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)
        self._name = name

    def write(self, record: str, data: bytes | np.ndarray) -> None:
        """Add one record; its data begin at a multiple of the alignment."""
        view = memoryview(data) if isinstance(data, bytes) else data.data
        info = zipfile.ZipInfo(f"{self._name}/{record}", (1980, 1, 1, 0, 0, 0))
        info.file_size = view.nbytes
        large = view.nbytes >= _ZIP64_FROM
        info.extra = self._padding(info.filename, large)
        with self._zip.open(info, "w", force_zip64=large) as target:
            target.write(view)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Write the directory; after an error nothing more is written, as it would fail too."""
        if kind is not None:
            self._zip.fp = None
        self._zip.close()

    def _padding(self, filename: str, large: bool) -> bytes:
        header = _LOCAL_HEADER.size + len(filename.encode()) + 4
        begin = self._zip.start_dir + header + (_ZIP64_EXTRA if large else 0)
        gap = -begin % ALIGNMENT
        return struct.pack("<HH", _PADDING_ID, gap) + b"Z" * gap


class ArchiveReader:
    """Finds records by name and reads them into memory, or maps them."""

    def __init__(self, source: Source, *, mapped: bool = False) -> None:
        self._path = os.fspath(source) if isinstance(source, str | os.PathLike) else None
        self._mapped = mapped
        with _explained(self._path):
            self._zip = zipfile.ZipFile(source if self._path is None else self._path)
        names = self._zip.namelist()
        objects = [name for name in names if name.endswith("/data.pkl")]
        if not objects:
            raise RuntimeError(
                f"load: a zip file, but not of saved tensors: no data.pkl among {names[:8]}"
            )
        self._prefix = objects[0].removesuffix("data.pkl")
        self._names = frozenset(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    def has(self, record: str) -> bool:
        return self._prefix + record in self._names

    def read(self, record: str) -> bytes:
        with _explained(self._path):
            return self._zip.read(self._info(record))

    def read_array(self, record: str) -> np.ndarray:
        """A record as writable bytes: a private mapping of the file where mapping was asked."""
        info = self._info(record)
        if settings.skips_data:
            return np.zeros(info.file_size, np.uint8)
        if info.compress_type != zipfile.ZIP_STORED:
            return _copied(self.read(record))
        stream = self._zip.fp
        assert stream is not None, "read_array: the archive is closed"
        begin = self._data_offset(stream, info)
        if self._path is not None and self._mapped and info.file_size and begin % 8 == 0:
            mode: Any = "r+" if settings.mmap_flags == mmap.MAP_SHARED else "c"
            mapped: np.ndarray = np.memmap(self._path, np.uint8, mode, begin, (info.file_size,))
            return mapped
        return self._read_stored(stream, begin, info)

    def _info(self, record: str) -> zipfile.ZipInfo:
        if not self.has(record):
            raise RuntimeError(f"load: the file has no record {record!r}; it is incomplete")
        return self._zip.getinfo(self._prefix + record)

    def _data_offset(self, stream: IO[bytes], info: zipfile.ZipInfo) -> int:
        stream.seek(info.header_offset)
        header = stream.read(_LOCAL_HEADER.size)
        if len(header) < _LOCAL_HEADER.size or header[:4] != FIRST_BYTES:
            raise RuntimeError(f"load: record {info.filename!r} is damaged")
        *_, name_length, extra_length = _LOCAL_HEADER.unpack(header)
        return int(info.header_offset + _LOCAL_HEADER.size + name_length + extra_length)

    def _read_stored(self, stream: IO[bytes], begin: int, info: zipfile.ZipInfo) -> np.ndarray:
        stream.seek(begin)
        array = aligned_bytes(info.file_size)
        fill(stream, array)
        if zlib.crc32(array.data) != info.CRC:
            raise RuntimeError(
                f"load: record {info.filename!r} is damaged: its checksum differs"
            )
        return array


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A stream whose content takes the place of `path` only once it is complete and on disk.

    A process killed half-way, or a full disk, leaves what was there before. A device or a pipe
    cannot be replaced and is written directly.
    """
    target = os.path.realpath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as stream:
            yield stream
        return
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {os.path.dirname(path)} does not exist.")
    temporary = os.path.join(folder, f".{name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        _keep_mode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def archive_name(target: Source) -> str:
    """The folder inside the archive: the file's stem, as PyTorch names it."""
    if isinstance(target, str | os.PathLike):
        return os.path.splitext(os.path.basename(os.fspath(target)))[0] or "archive"
    return "archive"


def write_format_records(writer: ArchiveWriter) -> None:
    writer.write(".format_version", b"1")
    writer.write(".storage_alignment", str(ALIGNMENT).encode())
    writer.write("byteorder", sys.byteorder.encode())


def _keep_mode(old: str, new: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.chmod(new, stat.S_IMODE(os.stat(old).st_mode))


def _copied(data: bytes) -> np.ndarray:
    array = aligned_bytes(len(data))
    array[:] = np.frombuffer(data, dtype=np.uint8)
    return array


def fill(stream: IO[bytes], array: np.ndarray) -> None:
    """Fill an array from a stream, or say that the stream ended."""
    view = array.data
    done = 0
    into = getattr(stream, "readinto", None)
    while done < len(view):
        if into is not None:
            count = into(view[done:])
        else:
            piece = stream.read(len(view) - done)
            count = len(piece)
            view[done : done + count] = piece
        if not count:
            raise RuntimeError("load: the file ends in the middle of a storage")
        done += count


@contextlib.contextmanager
def _explained(path: Any) -> Iterator[None]:  # Any: a path, or None for a stream
    try:
        yield
    except (zipfile.BadZipFile, EOFError, io.UnsupportedOperation) as error:
        name = f" {path!r}" if path is not None else ""
        raise RuntimeError(
            f"load: failed reading the zip archive{name}: {error}. "
            "The file is damaged, or incomplete because it was not written to its end."
        ) from error
