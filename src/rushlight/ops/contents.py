"""What a tensor holds replaced: copies of others, numbers, results of a function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # operands are tensors and numbers

import numpy as np

from rushlight import errors
from rushlight.argument_kinds import Number
from rushlight.ops.creation import FILL, FULL, unrelated
from rushlight.ops.fill_value import checked_value
from rushlight.ops.movement import narrow
from rushlight.ops.registry import public, recorder
from rushlight.ops.view_ops import AS_STRIDED, take_view


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
    if not isinstance(value, _NUMBERS) and not hasattr(value, "_storage"):
        raise errors.wrong_kind("fill_", "value", 1, "Number", value)
    value, target = checked_value("fill_", value, input.dtype), _unrepeated(input)
    recorder.write(target, FILL(value, shape=target._shape, dtype=input.dtype), "fill_")
    return input


_NUMBERS = (int, float, complex, np.number, np.bool_)


def _unrepeated(x: Any) -> Any:
    """Each element of x once, also where it is expanded: one value may be written to those."""
    if x._view is None:
        return x
    for dim, (size, stride) in enumerate(zip(x._shape, x._strides, strict=True)):
        if size > 1 and stride == 0:
            x = narrow(x, dim, 0, 1)
    return x


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
    target = _unrepeated(input)
    recorder.write(target, FULL(shape=target._shape, value=0, dtype=input.dtype), "zero_")
    return input


@public("Tensor", name="fill_diagonal_")
def fill_diagonal_(input: Any, fill_value: Number, wrap: bool = False) -> Any:
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


def _check_constant(op: str, *tensors: Any) -> None:
    """Raise for tensors that require a gradient, which no Python function has."""
    if any(t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{op}: can't be called on a tensor that requires grad; use {op} of its detach()"
        )


@public("Tensor", name="apply_")
def apply_(input: Any, callable: Any) -> Any:
    """Replace every element by what a Python function makes of it.

    >>> torch.tensor([1.0, 2.0]).apply_(lambda x: 10 * x)
    tensor([10., 20.])
    """
    _check_constant("apply_", input)
    values = [callable(v) for v in input._numbers().reshape(-1).tolist()]
    return copy_(input, _like(input, values))


@public("Tensor", name="map_")
def map_(input: Any, tensor: Any, callable: Any) -> Any:
    """Replace every element by what a Python function makes of it and another tensor's.

    >>> torch.tensor([1.0, 2.0]).map_(torch.tensor([3.0, 4.0]), lambda x, y: x * y)
    tensor([3., 8.])
    """
    _check_constant("map_", input, tensor)
    other = tensor.expand(input._shape)
    pairs = zip(
        input._numbers().ravel().tolist(), other._numbers().ravel().tolist(), strict=True
    )
    return copy_(input, _like(input, [callable(a, b) for a, b in pairs]))


@public("Tensor", name="map2_")
def map2_(input: Any, x: Any, y: Any, callable: Callable[[float, float, float], float]) -> Any:
    """Replace every element by what a Python function makes of it and two others'.

    >>> torch.tensor([1.0, 2.0]).map2_(torch.ones(2), torch.ones(2), lambda x, y, z: x + y + z)
    tensor([3., 4.])
    """
    _check_constant("map2_", input, x, y)
    columns = [t.expand(input._shape)._numbers().ravel().tolist() for t in (input, x, y)]
    return copy_(input, _like(input, [callable(*row) for row in zip(*columns, strict=True)]))


def _like(x: Any, values: list[Any]) -> Any:
    from rushlight.arrays import tensor  # ops come before tensors

    return tensor(values, dtype=x.dtype, device="cpu").reshape(x._shape)
