"""Distances between vectors: of all pairs in one set or across two, of each with another."""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import check_tensors
from rushlight.ops.registry import public
from rushlight.ops.statistics import vector_norm

COMPUTE_MODES = (
    "use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist",
    "donot_use_mm_for_euclid_dist",
)  # fmt: skip


def _check_order(op: str, p: float) -> None:
    if not p >= 0:
        raise RuntimeError(f"{op} only supports non-negative p values, got {p}")


@public("torch", "F")
def pdist(input: Any, p: float = 2.0) -> Any:
    """p-norms of the differences of all pairs of rows i < j, in order of i, then j.

    >>> import rushlight as torch
    >>> torch.pdist(torch.tensor([[0.0], [1.0], [3.0]]))
    tensor([1., 3., 2.])
    """
    if input.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.ndim}D")
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"pdist only supports floating-point dtypes, got {input.dtype!r}")
    _check_order("pdist", p)
    from rushlight.arrays import tensor_of_array  # tensors come after ops

    first, second = (tensor_of_array(i, dt.int64) for i in np.triu_indices(input.shape[0], 1))
    return _lengths(input.index_select(0, first) - input.index_select(0, second), p)


@public("torch")
def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str = COMPUTE_MODES[0]) -> Any:
    """p-norms of the differences of every row of x1 (*, P, M) with every row of x2 (*, R, M):
    (*, P, R). They are always calculated from the differences, whatever `compute_mode` says.

    >>> torch.cdist(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    if compute_mode not in COMPUTE_MODES:
        raise ValueError(f"{compute_mode} is not a valid value for compute_mode")
    for name, x in (("X1", x1), ("X2", x2)):
        if x.ndim < 2:
            raise RuntimeError(
                f"cdist only supports at least 2D tensors, {name} got: {x.ndim}D"
            )
        if not x.dtype.is_floating_point:
            raise RuntimeError(
                f"cdist only supports floating-point dtypes, {name} got: {x.dtype!r}"
            )
    if x1.shape[-1] != x2.shape[-1]:
        raise RuntimeError(
            f"cdist: X1 and X2 must have the same number of columns. X1: {list(x1.shape)} X2: "
            f"{list(x2.shape)}"
        )
    if x1.dtype is not x2.dtype:
        raise errors.mixed_dtypes("cdist", x1.dtype, x2.dtype)
    _check_order("cdist", p)
    views.broadcast_shapes("cdist", x1.shape[:-2], x2.shape[:-2])
    return _lengths(x1.unsqueeze(-2) - x2.unsqueeze(-3), p)


def _lengths(x: Any, p: float) -> Any:
    """Norms along the last dimension; those of empty rows are zero. A count of differences
    (p = 0) has zero gradients.
    """
    if p == 0:
        return unrelated(vector_norm(x.detach(), 0, -1), x)
    return vector_norm(x, p, -1) if x.shape[-1] else x.sum(-1)


@public("torch", "Tensor", out=True)
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of input - other.

    >>> torch.dist(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0]))
    tensor(5.)
    """
    check_tensors("dist", input=input, other=other)
    return (input - other).norm(p)


@public("F", "torch")
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 - x2 + eps along the last dimension.

    >>> torch.pairwise_distance(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([5.0000])
    """
    check_tensors("pairwise_distance", x1=x1, x2=x2)
    return (x1 - x2 + eps).norm(p, dim=-1, keepdim=keepdim)


@public("F", "torch")
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """x1 . x2 / (max(|x1|, eps) max(|x2|, eps)) along `dim`.

    >>> torch.cosine_similarity(torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([0.6000])
    """
    kind = dt.promote_types(x1.dtype, x2.dtype)
    if not kind.is_floating_point:
        raise RuntimeError(
            f"cosine_similarity: expected floating point tensors, got {x1.dtype!r} and "
            f"{x2.dtype!r}"
        )
    x1, x2 = x1.to(kind), x2.to(kind)
    shape = views.broadcast_shapes("cosine_similarity", x1.shape, x2.shape)
    a, b = x1.expand(shape), x2.expand(shape)
    a = a / a.norm(dim=dim, keepdim=True).clamp(min=eps)
    b = b / b.norm(dim=dim, keepdim=True).clamp(min=eps)
    return (a * b).sum(dim)
