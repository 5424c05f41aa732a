"""Eigenvalues and eigenvectors of general matrices, by LAPACK through NumPy between kernels.

They are complex, also those of real matrices.
"""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight.ir.host import takes_batches
from rushlight.ops.elementwise import real_part
from rushlight.ops.linear_algebra import Array, check_square, over_gaps
from rushlight.ops.linear_solve import SOLVE
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import linalg_eig


@takes_batches
def _eig_host(a: Array) -> tuple[Array, Array]:
    if not np.isfinite(a).all():
        raise RuntimeError("linalg.eig: the input tensor should not contain infs or NaNs")
    values, vectors = np.linalg.eig(a)
    return values, vectors


def eig_type(a: TensorType) -> tuple[TensorType, TensorType]:
    kind = a.dtype.to_complex()
    return TensorType(a.shape[:-1], kind), TensorType(a.shape, kind)


def eig_lower(k: Any, a: Any) -> tuple[Any, ...]:
    types = eig_type(TensorType(a.shape, a.dtype))
    return tuple(k.host(_eig_host, tuple((t.shape, t.dtype) for t in types), a))


def eig_vjp(g: Any, out: Any, a: Any) -> Any:
    """Vectors have length 1, so the gradient along them is left out; their phases are free."""
    (values, vectors), (g_values, g_vectors) = out, g
    turned = vectors.mH @ g_vectors
    along = real_part(turned.diagonal(0, -2, -1)).unsqueeze(-2)
    turned = turned - vectors.mH @ (vectors * along)
    gap = values.unsqueeze(-2) - values.unsqueeze(-1)
    inner = over_gaps(turned, turned, gap) + g_values.diag_embed()
    return SOLVE(vectors.mH, inner @ vectors.mH, turned=False)[0]


EIG = Op("linalg.eig", type=eig_type, lower=eig_lower, vjp=eig_vjp)


def _eigvals_vjp(g: Any, out: Any, a: Any) -> Any:
    vectors = EIG(a)[1]
    return SOLVE(vectors.mH, g.unsqueeze(-1) * vectors.mH, turned=False)[0]


EIGVALS = Op(
    "linalg.eigvals",
    type=lambda a: eig_type(a)[0],
    lower=lambda k, a: eig_lower(k, a)[0],
    vjp=_eigvals_vjp,
)


@public("linalg", out=True)
def eig(A: Any) -> Any:
    """Eigenvalues (in no order) and eigenvectors, the columns, of square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.eig(torch.tensor([[0.0, -1.0], [1.0, 0.0]])).eigenvalues
    tensor([0.+1.j, 0.-1.j])
    """
    check_square("linalg.eig", A)
    return linalg_eig(*EIG(A))


@public("linalg", out=True)
def eigvals(A: Any) -> Any:
    """Eigenvalues of square matrices, in no order.

    >>> torch.linalg.eigvals(torch.tensor([[0.0, 1.0], [-1.0, 0.0]])).abs()
    tensor([1., 1.])
    """
    check_square("linalg.eigvals", A)
    return EIGVALS(A)
