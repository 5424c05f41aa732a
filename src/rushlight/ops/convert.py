"""From one dtype, place or memory to another: `to`, `type`, copies, fills, and storage
surgery.
"""

from __future__ import annotations

from typing import Any  # `to` takes dtypes, devices and tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.devices import CPU, check_usable, device
from rushlight.dtypes import dtype
from rushlight.ops.creation import FILL, FULL, sizes_of, unrelated
from rushlight.ops.elementwise import CAST, CLONE
from rushlight.ops.fill_value import checked_value
from rushlight.ops.rearrange import constant_pad
from rushlight.ops.registry import TensorType, public, recorder
from rushlight.ops.view_ops import AS_STRIDED, memory_of, stored_elements, take_view
from rushlight.views import Recast, View

# -- memory formats

_CHANNELS_LAST = {"channels_last": (4, (0, 2, 3, 1)), "channels_last_3d": (5, (0, 2, 3, 4, 1))}


def _format_name(memory_format: Any) -> str:
    return "contiguous" if memory_format is None else str(memory_format).rpartition(".")[2]


@public("Tensor")
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in order in memory, otherwise a copy that does.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t().contiguous()
    tensor([[1., 3.],
            [2., 4.]])
    """
    if _format_name(memory_format) not in _CHANNELS_LAST:
        return input if input.is_contiguous() else CLONE(input)
    if input.is_contiguous(memory_format=memory_format):
        return input
    return _cloned_as(input, memory_format)


@public("torch", "Tensor")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy with memory of its own, through which gradients flow.

    >>> torch.clone(torch.tensor([1.0, 2.0]))
    tensor([1., 2.])
    """
    if _format_name(memory_format) not in _CHANNELS_LAST:
        return CLONE(input)
    return _cloned_as(input, memory_format)


def _cloned_as(x: Any, memory_format: Any) -> Any:
    ndim, order = _CHANNELS_LAST[_format_name(memory_format)]
    if x.ndim != ndim:
        raise RuntimeError(f"required rank {ndim} tensor to use {memory_format} format")
    return CLONE(x.permute(order)).permute([order.index(d) for d in range(ndim)])


# -- conversion


def _target(
    args: tuple[Any, ...], named: dict[str, Any]
) -> tuple[dtype | None, bool, Any, Any]:
    """(dtype, copy, memory format, device) from the many forms of `to`."""
    kind: dtype | None = named.pop("dtype", None)
    place = named.pop("device", None)
    copy = named.pop("copy", False)
    named.pop("non_blocking", None)
    memory_format = named.pop("memory_format", None)
    other = named.pop("other", None)
    if named:
        raise TypeError(f"to() received an unexpected keyword argument: {next(iter(named))!r}")
    rest = [] if other is None else [other]
    flags = []
    for arg in (*args, *rest):
        if isinstance(arg, dtype):
            kind = arg
        elif isinstance(arg, bool):
            flags.append(arg)
        elif isinstance(arg, str | device | int):
            place = arg
        elif hasattr(arg, "_storage"):
            kind, place = arg.dtype, arg.device
        elif arg is not None:
            raise TypeError(
                f"to() received an invalid combination of arguments - got "
                f"({type(arg).__name__})"
            )
    if len(flags) > 1:
        copy = flags[1]
    return kind, copy, memory_format, place


@public("Tensor")
def to(input: Any, *args: Any, **named: Any) -> Any:
    """The tensor with another dtype or on another device; itself if nothing changes.

    >>> torch.tensor([1.5, -1.5]).to(torch.float64)
    tensor([ 1.5000, -1.5000], dtype=torch.float64)
    """
    kind, copy, memory_format, place = _target(args, named)
    out = input if place is None else recorder.on_device(input, place)
    if kind is not None and kind is not input.dtype:
        out = CAST(out, dtype=kind)
    elif copy and out is input:
        out = CLONE(input)
    if _format_name(memory_format) in _CHANNELS_LAST:
        out = contiguous(out, memory_format)
    return out


def _conversion(name: str, kind: dtype) -> None:
    def method(input: Any, memory_format: Any = None) -> Any:
        if memory_format is not None:
            return to(input, kind, memory_format=memory_format)
        return input if input.dtype is kind else CAST(input, dtype=kind)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor as {kind!r}."
    public("Tensor", name=name)(method)


for _name, _kind in {
    **dt.ALIASES, "bfloat16": dt.bfloat16, "char": dt.int8, "byte": dt.uint8, "bool": dt.bool_,
}.items():  # fmt: skip
    _conversion(_name, _kind)


@public("Tensor")
def chalf(input: Any, *, memory_format: Any = None) -> Any:
    """Complex numbers of half precision: there are none, and this says so."""
    raise errors.no_complex_half("chalf")


