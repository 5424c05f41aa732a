"""Linear equations, inverses and determinants, by LAPACK through NumPy between kernels."""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.ir.host import takes_batches
from rushlight.ops.complex_parts import COMPLEX
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import WHERE, conjugate, scaled
from rushlight.ops.elimination import first_zero_pivot, substituted
from rushlight.ops.linear_algebra import (
    SVD_OP,
    SVDVALS,
    Array,
    as_hermitian,
    attempted,
    check_matrix,
    check_square,
    raise_if_failed,
)
from rushlight.ops.ranges import EYE
from rushlight.ops.rearrange import constant_pad_nd
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import (
    inv_ex_result,
    slogdet_result,
    solve_ex_result,
    triangular_solve_result,
)

SINGULAR = "because the input matrix is singular"


# -- general matrices


def _flagged(
    function: Any, shape: Any, k: Any, *operands: Any, **attrs: Any
) -> tuple[Any, ...]:
    batch = operands[0].shape[:-2]
    outputs = ((shape, operands[0].dtype), (batch, dt.int32))
    return tuple(k.host(function, outputs, *operands, **attrs))


@takes_batches
def _inverses(a: Array) -> tuple[Array, Array]:
    return attempted(np.linalg.inv, a, flag=first_zero_pivot)


@takes_batches
def _solutions(a: Array, b: Array, turned: bool) -> tuple[Array, Array]:
    def flag(matrix: Array) -> int:
        return first_zero_pivot(matrix.T if turned else matrix)

    return attempted(np.linalg.solve, a, b, flag=flag)


def _inv_vjp(g: Any, out: Any, a: Any) -> Any:
    return -(out[0].mH @ g[0] @ out[0].mH)


def _solve_vjp(g: Any, out: Any, a: Any, b: Any, turned: bool) -> Any:
    g_b = SOLVE(a.mH, g[0], turned=False)[0]
    return -(g_b @ out[0].mH), g_b


INV = Op(  # inverses, and which there are not
    "linalg.inv",
    type=lambda a: (a, TensorType(a.shape[:-2], dt.int32)),
    lower=lambda k, a: _flagged(_inverses, a.shape, k, a),
    vjp=_inv_vjp,
)
SOLVE = Op(  # X of A X = B over equal batches; pivots are those of A, transposed if `turned`
    "linalg.solve",
    attrs=("turned",),
    type=lambda a, b, turned: (b, TensorType(a.shape[:-2], dt.int32)),
    lower=lambda k, a, b, turned: _flagged(_solutions, b.shape, k, a, b, turned=turned),
    vjp=_solve_vjp,
)


@public("linalg", out=True)
def inv_ex(A: Any, *, check_errors: bool = False) -> Any:
    """Inverses, and for each matrix that has none (NaN then) the first pivot that is zero, from
    1; 0 for the others.

    >>> torch.linalg.inv_ex(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    torch.return_types.linalg_inv_ex(
    inverse=tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]]),
    info=tensor(0, dtype=torch.int32))
    """
    check_square("linalg.inv_ex", A)
    made, info = INV(A)
    if check_errors:
        _check_inverse("linalg.inv_ex", info)
    return inv_ex_result(made, info)


@public("linalg", out=True)
def inv(A: Any) -> Any:
    """Inverses of (batches of) square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check_square("linalg.inv", A)
    made, info = inv_ex(A)
    _check_inverse("linalg.inv", info)
    return made


def _check_inverse(op: str, info: Any) -> None:
    reason = f"is zero, the inversion could not be completed {SINGULAR}."
    raise_if_failed(op, info, f"The diagonal element {{info}} {reason}")


@public("torch", "Tensor", name="inverse", out=True)
def _inverse(input: Any) -> Any:
    """Inverses of (batches of) square matrices.

    >>> torch.inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return inv(input)


def matched(op: str, a: Any, b: Any, left: bool) -> tuple[Any, Any]:
    """Both over their common batches."""
    rows = b.shape[-2] if left else b.shape[-1]
    if rows != a.shape[-1]:
        equation = "AX = B" if left else "XA = B"
        raise RuntimeError(
            f"{op}: Incompatible shapes of A and B for the equation {equation} "
            f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-2]}x{b.shape[-1]})"
        )
    batch = views.broadcast_shapes(op, a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


def _check_pair(op: str, a: Any, b: Any) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"{op}: Expected A and B to have the same dtype, but found A of type {a.dtype!r} "
            f"and B of type {b.dtype!r} instead"
        )


