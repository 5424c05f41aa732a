"""LDL^T factorisations of symmetric matrices, which need not be definite.

Bunch's and Kaufman's pivoting: D has blocks of one or two, chosen so that L stays small. The
packed form is LAPACK's: L below the diagonal, D on it (and beside it for blocks of two); a
pivot is the row exchanged with, counted from 1, and negative for both rows of a block of two.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops import return_types
from rushlight.ops.linear_algebra import Array, check_matrix, check_square, raise_if_failed
from rushlight.ops.registry import Op, TensorType, public

_GROWTH = (1 + math.sqrt(17)) / 8  # the bound on growth is least when blocks are chosen by it


def _pivot(a: Array, i: int) -> tuple[int, int]:
    """The row to exchange at column i, and the size of the block."""
    below = np.abs(a[i + 1 :, i])
    if not below.size:
        return i, 1
    largest, r = below.max(), i + 1 + int(below.argmax())
    own = abs(a[i, i])
    if max(own, largest) == 0 or own >= _GROWTH * largest:
        return i, 1
    beside = max(np.abs(a[r, i:r]).max(), np.abs(a[r + 1 :, r]).max(initial=0))
    if own >= _GROWTH * largest * (largest / beside):
        return i, 1
    return r, 1 if abs(a[r, r]) >= _GROWTH * beside else 2


def _exchange(a: Array, i: int, j: int, column: int) -> None:
    """Rows and columns i < j of the lower triangle; `column` is the first of the block."""
    a[j + 1 :, [i, j]] = a[j + 1 :, [j, i]]
    a[i + 1 : j, i], a[j, i + 1 : j] = a[j, i + 1 : j].copy(), a[i + 1 : j, i].copy()
    a[[i, j], [i, j]] = a[[j, i], [j, i]]
    if column < i:
        a[[i, j], column] = a[[j, i], column]


def _divided(rows: Array, block: Array) -> Array:
    """The block of D (its lower triangle) inverted, times rows: infinite where it is zero."""
    if len(block) == 1:
        return rows / block
    beside = block[1, 0]
    a, b = block[0, 0] / beside, block[1, 1] / beside
    scale = 1 / (a * b - 1) / beside
    return np.stack([b * rows[0] - rows[1], a * rows[1] - rows[0]]) * scale


def _eliminate(a: Array, i: int, width: int) -> None:
    rest = a[i + width :, i : i + width]
    scaled = _divided(rest.T, a[i : i + width, i : i + width]).T
    a[i + width :, i + width :] -= np.tril(scaled @ rest.T)
    a[i + width :, i : i + width] = scaled


def _factor_one(a: Array) -> tuple[Array, Array, int]:
    a, info = np.tril(a), 0
    pivots = np.arange(1, len(a) + 1, dtype=np.int32)
    i = 0
    while i < len(a):
        row, width = _pivot(a, i)
        last = i + width - 1
        if row != last:
            _exchange(a, last, row, i)
        pivots[i : i + width] = row + 1 if width == 1 else -(row + 1)
        if width == 1 and a[i, i] == 0:
            info = info or i + 1
        else:
            _eliminate(a, i, width)
        i += width
    return a, pivots, info


def _factors(a: Array) -> tuple[Array, Array, Array]:
    batch, n = a.shape[:-2], a.shape[-1]
    made, pivots = np.empty_like(a), np.empty((*batch, n), np.int32)
    info = np.empty(batch, np.int32)
    for at in np.ndindex(*batch):
        made[at], pivots[at], info[at] = _factor_one(a[at])
    return made, pivots, info


def _blocks(pivots: Array) -> list[tuple[int, int]]:
    """Where blocks begin, and how wide they are."""
    found, i = [], 0
    while i < len(pivots):
        width = 1 if pivots[i] > 0 else 2
        found.append((i, width))
        i += width
    return found


def _solve_one(packed: Array, pivots: Array, b: Array) -> Array:
    x = np.array(b)
    blocks = _blocks(pivots)
    for i, width in blocks:
        last, row = i + width - 1, abs(int(pivots[i])) - 1
        x[[last, row]] = x[[row, last]]
        x[i + width :] -= packed[i + width :, i : i + width] @ x[i : i + width]
        x[i : i + width] = _divided(x[i : i + width], packed[i : i + width, i : i + width])
    for i, width in reversed(blocks):
        last, row = i + width - 1, abs(int(pivots[i])) - 1
        x[i : i + width] -= packed[i + width :, i : i + width].T @ x[i + width :]
        x[[last, row]] = x[[row, last]]
    return x


def _solutions(packed: Array, pivots: Array, b: Array) -> Array:
    out = np.empty_like(b)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*b.shape[:-2]):
            out[at] = _solve_one(packed[at], pivots[at], b[at])
    return out


def ldl_type(a: TensorType) -> tuple[TensorType, TensorType, TensorType]:
    batch = a.shape[:-2]
    return a, TensorType((*batch, a.shape[-1]), dt.int32), TensorType(batch, dt.int32)


def ldl_lower(k: Any, a: Any) -> tuple[Any, ...]:
    types = ldl_type(TensorType(a.shape, a.dtype))
    return tuple(k.host(_factors, tuple((t.shape, t.dtype) for t in types), a))


LDL = Op("linalg.ldl_factor_ex", type=ldl_type, lower=ldl_lower, vjp=None)
LDL_SOLVE = Op(
    "linalg.ldl_solve",
    type=lambda packed, pivots, b: b,
    lower=lambda k, packed, pivots, b: k.host(
        _solutions, ((b.shape, b.dtype),), packed, pivots, b
    )[0],
    vjp=None,
)


@public("linalg", out=True)
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """L and D of A = L D L^T in one matrix, the pivots, and the first pivot of zero (or 0)."""
    op = "linalg.ldl_factor_ex"
    check_matrix(op, A)
    check_square(op, A)
    packed, pivots, info = LDL(A)
    if check_errors:
        raise_if_failed(info, f"{op}: D has a zero on its diagonal, so A is singular")
    return return_types.ldl_factor_ex_result(packed, pivots, info)


@public("linalg", out=True)
def ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """L and D of A = L D L^T in one matrix, and the pivots; RuntimeError if A is singular."""
    packed, pivots, _ = ldl_factor_ex(A, hermitian=hermitian, check_errors=True)
    return return_types.ldl_factor_result(packed, pivots)


@public("linalg", out=True)
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """X of A X = B from the results of `ldl_factor`."""
    op = "linalg.ldl_solve"
    check_square(op, LD)
    check_matrix(op, B, "B")
    if B.dtype is not LD.dtype:
        raise errors.mixed_dtypes(op, B.dtype, LD.dtype)
    if not pivots.dtype.is_integral or pivots.dtype is dt.bool_:
        raise RuntimeError(f"{op}: Expected pivots to be integers. Got {pivots.dtype!r}")
    if pivots._shape != LD._shape[:-1]:
        raise RuntimeError(
            f"{op}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots "
            f"with shape {errors.shape_text(pivots._shape)}"
        )
    if B._shape[-2] != LD._shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {op}: LD {errors.shape_text(LD._shape)} and B "
            f"{errors.shape_text(B._shape)}"
        )
    batch = views.broadcast_shapes(op, LD._shape[:-2], B._shape[:-2])
    packed = LD.expand(*batch, *LD._shape[-2:])
    return LDL_SOLVE(packed, pivots.expand(*batch, -1), B.expand(*batch, *B._shape[-2:]))
