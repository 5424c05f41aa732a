"""Singular values of a matrix that has few of them, by random projections."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight.ops.linear_algebra import check_matrix, qr, svd
from rushlight.ops.random import randn
from rushlight.ops.registry import public


def _basis(a: Any, count: int, rounds: int) -> Any:
    """Orthonormal columns near the space of A's `count` largest singular vectors: A times
    random columns, sharpened by rounds of A A^H.
    """
    q = qr(a @ randn(a._shape[-1], count, dtype=a.dtype)).Q
    for _ in range(rounds):
        q = qr(a.mH @ q).Q
        q = qr(a @ q).Q
    return q


@public("torch")
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """U, S and V of A (of A - M if given), about right for a matrix of rank q.

    q: how many singular values to find; a matrix with fewer gives all it has. niter: rounds
    of subspace iteration. The result depends on random numbers.

    >>> torch.svd_lowrank(torch.tensor([[3.0, 4.0], [3.0, 4.0]]), q=1)[1]
    tensor([7.0711])
    """
    check_matrix("svd_lowrank", A)
    m, n = A._shape[-2:]
    count = min(6 if q is None else q, m, n)
    if count < 0:
        raise ValueError(f"svd_lowrank: q (={count}) must be a non-negative integer")
    rounds = 2 if niter is None else niter
    if rounds < 0:
        raise ValueError(f"svd_lowrank: niter (={rounds}) must be a non-negative integer")
    a = A if M is None else A - M
    tall = a if m >= n else a.mH
    basis = _basis(tall, count, rounds)
    u, s, vh = svd(basis.mH @ tall, full_matrices=False)
    u, v = basis @ u, vh.mH
    return (u, s, v) if m >= n else (v, s, u)


@public("torch")
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """U, S and V of the columns' deviations from their means: V holds principal directions.

    >>> torch.pca_lowrank(torch.tensor([[1.0, 1.0], [3.0, 3.0]]), q=1)[1]
    tensor([2.])
    """
    check_matrix("pca_lowrank", A)
    least = min(A._shape[-2:])
    count = min(6, least) if q is None else q
    if not 0 <= count <= least:
        raise ValueError(
            f"q(={count}) must be non-negative integer and not greater than min(m, n)={least}"
        )
    centred = A - A.mean(-2, keepdim=True) if center else A
    return svd_lowrank(centred, count, niter)
