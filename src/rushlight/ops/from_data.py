"""Tensors of given data: numbers, lists, arrays, buffers."""

from __future__ import annotations

from typing import Any  # fill values are numbers, sizes come in several forms

from rushlight import config
from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.layout import check_layout
from rushlight.ops.creation import FILL, with_grad
from rushlight.ops.fill_value import checked_value
from rushlight.ops.registry import (
    public,
    recorder,
)


@public("torch")
def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Any:
    """`data` as a tensor, sharing memory with tensors and arrays where the dtype is right.

    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    import numpy as np  # to recognise arrays

    from rushlight.arrays import from_numpy, tensor  # ops come before tensors
    from rushlight.tensor import Tensor  # ops come before tensors

    if isinstance(data, Tensor):
        moved = data if device is None else recorder.on_device(data, device)
        return moved if dtype is None or data.dtype is dtype else moved.to(dtype)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        made = shared if dtype is None or shared.dtype is dtype else shared.to(dtype)
        return with_grad(made, False, device)
    return tensor(data, dtype=dtype, device=device)


@public("torch")
def asarray(
    obj: Any, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:  # fmt: skip
    """Like `as_tensor`, with control over copying: True always, False never, None as needed.

    requires_grad: None for what `obj` says, with its history; False cuts that off.

    >>> torch.asarray([1.0, 2.0], dtype=torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    from rushlight.arrays import tensor  # ops come before tensors
    from rushlight.tensor import Tensor  # ops come before tensors

    if copy and not isinstance(obj, Tensor):
        made = tensor(obj, dtype=dtype, device=device)
        return made.requires_grad_() if requires_grad else made
    made = as_tensor(obj, dtype, device)
    if copy and made is obj:
        made = made.clone()
    if copy is False and made is not obj:
        import numpy as np  # to recognise arrays

        if not (
            isinstance(obj, np.ndarray) and (dtype is None or dt.of_numpy(obj.dtype) is dtype)
        ):
            raise ValueError("asarray: can't alias the object without a copy")
    if requires_grad is False and made.requires_grad:
        made = made.detach()
    return made.requires_grad_() if requires_grad else made


@public("torch")
def scalar_tensor(
    s: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A Python number as a 0-d tensor of the default dtype.

    >>> torch.scalar_tensor(2)
    tensor(2.)
    """
    if layout is not None:
        check_layout(layout)
    kind = dtype or config.default_dtype()
    made = FILL(checked_value("scalar_tensor", s, kind), shape=(), dtype=kind)
    return with_grad(made, requires_grad, device)


@public("torch")
def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A 1-D tensor on the memory of an object that has the buffer protocol.

    count: elements to read, -1 for all that are left after `offset` bytes.

    >>> torch.frombuffer(bytearray([1, 2, 3]), dtype=torch.uint8)
    tensor([1, 2, 3], dtype=torch.uint8)
    """
    import numpy as np  # reads buffers

    from rushlight.arrays import tensor_on  # ops come before tensors

    try:
        view = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    count = _buffer_count(len(view), dtype.itemsize, count, offset)
    made = tensor_on(np.frombuffer(view, dtype.storage, count, offset), dtype)
    return with_grad(made, requires_grad)


def _buffer_count(nbytes: int, itemsize: int, count: int, offset: int) -> int:
    """How many elements `frombuffer` reads; ValueError for what does not fit."""
    if nbytes == 0 or count == 0:
        raise ValueError(f"both buffer length ({nbytes}) and count ({count}) must not be 0")
    if not 0 <= offset < nbytes:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({nbytes} bytes) minus 1"
        )
    if count < 0 and (nbytes - offset) % itemsize:
        raise ValueError(
            f"buffer length ({nbytes - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({itemsize})"
        )
    wanted = (nbytes - offset) // itemsize if count < 0 else count
    if offset + wanted * itemsize > nbytes:
        raise ValueError(
            f"requested buffer length ({wanted} * {itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({nbytes} bytes)"
        )
    return wanted
