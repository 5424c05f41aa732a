"""All combinations of elements: products, grids and powers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.advice import warn_deprecated
from rushlight.ops.joining import stack
from rushlight.ops.registry import public


@public("torch")
def cartesian_prod(*tensors: Any) -> Any:
    """All combinations of one element of each 1-D tensor, as rows.

    >>> torch.cartesian_prod(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
    tensor([[1., 3.],
            [1., 4.],
            [2., 3.],
            [2., 4.]])
    """
    if any(t.ndim != 1 for t in tensors):
        raise RuntimeError("Expect a 1D vector, but got a tensor of another dimension")
    if len(tensors) == 1:
        return tensors[0]
    return stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


@public("torch")
def combinations(input: Any, r: int = 2, with_replacement: bool = False) -> Any:
    """All ways to choose r elements of a vector, in order.

    >>> torch.combinations(torch.tensor([1.0, 2.0, 3.0]))
    tensor([[1., 2.],
            [1., 3.],
            [2., 3.]])
    """
    import itertools  # only here

    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if input.ndim != 1:
        raise RuntimeError(
            f"Expect a 1D vector, but got shape {errors.shape_text(input._shape)}"
        )
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    pick = (
        itertools.combinations_with_replacement if with_replacement else itertools.combinations
    )
    rows = list(pick(range(input._shape[0]), r)) if r else []
    if not rows:
        return input[:0] if r == 0 else input[:0].reshape(0, 1).expand(0, r).clone()
    places = tensor_of_array(rows, dt.int64)
    return input.index_select(0, places.reshape(-1)).reshape(len(rows), r)


@public("torch", out=False)
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns.

    >>> torch.vander(torch.tensor([2.0, 3.0]), 3)
    tensor([[4., 2., 1.],
            [9., 3., 1.]])
    """
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional tensor, got {x.ndim}D")
    count = x._shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must be non-negative, got {count}")
    powers = [x**i for i in range(count)]
    if not powers:
        return x.new_empty((x._shape[0], 0))
    return stack(powers if increasing else powers[::-1], 1)


@public("torch")
def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    """Coordinate grids of 1-D tensors; indexing "ij" (the default) or "xy".

    >>> torch.meshgrid(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), indexing="ij")
    (tensor([[1., 1.],
            [2., 2.]]), tensor([[3., 4.],
            [3., 4.]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError("meshgrid: Expected 0D or 1D tensors in the tensor list")
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", got {indexing!r}')
    if indexing is None:
        warn_deprecated("meshgrid without indexing", 'indexing="ij"')
    swaps = indexing == "xy" and len(tensors) >= 2
    if swaps:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple(t.numel() for t in tensors)
    count = len(tensors)
    grids = [
        t.reshape([-1 if d == i else 1 for d in range(count)]).expand(shape)
        for i, t in enumerate(tensors)
    ]
    if swaps:
        grids = [grids[1], grids[0], *grids[2:]]
    return tuple(grids)
