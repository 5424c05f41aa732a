"""PyTorch's name for a few rooms: `torch.utils.data` is `rushlight.data`."""

import importlib as _importlib

from rushlight.utils import checkpoint, data, dlpack, hooks
from rushlight.utils.swapping import swap_tensors

__all__ = ["checkpoint", "data", "dlpack", "hooks", "swap_tensors"]

_LATER = (
    "_python_dispatch", "_pytree", "benchmark", "cpp_extension", "flop_counter", "model_zoo",
    "tensorboard",
)  # fmt: skip


def __getattr__(name: str) -> object:
    """Import rooms that few programs need when they are first named."""
    if name not in _LATER:
        raise AttributeError(f"module 'rushlight.utils' has no attribute {name!r}")
    return _importlib.import_module(f"rushlight.utils.{name}")