@public("linalg", out=True)
def solve_ex(A: Any, B: Any, *, left: bool = True, check_errors: bool = False) -> Any:
    """`solve`, and for each matrix that is singular (X is NaN then) the first pivot that is
    zero, from 1; 0 for the others.

    >>> A = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    >>> torch.linalg.solve_ex(A, torch.tensor([[2.0], [8.0]]))
    torch.return_types.linalg_solve_ex(
    result=tensor([[1.],
            [2.]]),
    info=tensor(0, dtype=torch.int32))
    """
    check_square("linalg.solve", A)
    _check_pair("linalg.solve", A, B)
    is_vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    b = B.unsqueeze(-1) if is_vector else B
    if b.ndim < 2:
        check_matrix("linalg.solve", b, "B")
    a, b = matched("linalg.solve", A, b, left or is_vector)
    if left or is_vector:
        made, info = SOLVE(a, b, turned=False)
    else:
        made, info = SOLVE(a.mT, b.mT, turned=True)
        made = made.mT
    if check_errors:
        _check_solved("linalg.solve_ex", info)
    return solve_ex_result(made.squeeze(-1) if is_vector else made, info)


@public("linalg", out=True)
def solve(A: Any, B: Any, *, left: bool = True) -> Any:
    """X of A X = B (of X A = B if not `left`); B may be a vector, or a batch of vectors.

    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [1.0, 4.0]]), torch.tensor([2.0, 9.0]))
    tensor([1., 2.])
    """
    made, info = solve_ex(A, B, left=left)
    _check_solved("linalg.solve", info)
    return made


def _check_solved(op: str, info: Any) -> None:
    raise_if_failed(op, info, f"The solver failed {SINGULAR}.")


# -- triangular matrices


_triangular_solutions = takes_batches(substituted)


def _triangular_vjp(g: Any, out: Any, a: Any, b: Any, upper: bool, unit: bool) -> Any:
    g_b = SOLVE_TRIANGULAR(a.mH, g, upper=not upper, unit=unit)
    g_a = -(g_b @ out.mH)
    return g_a.triu(int(unit)) if upper else g_a.tril(-int(unit)), g_b


SOLVE_TRIANGULAR = Op(
    "linalg.solve_triangular",
    attrs=("upper", "unit"),
    type=lambda a, b, upper, unit: b,
    lower=lambda k, a, b, upper, unit: k.host(
        _triangular_solutions, ((b.shape, b.dtype),), a, b, upper=upper, unit=unit
    )[0],
    vjp=_triangular_vjp,
)


