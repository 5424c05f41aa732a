"""LDL^T factorisations of symmetric matrices (LDL^H of Hermitian ones), which need not be
definite.

Bunch's and Kaufman's pivoting: D has blocks of one or two, chosen so that L stays small. The
packed form is LAPACK's: L below the diagonal, D on it (and beside it for blocks of two); a
pivot is the row exchanged with, counted from 1, and negative for both rows of a block of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ir.host import takes_batches
from rushlight.ops import return_types
from rushlight.ops.elimination import sizes_of
from rushlight.ops.linear_algebra import (
    Array,
    check_matrix,
    check_square,
    raise_if_failed,
)
from rushlight.ops.registry import Op, TensorType, public

Turn = Callable[[Array], Array]
"""What an element is on the other side of the diagonal: the same, or the conjugate."""
_GROWTH = (1 + math.sqrt(17)) / 8  # the bound on growth is least when blocks are chosen by it


def _pivot(a: Array, i: int) -> tuple[int, int]:
    """The row to exchange at column i, and the size of the block."""
    below = sizes_of(a[i + 1 :, i])
    if not below.size:
        return i, 1
    largest, r = below.max(), i + 1 + int(below.argmax())
    own = sizes_of(a[i, i])
    if max(own, largest) == 0 or own >= _GROWTH * largest:
        return i, 1
    beside = max(sizes_of(a[r, i:r]).max(), sizes_of(a[r + 1 :, r]).max(initial=0))
    if own >= _GROWTH * largest * (largest / beside):
        return i, 1
    return r, 1 if sizes_of(a[r, r]) >= _GROWTH * beside else 2


def _exchange(a: Array, i: int, j: int, column: int, turn: Turn) -> None:
    """Rows and columns i < j of the lower triangle; `column` is the first of the block."""
    a[j + 1 :, [i, j]] = a[j + 1 :, [j, i]]
    a[i + 1 : j, i], a[j, i + 1 : j] = turn(a[j, i + 1 : j]), turn(a[i + 1 : j, i])
    a[j, i] = turn(a[j, i])
    a[[i, j], [i, j]] = a[[j, i], [j, i]]
    if column < i:
        a[[i, j], column] = a[[j, i], column]


def _divided(rows: Array, block: Array, turn: Turn) -> Array:
    """The block of D (its lower triangle) inverted, times rows: infinite where it is zero."""
    if len(block) == 1:
        return rows / block
    below = block[1, 0]
    above = turn(below)
    a, b = block[0, 0] / above, block[1, 1] / below
    first, second = rows[0] / above, rows[1] / below
    return np.stack([b * first - second, a * second - first]) / (a * b - 1)


def _eliminate(a: Array, i: int, width: int, turn: Turn) -> None:
    rest = a[i + width :, i : i + width]
    turned = turn(rest).T
    scaled = turn(_divided(turned, a[i : i + width, i : i + width], turn)).T
    a[i + width :, i + width :] -= np.tril(scaled @ turned)
    a[i + width :, i : i + width] = scaled


def _factor_one(a: Array, turn: Turn) -> tuple[Array, Array, int]:
    a, info = np.tril(a), 0
    if turn is np.conj:
        np.fill_diagonal(a, a.diagonal().real)
    pivots = np.arange(1, len(a) + 1, dtype=np.int32)
    i = 0
    while i < len(a):
        row, width = _pivot(a, i)
        last = i + width - 1
        if row != last:
            _exchange(a, last, row, i, turn)
        pivots[i : i + width] = row + 1 if width == 1 else -(row + 1)
        if width == 1 and a[i, i] == 0:
            info = info or i + 1
        else:
            _eliminate(a, i, width, turn)
        i += width
    return a, pivots, info


@takes_batches
def _factors(a: Array, turn: Turn) -> tuple[Array, Array, Array]:
    batch, n = a.shape[:-2], a.shape[-1]
    made, pivots = np.empty_like(a), np.empty((*batch, n), np.int32)
    info = np.empty(batch, np.int32)
    for at in np.ndindex(*batch):
        made[at], pivots[at], info[at] = _factor_one(a[at], turn)
    return made, pivots, info


def _blocks(pivots: Array) -> list[tuple[int, int]]:
    """Where blocks begin, and how wide they are."""
    found, i = [], 0
    while i < len(pivots):
        width = 1 if pivots[i] > 0 else 2
        found.append((i, width))
        i += width
    return found


def _solve_one(packed: Array, pivots: Array, b: Array, turn: Turn) -> Array:
    x = np.array(b)
    blocks = _blocks(pivots)
    if not np.isin(np.abs(pivots), range(1, len(x) + 1)).all() or blocks[-1:] == [
        (len(x) - 1, 2)
    ]:
        raise RuntimeError(
            f"linalg.ldl_solve: pivots {pivots.tolist()} are none of a matrix of {len(x)} rows"
        )
    for i, width in blocks:
        last, row = i + width - 1, abs(int(pivots[i])) - 1
        x[[last, row]] = x[[row, last]]
        x[i + width :] -= packed[i + width :, i : i + width] @ x[i : i + width]
        x[i : i + width] = _divided(
            x[i : i + width], packed[i : i + width, i : i + width], turn
        )
    for i, width in reversed(blocks):
        last, row = i + width - 1, abs(int(pivots[i])) - 1
        x[i : i + width] -= turn(packed[i + width :, i : i + width]).T @ x[i + width :]
        x[[last, row]] = x[[row, last]]
    return x


@takes_batches
def _solutions(packed: Array, pivots: Array, b: Array, turn: Turn) -> Array:
    out = np.empty_like(b)
    with np.errstate(all="ignore"):
        for at in np.ndindex(*b.shape[:-2]):
            out[at] = _solve_one(packed[at], pivots[at], b[at], turn)
    return out


def _turn(a: Any, hermitian: bool) -> Turn:
    return np.conj if hermitian and a.dtype.is_complex else np.array


def ldl_type(a: TensorType, turn: Turn) -> tuple[TensorType, TensorType, TensorType]:
    batch = a.shape[:-2]
    return a, TensorType((*batch, a.shape[-1]), dt.int32), TensorType(batch, dt.int32)


def ldl_lower(k: Any, a: Any, turn: Turn) -> tuple[Any, ...]:
    types = ldl_type(TensorType(a.shape, a.dtype), turn)
    return tuple(k.host(_factors, tuple((t.shape, t.dtype) for t in types), a, turn=turn))


LDL = Op("linalg.ldl_factor_ex", attrs=("turn",), type=ldl_type, lower=ldl_lower, vjp=None)
LDL_SOLVE = Op(
    "linalg.ldl_solve",
    attrs=("turn",),
    type=lambda packed, pivots, b, turn: b,
    lower=lambda k, packed, pivots, b, turn: k.host(
        _solutions, ((b.shape, b.dtype),), packed, pivots, b, turn=turn
    )[0],
    vjp=None,
)


@public("linalg", out=True)
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """L and D of A = L D L^T (L D L^H if `hermitian`) in one matrix, the pivots, and the first
    pivot of zero (or 0).

    >>> torch.linalg.ldl_factor_ex(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    torch.return_types.linalg_ldl_factor_ex(
    LD=tensor([[2.0000, 0.0000],
            [0.5000, 1.5000]]),
    pivots=tensor([1, 2], dtype=torch.int32),
    info=tensor(0, dtype=torch.int32))
    """
    op = "linalg.ldl_factor_ex"
    check_matrix(op, A)
    check_square(op, A)
    packed, pivots, info = LDL(A, turn=_turn(A, hermitian))
    if check_errors:
        _check_pivots(op, info)
    return return_types.ldl_factor_ex_result(packed, pivots, info)


def _check_pivots(op: str, info: Any) -> None:
    raise_if_failed(op, info, "D[{info},{info}] is zero, so A is singular")


@public("linalg", out=True)
def ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """L and D of A = L D L^T in one matrix, and the pivots; RuntimeError if A is singular.

    >>> torch.linalg.ldl_factor(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    torch.return_types.linalg_ldl_factor(
    LD=tensor([[2.0000, 0.0000],
            [0.5000, 1.5000]]),
    pivots=tensor([1, 2], dtype=torch.int32))
    """
    packed, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    _check_pivots("linalg.ldl_factor", info)
    return return_types.ldl_factor_result(packed, pivots)


@public("linalg", out=True)
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """X of A X = B from the results of `ldl_factor`.

    >>> LD = torch.linalg.ldl_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    >>> torch.linalg.ldl_solve(*LD, torch.tensor([[2.0], [8.0]]))
    tensor([[1.],
            [2.]])
    """
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
    columns = B.expand(*batch, *B._shape[-2:])
    return LDL_SOLVE(packed, pivots.expand(*batch, -1), columns, turn=_turn(LD, hermitian))
