"""Making modules in another way than by default: without initial values, in another layout."""

from __future__ import annotations

import inspect
from typing import Any

import rushlight as rl
from rushlight.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory and no initial values."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", None) or "cpu"
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=device)


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lay out the weights of all 2-d convolutions in another order."""
    return _convert(module, memory_format, (Conv2d, ConvTranspose2d))


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Lay out the weights of all 3-d convolutions in another order."""
    return _convert(module, memory_format, (Conv3d, ConvTranspose3d))


def _convert(module: Module, memory_format: Any, kinds: tuple[type, ...]) -> Module:
    for part in module.modules():
        if isinstance(part, kinds):
            with rl.no_grad():
                data = part.weight.detach().clone()
                part.weight.data = data.contiguous(memory_format=memory_format)
    return module