@public("linalg", out=True)
def solve_triangular(
    A: Any, B: Any, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    """X of A X = B (of X A = B if not `left`), reading one triangle of A; with `unitriangular`
    its diagonal is taken to be ones.

    >>> A = torch.tensor([[2.0, 0.0], [1.0, 4.0]])
    >>> torch.linalg.solve_triangular(A, torch.tensor([[2.0], [9.0]]), upper=False)
    tensor([[1.],
            [2.]])
    """
    check_square("linalg.solve_triangular", A)
    check_matrix("linalg.solve_triangular", B, "B")
    _check_pair("linalg.solve_triangular", A, B)
    a, b = matched("linalg.solve_triangular", A, B, left)
    if left:
        return SOLVE_TRIANGULAR(a, b, upper=bool(upper), unit=bool(unitriangular))
    return SOLVE_TRIANGULAR(a.mT, b.mT, upper=not upper, unit=bool(unitriangular)).mT


@public("torch", "Tensor", out=True)
def cholesky_solve(B: Any, L: Any, upper: bool = False) -> Any:
    """X of A X = B from the Cholesky factor L of A.

    >>> L = torch.tensor([[2.0, 0.0], [0.0, 2.0]])
    >>> torch.cholesky_solve(torch.tensor([[4.0], [8.0]]), L)
    tensor([[1.],
            [2.]])
    """
    check_square("cholesky_solve", L)
    check_matrix("cholesky_solve", B, "B")
    root = L.mH if upper else L
    half = solve_triangular(root, B, upper=False)
    return solve_triangular(root.mH, half, upper=True)


@public("torch", "Tensor", out=True)
def cholesky_inverse(L: Any, upper: bool = False) -> Any:
    """The inverse of A from its Cholesky factor.

    >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
    tensor([[ 0.5000, -0.5000],
            [-0.5000,  1.0000]])
    """
    check_square("cholesky_inverse", L)
    if L.numel() and not L.is_meta:
        is_zero = L.diagonal(0, -2, -1) == 0
        first = WHERE(is_zero.any(-1), 1 + is_zero.to(dt.int64).argmax(-1), 0)
        _check_inverse("cholesky_inverse", first)
    return cholesky_solve(EYE(n=L.shape[-1], m=L.shape[-1], dtype=L.dtype), L, upper)


@public("torch", "Tensor", out=True)
def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """X of A X = b (of A^T X = b with `transpose`) reading one triangle of A, and A.

    >>> A = torch.tensor([[2.0, 0.0], [0.0, 4.0]])
    >>> torch.triangular_solve(torch.tensor([[4.0], [8.0]]), A).solution
    tensor([[2.],
            [2.]])
    """
    check_square("triangular_solve", A)
    check_matrix("triangular_solve", b, "b")
    a = A.mT if transpose else A
    found = solve_triangular(a, b, upper=upper != transpose, unitriangular=unitriangular)
    repeated = A.expand(*found.shape[:-2], *A.shape[-2:]).clone()
    return triangular_solve_result(found, unrelated(repeated, b))


# -- determinants


@takes_batches
def _conjugate_cofactors(a: Array) -> tuple[Array]:
    u, s, vh = np.linalg.svd(a)
    size = s.shape[-1]
    others = np.where(np.eye(size, dtype=bool), 1, s[..., None, :]).prod(-1)
    return ((u * (others * _orientation(u @ vh))[..., None, :]) @ vh,)


def _orientation(turn: Array) -> Array:
    """The conjugate determinant of a unitary matrix, for each column of one."""
    found = np.linalg.det(turn)
    return (found.conj() if np.iscomplexobj(found) else found.round())[..., None]


def _cofactor_slope(a: Any, direction: Any) -> Any:
    """How the cofactors change in a direction; also how a cotangent of theirs is pulled back,
    since they are a gradient.

    In the basis of the singular vectors the matrix is diagonal: there the cofactor at i, j is
    minus the change at j, i times all but two of the singular values, and on the diagonal a sum
    of such products. Nothing is divided by differences of singular values.
    """
    u, s, vh = SVD_OP(a, full=False)
    size = s.shape[-1]
    change = (u.mH @ direction @ vh.mH).mH
    products = _all_but_two(s)
    is_own = EYE(n=size, m=size, dtype=dt.bool_)
    own = change.diagonal(0, -2, -1).unsqueeze(-2)
    sums = (own * products).sum(-1).unsqueeze(-1)
    turned = WHERE(is_own, sums, -change * products)
    turn = u @ vh
    sign = conjugate(DET(turn)) if a.dtype.is_complex else DET(turn.detach()).round()
    return sign.unsqueeze(-1).unsqueeze(-1) * (u @ turned @ vh)


def _all_but_two(s: Any) -> Any:
    """The products of all elements but those at i and j, in row i and column j; zeros on the
    diagonal.
    """
    size = s.shape[-1]
    is_own = EYE(n=size, m=size, dtype=dt.bool_)
    rows = WHERE(is_own, 1, s.unsqueeze(-2).expand(*s.shape, size))
    before = _earlier(rows)
    after = _earlier(rows.flip(-1)).flip(-1)
    return WHERE(is_own, 0, before * after)


def _earlier(rows: Any) -> Any:
    """For each element of a row the product of those before it."""
    shifted = constant_pad_nd(rows[..., :-1], (1, 0), 1)
    return shifted.cumprod(-1)


COFACTORS = Op(  # conjugates of theirs: the derivative of the determinant, of any matrix
    "linalg.cofactors",
    type=lambda a: a,
    lower=lambda k, a: k.host(_conjugate_cofactors, ((a.shape, a.dtype),), a)[0],
    vjp=lambda g, out, a: _cofactor_slope(a, g),
    jvp=lambda tangents, out, a: _cofactor_slope(a, tangents[0]),
)
_determinants = takes_batches(np.linalg.det)
DET = Op(
    "linalg.det",
    type=lambda a: TensorType(a.shape[:-2], a.dtype),
    lower=lambda k, a: k.host(_determinants, ((a.shape[:-2], a.dtype),), a)[0],
    vjp=lambda g, out, a: g.unsqueeze(-1).unsqueeze(-1) * COFACTORS(a),
)


@takes_batches
def _log_determinants(a: Array) -> tuple[Array, Array]:
    sign, size = np.linalg.slogdet(a)
    return sign, size


def slogdet_type(a: TensorType) -> tuple[TensorType, TensorType]:
    batch = a.shape[:-2]
    return TensorType(batch, a.dtype), TensorType(batch, a.dtype.to_real())


def _slogdet_lower(k: Any, a: Any) -> tuple[Any, ...]:
    types = slogdet_type(TensorType(a.shape, a.dtype))
    return tuple(k.host(_log_determinants, tuple((t.shape, t.dtype) for t in types), a))


def _slogdet_vjp(g: Any, out: Any, a: Any) -> Any:
    """The logarithm of the determinant is that of its size and i times its angle."""
    slope = g[1]
    if a.dtype.is_complex:
        slope = COMPLEX(slope, scaled(g[0], out[0]).imag)
    return slope.unsqueeze(-1).unsqueeze(-1) * INV(a)[0].mH


SLOGDET = Op(
    "linalg.slogdet",
    type=slogdet_type,
    lower=_slogdet_lower,
    vjp=_slogdet_vjp,
)


@public("linalg", out=True)
def det(A: Any) -> Any:
    """Determinants of (batches of) square matrices.

    >>> torch.linalg.det(torch.tensor([[2.0, 1.0], [1.0, 3.0]]))
    tensor(5.)
    """
    check_square("linalg.det", A)
    return DET(A)


@public("torch", "Tensor", name="det")
def _det(input: Any) -> Any:
    """Determinants of (batches of) square matrices."""
    return det(input)


@public("linalg", out=True)
def slogdet(A: Any) -> Any:
    """Signs of determinants, and logarithms of their sizes.

    >>> torch.linalg.slogdet(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    torch.return_types.linalg_slogdet(
    sign=tensor(-1.),
    logabsdet=tensor(0.))
    """
    check_square("linalg.slogdet", A)
    sign, size = SLOGDET(A)
    return slogdet_result(sign, size)


@public("torch", "Tensor", name="slogdet", out=True)
def _slogdet(input: Any) -> Any:
    """Signs of determinants, and logarithms of their sizes."""
    return slogdet(input)


@public("torch", "Tensor")
def logdet(input: Any) -> Any:
    """The logarithm of the determinant; NaN where that is real and negative.

    >>> torch.logdet(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    tensor(0.)
    """
    check_square("logdet", input)
    sign, size = SLOGDET(input)
    if input.dtype.is_complex:
        return sign.log() + size
    return WHERE(sign < 0, np.nan, size)


# -- pseudoinverses


@takes_batches
def _pseudoinverses(a: Array, cut: Array) -> Array:
    if 0 in a.shape:
        return np.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype)
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    is_kept = s > cut.reshape(*s.shape[:-1], 1)
    inverse = np.divide(1, s, out=np.zeros_like(s), where=is_kept)
    return np.swapaxes(vh.conj(), -1, -2) @ (inverse[..., None] * np.swapaxes(u.conj(), -1, -2))


