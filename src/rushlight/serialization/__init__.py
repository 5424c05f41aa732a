"""Saving and loading: `torch.save`, `torch.load`, and what a file is allowed to build.

In come objects made of tensors and containers; out go `.pt` files that PyTorch reads, and back.
A load never runs code from a file unless `weights_only=False` asks for it, and a save to a path
never leaves half a file.
"""

from rushlight.serialization.loading import load
from rushlight.serialization.names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from rushlight.serialization.saving import DEFAULT_PROTOCOL, save
from rushlight.serialization.tensors import deepcopy_tensor, rebuild_tensor, reduce_tensor

__all__ = [
    "DEFAULT_PROTOCOL",
    "add_safe_globals",
    "clear_safe_globals",
    "deepcopy_tensor",
    "get_safe_globals",
    "load",
    "rebuild_tensor",
    "reduce_tensor",
    "safe_globals",
    "save",
]
