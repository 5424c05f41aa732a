"""`torch._utils`: tensors laid end to end as one, under PyTorch's private names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight.compiler import is_compiling
from rushlight.devices import device as _device
from rushlight.dtypes import dtype
from rushlight.ops.joining import cat
from rushlight.tensor import Tensor

__all__ = [
    "_element_size", "_flatten_dense_tensors", "_unflatten_dense_tensors", "is_compiling",
]  # fmt: skip


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of tensors of one dtype, in order, as one dimension.

    >>> import rushlight as torch
    >>> from rushlight._utils import _flatten_dense_tensors
    >>> _flatten_dense_tensors([torch.ones(1, 2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    return cat([t.reshape(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The inverse of `_flatten_dense_tensors`: views of `flat` with the shapes of `tensors`."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors, strict=True))


def _element_size(dtype: dtype) -> int:
    """Bytes of an element."""
    return dtype.itemsize


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index of a device, -1 where it has none; ValueError if there must be one."""
    if isinstance(device, int):
        return device
    found = _device(device) if device is not None else None
    index = -1 if found is None or found.index is None else found.index
    if index == -1 and not optional and not (allow_cpu and found and found.type == "cpu"):
        raise ValueError(f"_get_device_index: expected a device with an index, got {device!r}")
    return index
