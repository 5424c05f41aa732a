"""`hash_tensor`: the elements of a tensor in 64 bits."""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ops import batching
from rushlight.ops.reduce import check_dims_not_empty
from rushlight.ops.registry import public


def _patterns(input: Any) -> Any:
    """Each element as 64 bits: of float64 for floats, of int64 with its sign for integers."""
    kind = np.float64 if input.dtype.is_floating_point else np.int64
    numbers = input.detach()._numbers()
    return numbers if numbers.dtype == np.uint64 else numbers.astype(kind).view(np.uint64)


@public("torch", "Tensor", out=True)
@batching.by_sample
def hash_tensor(
    input: Any, dim: Ints | None = (), *, keepdim: bool = False, mode: int = 0
) -> Any:
    """The elements' bits combined over `dim` (everything by default) by exclusive or, the only
    mode there is: a uint64.

    Complex tensors raise NotImplementedError; nothing to combine and no `dim`, RuntimeError.

    >>> import rushlight as torch
    >>> torch.hash_tensor(torch.tensor([1, 2, 4])).item()
    7
    """
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if input.dtype.is_complex:
        raise errors.not_implemented_for("hash_tensor", input.dtype, "a real dtype")
    given = (dim,) if isinstance(dim, int) else tuple(dim or ())
    dims = views.dim_indices("hash_tensor", given or None, input.ndim)
    check_dims_not_empty("hash_tensor", input, given, dims)
    made = np.bitwise_xor.reduce(_patterns(input), axis=dims)
    shape = views.reduced_shape(input._shape, dims, keepdim)
    return tensor_of_array(np.reshape(made, shape), dt.uint64)
