"""Where elements are: the positions of those that are not zero, and numbers of places."""

from __future__ import annotations

from typing import Any  # indices are of many kinds

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.ops import batching
from rushlight.ops.registry import public


@public("torch", "Tensor", out=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The positions of elements that are not zero: a row for each, or a tuple of vectors.

    >>> torch.nonzero(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    batching.refuse_sizes("nonzero", input)
    values = input.detach()._numbers()
    if as_tuple:
        return tuple(tensor_of_array(p, dt.int64) for p in np.nonzero(np.atleast_1d(values)))
    places = np.argwhere(values) if input.ndim else np.zeros((int(bool(values)), 0))
    return tensor_of_array(places, dt.int64)


@public("torch", "Tensor")
def argwhere(input: Any) -> Any:
    """The positions of elements that are not zero, a row for each.

    >>> torch.argwhere(torch.tensor([0.0, 1.0, 2.0]))
    tensor([[1],
            [2]])
    """
    return nonzero(input)


@public("torch", "Tensor")
@batching.by_sample
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """The first `size` positions of elements that are not zero, filled up if there are
    fewer.

    >>> torch.nonzero_static(torch.tensor([0.0, 1.0]), size=2)
    tensor([[ 1],
            [-1]])
    """
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be non-negative, got {size}")
    found = np.argwhere(input.detach()._numbers())[:size]
    out = np.full((size, input.ndim), fill_value, np.int64)
    out[: len(found)] = found
    return tensor_of_array(out, dt.int64)


@public("torch")
def unravel_index(indices: Any, shape: Any) -> Any:
    """Coordinates (int64), a tensor for each dimension of `shape`, of positions in flattened
    order.

    >>> import rushlight as torch
    >>> torch.unravel_index(torch.tensor([3, 5]), (2, 3))
    (tensor([1, 1]), tensor([0, 2]))
    """
    if not indices.dtype.is_integral or indices.dtype is dt.bool_:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype!r}")
    sizes = (shape,) if isinstance(shape, int) else tuple(int(s) for s in shape)
    if any(s < 0 for s in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    steps, places = views.contiguous_strides(sizes), indices.to(dt.int64)
    return tuple(places // step % size for step, size in zip(steps, sizes, strict=True))
