"""A tensor as several parts along a dimension: unbind, split, chunk and their relatives.

Note: outputs of one call. As in PyTorch, none of the tensors that one `unbind`, `split` or
`chunk` returns may be written to under gradients: the ops they are views by say so
(`trace/write.py`). `tensor_split` takes slices, and the `unsafe_` forms promise not to care.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.argument_kinds import IntList
from rushlight.ops.registry import Op, public
from rushlight.ops.view_ops import SLICE, embedding, select_view, slice_view, take_view, view_op

SPLIT = view_op("split", slice_view, ("dim", "start", "length", "step"), embedding(slice_view))
UNBIND = view_op("unbind", select_view, ("dim", "index"), embedding(select_view))


@public("torch", "Tensor")
def unbind(input: Any, dim: int = 0) -> Any:
    """All parts along a dimension, without it.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).unbind(1)
    (tensor([1., 3.]), tensor([2., 4.]))
    """
    if not input.ndim:
        raise IndexError("unbind: Dimension specified as 0 but tensor has no dimensions")
    at = views.dim_index("unbind", dim, input.ndim)
    return tuple(take_view(UNBIND, input, dim=at, index=i) for i in range(input._shape[at]))


def _sections(op: Op, input: Any, at: int, sizes: Sequence[int]) -> Any:
    parts, start = [], 0
    for size in sizes:
        parts.append(take_view(op, input, dim=at, start=start, length=size, step=1))
        start += size
    return tuple(parts)


def _split(op: Op, tensor: Any, given: Any, dim: int) -> Any:
    if not tensor.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    at = views.dim_index("split", dim, tensor.ndim)
    size = tensor._shape[at]
    if hasattr(given, "__index__"):
        given = views.whole_number("split", "split_size", given)
        if given < 0 or (given == 0 and size):
            raise RuntimeError(
                f"split expects split_size be non-negative, but got split_size={given}"
            )
        starts = range(0, size, given) if size else ()
        return _sections(op, tensor, at, [min(given, size - s) for s in starts] or [0])
    sizes = [views.whole_number("split", "split_size", s) for s in given]
    if sum(sizes) != size or any(s < 0 for s in sizes):
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={sizes}"
        )
    return _sections(op, tensor, at, sizes)


def _chunk(op: Op, input: Any, chunks: int, dim: int) -> Any:
    if not input.ndim:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    chunks = views.whole_number("chunk", "chunks", chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    at = views.dim_index("chunk", dim, input.ndim)
    size = input._shape[at]
    if not size:
        return _sections(op, input, at, [0] * chunks)
    return _split(op, input, -(-size // chunks), at)


@public("torch", "Tensor")
def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> Any:
    """Parts of this size along `dim` (the last may be smaller), or of these sizes.

    >>> torch.arange(5.0).split(2)
    (tensor([0., 1.]), tensor([2., 3.]), tensor([4.]))
    """
    return _split(SPLIT, tensor, split_size_or_sections, dim)


@public("torch", "Tensor")
def split_with_sizes(input: Any, split_sizes: IntList, dim: int = 0) -> Any:
    """Parts of these sizes along `dim`.

    >>> torch.arange(4.0).split_with_sizes([1, 3])
    (tensor([0.]), tensor([1., 2., 3.]))
    """
    return _split(SPLIT, input, list(split_sizes), dim)


@public("torch", "Tensor")
def chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """At most `chunks` parts of equal size (the last may be smaller).

    >>> torch.arange(5.0).chunk(2)
    (tensor([0., 1., 2.]), tensor([3., 4.]))
    """
    return _chunk(SPLIT, input, chunks, dim)


@public("torch", "Tensor")
def unsafe_split(tensor: Any, split_size: int, dim: int = 0) -> Any:
    """`split` into parts that may be written to."""
    return _split(SLICE, tensor, split_size, dim)


@public("torch", "Tensor")
def unsafe_split_with_sizes(input: Any, split_sizes: IntList, dim: int = 0) -> Any:
    """`split_with_sizes` into parts that may be written to."""
    return _split(SLICE, input, list(split_sizes), dim)


@public("torch", "Tensor")
def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    """`chunk` into parts that may be written to."""
    return _chunk(SLICE, input, chunks, dim)


@public("torch", "Tensor")
def tensor_split(input: Any, indices_or_sections: Any, dim: int = 0) -> Any:
    """Parts that begin at these indices, or this many parts of nearly equal size.

    >>> torch.arange(5.0).tensor_split((1, 3))
    (tensor([0.]), tensor([1., 2.]), tensor([3., 4.]))
    """
    if not input.ndim:
        raise RuntimeError("tensor_split: expected at least a 1-dimensional tensor")
    at = views.dim_index("tensor_split", dim, input.ndim)
    size, given = input._shape[at], indices_or_sections
    if hasattr(given, "_storage"):
        if given.dtype is not dt.int64 or given.ndim > 1:
            raise RuntimeError(
                f"tensor_split expected tensor_indices_or_sections to be a zero-dimensional or "
                f"one-dimensional tensor of int64, but got {given.ndim} dimensions of "
                f"{given.dtype!r}"
            )
        given = given.tolist()
    if isinstance(given, int):
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        small, larger = divmod(size, given)
        return _sections(SLICE, input, at, [small + (i < larger) for i in range(given)])
    bounds = [0, *(slice(i).indices(size)[1] for i in given), size]
    return tuple(
        take_view(SLICE, input, dim=at, start=a, length=max(b - a, 0), step=1)
        for a, b in zip(bounds, bounds[1:], strict=False)
    )


def _split_along(name: str, least: int, dim_of: Callable[[int], int]) -> None:
    def function(input: Any, indices_or_sections: Any) -> Any:
        if input.ndim < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension, but got a "
                f"tensor with {input.ndim} dimensions!"
            )
        dim = dim_of(input.ndim)
        parts = indices_or_sections
        if isinstance(parts, int) and (parts <= 0 or input._shape[dim] % parts):
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {dim}, but the size of the "
                f"dimension {input._shape[dim]} is not divisible by the split_size {parts}!"
            )
        return tensor_split(input, parts, dim)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "`tensor_split` along one dimension, into equal parts if given a number."
    public("torch", "Tensor", name=name)(function)


_split_along("hsplit", 1, lambda ndim: 0 if ndim == 1 else 1)
_split_along("vsplit", 2, lambda ndim: 0)
_split_along("dsplit", 3, lambda ndim: 2)
