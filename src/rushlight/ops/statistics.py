"""Variance, standard deviation, normalised data and vector norms."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.advice import warn_caller
from rushlight.argument_kinds import Ints, Number
from rushlight.dtypes import dtype
from rushlight.ops.elementwise import CAST, WHERE, scaled, zeros_of
from rushlight.ops.reduce import (
    Dims,
    centred,
    count_of,
    kept,
    reduced_type,
)
from rushlight.ops.registry import Op, public


def variance(k: Any, x: Any, dims: Dims, correction: float) -> Any:
    """The variance of wide x, with dims kept, in two passes; in float64, where squares of
    float32 cannot overflow (complex types keep their own).
    """
    away = centred(k, x, dims)
    away = away if x.dtype.is_complex else k.cast(away, dt.float64)
    freedom = max(count_of(x.shape, dims) - correction, 0.0)
    total = k.reduce("sum", away * away, dims, True)
    return total / k.cast(k.extent(float(freedom)), total.dtype)


def _var_lower(k: Any, x: Any, dim: Dims, keepdim: bool, correction: float) -> Any:
    out = variance(k, k.wide(x), dim, correction)
    return k.cast(k.reshape(out, views.reduced_shape(x.shape, dim, keepdim)), x.dtype)


def _std_lower(k: Any, x: Any, dim: Dims, keepdim: bool, correction: float) -> Any:
    out = k.sqrt(variance(k, k.wide(x), dim, correction))
    return k.cast(k.reshape(out, views.reduced_shape(x.shape, dim, keepdim)), x.dtype)


def _var_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool, correction: float) -> Any:
    freedom = max(count_of(x.shape, dim) - correction, 0.0)
    slope = CENTRED(x, dim=dim) * (2.0 / freedom if freedom else math.nan)
    return scaled(kept(g, x.shape, dim, keepdim), slope)


VAR = Op(
    "var",
    attrs=("dim", "keepdim", "correction"),
    type=lambda x, dim, keepdim, correction: reduced_type(x, dim, keepdim, x.dtype),
    lower=_var_lower,
    vjp=_var_vjp,
)
STD = Op(
    "std",
    attrs=("dim", "keepdim", "correction"),
    type=lambda x, dim, keepdim, correction: reduced_type(x, dim, keepdim, x.dtype),
    lower=_std_lower,
    vjp=lambda g, out, x, dim, keepdim, correction: _std_vjp(
        g, out, x, dim, keepdim, correction
    ),
)


def _std_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool, correction: float) -> Any:
    """Zero where the deviation is zero, as PyTorch has it."""
    freedom = max(count_of(x.shape, dim) - correction, 0.0)
    g, out = kept(g, x.shape, dim, keepdim), kept(out, x.shape, dim, keepdim)
    slope = WHERE(out == 0, 0, CENTRED(x, dim=dim) / WHERE(out == 0, 1, out))
    return scaled(g, slope) * (1.0 / freedom if freedom else math.nan)


CENTRED = Op(  # x - mean(x)
    "centred",
    attrs=("dim",),
    type=lambda x, dim: x,
    lower=lambda k, x, dim: k.cast(centred(k, k.wide(x), dim), x.dtype),
    vjp=lambda g, out, x, dim: CENTRED(g, dim=dim),
)


def _checked(op: str, input: Any) -> None:
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise RuntimeError(f"{op}: std and var only support floating point and complex dtypes")


def _settings(
    op: str, input: Any, args: tuple[Any, ...], unbiased: Any, correction: Any, dim: Any
) -> tuple[Dims, float]:
    """dims and correction from the forms f(unbiased), f(dim, unbiased) and f(dim,
    correction=).
    """
    _checked(op, input)
    if unbiased is not None:
        views.flag(op, "unbiased", unbiased)
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return views.dim_indices(op, dim, input.ndim), float(correction)


def _moment(op: Op, input: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
    if input.dtype.is_complex:
        real = op_of_complex(input, dims, keepdim, correction)
        return real.sqrt() if op is STD else real
    return op(input, dim=dims, keepdim=keepdim, correction=correction)


def op_of_complex(input: Any, dims: Dims, keepdim: bool, correction: float) -> Any:
    """The variance of complex numbers: of the real parts plus of the imaginary parts."""
    return sum(
        VAR(part, dim=dims, keepdim=keepdim, correction=correction)
        for part in (input.real, input.imag)
    )


def _unpacked(
    op: str, args: tuple[Any, ...], dim: Any, unbiased: Any, keepdim: Any
) -> tuple[Any, Any, Any]:
    """Positional arguments: (unbiased), (dim, keepdim) or (dim, unbiased, keepdim)."""
    if args and dim is not None:
        raise TypeError(f"{op}() got multiple values for argument 'dim'")
    if len(args) > 1 and unbiased is not None:
        raise TypeError(f"{op}() got multiple values for argument 'unbiased'")
    for flag in args[1:]:
        views.flag(op, "unbiased", flag)
    if len(args) == 1 and isinstance(args[0], bool):
        return dim, args[0], keepdim
    if len(args) >= 1:
        dim = args[0]
    if len(args) == 2:
        unbiased = args[1]
    if len(args) == 3:
        unbiased, keepdim = args[1:]
    return dim, unbiased, keepdim


def _deviation(
    name: str,
    op: Op,
    input: Any,
    args: tuple[Any, ...],
    dim: Any,
    unbiased: Any,
    keepdim: Any,
    correction: Any,
) -> tuple[Dims, bool, float]:
    dim, unbiased, keepdim = _unpacked(name, args, dim, unbiased, keepdim)
    dims, chosen = _settings(name, input, args, unbiased, correction, dim)
    _check_freedom(name, input, dims, chosen)
    return dims, views.flag(name, "keepdim", keepdim), chosen


def _check_freedom(name: str, input: Any, dims: Dims, correction: float) -> None:
    """Warn, as PyTorch does, where the divisor is zero and the result therefore nan."""
    shape = input._shape
    if 0 not in shape and count_of(shape, dims) > correction:
        return
    warn_caller(
        f"{name}(): degrees of freedom is <= 0. Correction should be strictly less than the "
        f"reduction factor (input numel divided by output numel)."
    )


@public("torch", "Tensor", out=True)
def var(
    input: Any,
    *args: Any,
    dim: Ints | None = None,
    unbiased: bool | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Any:
    """The variance over `dim`, divided by the count less `correction` (1 by default).

    >>> torch.tensor([[1.0, 3.0], [2.0, 6.0]]).var(1)
    tensor([2., 8.])
    """
    found = _deviation("var", VAR, input, args, dim, unbiased, keepdim, correction)
    return _moment(VAR, input, *found)


@public("torch", "Tensor", out=True)
def std(
    input: Any,
    *args: Any,
    dim: Ints | None = None,
    unbiased: bool | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Any:
    """The standard deviation over `dim`: the square root of `var`.

    >>> torch.tensor([1.0, 3.0, 5.0]).std(correction=0)
    tensor(1.6330)
    """
    found = _deviation("std", STD, input, args, dim, unbiased, keepdim, correction)
    return _moment(STD, input, *found)


@public("torch", out=True)
def var_mean(
    input: Any,
    *args: Any,
    dim: Ints | None = None,
    unbiased: bool | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Any:
    """Variance and mean.

    >>> torch.var_mean(torch.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """
    dims, keepdim, chosen = _deviation(
        "var_mean", VAR, input, args, dim, unbiased, keepdim, correction
    )
    return _moment(VAR, input, dims, keepdim, chosen), input.mean(dims or None, keepdim)


@public("torch", out=True)
def std_mean(
    input: Any,
    *args: Any,
    dim: Ints | None = None,
    unbiased: bool | None = None,
    correction: Number | None = None,
    keepdim: bool = False,
) -> Any:
    """Standard deviation and mean.

    >>> torch.std_mean(torch.tensor([1.0, 3.0]))
    (tensor(1.4142), tensor(2.))
    """
    dims, keepdim, chosen = _deviation(
        "std_mean", STD, input, args, dim, unbiased, keepdim, correction
    )
    return _moment(STD, input, dims, keepdim, chosen), input.mean(dims or None, keepdim)


# -- normalised data: what layer, batch, group and instance norm are made of


def _inverse_std(k: Any, x: Any, dims: Dims, eps: float) -> Any:
    return 1.0 / k.sqrt(variance(k, x, dims, 0.0) + eps)


def _normalised_lower(k: Any, x: Any, dim: Dims, eps: float) -> Any:
    wide = k.wide(x)
    inverse = k.cast(_inverse_std(k, wide, dim, eps), wide.dtype)
    return k.cast(centred(k, wide, dim) * inverse, x.dtype)


def _normalised_vjp(g: Any, out: Any, x: Any, dim: Dims, eps: float) -> Any:
    inverse = INVERSE_STD(x, dim=dim, eps=eps)
    along = (g * out).mean(dim, keepdim=True)
    return inverse * (g - g.mean(dim, keepdim=True) - out * along)


NORMALISED = Op(  # (x - mean) / sqrt(var + eps)
    "normalised",
    attrs=("dim", "eps"),
    type=lambda x, dim, eps: x,
    lower=_normalised_lower,
    vjp=_normalised_vjp,
)
INVERSE_STD = Op(  # 1 / sqrt(var + eps), dims kept
    "inverse_std",
    attrs=("dim", "eps"),
    type=lambda x, dim, eps: reduced_type(x, dim, True, x.dtype),
    lower=lambda k, x, dim, eps: k.cast(_inverse_std(k, k.wide(x), dim, eps), x.dtype),
    vjp=lambda g, out, x, dim, eps: (
        g * (out * out) * NORMALISED(x, dim=dim, eps=eps) / -count_of(x.shape, dim)
    ),
)


# -- norms


def norm_lower(k: Any, x: Any, ord: float, dim: Dims, keepdim: bool) -> Any:
    """In float64, where squares of float32 cannot overflow."""
    if ord == 2:
        wide = k.cast(k.wide(x), dt.float64)
        return k.cast(k.sqrt(k.reduce("sum", wide * wide, dim, keepdim)), x.dtype)
    size = k.map("abs", k.wide(x))
    if math.isinf(ord):
        out = k.reduce("max" if ord > 0 else "min", size, dim, keepdim)
    elif ord == 0:
        out = k.reduce("sum", k.cast(size.differs(0), dt.float64), dim, keepdim)
    elif ord == 1:
        out = k.reduce("sum", size, dim, keepdim)
    else:
        powers = k.pow(k.cast(size, dt.float64), float(ord))
        out = k.pow(k.reduce("sum", powers, dim, keepdim), 1.0 / ord)
    return k.cast(out, x.dtype)


def norm_vjp(g: Any, out: Any, x: Any, ord: float, dim: Dims, keepdim: bool) -> Any:
    g, out = kept(g, x.shape, dim, keepdim), kept(out, x.shape, dim, keepdim)
    if ord == 0:  # a count does not change
        return zeros_of(x)
    if ord == 1:
        return scaled(g, x.sign())
    if math.isinf(ord):
        reached = x.abs() == out
        share = g / reached.sum(dim, keepdim=True).to(g.dtype)
        return WHERE(reached, share * x.sign(), 0)
    safe = WHERE(out == 0, 1, out)
    if ord == 2:
        return scaled(g, WHERE(out == 0, 0, x / safe))  # x / out is at most 1, g / out tiny
    if ord < 1:
        inner = WHERE(x == 0, 0, x.sign() * WHERE(x == 0, 1, x.abs()).pow(ord - 1))
    elif ord < 2:
        inner = x.sign() * x.abs().pow(ord - 1)
    else:
        inner = x * WHERE(x == 0, 0, WHERE(x == 0, 1, x.abs()).pow(ord - 2))
    return WHERE(out == 0, 0, inner * (g / safe.pow(ord - 1)))


NORM = Op(
    "vector_norm",
    attrs=("ord", "dim", "keepdim"),
    type=lambda x, ord, dim, keepdim: reduced_type(x, dim, keepdim, x.dtype),
    lower=norm_lower,
    vjp=norm_vjp,
)


def _norm(op: str, x: Any, ord: Any, dim: Any, keepdim: bool, kind: dtype | None) -> Any:
    if kind is not None:
        x = CAST(x, dtype=kind)
    if x.dtype.is_complex:
        x = x.abs()
    if not x.dtype.is_floating_point:
        raise RuntimeError(
            f"{op}: Expected a floating point or complex tensor as input. Got {x.dtype!r}"
        )
    dims = views.dim_indices(op, dim, x.ndim)
    if (math.isinf(ord) or ord < 0) and any(x.shape[d] == 0 for d in dims):
        raise RuntimeError(
            f"{op} cannot compute the {ord} norm on an empty tensor because the operation does "
            f"not have an identity"
        )
    return NORM(x, ord=float(ord), dim=dims, keepdim=bool(keepdim))


@public("linalg", out=True)
def vector_norm(
    input: Any,
    ord: Any = 2,
    dim: Ints | None = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
) -> Any:
    """The norm of order `ord` of vectors along `dim` (of all elements by default).

    >>> torch.linalg.vector_norm(torch.tensor([[3.0, 4.0], [0.0, 1.0]]), dim=1)
    tensor([5., 1.])
    """
    return _norm("linalg.vector_norm", input, ord, dim, keepdim, dtype)


@public("torch", "Tensor", out=True)
def norm(
    input: Any,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    dtype: dtype | None = None,
) -> Any:
    """The p-norm over `dim`: 'fro' is the square root of the sum of squares.

    >>> torch.norm(torch.tensor([3.0, -4.0]), p=1)
    tensor(7.)
    """
    if p is None or p == "fro":
        p = 2
    if isinstance(p, str):
        from rushlight.ops.matrix_norm import matrix_norm_of  # matrices come after vectors

        dims = tuple(range(input.ndim)) if dim is None else dim
        return matrix_norm_of("norm", input, p, dims, keepdim, dtype)
    return _norm("norm", input, p, dim, keepdim, dtype)
