"""Compiled objects kept on disk between processes.

A *bundle* is one object file holding the kernels that were compiled together; the *index* says
which bundle holds a kernel. Every bundle carries a checksum and the keys of its kernels, so a
torn write, a damaged file or a stale index line is only ever a miss. Files appear by rename.
Nothing here may fail a user's program: a folder that cannot be read or written means compiling
again, with one warning.
"""

from __future__ import annotations

import hashlib
import os
import re
import struct
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"RUSHOBJ1"
_INDEX = "index"
_SUFFIX = ".bundle"
_ABANDONED_SECONDS = 3600.0
DEFAULT_BOUND = 512 << 20
_SCANS = (
    64  # how often a folder is looked through while as many bytes as it may hold are written
)


_warned: set[Path | str | None] = set()  # folders that this process has had trouble with


@dataclass(frozen=True, slots=True)
class Bundle:
    """An object file and the kernels in it, as {key: symbol}."""

    symbols: dict[str, str]
    image: bytes


def cache_folder() -> Path:
    """RUSHLIGHT_CACHE_DIR, or this platform's place for a user's caches; OSError where there is
    none.
    """
    chosen = os.environ.get("RUSHLIGHT_CACHE_DIR")
    if chosen:
        return Path(chosen)
    try:
        return _caches_of_user() / "rushlight"
    except RuntimeError as error:  # a user without a home, as in some containers
        raise FileNotFoundError(str(error)) from None


def _caches_of_user() -> Path:
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


