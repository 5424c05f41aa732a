"""The few names of PyTorch's native module that programs with tensor subclasses use."""

from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from rushlight.tensor import disabled_torch_function as _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_function_impl",
]
