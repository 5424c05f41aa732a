"""Elimination in NumPy, for what its LAPACK does not tell: LU factors, which pivot of a
singular matrix is zero, and what solves triangles.
"""

from __future__ import annotations

from typing import Any  # arrays

import numpy as np

Array = Any
_BLOCK = 32  # rows that are solved one by one before all others are told of them


def sizes_of(x: Array) -> Array:
    """What pivots are compared by: LAPACK adds the parts of complex numbers."""
    return np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)


def factors(a: Array) -> tuple[Array, Array, Array]:
    """L and U in one matrix, exchanges from 1, and the first zero pivot from 1 (0 for none): a
    Python loop over columns, NumPy over batches and rows.
    """
    *batch, m, n = a.shape
    made = np.array(a).reshape(int(np.prod(batch)), m, n)
    count, k = len(made), min(m, n)
    pivots, info = np.zeros((count, k), np.int32), np.zeros(count, np.int32)
    every = np.arange(count)
    for i in range(k if count else 0):
        best = i + sizes_of(made[:, i:, i]).argmax(1)
        pivots[:, i] = best + 1
        made[every, i], made[every, best] = made[every, best], made[every, i]
        pivot = made[:, i, i]
        info[(pivot == 0) & (info == 0)] = i + 1
        below = made[:, i + 1 :, i]
        below /= np.where(pivot == 0, 1, pivot)[:, None]
        made[:, i + 1 :, i + 1 :] -= below[:, :, None] * made[:, i, None, i + 1 :]
    return made.reshape(a.shape), pivots.reshape(*batch, k), info.reshape(batch)


def first_zero_pivot(a: Array) -> int:
    """The first pivot of a singular matrix that is zero, from 1. Where LAPACK's is, and ours
    is not for another order of rounding, the one that is nearest to zero.
    """
    packed, _, info = factors(a)
    return int(info) or 1 + int(sizes_of(np.diagonal(packed)).argmin())


def substituted(a: Array, b: Array, upper: bool, unit: bool) -> Array:
    """X of A X = B for one triangle of A: what a zero on its diagonal divides, and what needs
    that, is infinite or NaN.
    """
    if upper:
        turned = np.ascontiguousarray(a[..., ::-1, ::-1]), b[..., ::-1, :]
        return substituted(*turned, upper=False, unit=unit)[..., ::-1, :]
    x, size = b.copy(), a.shape[-1]
    with np.errstate(all="ignore"):
        for first in range(0, size, _BLOCK):
            last = min(first + _BLOCK, size)
            for i in range(first, last):
                row = x[..., i : i + 1, :]
                row -= a[..., i : i + 1, first:i] @ x[..., first:i, :]
                if not unit:
                    row /= a[..., i : i + 1, i : i + 1]
            x[..., last:, :] -= a[..., last:, first:last] @ x[..., first:last, :]
    return x