class ObjectCache:
    """The bundles in one folder: at most `bound` bytes, the least recently used go first."""

    def __init__(self, folder: Path | None = None, bound: int = DEFAULT_BOUND) -> None:
        self.bound = bound
        self._folder = folder
        self._index: dict[str, str] = {}
        self._index_stamp: tuple[int, int, int] | None = None  # inode, size, time of change
        self._unseen = bound  # bytes written since the folder was looked through

    @property
    def folder(self) -> Path:
        return self._folder if self._folder is not None else cache_folder()

    def find(self, keys: list[str]) -> list[Bundle]:
        """Bundles that together hold every kernel of `keys` that is on disk."""
        try:
            self._read_index()
        except OSError as error:
            self._warn("read", error)
            return []
        names = {self._index[key] for key in keys if key in self._index}
        bundles = (self._read(name) for name in sorted(names))
        return [bundle for bundle in bundles if bundle is not None]

    def keep(self, bundle: Bundle) -> None:
        """Write a bundle; on any trouble with the disk, do without it."""
        name = _digest("\n".join(sorted(bundle.symbols)).encode())
        try:
            self._make_folder()
            packed = _pack(bundle)
            self._write(name + _SUFFIX, packed)
            self._append(f"{key} {name}\n" for key in bundle.symbols)
            self._unseen += len(packed)
            if self._unseen * _SCANS >= self.bound:
                self._evict(spare=name + _SUFFIX)
                self._unseen = 0
        except OSError as error:
            self._warn("write", error)

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _read(self, name: str) -> Bundle | None:
        path = self.folder / (name + _SUFFIX)
        try:
            bundle = _unpack(path.read_bytes())
        except OSError:
            return None
        try:
            path.unlink() if bundle is None else os.utime(path)
        except OSError:
            pass  # a read-only folder still serves
        return bundle

    def _read_index(self) -> None:
        path = self.folder / _INDEX
        try:
            status = path.stat()
        except FileNotFoundError:
            self._index, self._index_stamp = {}, None
            return
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp == self._index_stamp:
            return
        self._check_trusted()
        before = self._index_stamp
        has_grown = before is not None and before[0] == stamp[0] and before[1] <= stamp[1]
        with open(path, "rb") as stream:
            if before is not None and has_grown:  # lines are only ever added, in one write each
                stream.seek(before[1])
            else:
                self._index = {}
            self._index.update(_parse_index(stream.read().decode("ascii", "replace")))
        self._index_stamp = stamp

    def _check_trusted(self) -> None:
        """Code is loaded from here: whoever can write to the folder owns this process."""
        if os.name == "posix" and self.folder.stat().st_mode & 0o002:
            raise PermissionError(f"{self.folder} can be written by every user")

    def _write(self, name: str, data: bytes) -> None:
        handle, temporary = tempfile.mkstemp(prefix="new.", dir=self.folder)
        try:
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.replace(temporary, self.folder / name)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise

    def _append(self, lines: object) -> None:
        # One unbuffered write in append mode: two processes cannot interleave inside it. The
        # leading newline ends a line that a full disk may have cut short.
        text = "\n" + "".join(lines)  # type: ignore[arg-type]
        with open(self.folder / _INDEX, "ab", buffering=0) as stream:
            stream.write(text.encode("ascii"))

    def _evict(self, spare: str) -> None:
        """Delete bundles until the bound holds, oldest first, and drop them from the index."""
        entries = []
        for entry in os.scandir(self.folder):
            try:
                status = entry.stat()
            except FileNotFoundError:
                continue  # another process evicted it
            if entry.name.endswith(_SUFFIX):
                entries.append((status.st_mtime_ns, status.st_size, entry.name))
            elif entry.name.startswith("new.") and _is_abandoned(status.st_mtime):
                Path(entry.path).unlink(missing_ok=True)
        total = sum(size for _, size, _ in entries)
        if total <= self.bound:
            return
        gone = set()
        for _, size, name in sorted(entries):
            if total <= self.bound:
                break
            if name != spare:
                (self.folder / name).unlink(missing_ok=True)
                gone.add(name.removesuffix(_SUFFIX))
                total -= size
        self._rewrite_index(gone)

    def _rewrite_index(self, gone: set[str]) -> None:
        """A line that another process appends meanwhile may be lost: one more compilation."""
        index = _parse_index((self.folder / _INDEX).read_text("ascii", "replace"))
        lines = [f"{key} {name}\n" for key, name in index.items() if name not in gone]
        self._write(_INDEX, "".join(lines).encode("ascii"))

    def _warn(self, verb: str, error: OSError) -> None:
        place = self._folder or os.environ.get("RUSHLIGHT_CACHE_DIR")
        if place in _warned:
            return
        _warned.add(place)
        warnings.warn(
            f"rushlight cannot {verb} its cache of compiled kernels ({error}): kernels will be "
            f"compiled again in each process. RUSHLIGHT_CACHE_DIR chooses another folder.",
            stacklevel=2,
        )


def _is_abandoned(modified: float) -> bool:
    return time.time() - modified > _ABANDONED_SECONDS


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


_INDEX_LINE = re.compile(r"^(\w{32}) (\w{32})$", re.MULTILINE)


def _parse_index(text: str) -> dict[str, str]:
    """Whole lines only: the 32 digits of a kernel's key, a space, the 32 of a bundle's."""
    return dict(_INDEX_LINE.findall(text))


def _pack(bundle: Bundle) -> bytes:
    header = "".join(f"{key} {symbol}\n" for key, symbol in bundle.symbols.items()).encode()
    body = struct.pack("<I", len(header)) + header + bundle.image
    return _MAGIC + hashlib.sha256(body).digest() + body


def _unpack(data: bytes) -> Bundle | None:
    """None when the bytes are not exactly what was packed."""
    body = data[len(_MAGIC) + 32 :]
    if (
        data[: len(_MAGIC)] != _MAGIC
        or hashlib.sha256(body).digest() != data[len(_MAGIC) :][:32]
    ):
        return None
    (size,) = struct.unpack_from("<I", body)
    lines = body[4 : 4 + size].decode().splitlines()
    symbols = dict(line.split(" ", 1) for line in lines)
    return Bundle(symbols, body[4 + size :])
