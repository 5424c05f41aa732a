"""Weights of convolutions in another order in memory."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight.nn.conv import Conv2d, Conv3d, ConvTranspose2d, ConvTranspose3d
from rushlight.nn.module import Module


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