@public("Tensor")
def type_as(input: Any, other: Any) -> Any:
    """The tensor in the dtype of another.

    >>> torch.tensor([1.5]).type_as(torch.tensor([1], dtype=torch.int64))
    tensor([1])
    """
    return to(input, other.dtype)


TYPE_NAMES = {
    "FloatTensor": dt.float32, "DoubleTensor": dt.float64, "HalfTensor": dt.float16,
    "BFloat16Tensor": dt.bfloat16, "ByteTensor": dt.uint8, "CharTensor": dt.int8,
    "ShortTensor": dt.int16, "IntTensor": dt.int32, "LongTensor": dt.int64,
    "BoolTensor": dt.bool_, "UInt16Tensor": dt.uint16, "UInt32Tensor": dt.uint32,
    "UInt64Tensor": dt.uint64,
    **{f"{kind.name.capitalize()}Tensor": kind for kind in dt.ALL if kind.is_float8},
    "ComplexFloatTensor": dt.complex64, "ComplexDoubleTensor": dt.complex128,
}  # fmt: skip
_TYPE_OF = {kind: name for name, kind in TYPE_NAMES.items()}


def dtype_named(wanted: Any) -> dtype:
    """The dtype meant by a dtype, a typed tensor class, or a name such as
    'torch.LongTensor'.
    """
    if isinstance(wanted, dtype):
        return wanted
    name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "")
    found = TYPE_NAMES.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"invalid type: {wanted!r}")
    return found


