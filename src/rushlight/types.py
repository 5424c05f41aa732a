"""`torch.types`: names of types for annotations."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, TypeAlias

from rushlight.devices import device
from rushlight.dtypes import dtype
from rushlight.layout import Size
from rushlight.storage import TypedStorage, UntypedStorage
from rushlight.symbolic import SymBool, SymFloat, SymInt
from rushlight.tensor import Tensor

Number: TypeAlias = int | float | bool
Device: TypeAlias = device | str | int | None
FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
Storage: TypeAlias = UntypedStorage | TypedStorage
IntLikeType: TypeAlias = int | SymInt
FloatLikeType: TypeAlias = float | SymFloat
BoolLikeType: TypeAlias = bool | SymBool
PySymType: TypeAlias = SymInt | SymFloat | SymBool
py_sym_types = (SymInt, SymFloat, SymBool)

__all__ = [
    "BoolLikeType", "Device", "FileLike", "FloatLikeType", "IntLikeType", "Number", "PySymType",
    "Sequence", "Size", "Storage", "SymBool", "SymFloat", "SymInt", "Tensor", "device", "dtype",
    "py_sym_types",
]  # fmt: skip