def _pinv_vjp(g: Any, out: Any, a: Any, cut: Any) -> Any:
    """Golub and Pereyra (1973): needs no singular vectors, so equal values do no harm."""
    p, g_t = out, g.mH
    if a.shape[-2] <= a.shape[-1]:
        inner = g_t @ p
        turned = inner @ p.mH
        made = turned - (p @ inner).mH - (a @ p) @ turned + (p.mH @ p) @ (g_t - inner @ a)
        return made, None
    inner = p @ g_t
    turned = p.mH @ inner
    made = turned - (inner @ p).mH + (g_t - a @ inner) @ (p @ p.mH) - turned @ (p @ a)
    return made, None


PINV = Op(  # singular values of A up to `cut` count as zero
    "linalg.pinv",
    type=lambda a, cut: TensorType((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
    lower=lambda k, a, cut: k.host(
        _pseudoinverses, (((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),), a, cut
    )[0],
    vjp=_pinv_vjp,
)


def cut_of(values: Any, shape: Any, atol: Any, rtol: Any) -> Any:
    """The largest singular value that counts as zero: max(atol, rtol * the largest)."""
    if rtol is None:
        is_given = atol is not None and (hasattr(atol, "_storage") or atol > 0)
        rtol = 0.0 if is_given else 2.0**-values.dtype.mantissa * max(shape[-2:])
    largest = values.amax(-1) if values.shape[-1] else values.sum(-1)
    relative = (largest * rtol).to(values.dtype)
    least = values.new_zeros(()) + (0.0 if atol is None else atol)
    cut = relative.maximum(least.to(values.dtype))
    return cut.expand(views.broadcast_shapes("tolerances", cut.shape, values.shape[:-1]))


@public("linalg", out=True)
def pinv(
    A: Any, rcond: Any = None, *, atol: Any = None, rtol: Any = None, hermitian: bool = False
) -> Any:
    """Pseudoinverses (Moore-Penrose); singular values up to max(atol, rtol * the largest) count
    as zero. Tolerances broadcast with the batch of matrices.

    >>> torch.linalg.pinv(torch.tensor([[1.0, 1.0]]))
    tensor([[0.5000],
            [0.5000]])
    """
    check_matrix("linalg.pinv", A)
    a = as_hermitian(A) if hermitian else A
    rtol = rcond if rtol is None else rtol
    if not A.numel():  # nothing is compared with a tolerance, of whatever shape
        atol = rtol = None
    cut = cut_of(SVDVALS(a.detach()), a.shape, atol, rtol)
    return PINV(a.expand(*cut.shape, *a.shape[-2:]), cut.detach())


@public("torch", "Tensor")
def pinverse(input: Any, rcond: float = 1e-15) -> Any:
    """Pseudoinverses (Moore-Penrose).

    >>> torch.pinverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return pinv(input, rtol=rcond)
