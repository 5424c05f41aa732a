"""Copies of a tensor in which a view is replaced: a slice, a diagonal, any stride."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import errors, views
from rushlight.argument_kinds import IntList
from rushlight.ops import batching
from rushlight.ops.registry import public
from rushlight.ops.view_ops import stored_elements


def _filled(out: Any, part: Any, src: Any) -> Any:
    """`out`, with `src` in the part of it."""
    if part._shape != src._shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = "
            f"{errors.shape_text(src._shape)}, slice size = {errors.shape_text(part._shape)}"
        )
    part.copy_(src)
    return out


@public("torch", "Tensor", out=True)
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """A copy with `src` at one index of a dimension.

    >>> torch.select_scatter(torch.zeros(2, 2), torch.tensor([1.0, 2.0]), 1, 0)
    tensor([[1., 0.],
            [2., 0.]])
    """
    out = batching.spread_like(input.clone(), src)
    return _filled(out, out.select(dim, index), src)


@public("torch", "Tensor", out=True)
def slice_scatter(
    input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    """A copy with `src` at a slice of a dimension.

    >>> torch.slice_scatter(torch.zeros(4), torch.tensor([1.0, 2.0]), start=1, end=3)
    tensor([0., 1., 2., 0.])
    """
    at = views.dim_index("slice_scatter", dim, input.ndim)
    out = batching.spread_like(input.clone(), src)
    return _filled(out, out[(slice(None),) * at + (slice(start, end, step),)], src)


@public("torch", "Tensor", out=True)
def diagonal_scatter(
    input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Any:
    """A copy with `src` on a diagonal.

    >>> torch.diagonal_scatter(torch.zeros(2, 2), torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    out = batching.spread_like(input.clone(), src)
    return _filled(out, out.diagonal(offset, dim1, dim2), src)


@public("torch", "Tensor", out=True)
def as_strided_scatter(
    input: Any, src: Any, size: IntList, stride: IntList, storage_offset: int | None = None
) -> Any:
    """A copy with `src` at a strided view of the memory, as `as_strided` counts it: of what is
    written, the copy has what lies at elements of `input`.

    >>> torch.as_strided_scatter(torch.zeros(4), torch.tensor([1.0, 2.0]), (2,), (2,))
    tensor([1., 0., 2., 0.])
    """
    is_expanded = any(n > 1 and not s for n, s in zip(input._shape, input.stride()))
    own = input.clone() if is_expanded else input
    memory = own.as_strided((stored_elements(own),), (1,), 0).clone()
    memory = batching.spread_like(memory, src)
    offset = own._offset if storage_offset is None else storage_offset
    memory.as_strided(size, stride, offset).copy_(src)
    return memory.as_strided(own._shape, own.stride(), own._offset).clone()
