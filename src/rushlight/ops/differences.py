"""Differences between neighbours."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.ops.rearrange import cat
from rushlight.ops.registry import public


@public("torch", "Tensor", out=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along `dim`, taken n times; of bool, whether they differ.

    prepend, append: tensors joined to the input first.

    >>> import rushlight as torch
    >>> torch.diff(torch.tensor([1, 4, 9, 16]))
    tensor([3, 5, 7])
    """
    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    at = views.dim_index("diff", dim, input.ndim)
    for end in (prepend, append):
        if end is not None:
            _check_end(input, end, at)
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if n == 0:
        return input.clone()
    x = cat([part for part in (prepend, input, append) if part is not None], at)
    for _ in range(min(n, x.shape[at])):
        rest = x.shape[at] - 1
        after, before = x.narrow(at, 1, rest), x.narrow(at, 0, rest)
        x = after ^ before if x.dtype is dt.bool_ else after - before
    return x


def _check_end(x: Any, end: Any, at: int) -> None:
    if end.ndim != x.ndim:
        raise RuntimeError(
            f"diff expects prepend or append to be the same dimension as input: {end.ndim} and "
            f"{x.ndim}"
        )
    for d in range(x.ndim):
        if d != at and end.shape[d] != x.shape[d]:
            raise RuntimeError(
                f"diff expects the shape of tensor to prepend or append to match that of input "
                f"except along the differencing dimension; input.size({d}) = {x.shape[d]}, but "
                f"got tensor.size({d}) = {end.shape[d]}"
            )
