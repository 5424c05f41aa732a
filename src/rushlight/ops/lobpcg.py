"""`lobpcg`: a few extreme eigenvalues of a symmetric problem."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import errors
from rushlight.ops.linear_algebra import check_square, cholesky, eigh
from rushlight.ops.linear_solve import solve_triangular
from rushlight.ops.registry import public


@public("torch")
def lobpcg(
    A: Any, k: int | None = None, B: Any = None, X: Any = None, n: int | None = None,
    iK: Any = None, niter: int | None = None, tol: float | None = None,
    largest: bool | None = None, method: str | None = None, tracker: Any = None,
    ortho_iparams: Any = None, ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """The k largest (or smallest) eigenvalues of A x = e B x and their vectors, by columns.

    PyTorch iterates from `X`. Here A is dense, so all eigenvalues are found directly and k of
    them returned: what only steers the iteration (`iK`, `niter`, `tol`, `method` and the
    parameters of orthogonalisation) has nothing to steer, and a `tracker`, which would be
    called in each iteration, raises NotImplementedError. Without k it is X's number of columns,
    or 1. A is (..., m, m) with m >= 3 k, or ValueError.

    >>> import rushlight as torch
    >>> torch.lobpcg(torch.diag(torch.tensor([1.0, 5.0, 3.0])), k=1)[0].round()
    tensor([5.])
    """
    if tracker is not None:
        raise errors.not_there(
            "lobpcg(tracker=...)", "iterations to track: the solver is direct"
        )
    check_square("lobpcg", A)
    count = k if k is not None else 1 if X is None else X._shape[-1]
    if A._shape[-1] < 3 * count:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={A._shape[-1]}) "
            f"is smaller than 3 x the number of requested eigenpairs (={count})"
        )
    values, vectors = _generalised(A, B)
    if largest is None or largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :count], vectors[..., :count]


def _generalised(a: Any, b: Any) -> tuple[Any, Any]:
    """All eigenvalues in rising order and vectors x with x^T B x = 1."""
    if b is None:
        return eigh(a)  # type: ignore[no-any-return]
    root = cholesky(b)
    half = solve_triangular(root, a, upper=False)
    values, turned = eigh(solve_triangular(root, half.mH, upper=False))
    return values, solve_triangular(root.mH, turned, upper=True)
