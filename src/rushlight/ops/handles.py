"""What a tensor tells about itself and its memory, and changes of its shape over the memory."""

from __future__ import annotations

from typing import Any  # devices, dtypes, functions and tensors of any kind

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import IntList
from rushlight.dtypes import dtype
from rushlight.ops.contents import copy_
from rushlight.ops.creation import FULL, in_memory, sizes_of
from rushlight.ops.rearrange import constant_pad
from rushlight.ops.registry import public
from rushlight.ops.view_ops import check_no_leaf, memory_of, stored_elements
from rushlight.views import Recast, View


@public("Tensor")
def const_data_ptr(input: Any) -> int:
    """`data_ptr`, for memory that is only read."""
    return int(input.data_ptr())


@public("Tensor")
def dim_order(input: Any, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions from the one with the largest step in memory to the smallest. One that
    takes no steps (`expand`) stays where it is; of equal steps the longer one comes first.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).t().dim_order()
    (1, 0)
    """
    order = list(range(input.ndim))
    if input.is_contiguous():
        return tuple(order)
    sizes, strides = input._shape, input._strides
    for placed in reversed(range(input.ndim - 1)):  # what comes after it is in order
        at = placed
        for after in range(placed + 1, input.ndim):
            own, other = order[at], order[after]
            if not strides[own] or not strides[other]:
                continue
            if strides[own] == strides[other] and sizes[own] >= sizes[other]:
                continue
            if strides[own] > strides[other]:
                break
            order[at], order[after] = order[after], order[at]
            at = after
    return tuple(order)


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


@public("torch", name="as_strided_")
def as_strided_(
    input: Any, size: IntList, stride: IntList, storage_offset: int | None = None
) -> Any:
    """Become another view of the same memory.

    >>> torch.as_strided_(torch.arange(5.0), (2, 2), (2, 1))
    tensor([[0., 1.],
            [2., 3.]])
    """
    return input.as_strided_(size, stride, storage_offset)


@public("Tensor", name="resize_")
def resize_(input: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Another shape over the same memory, which grows if it must (new elements are zero).

    >>> torch.arange(6.0).resize_(2, 2)
    tensor([[0., 1.],
            [2., 3.]])
    """
    from rushlight.trace.record import set_view  # ops come before tensors

    shape = sizes_of("resize_", "size", sizes)
    if input.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(size < 0 for size in shape):
        raise RuntimeError(f"resize_: negative size in {list(shape)}")
    if shape == input._shape and memory_format is None:
        return input
    needed = input._offset + views.numel(shape)
    if needed > stored_elements(input):
        _grow(input, needed)
    view = View(shape, views.contiguous_strides(shape), input._offset)
    set_view(input, views.seen_as(view, input._view))
    input._storage.version += 1
    return input


def _grow(x: Any, count: int) -> None:
    flat, version = memory_of(x), x._storage.version
    x._storage = in_memory(constant_pad(flat, (0,), (count - flat.numel(),)))._storage
    x._storage.version = version
    x._base = None


@public("torch", "Tensor", name="resize_as_")
def resize_as_(input: Any, the_template: Any, memory_format: Any = None) -> Any:
    """The shape of another tensor over the same memory.

    >>> torch.arange(6.0).resize_as_(torch.ones(2, 2))
    tensor([[0., 1.],
            [2., 3.]])
    """
    return resize_(input, the_template._shape)


@public("Tensor", name="set_")
def set_(
    input: Any,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Any:
    """Become a view of the memory of another tensor or storage.

    >>> torch.tensor([1.0]).set_(torch.tensor([2.0, 3.0]))
    tensor([2., 3.])
    """
    from rushlight.trace.record import set_view  # ops come before tensors

    check_no_leaf("set_", input)
    if source is None:
        made = FULL(shape=(0,), value=0, dtype=input.dtype)
        input._storage = made._storage
        set_view(input, View((0,), (1,), 0))
        return input
    kind = getattr(source, "dtype", input.dtype)
    if kind is not input.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {kind.name} to a tensor of type {input.dtype.name}"
        )
    input._storage = source._storage
    input._base = None
    if size is None and hasattr(source, "_shape"):
        view = View(source._shape, source._strides, source._offset)
    else:
        count = stored_elements(input)
        shape = (count,) if size is None else sizes_of("set_", "size", (size,))
        if stride is None:
            strides = views.contiguous_strides(shape)
        else:
            strides = sizes_of("set_", "stride", (stride,))
        view = View(shape, strides, storage_offset)
        if views.numel(shape) and views.span(view)[1] > count:
            raise RuntimeError(
                f"set_: sizes {errors.shape_text(shape)} at offset {storage_offset} reach "
                f"beyond a storage of {count} elements, which is not resizable"
            )
    set_view(input, Recast(*view, input.dtype, *views.marks(input._view)))
    return input


