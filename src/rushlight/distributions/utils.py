"""What distributions share: parameters of one shape, probabilities and logits."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Tensors and numbers as tensors of one shape; numbers take the dtype of a tensor."""
    for value in values:
        if not isinstance(value, Tensor | int | float):
            raise ValueError(
                f"broadcast_all: expected tensors or numbers, got {type(value).__name__}"
            )
    kinds = [v.dtype for v in values if isinstance(v, Tensor)]
    kind = kinds[0] if kinds else rl.get_default_dtype()
    made = [v if isinstance(v, Tensor) else rl.tensor(v, dtype=kind) for v in values]
    return tuple(rl.broadcast_tensors(*made))


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities from logits: of one event each, or along the last dimension."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities a little away from 0 and 1, so that logits are finite."""
    eps = rl.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logits from probabilities: of one event each, or along the last dimension."""
    inner = clamp_probs(probs)
    return inner.log() - (-inner).log1p() if is_binary else inner.log()


class lazy_property:
    """An attribute that is computed, with gradients, when it is first asked for."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with rl.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last `count` dimensions."""
    return value.flatten(value.ndim - count).sum(-1) if count else value


_sum_rightmost = sum_rightmost  # libraries of distributions import PyTorch's private names


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Samples of the standard normal distribution."""
    return rl.randn(shape, dtype=dtype, device=device)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements at or below a diagonal of square matrices, row by row.

    mat: (..., n, n). `ValueError` where there is no such diagonal.
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    rows, columns = rl.tril_indices(n, n, diag)
    return mat[..., rows, columns]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Square matrices with the numbers of a vector at or below a diagonal, row by row.

    vec: (..., count). `ValueError` where no triangle has so many elements.
    """
    n = _triangle_size(vec.shape[-1], diag)
    rows, columns = rl.tril_indices(n, n, diag)
    mat = vec.new_zeros((*vec.shape[:-1], n, n))
    mat[..., rows, columns] = vec
    return mat


def _triangle_size(count: int, diag: int) -> int:
    """The n for which a square of n has `count` elements at or below a diagonal.

    That is the root of n^2 + (1 + 2 diag) n = |diag| (diag + 1) + 2 count.
    """
    squared = (1 + 2 * diag) ** 2 + 4 * abs(diag) * (diag + 1) + 8 * count
    root = math.isqrt(squared)
    if root * root != squared:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower "
            "triangular part of a square D x D matrix."
        )
    return (root - 1 - 2 * diag) // 2
