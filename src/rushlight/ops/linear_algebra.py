"""Matrix factorisations, by LAPACK through NumPy between kernels: QR, singular values,
eigenvalues, Cholesky.

Derivatives are written with tensor functions. A gradient by vectors that belong to equal
singular or eigenvalues is NaN, since those vectors are not functions of the matrix; it is zero
where nothing is asked of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ir.host import takes_batches
from rushlight.ops import batching
from rushlight.ops.complex_parts import resolve_conj
from rushlight.ops.elementwise import WHERE, masked, real_part, shared
from rushlight.ops.ranges import EYE
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import (
    QR,
    SVD,
    cholesky_ex_result,
    eigh_result,
    linalg_svd,
    qr_result,
)

Array = Any


# -- checks and host calls


def check_matrix(op: str, x: Any, name: str = "A") -> None:
    """Batches of matrices of a dtype that LAPACK knows."""
    if x.ndim < 2:
        raise RuntimeError(
            f"{op}: The input tensor {name} must have at least 2 dimensions, got shape "
            f"{list(x.shape)}"
        )
    if x.dtype.to_real() not in (dt.float32, dt.float64):
        raise errors.not_implemented_for(op, x.dtype, "float32 or float64, or complex")


def check_square(op: str, x: Any) -> None:
    check_matrix(op, x)
    if x.shape[-1] != x.shape[-2]:
        raise RuntimeError(
            f"{op}: A must be batches of square matrices, but they are {x.shape[-2]} by "
            f"{x.shape[-1]} matrices"
        )


def raise_if_failed(op: str, info: Any, message: str) -> None:
    """Read the flags of a host call: the first failure is raised on the user's line. In the
    message {info} stands for its flag.
    """
    if not info.numel() or info.is_meta:
        return
    flags = batching.whole(info)
    if not bool((flags != 0).any()):
        return
    numbers = flags._numbers().reshape(-1)
    at = int(numbers.nonzero()[0][0])
    element = f"(Batch element {at}): " if flags.ndim else ""
    raise errors.LinAlgError(f"{op}: {element}{message.format(info=numbers[at])}")


def attempted(
    function: Any, *arrays: Array, flag: Callable[[Array], int] = lambda _: 1
) -> tuple[Array, Array]:
    """The function on a whole batch, and 0 for each matrix; if that fails on each alone, with
    NaN and `flag` of the matrix for those that fail again.
    """
    batch = arrays[0].shape[:-2]
    try:
        return function(*arrays), np.zeros(batch, np.int32)
    except np.linalg.LinAlgError:
        info, made = np.zeros(batch, np.int32), np.full_like(arrays[-1], np.nan)
        for at in np.ndindex(*batch):
            try:
                made[at] = function(*(a[at] for a in arrays))
            except np.linalg.LinAlgError:
                info[at] = flag(arrays[0][at])
        return made, info


def _eye(x: Any) -> Any:
    return EYE(n=x.shape[-1], m=x.shape[-1], dtype=dt.bool_)


def over_gaps(wanted: Any, turn: Any, gap: Any) -> Any:
    """turn / gap off the diagonal, where `turn` is what two vectors turn into each other by.

    wanted: V^H times the gradient by V, of which `turn` is made: where both of its entries for
    a pair of vectors are zero, nothing is asked of the pair.
    """
    apart = WHERE(_eye(gap), 1, gap)
    is_open = (apart == 0) & ((wanted != 0) | (wanted.mT != 0))
    return masked(~_eye(gap), WHERE(is_open, math.nan, shared(turn, apart)))


def symmetric(a: Any) -> Any:
    """The symmetric (or Hermitian) matrix with this lower triangle."""
    below = a.tril(-1)
    return below + below.mH + real_part(a.diagonal(0, -2, -1)).diag_embed()


def as_hermitian(A: Any) -> Any:
    """A matrix as its values are found with `hermitian=True`: its lower triangle says them, and
    its gradient is Hermitian. One of no elements has none.
    """
    if not A.numel():
        return A
    check_square("linalg.eigh", A)
    change = A - A.detach()
    return symmetric(A.detach()) + (change + change.mH) / 2


# -- QR


@takes_batches
def _qr_host(a: Array, mode: Any) -> tuple[Array, Array]:
    q, r = np.linalg.qr(a, mode)
    return q, r


def _qr_type(a: TensorType, mode: str) -> tuple[TensorType, TensorType]:
    *batch, m, n = a.shape
    inner = m if mode == "complete" else min(m, n)
    return TensorType((*batch, m, inner), a.dtype), TensorType((*batch, inner, n), a.dtype)


def _qr_lower(k: Any, a: Any, mode: str) -> Any:
    q, r = _qr_type(TensorType(a.shape, a.dtype), mode)
    outputs = ((q.shape, q.dtype), (r.shape, r.dtype))
    return tuple(k.host(_qr_host, outputs, a, mode=mode))


def _qr_vjp(g: Any, out: Any, a: Any, mode: str) -> Any:
    """Of A = Q R; the columns past a square of A only see Q as a change of basis."""
    (q, r), (gq, gr) = out, g
    m, n = r.shape[-2:]
    if q.shape[-2] == q.shape[-1] and q.shape[-2] > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols"
        )
    rest = r[..., m:]
    if n > m:
        gq = gq + a[..., m:] @ gr[..., m:].mH
    inner = r[..., :m] @ gr[..., :m].mH - gq.mH @ q
    inner = symmetric(inner)
    from rushlight.ops.linear_solve import solve_triangular  # solving comes after factors

    own = solve_triangular(r[..., :m].mH, gq + q @ inner, upper=False, left=False)
    if not rest.shape[-1]:
        return own
    from rushlight.ops.joining import cat  # a later family

    return cat([own, q @ gr[..., m:]], -1)


QR_OP = Op("linalg.qr", attrs=("mode",), type=_qr_type, lower=_qr_lower, vjp=_qr_vjp)


@public("linalg", out=True)
def qr(A: Any, mode: str = "reduced") -> Any:
    """Q and R of the QR factorisation of (batches of) matrices.

    mode: 'reduced' (Q is m x min(m, n)), 'complete' (Q is m x m) or 'r' (Q is empty, and
    nothing is differentiated).

    >>> Q, R = torch.linalg.qr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    >>> Q @ R
    tensor([[1.0000, 2.0000],
            [3.0000, 4.0000]])
    """
    check_matrix("linalg.qr", A)
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), "
            f"'r', or 'complete'"
        )
    if mode == "r":
        return QR(A.new_zeros(0), QR_OP(A.detach(), mode="reduced")[1])
    return QR(*QR_OP(A, mode=mode))


@public("torch", "Tensor", name="qr", out=True)
def _qr(input: Any, some: bool = True) -> Any:
    """Q and R; `some` is the reduced form."""
    check_matrix("qr", input)
    return qr_result(*QR_OP(input, mode="reduced" if some else "complete"))


# -- singular values


@takes_batches
def _svd_host(a: Array, full: bool) -> tuple[Array, Array, Array]:
    *batch, m, n = a.shape
    if 0 in (m, n):
        u, vh = np.eye(m, m if full else 0), np.eye(n if full else 0, n)
        made = [np.broadcast_to(x, (*batch, *x.shape)).astype(a.dtype) for x in (u, vh)]
        return made[0], np.zeros((*batch, 0), a.real.dtype), made[1]
    u, s, vh = np.linalg.svd(a, full_matrices=full)
    return u, s, vh


def _svd_type(a: TensorType, full: bool) -> tuple[TensorType, TensorType, TensorType]:
    *batch, m, n = a.shape
    inner = min(m, n)
    return (
        TensorType((*batch, m, m if full else inner), a.dtype),
        TensorType((*batch, inner), a.dtype.to_real()),
        TensorType((*batch, n if full else inner, n), a.dtype),
    )


def _svd_lower(k: Any, a: Any, full: bool) -> Any:
    outputs = tuple((t.shape, t.dtype) for t in _svd_type(TensorType(a.shape, a.dtype), full))
    return tuple(k.host(_svd_host, outputs, a, full=full))


def _svd_vjp(g: Any, out: Any, a: Any, full: bool) -> Any:
    """Of A = U S Vh, where signs or phases (and order among equals) of U and V are free."""
    (u, s, vh), (gu, gs, gvh) = out, g
    inner = s.shape[-1]
    u, gu = u[..., :inner], gu[..., :inner]
    vh, gvh = vh[..., :inner, :], gvh[..., :inner, :]
    left, right = u.mH @ gu, vh @ gvh.mH
    gap = s.unsqueeze(-2).square() - s.unsqueeze(-1).square()
    turned = left - left.mH
    middle = over_gaps(left, turned, gap) * s.unsqueeze(-2)
    middle = middle + s.unsqueeze(-1) * over_gaps(right, right - right.mH, gap)
    if a.dtype.is_complex:  # both vectors of a value may turn, but only together
        middle = middle + shared(turned.diagonal(0, -2, -1), 2 * s).diag_embed()
    made = u @ (middle + gs.diag_embed()) @ vh
    if u.shape[-2] > inner:
        away = gu - u @ left
        made = made + shared(away, s.unsqueeze(-2)) @ vh
    if vh.shape[-1] > inner:
        away = gvh - right.mH @ vh
        made = made + u @ shared(away, s.unsqueeze(-1))
    return made


SVD_OP = Op("linalg.svd", attrs=("full",), type=_svd_type, lower=_svd_lower, vjp=_svd_vjp)


def _svdvals_vjp(g: Any, out: Any, a: Any) -> Any:
    u, _, vh = SVD_OP(a, full=False)
    return (u * g.unsqueeze(-2)) @ vh


SVDVALS = Op(
    "linalg.svdvals",
    type=lambda a: _svd_type(a, False)[1],
    lower=lambda k, a: _svd_lower(k, a, False)[1],
    vjp=_svdvals_vjp,
)


@public("linalg", out=True)
def svd(A: Any, full_matrices: bool = True, *, driver: str | None = None) -> Any:
    """U, S and Vh of the singular value decomposition U diag(S) Vh, S in falling order.

    With `full_matrices` U and Vh are square; gradients then see their first min(m, n) vectors.

    >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [4.0, 5.0]])).S
    tensor([6.7082, 2.2361])
    """
    check_matrix("linalg.svd", A)
    return linalg_svd(*SVD_OP(A, full=bool(full_matrices)))


@public("linalg", out=True)
def svdvals(A: Any, *, driver: str | None = None) -> Any:
    """Singular values in falling order.

    >>> torch.linalg.svdvals(torch.tensor([[0.0, 2.0], [1.0, 0.0]]))
    tensor([2., 1.])
    """
    check_matrix("linalg.svdvals", A)
    return SVDVALS(A)


@public("torch", "Tensor", name="svd", out=True)
def _svd(input: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """U, S and V of the singular value decomposition; V is not transposed here."""
    check_matrix("svd", input)
    if not compute_uv:
        *batch, m, n = input.shape
        return SVD(input.new_zeros(*batch, m, m), SVDVALS(input), input.new_zeros(*batch, n, n))
    u, s, vh = SVD_OP(input, full=not some)
    return SVD(u, s, vh.mH)


# -- eigenvalues


@takes_batches
def _eigh_host(a: Array, uplo: Any) -> tuple[Array, Array]:
    values, vectors = np.linalg.eigh(a, uplo)
    return values, vectors


def _eigh_type(a: TensorType, uplo: str) -> tuple[TensorType, TensorType]:
    return TensorType(a.shape[:-1], a.dtype.to_real()), a


def _eigh_lower(k: Any, a: Any, uplo: str) -> Any:
    outputs = ((a.shape[:-1], a.dtype.to_real()), (a.shape, a.dtype))
    return tuple(k.host(_eigh_host, outputs, a, uplo=uplo))


def _eigh_vjp(g: Any, out: Any, a: Any, uplo: str) -> Any:
    (values, vectors), (g_values, g_vectors) = out, g
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    turned = vectors.mH @ g_vectors
    inner = over_gaps(turned, (turned - turned.mH) / 2, gap) + g_values.diag_embed()
    return vectors @ inner @ vectors.mH


EIGH = Op("linalg.eigh", attrs=("uplo",), type=_eigh_type, lower=_eigh_lower, vjp=_eigh_vjp)


def _eigvalsh_vjp(g: Any, out: Any, a: Any, uplo: str) -> Any:
    _, vectors = EIGH(a, uplo=uplo)
    return (vectors * g.unsqueeze(-2)) @ vectors.mH


EIGVALSH = Op(
    "linalg.eigvalsh",
    attrs=("uplo",),
    type=lambda a, uplo: TensorType(a.shape[:-1], a.dtype.to_real()),
    lower=lambda k, a, uplo: _eigh_lower(k, a, uplo)[0],
    vjp=_eigvalsh_vjp,
)


def _check_uplo(op: str, a: Any, uplo: str) -> str:
    check_square(op, a)
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"{op}: Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return uplo.upper()


@public("linalg", out=True)
def eigh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues in rising order and eigenvectors of symmetric (or Hermitian) matrices, of
    which only the triangle UPLO is read.

    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return eigh_result(*EIGH(A, uplo=_check_uplo("linalg.eigh", A, UPLO)))


@public("linalg", out=True)
def eigvalsh(A: Any, UPLO: str = "L") -> Any:
    """Eigenvalues of symmetric matrices in rising order.

    >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    tensor([1., 3.])
    """
    return EIGVALSH(A, uplo=_check_uplo("linalg.eigvalsh", A, UPLO))


# -- Cholesky


@takes_batches
def _lower_root(a: Array) -> tuple[Array, Array]:
    root, info = attempted(np.linalg.cholesky, a)
    lost = np.isnan(np.diagonal(root, axis1=-2, axis2=-1)).any(-1)
    for at in np.argwhere(lost):  # which NumPy does not say, nor notice where there are NaNs
        info[tuple(at)] = _first_minor(a[tuple(at)])
    return root, info


def _first_minor(a: Array) -> int:
    """The order of the first leading minor of `a` that is not positive, by halving: those after
    it are none either.
    """
    low, high = 1, len(a)
    while low < high:
        middle = (low + high) // 2
        root, info = attempted(np.linalg.cholesky, a[:middle, :middle])
        if info or np.isnan(np.diagonal(root)).any():
            high = middle
        else:
            low = middle + 1
    return low


def _cholesky_vjp(g: Any, out: Any, a: Any) -> Any:
    from rushlight.ops.linear_solve import solve_triangular  # solving comes after factors

    root = out[0]
    inner = symmetric(root.mH @ g[0]) / 2
    left = solve_triangular(root.mH, inner, upper=True)
    return solve_triangular(root, left, upper=False, left=False)


CHOLESKY = Op(  # the lower root, and whether there is none
    "linalg.cholesky",
    type=lambda a: (a, TensorType(a.shape[:-2], dt.int32)),
    lower=lambda k, a: tuple(
        k.host(_lower_root, ((a.shape, a.dtype), (a.shape[:-2], dt.int32)), a)
    ),
    vjp=_cholesky_vjp,
)


@public("linalg", out=True)
def cholesky_ex(A: Any, *, upper: bool = False, check_errors: bool = False) -> Any:
    """`cholesky`, and for each matrix that has no such factor (which is NaN then) the order of
    its first leading minor that is not positive.

    >>> torch.linalg.cholesky_ex(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    torch.return_types.linalg_cholesky_ex(
    L=tensor([[2., 0.],
            [1., 2.]]),
    info=tensor(0, dtype=torch.int32))
    """
    check_square("linalg.cholesky_ex", A)
    root, info = CHOLESKY(A.mH if upper else A)
    if check_errors:
        check_definite("linalg.cholesky_ex", info)
    return cholesky_ex_result(resolve_conj(root.mH) if upper else root, info)


def check_definite(op: str, info: Any) -> None:
    raise_if_failed(
        op,
        info,
        "The factorization could not be completed because the input is not positive-definite "
        "(the leading minor of order {info} is not positive-definite).",
    )


@public("linalg", out=True)
def cholesky(A: Any, *, upper: bool = False) -> Any:
    """L of A = L L^T for symmetric positive definite matrices (U of U^T U if `upper`).

    >>> import rushlight as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    check_square("linalg.cholesky", A)
    root, info = cholesky_ex(A, upper=upper)
    check_definite("linalg.cholesky", info)
    return root


@public("torch", "Tensor", name="cholesky", out=True)
def _cholesky(input: Any, upper: bool = False) -> Any:
    """The Cholesky factor."""
    check_square("cholesky", input)
    root, info = cholesky_ex(input, upper=upper)
    check_definite("cholesky", info)
    return root


@public("torch", "Tensor")
def trace(input: Any) -> Any:
    """The sum of a matrix's diagonal.

    >>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got shape {list(input.shape)}")
    if input.dtype is dt.bool_:
        raise errors.not_implemented_for("trace", input.dtype, "numbers")
    return input.diagonal().sum()