@public("Tensor", name="type")
def type_method(input: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The type's name ('torch.FloatTensor'), or the tensor as another type.

    >>> torch.tensor([1.5]).type()
    'torch.FloatTensor'
    """
    if dtype is None:
        return f"torch.{'meta.' if input.is_meta else ''}{_TYPE_OF[input.dtype]}"
    return to(input, dtype_named(dtype))


@public("Tensor")
def cpu(input: Any, memory_format: Any = None) -> Any:
    """The tensor in main memory, where it is unless it is on meta.

    >>> torch.tensor([1.0]).cpu().device
    device(type='cpu')
    """
    return recorder.on_device(input, CPU)


@public("Tensor")
def cuda(
    input: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Any:
    """The tensor on a GPU: this build has none, and says so."""
    check_usable("cuda" if device is None else device)
    return input


@public("Tensor")
def pin_memory(input: Any, device: Any = None) -> Any:
    """Page-locked memory speeds up copies to a GPU; without one there is nothing to do."""
    return input


@public("Tensor", name="share_memory_")
def share_memory_(input: Any) -> Any:
    """Memory that other processes write too: there is none, and this says so."""
    raise errors.not_there("share_memory_", "memory that processes share")


def view_as_dtype(x: Any, kind: dtype) -> Any:
    """The same bytes as elements of another dtype; writes to either are seen by both."""
    from rushlight.tensor import Tensor, realised  # ops come before tensors
    from rushlight.trace.record import make_tensor, set_view  # as above
    from rushlight.trace.value import Storage, Value  # as above

    if kind is x.dtype:
        return x.view(x._shape)
    if any(views.marks(x._view)):
        raise errors.view_of_marked("view", "a conjugate or negative", "clone()")
    view = _retyped(x, kind)
    if x.is_meta:
        count = x._storage.value.type.nbytes // kind.itemsize
        return recorder.placed(
            FULL(shape=(count,), value=0, dtype=kind), "meta", None
        ).as_strided(*view)
    buffer = realised(x._storage)
    x._storage.buffer = buffer
    x._storage.value.claimed = True
    count = x._storage.value.type.nbytes // kind.itemsize
    value = Value(TensorType((count,), kind), buffer)
    value.claimed = True
    alias = Storage(value)
    alias.buffer = buffer
    buffer.is_foreign = (
        True  # two storages: every write is carried out at once, for both to see
    )
    out = make_tensor(Tensor, alias, value.type)
    set_view(out, view)
    return out


def _retyped(x: Any, kind: dtype) -> View:
    own, new = x.dtype.itemsize, kind.itemsize
    shape, strides, offset = list(x._shape), list(x._strides), x._offset
    if own == new:
        return View(tuple(shape), tuple(strides), offset)
    if not shape:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {x.dtype!r} as {kind!r} (different element sizes)"
        )
    if strides[-1] != 1 and shape[-1] != 1:
        raise RuntimeError(
            f"view: self.stride(-1) must be 1 to view {x.dtype!r} as {kind!r}, but got "
            f"{strides[-1]}"
        )
    steps = [s * own for s in strides[:-1]] + [offset * own, shape[-1] * own]
    if any(s % new for s in steps):
        raise RuntimeError(
            f"view: sizes, strides and offset of {errors.shape_text(shape)} must be divisible "
            f"by {new} bytes to view {x.dtype!r} as {kind!r}"
        )
    whole = [s * own // new for s in strides[:-1]]
    return View((*shape[:-1], shape[-1] * own // new), (*whole, 1), offset * own // new)


# -- contents


@public("Tensor", name="copy_")
def copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    """Take the elements of `src`, broadcast and converted.

    >>> torch.zeros(2).copy_(torch.tensor([1, 2]))
    tensor([1., 2.])
    """
    if not hasattr(src, "_storage"):
        if not isinstance(src, int | float | complex):
            raise errors.not_a_tensor("copy_", "other", src)
        src = FILL(checked_value("copy_", src, input.dtype), shape=(), dtype=input.dtype)
    if src is input:
        return input
    if input._view is None:  # the history of what is overwritten ends in zeros, not in None
        src = unrelated(src, input)
    return recorder.write(input, src, "copy_")


@public("Tensor", "torch", name="fill_")
def fill_(input: Any, value: Any) -> Any:
    """Set every element to one value.

    >>> torch.zeros(2).fill_(3)
    tensor([3., 3.])
    """
    if hasattr(value, "ndim") and value.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} "
            f"dimensions."
        )
    value = checked_value("fill_", value, input.dtype)
    return recorder.write(input, FILL(value, shape=input._shape, dtype=input.dtype), "fill_")


@public("torch", name="fill")
def fill(input: Any, value: Any) -> Any:
    """One value in the shape and dtype of `input`.

    >>> torch.fill(torch.zeros(2), 3.0)
    tensor([3., 3.])
    """
    value = checked_value("fill", value, input.dtype)
    return unrelated(FILL(value, shape=input._shape, dtype=input.dtype), input)


@public("Tensor", "torch", name="zero_")
def zero_(input: Any) -> Any:
    """Set every element to zero.

    >>> torch.ones(2).zero_()
    tensor([0., 0.])
    """
    return recorder.write(input, FULL(shape=input._shape, value=0, dtype=input.dtype), "zero_")


@public("Tensor", name="fill_diagonal_")
def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Set the main diagonal; `wrap` starts it again below a square of a tall matrix.

    >>> torch.zeros(2, 2).fill_diagonal_(1)
    tensor([[1., 0.],
            [0., 1.]])
    """
    if input.ndim < 2:
        raise RuntimeError("dimensions must larger than 1")
    if input.ndim > 2 and len(set(input._shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    least = min(input._shape)
    place = take_view(
        AS_STRIDED, input, shape=(least,), strides=(sum(input._strides),), offset=input._offset
    )
    fill_(place, fill_value)
    rows, columns = input._shape[:2]
    if wrap and input.ndim == 2 and rows > columns + 1:
        fill_diagonal_(input[columns + 1 :], fill_value, wrap)
    return input


@public("Tensor", name="apply_")
def apply_(input: Any, callable: Any) -> Any:
    """Replace every element by what a Python function makes of it.

    >>> torch.tensor([1.0, 2.0]).apply_(lambda x: 10 * x)
    tensor([10., 20.])
    """
    values = [callable(v) for v in input._numbers().reshape(-1).tolist()]
    return copy_(input, _like(input, values))


@public("Tensor", name="map_")
def map_(input: Any, tensor: Any, callable: Any) -> Any:
    """Replace every element by what a Python function makes of it and another tensor's.

    >>> torch.tensor([1.0, 2.0]).map_(torch.tensor([3.0, 4.0]), lambda x, y: x * y)
    tensor([3., 8.])
    """
    other = tensor.expand(input._shape)
    pairs = zip(
        input._numbers().ravel().tolist(), other._numbers().ravel().tolist(), strict=True
    )
    return copy_(input, _like(input, [callable(a, b) for a, b in pairs]))


def _like(x: Any, values: list[Any]) -> Any:
    from rushlight.arrays import tensor  # ops come before tensors

    return tensor(values, dtype=x.dtype, device="cpu").reshape(x._shape)


# -- handles and storages


@public("Tensor", name="resize_")
def resize_(input: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Another shape over the same memory, which grows if it must (new elements are zero).

    >>> torch.arange(6.0).resize_(2, 2)
    tensor([[0., 1.],
            [2., 3.]])
    """
    from rushlight.trace.record import set_view  # ops come before tensors

    shape = sizes_of(sizes)
    if input.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    if any(size < 0 for size in shape):
        raise RuntimeError(f"resize_: negative size in {list(shape)}")
    needed = input._offset + views.numel(shape)
    if needed > stored_elements(input):
        _grow(input, needed)
    view = View(shape, views.contiguous_strides(shape), input._offset)
    set_view(input, views.seen_as(view, input._view))
    return input


def _grow(x: Any, count: int) -> None:
    flat = memory_of(x)
    x._storage = constant_pad(flat, (0,), (count - flat.numel(),))._storage
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
        shape = (count,) if size is None else sizes_of((size,))
        strides = views.contiguous_strides(shape) if stride is None else sizes_of((stride,))
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
