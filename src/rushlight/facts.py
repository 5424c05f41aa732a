"""What programs ask about the build, names and modules of PyTorch's namespace."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any  # names of objects of any kind

from rushlight.config import default_device
from rushlight.devices import device
from rushlight.tensor import Tensor

has_lapack = has_spectral = True
has_mkl = has_openmp = False
_warnings = {"always": False}


def typename(obj: Any) -> str:
    """The name of an object's type: of a tensor its typed class, else module and class."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    module = kind.__module__
    if module in ("builtins", "__builtin__"):
        return kind.__qualname__
    return f"{module}.{kind.__qualname__}"


def get_device_module(device: device | str | None = None) -> Any:
    """The module of functions of a device: `torch.cpu`, `torch.cuda`."""
    kind = device if isinstance(device, str) else (device or default_device()).type
    return importlib.import_module(f"rushlight.{kind.partition(':')[0]}")


def get_file_path(*path_components: str) -> str:
    """A path below the package's own folder."""
    return str(Path(__file__).parent.joinpath(*path_components))


def compiled_with_cxx11_abi() -> bool:
    """Whether C++ extensions use the C++11 ABI: it is the only one of today."""
    return True


def is_vulkan_available() -> bool:
    """Whether tensors can be on Vulkan: they cannot."""
    return False


def init_num_threads() -> None:
    """Threads start with the first program that is large enough for them."""


def set_warn_always(b: bool) -> None:
    """Whether warnings that are given once are given every time."""
    _warnings["always"] = bool(b)


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was last given."""
    return _warnings["always"]
