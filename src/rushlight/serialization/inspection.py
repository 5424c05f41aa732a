"""What programs ask about files, versions and storage classes."""

from __future__ import annotations

import contextlib
import pickle
import pickletools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any  # modules, storages and their classes

from rushlight.serialization import names
from rushlight.serialization.archive import ArchiveReader, Source
from rushlight.serialization.tensors import DTYPE_OF_STORAGE, public


class SourceChangeWarning(Warning):
    """The source of a class differs from what a file was written with."""


class StorageType:
    """The dtype of a storage class, by the class's name.

    >>> import rushlight as torch
    >>> torch.serialization.StorageType("FloatStorage").dtype
    torch.float32
    """

    def __init__(self, name: str) -> None:
        self._dtype = getattr(public(), DTYPE_OF_STORAGE[name])

    @property
    def dtype(self) -> Any:
        return self._dtype

    def __str__(self) -> str:
        return f"StorageType(dtype={self.dtype})"


def get_unsafe_globals_in_checkpoint(f: Source) -> list[str]:
    """The names in a file that `load` does not build unless `add_safe_globals` allows them.

    The file is read, and nothing in it is run. One that `save` has not written raises
    ValueError.
    """
    try:
        archive = ArchiveReader(f)
    except RuntimeError as error:
        raise ValueError("Expected input to be a checkpoint returned by torch.save") from error
    with archive:
        found = _globals_in(archive.read("data.pkl"))
    return sorted(f"{m}.{n}" for m, n in found if not _is_safe(m, n))


def _globals_in(data: bytes) -> set[tuple[str, str]]:
    """Modules and names of the globals of a pickle."""
    found, texts = set(), [""]
    for code, argument, _ in pickletools.genops(data):
        if code.name == "GLOBAL":
            module, name = str(argument).split(" ", 1)
            found.add((module, name))
        elif code.name == "STACK_GLOBAL":
            found.add((texts[-2], texts[-1]))
        elif isinstance(argument, str):
            texts.append(argument)
    return found


def _is_safe(module: str, name: str) -> bool:
    try:
        names.safe_object(module, name)
    except pickle.UnpicklingError:
        return False
    return True


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple[Any, ...], error_if_malformed: bool = True
) -> bool:
    """Whether `module.__version__` is at least this version; one that cannot be compared raises
    RuntimeError, or warns and is taken to be.
    """
    text = str(module.__version__)
    try:
        parts = text.split(".")
        given = tuple(type(want)(parts[i]) for i, want in enumerate(req_version_tuple))
        return given >= req_version_tuple
    except (ValueError, IndexError) as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{text}' and cannot be "
            f"compared with tuple {req_version_tuple}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(f"{message}: taken to meet the requirement", stacklevel=2)
        return True


@contextlib.contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is deleted at the end of the `with` block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


def normalize_storage_type(storage_type: type) -> Any:
    """The public storage class of this name."""
    return getattr(public(), storage_type.__name__)


def storage_to_tensor_type(storage: Any) -> Any:
    """The typed tensor class of a typed storage: `FloatTensor` of a `FloatStorage`."""
    return getattr(public(), type(storage).__name__.replace("Storage", "Tensor"))