@public("Tensor")
def is_set_to(input: Any, tensor: Any) -> bool:
    """Whether two tensors are the same view of the same memory.

    >>> torch.tensor([1.0]).is_set_to(torch.tensor([1.0]))
    False
    """
    return (
        input._storage is tensor._storage
        and input._shape == tensor._shape
        and input._strides == tensor._strides
        and input._offset == tensor._offset
        and views.marks(input._view) == views.marks(tensor._view)
    )


@public("torch", "Tensor")
def is_same_size(input: Any, other: Any) -> bool:
    """Whether two tensors have one shape.

    >>> torch.is_same_size(torch.ones(2), torch.ones(3))
    False
    """
    return bool(input._shape == other._shape)


@public("Tensor")
def untyped_storage(input: Any) -> Any:
    """The bytes under this tensor.

    >>> torch.ones(2).untyped_storage().nbytes()
    8
    """
    from rushlight.storage import UntypedStorage  # storages come after ops

    return UntypedStorage._of(input)


@public("Tensor", name="storage")
def typed_storage(input: Any) -> Any:
    """The elements under this tensor; `untyped_storage` has the bytes."""
    from rushlight.storage import TypedStorage  # storages come after ops

    return TypedStorage._of(input)


@public("torch")
def is_tensor(obj: Any) -> bool:
    """Whether an object is a tensor.

    >>> torch.is_tensor(torch.ones(1))
    True
    """
    from rushlight.tensor import Tensor  # ops come before tensors

    return isinstance(obj, Tensor)


@public("torch")
def is_storage(obj: Any) -> bool:
    """Whether an object is a storage.

    >>> torch.is_storage(torch.ones(1).untyped_storage())
    True
    """
    from rushlight.storage import TypedStorage, UntypedStorage  # storages come after ops

    return isinstance(obj, TypedStorage | UntypedStorage)


@public("torch")
def numel(input: Any) -> int:
    """The number of elements.

    >>> torch.numel(torch.ones(2, 3))
    6
    """
    return int(input.numel())


def _fact(name: str) -> None:
    def function(input: Any) -> bool:
        return bool(getattr(input, name)())

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`Tensor.{name}` as a function."
    public("torch", name=name)(function)


for _name in ("is_floating_point", "is_complex", "is_inference"):
    _fact(_name)


@public("torch", "Tensor")
def is_nonzero(input: Any) -> bool:
    """Whether the one element is not zero.

    >>> torch.is_nonzero(torch.tensor(2.0))
    True
    """
    if input.numel() != 1:
        raise RuntimeError(
            f"Boolean value of Tensor with {'no' if not input.numel() else 'more than one'} "
            f"value{'s' if not input.numel() else ''} is ambiguous"
        )
    return bool(input.item())


@public("torch")
def detach(input: Any) -> Any:
    """The same memory without gradient history.

    >>> torch.ones(1, requires_grad=True).detach().requires_grad
    False
    """
    return input.detach()


@public("torch")
def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype that arithmetic on two operands (tensors or numbers) gives.

    >>> torch.result_type(torch.tensor([1, 2]), 1.0)
    torch.float32
    """
    from rushlight import config  # the default dtype

    standings = []
    for x in (tensor1, tensor2):
        if hasattr(x, "_storage"):
            standings.append(dt.Standing(x.dtype, 2 if x._shape else 1))
        else:
            number = {0: dt.bool_, 1: dt.int64, 2: dt.float64, 3: dt.complex128}
            standings.append(dt.Standing(number[int(dt.of_number(x))], 0))
    found = dt.result_type(standings, config.default_dtype())
    if all(s.level == 0 for s in standings):
        return dt.number_dtype(found.category, config.default_dtype())
    return found
