"""`torch.utils.cpp_extension`: importable, for set-up scripts that build only where they can.

Extensions are C++ against PyTorch's own tensors; there are none of these here, so what would
build or describe one raises when it is called. Python operators: `torch.library.custom_op`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from typing import Any, NoReturn

from rushlight import errors

CUDA_HOME: str | None = None
ROCM_HOME: str | None = None
IS_WINDOWS, IS_HIP_EXTENSION = os.name == "nt", False
COMMON_NVCC_FLAGS: list[str] = []


def _refused(name: str) -> Callable[..., NoReturn]:
    def function(*_: Any, **__: Any) -> NoReturn:
        _refuse(name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Refuse: there is no C++ interface that an extension could be built for."
    return function


def _refuse(name: str) -> NoReturn:
    raise errors.not_there(f"cpp_extension.{name}", "C++ interface for extensions")


load, load_inline = _refused("load"), _refused("load_inline")
CppExtension, CUDAExtension = _refused("CppExtension"), _refused("CUDAExtension")
SyclExtension, include_paths = _refused("SyclExtension"), _refused("include_paths")
library_paths = _refused("library_paths")


class BuildExtension:
    """The command that would build extensions: it can be named in a set-up script."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _refuse("BuildExtension")

    @classmethod
    def with_options(cls, **options: Any) -> type[BuildExtension]:
        """The command, to be named in a set-up script."""
        return cls


def is_ninja_available() -> bool:
    """Whether the build tool ninja is on the path."""
    return shutil.which("ninja") is not None


def verify_ninja_availability() -> None:
    """RuntimeError unless the build tool ninja is on the path."""
    if not is_ninja_available():
        raise RuntimeError("Ninja is required to load C++ extensions (pip install ninja)")


def get_default_build_root() -> str:
    """The folder in which extensions would be built."""
    import tempfile  # for this question only

    return os.path.join(tempfile.gettempdir(), "torch_extensions")
