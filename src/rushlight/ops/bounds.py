"""Elements that are looked at when an op is called: indices in memory, and extremes.

Kernels find every index out of range, at the flush. One that can be seen at once raises on the
user's line.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import errors
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op

MANY = 1 << 16  # more take longer to look at than an op takes to record


def check_known(
    op: str, name: str, index: Any, size: int, *, ignored: int | None = None
) -> None:
    """Raise where an index in memory is not within `size` (and is not `ignored`)."""
    value = index._storage.value
    if value.buffer is None or value.type.is_meta or not 0 < index.numel() <= MANY:
        return
    numbers = index._array_on(value.buffer)
    # as unsigned numbers, what is negative is too large as well
    if np.maximum.reduce(numbers.view(f"u{numbers.itemsize}"), axis=None) < size:
        return
    numbers = numbers.astype(object if numbers.dtype == np.uint64 else np.int64)
    places = np.argwhere(((numbers < 0) | (numbers >= size)) & (numbers != ignored))
    if len(places):
        place = tuple(int(i) for i in places[0])
        raise errors.index_out_of_range(op, "", "", (name, int(numbers[place]), size, place))


def index_check(name: str, label: str) -> Op:
    """The indices of a function, as they are: the flush fails in its name where one is not
    within `size`. For functions made of several steps, whose own checks would name those.
    """
    return Op(
        name,
        attrs=("size",),
        type=lambda index, size: index,
        lower=lambda k, index, size: k.checked(index, index, size, label),
        vjp=NOT_DIFFERENTIABLE,
    )


def extremes(x: Any) -> tuple[Any, Any]:
    """The least and the largest element, as numbers: few are looked at without a program."""
    if x.numel() > MANY:
        return x.min().item(), x.max().item()
    numbers = x._numbers()
    return numbers.min().item(), numbers.max().item()
