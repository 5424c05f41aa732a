"""What `save` and `load` do where a call does not say: byte order, mapping, skipped data."""

from __future__ import annotations

import contextlib
import enum
import mmap
import sys
from dataclasses import dataclass


class LoadEndianness(enum.Enum):
    """A byte order."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


@dataclass(slots=True)
class _Settings:
    endianness: LoadEndianness | None = None
    mmap_flags: int = mmap.MAP_PRIVATE
    compute_crc32: bool = True
    skips_data: bool = False


settings = _Settings()


def byte_order() -> str:
    """The order of files that do not say theirs: 'little' or 'big'."""
    if settings.endianness in (None, LoadEndianness.NATIVE):
        return sys.byteorder
    return "little" if settings.endianness is LoadEndianness.LITTLE else "big"


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was last given; None is this machine's order."""
    return settings.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """The byte order of files that do not say theirs."""
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    settings.endianness = endianness


def get_crc32_options() -> bool:
    """What `set_crc32_options` was last given."""
    return settings.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Whether files need checksums: they have them in any case, at no cost to notice, and
    `load` compares them.
    """
    settings.compute_crc32 = bool(compute_crc32)


def get_default_mmap_options() -> int:
    """How `load(mmap=True)` maps: `mmap.MAP_PRIVATE` or `mmap.MAP_SHARED`."""
    return settings.mmap_flags


class set_default_mmap_options:
    """Map so from now on, or until the end of a `with` block: with `mmap.MAP_SHARED` what is
    written to tensors that `load(mmap=True)` returned is written to the file.
    """

    def __init__(self, flags: int) -> None:
        if flags not in (mmap.MAP_PRIVATE, mmap.MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self._before, settings.mmap_flags = settings.mmap_flags, flags

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        settings.mmap_flags = self._before


class skip_data(contextlib.AbstractContextManager[None]):
    """Inside, `save` leaves zeros where the elements would be, and `load` leaves the elements
    zero: to write or read them in another way. `materialize_fake_tensors` has no effect.
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before, settings.skips_data = settings.skips_data, True

    def __exit__(self, *_: object) -> None:
        settings.skips_data = self._before
