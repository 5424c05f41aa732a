"""`torch._C._nn`: functions of layers under PyTorch's native names."""

from __future__ import annotations

from rushlight._utils import _flatten_dense_tensors as flatten_dense_tensors
from rushlight._utils import _unflatten_dense_tensors as unflatten_dense_tensors
from rushlight.nn import functional
from rushlight.nn.module_convert import _parse_to

__all__ = ["_parse_to", "flatten_dense_tensors", "unflatten_dense_tensors"]


def __getattr__(name: str) -> object:
    """A function of `nn.functional` by its name."""
    if name.startswith("__") or not hasattr(functional, name):
        raise AttributeError(f"module 'rushlight._C._nn' has no attribute {name!r}")
    return getattr(functional, name)
