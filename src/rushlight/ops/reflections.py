"""Products of Householder's reflections, which QR factorisations are kept as."""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import errors
from rushlight.ir.host import takes_batches
from rushlight.ops.complex_parts import resolve_conj
from rushlight.ops.creation import unrelated
from rushlight.ops.linear_algebra import Array, check_matrix
from rushlight.ops.linear_solve import solve_triangular
from rushlight.ops.ranges import EYE
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.return_types import geqrf as geqrf_result


@takes_batches
def _reflectors(a: Array) -> tuple[Array, Array]:
    h, tau = np.linalg.qr(a, "raw")
    return np.swapaxes(h, -1, -2), tau


def geqrf_type(a: TensorType) -> tuple[TensorType, TensorType]:
    return a, TensorType((*a.shape[:-2], min(a.shape[-2:])), a.dtype)


def geqrf_lower(k: Any, a: Any) -> tuple[Any, ...]:
    types = geqrf_type(TensorType(a.shape, a.dtype))
    return tuple(k.host(_reflectors, tuple((t.shape, t.dtype) for t in types), a))


GEQRF = Op("geqrf", type=geqrf_type, lower=geqrf_lower, vjp=None)


@public("torch", "Tensor", out=True)
def geqrf(input: Any) -> Any:
    """R over the vectors of the reflections whose product is Q, and the reflections' scales.

    Not differentiable, as in PyTorch.

    >>> torch.geqrf(torch.tensor([[3.0], [4.0]])).a
    tensor([[-5.0000],
            [ 0.5000]])
    """
    check_matrix("geqrf", input)
    return geqrf_result(*GEQRF(input))


def _reflected(a: Any, tau: Any, start: Any, adjoint: bool = False) -> Any:
    """The product Q of the reflections I - tau v v^H, or its adjoint, times `start`; v are
    columns of a.

    Q is I - V T V^H with a triangular T, that of Schreiber and Van Loan (1989): as many steps
    for any number of reflections.
    """
    m, count = a.shape[-2], tau.shape[-1]
    if not count:
        return unrelated(start.clone(), a, tau)
    eye = EYE(n=count, m=count, dtype=a.dtype)
    vectors = a[..., :count].tril(-1) + EYE(n=m, m=count, dtype=a.dtype)
    scales = tau.unsqueeze(-1)
    coupling = scales * (vectors.mH @ vectors).triu(1)
    middle = solve_triangular(coupling, scales * eye, upper=True, unitriangular=True)
    if adjoint:
        middle = middle.mH
    return start - vectors @ (middle @ (vectors.mH @ start))


def _check_scales(op: str, a: Any, tau: Any) -> None:
    check_matrix(op, a)
    if a.shape[-1] > a.shape[-2] or tau.shape[-1:] > a.shape[-1:]:
        raise RuntimeError(
            f"{op}: input.shape[-2] must be greater than or equal to input.shape[-1], and that "
            f"to tau.shape[-1] (got {list(a.shape)} and {list(tau.shape)})"
        )
    _check_tau(op, a, tau)


def _check_tau(op: str, a: Any, tau: Any) -> None:
    if tau.ndim != a.ndim - 1 or tau.shape[:-1] != a.shape[:-2] or tau.dtype is not a.dtype:
        raise RuntimeError(
            f"{op}: Expected tau of dtype {a.dtype!r} with one dimension less than input, got "
            f"{tau.dtype!r} {list(tau.shape)} for {list(a.shape)}"
        )


def _check_reflections(op: str, a: Any, tau: Any, other: Any, left: bool) -> None:
    """What `ormqr` asks of its operands."""
    rows, axis = (other.shape[-2], -2) if left else (other.shape[-1], -1)
    if not tau.ndim:
        raise errors.dim_out_of_range(op, -1, 0)
    if rows != a.shape[-2]:
        raise RuntimeError(
            f"{op}: other.shape[{axis}] must be equal to input.shape[-2] ({list(a.shape)} and "
            f"{list(other.shape)})"
        )
    count = min(rows, a.shape[-1])
    if tau.shape[-1] != count:
        raise RuntimeError(
            f"{op}: tau.shape[-1] must be equal to min(other.shape[{axis}], input.shape[-1]), "
            f"{count}, but tau has shape {list(tau.shape)}"
        )
    _check_tau(op, a, tau)
    if other.shape[:-2] != a.shape[:-2] or other.dtype is not a.dtype:
        raise RuntimeError(
            f"{op}: Expected other of the batches and the dtype of input, got {other.dtype!r} "
            f"{list(other.shape)} for {a.dtype!r} {list(a.shape)}"
        )


@public("linalg", out=True)
def householder_product(A: Any, tau: Any) -> Any:
    """The first columns of the product of the reflections that `geqrf` gives.

    >>> A, tau = torch.tensor([[1.0], [0.5]]), torch.tensor([1.6])
    >>> torch.linalg.householder_product(A, tau)
    tensor([[-0.6000],
            [-0.8000]])
    """
    _check_scales("linalg.householder_product", A, tau)
    m, n = A.shape[-2:]
    start = EYE(n=m, m=n, dtype=A.dtype).expand(*A.shape[:-2], m, n)
    return _reflected(A, tau, start)


@public("torch", "Tensor", out=True)
def orgqr(input: Any, input2: Any) -> Any:
    """`torch.linalg.householder_product`."""
    return householder_product(input, input2)


@public("torch", "Tensor", out=True)
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """The product of the reflections that `geqrf` gives times `other` (or `other` times it).

    >>> A, tau = torch.tensor([[1.0], [0.5]]), torch.tensor([1.6])
    >>> torch.ormqr(A, tau, torch.ones(2, 1))
    tensor([[-1.4000],
            [-0.2000]])
    """
    check_matrix("ormqr", input, "input")
    check_matrix("ormqr", other, "other")
    _check_reflections("ormqr", input, tau, other, left)
    if not left:
        return resolve_conj(ormqr(input, tau, other.mH, True, not transpose).mH)
    return _reflected(input, tau, other, transpose)
