"""From one dtype, place or order in memory to another: `to`, `type`, `contiguous`."""

from __future__ import annotations

from typing import Any  # `to` takes dtypes, devices and tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.devices import CPU, check_usable, device
from rushlight.dtypes import dtype
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import CAST, CLONE
from rushlight.ops.registry import TensorType, public, recorder
from rushlight.views import View

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

    if any(views.marks(x._view)):
        raise errors.view_of_marked("view", "a conjugate or negative", "clone()")
    if kind is x.dtype:
        return x.view(x._shape)
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
