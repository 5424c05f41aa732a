"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

import rushlight as rl
from rushlight.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """The values of all parameters, one after the other."""
    items = list(parameters)
    _check_one_device(items)
    return rl.cat([item.reshape(-1) for item in items])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Give parameters the values in a vector, in the order of `parameters_to_vector`."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    items = list(parameters)
    _check_one_device(items)
    start = 0
    for item in items:
        count = item.numel()
        item.data = vec[start : start + count].view_as(item).data
        start += count


def _check_one_device(items: list[Tensor]) -> None:
    if len({item.device for item in items}) > 1:
        raise TypeError(
            "Found two parameters on different devices, this is currently not supported."
        )
