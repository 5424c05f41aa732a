"""Saving and loading: `torch.save`, `torch.load`, and what a file is allowed to build.

In come objects made of tensors and containers; out go `.pt` files that PyTorch reads, and back.
A load never runs code from a file unless `weights_only=False` asks for it, and a save to a path
never leaves half a file.
"""

from rushlight.serialization.inspection import (
    SourceChangeWarning,
    StorageType,
    check_module_version_greater_or_equal,
    get_unsafe_globals_in_checkpoint,
    mkdtemp,
    normalize_storage_type,
    storage_to_tensor_type,
)
from rushlight.serialization.loading import load
from rushlight.serialization.locations import (
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
    validate_hpu_device,
)
from rushlight.serialization.names import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from rushlight.serialization.saving import DEFAULT_PROTOCOL, save
from rushlight.serialization.settings import (
    LoadEndianness,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    skip_data,
)
from rushlight.serialization.tensors import deepcopy_tensor, rebuild_tensor, reduce_tensor

__all__ = [
    "DEFAULT_PROTOCOL",
    "LoadEndianness",
    "SourceChangeWarning",
    "StorageType",
    "add_safe_globals",
    "check_module_version_greater_or_equal",
    "clear_safe_globals",
    "deepcopy_tensor",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "mkdtemp",
    "normalize_storage_type",
    "rebuild_tensor",
    "reduce_tensor",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "storage_to_tensor_type",
    "validate_cuda_device",
    "validate_hpu_device",
]
