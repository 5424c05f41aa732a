"""Covariance and correlation of variables observed together."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight.advice import warn_caller
from rushlight.ops import batching
from rushlight.ops.complex_parts import COMPLEX
from rushlight.ops.elementwise import the_tensor
from rushlight.ops.registry import public


@public("torch", "Tensor")
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of the rows of a (variables, observations) matrix; of a vector, its
    variance.

    fweights: how often each observation counts (integers). aweights: how much (floats).

    >>> import rushlight as torch
    >>> torch.cov(torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    tensor([[ 2., -2.],
            [-2.,  2.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"cov(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    if input.dtype is dt.bool_:
        raise RuntimeError("cov(): bool dtype is not supported for input")
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    count = rows.shape[1]
    weights = _weights(fweights, aweights, count)
    if weights is None:
        total: Any = count
        mean = rows.sum(1, keepdim=True) / count
    else:
        total = weights.sum()
        if not bool((batching.whole(total) != 0).all()):
            raise RuntimeError("cov(): weights sum to zero, can't be normalized")
        mean = (rows * weights).sum(1, keepdim=True) / total
    away = rows - mean
    freedom = _freedom(total, weights, aweights, correction)
    if weights is None and freedom == 0:
        warn_caller(f"cov(): degrees of freedom is <= 0 ({count} observations)")
    scaled = away if weights is None else away * weights
    scaled, away = scaled.to(mean.dtype), away.to(mean.dtype)
    found = scaled @ away.mT.conj() / freedom
    return found if rows.shape[0] != 1 else found.reshape(())


def _freedom(total: Any, weights: Any, aweights: Any, correction: int) -> Any:
    """What the products are divided by; no less than zero."""
    if weights is None or aweights is None or not correction:
        free = total - correction
    else:
        free = total - correction * (weights * aweights).sum() / total
    return free.clamp(min=0) if hasattr(free, "_storage") else max(float(free), 0.0)


def _weights(fweights: Any, aweights: Any, count: int) -> Any:
    """The product of the weights that are given, checked."""
    for name, given, wanted in (
        ("fweights", fweights, "integral"), ("aweights", aweights, "floating point"),
    ):  # fmt: skip
        if given is None:
            continue
        is_allowed = given.dtype.is_integral == (wanted == "integral")
        if given.ndim > 1:
            raise RuntimeError(
                f"cov(): expected {name} to have one or fewer dimensions but got {name} with "
                f"{given.ndim} dimensions"
            )
        if not is_allowed:
            raise RuntimeError(
                f"cov(): expected {name} to have {wanted} dtype but got {name} with "
                f"{given.dtype!r} dtype"
            )
        if given.numel() != count:
            raise RuntimeError(
                f"cov(): expected {name} to have the same numel as there are observations in "
                f"the input but got {given.numel()} != {count}"
            )
        if count and bool((batching.whole(given) < 0).any()):
            raise RuntimeError(f"cov(): {name} cannot be negative")
    if fweights is None or aweights is None:
        return fweights if aweights is None else aweights
    return fweights * aweights


@public("torch", "Tensor")
def corrcoef(input: Any) -> Any:
    """The correlation matrix of the rows of a matrix: covariances over deviations.

    >>> torch.corrcoef(torch.tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    the_tensor("corrcoef", input)
    if input.ndim > 2:
        raise RuntimeError(
            f"corrcoef(): expected input to have two or fewer dimensions but got an input with "
            f"{input.ndim} dimensions"
        )
    found = cov(input)
    if not found.ndim:
        return found / found
    spread = found.diagonal().sqrt()
    found = found / spread.unsqueeze(1) / spread.unsqueeze(0)
    if found.dtype.is_complex:
        return COMPLEX(found.real.clamp(-1, 1), found.imag.clamp(-1, 1))
    return found.clamp(-1, 1)
