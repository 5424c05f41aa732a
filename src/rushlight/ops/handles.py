"""What a tensor tells about itself and its memory, and changes of its shape over the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # devices and functions of any kind

from rushlight.ops.convert import copy_, resize_
from rushlight.ops.registry import public


@public("Tensor")
def const_data_ptr(input: Any) -> int:
    """`data_ptr`, for memory that is only read."""
    return int(input.data_ptr())


@public("Tensor")
def dim_order(input: Any, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest step in memory to the smallest.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).t().dim_order()
    (1, 0)
    """
    strides = input._strides
    return tuple(sorted(range(input.ndim), key=lambda d: (-strides[d], d)))


@public("torch")
def get_device(input: Any) -> int:
    """The index of a tensor's device: -1 for the CPU.

    >>> torch.get_device(torch.ones(1))
    -1
    """
    return int(input.get_device())


@public("torch", "Tensor")
def is_distributed(input: Any) -> bool:
    """Whether a tensor has parts in several processes: none has.

    >>> torch.is_distributed(torch.ones(1))
    False
    """
    return False


@public("Tensor")
def is_coalesced(input: Any) -> bool:
    """Whether a sparse tensor has its indices in order: a dense one has none."""
    raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")


@public("Tensor")
def to_dense(input: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """The tensor itself, since all tensors here are dense.

    >>> torch.tensor([1.0]).to_dense()
    tensor([1.])
    """
    return input if dtype is None else input.to(dtype)


@public("Tensor")
def module_load(input: Any, other: Any, assign: bool = False) -> Any:
    """What a module keeps when `other` is loaded in place of this tensor."""
    return other.detach() if assign else copy_(input.detach(), other)


@public("Tensor")
def record_stream(input: Any, stream: Any) -> None:
    """Keep memory for work on a stream of a device: there is none."""
    raise RuntimeError("record_stream: there are no streams on the CPU")


@public("Tensor")
def resize(input: Any, *sizes: Any) -> Any:
    """Another shape over the same memory, as a tensor of its own (deprecated by PyTorch)."""
    return resize_(input.detach(), *sizes)


@public("Tensor")
def resize_as(input: Any, tensor: Any) -> Any:
    """The shape of another tensor over the same memory (deprecated by PyTorch)."""
    return resize_(input.detach(), tensor._shape)


@public("Tensor")
def storage_type(input: Any) -> Any:
    """The class of the storage under a tensor."""
    import rushlight  # its typed storages come after ops

    return getattr(rushlight, input.storage().pickle_storage_type())


@public("Tensor", name="map2_")
def map2_(input: Any, x: Any, y: Any, callable: Callable[[float, float, float], float]) -> Any:
    """Replace every element by what a Python function makes of it and two others'."""
    columns = [t.expand(input._shape)._numbers().ravel().tolist() for t in (input, x, y)]
    values = [callable(*row) for row in zip(*columns, strict=True)]
    return copy_(input, input.new_tensor(values).reshape(input._shape))


@public("torch", name="as_strided_")
def as_strided_(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Become another view of the same memory.

    >>> torch.as_strided_(torch.arange(5.0), (2, 2), (2, 1))
    tensor([[0., 1.],
            [2., 3.]])
    """
    return input.as_strided_(size, stride, storage_offset)
