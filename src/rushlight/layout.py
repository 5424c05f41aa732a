"""Shapes as users see them, and how elements lie in memory: layouts and memory formats."""

from __future__ import annotations

import math
from typing import Any  # indices

from rushlight import errors


class Size(tuple[int, ...]):
    """A shape: a tuple of sizes that prints as `torch.Size([2, 3])`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        return math.prod(self)

    def __getitem__(self, index: Any) -> Any:
        found = tuple.__getitem__(self, index)
        return Size(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Size:
        return Size(tuple(self) + tuple(other))

    def __radd__(self, other: Any) -> Size:
        return Size(tuple(other) + tuple(self))

    def __mul__(self, count: Any) -> Size:
        return Size(tuple(self) * count)


class layout:
    """A storage layout. Only `strided` holds data here."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _by_name, (self.name,)


class memory_format:
    """An order of dimensions in memory."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return _by_name, (self.name,)


strided = layout("strided")
sparse_coo = layout("sparse_coo")
sparse_csr = layout("sparse_csr")
contiguous_format = memory_format("contiguous_format")
legacy_contiguous_format = contiguous_format
preserve_format = memory_format("preserve_format")
channels_last = memory_format("channels_last")
channels_last_3d = memory_format("channels_last_3d")


def check_layout(given: object) -> None:
    """Raise for any layout but the one that tensors have."""
    if given is not None and given is not strided:
        raise errors.not_there(f"layout={given!r}", "sparse tensors: all of them are strided")


def _by_name(name: str) -> object:
    """Unpickles a layout or a memory format."""
    return globals()[name]
