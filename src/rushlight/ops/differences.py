"""Differences between neighbours."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.argument_kinds import Ints
from rushlight.ops.elementwise import the_tensor
from rushlight.ops.joining import cat
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
        return the_tensor("diff", input).clone()
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


# -- gradients of sampled functions


@public("torch")
def gradient(
    input: Any, *, spacing: Any = 1, dim: Ints | None = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """Slopes of a function from its samples, a tensor for each dimension: second-order inside,
    of `edge_order` at the ends.

    spacing: the distance of samples (1 by default), one for all dimensions or one each, or
    their coordinates (a vector for each dimension).

    >>> import rushlight as torch
    >>> torch.gradient(torch.tensor([1.0, 2.0, 4.0, 8.0]))
    (tensor([1.0000, 1.5000, 3.0000, 4.0000]),)
    """
    if edge_order not in (1, 2):
        raise RuntimeError(f"torch.gradient only supports edge_order=1 and edge_order=2, got "
                           f"{edge_order}")  # fmt: skip
    given = range(input.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = tuple(views.dim_index("gradient", d, input.ndim) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"gradient: dim {list(given)} appears multiple times in the list")
    if spacing is None:
        spacing = 1
    steps = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(dims)
    if len(steps) != len(dims):
        raise RuntimeError(
            f"torch.gradient expected spacing to be unspecified, a scalar or a list of length "
            f"{len(dims)}, got {len(steps)} values"
        )
    for d in dims:
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"torch.gradient expected each dimension size to be at least edge_order+1, got "
                f"shape {list(input.shape)}"
            )
    return tuple(_slopes(input, d, h, edge_order) for d, h in zip(dims, steps, strict=True))


def _slopes(x: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    size = x.shape[dim]
    gaps = _gaps(x, dim, spacing)
    ends = _end_slope(x, dim, gaps, edge_order, 1), _end_slope(x, dim, gaps, edge_order, -1)
    if size == 2:
        return cat(ends, dim)
    left, right = (_piece(gaps, dim, i, size - 2) for i in (0, 1))
    before, here, after = (x.narrow(dim, i, size - 2) for i in (0, 1, 2))
    inside = ((after - here) * (left / right) + (here - before) * (right / left)) / (
        left + right
    )
    return cat([ends[0], inside, ends[1]], dim)


def _gaps(x: Any, dim: int, spacing: Any) -> Any:
    """Distances of neighbours along `dim`: a number, or a tensor shaped to broadcast."""
    if not getattr(spacing, "ndim", 0):
        return spacing
    if spacing.ndim != 1 or spacing.shape[0] != x.shape[dim]:
        raise RuntimeError(
            f"torch.gradient expected the coordinates to be a vector of {x.shape[dim]} "
            f"elements, got shape {list(spacing.shape)}"
        )
    line = [-1 if d == dim else 1 for d in range(x.ndim)]
    return diff(spacing).reshape(line)


def _piece(gaps: Any, dim: int, start: int, length: int) -> Any:
    return gaps.narrow(dim, start, length) if getattr(gaps, "ndim", 0) else gaps


def _end_slope(x: Any, dim: int, gaps: Any, order: int, sign: int) -> Any:
    """The slope at the first sample, or (sign -1) at the last, seen from the end."""
    size = x.shape[dim]
    count = size - 1
    at = [0, 1, 2] if sign > 0 else [size - 1, size - 2, size - 3]
    first = _piece(gaps, dim, 0 if sign > 0 else count - 1, 1)
    near, next_ = (x.narrow(dim, i, 1) for i in at[:2])
    slope = (next_ - near) / first * sign
    if order == 1:
        return slope
    second = _piece(gaps, dim, 1 if sign > 0 else count - 2, 1)
    far = x.narrow(dim, at[2], 1)
    bend = ((far - next_) / second * sign - slope) / (first + second)
    return slope - bend * first
