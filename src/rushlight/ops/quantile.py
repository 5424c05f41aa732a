"""Quantiles: values at fractional ranks of the sorted elements."""

from __future__ import annotations

from typing import Any  # operands are tensors and numbers

from rushlight import views
from rushlight.dtypes import float32, float64, int64
from rushlight.ops import batching
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import public

INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@public("torch", "Tensor", out=True)
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """The q-quantiles along `dim` (of all elements by default); NaN where there is a NaN.

    q: a number in [0, 1], or a vector of them, which then leads the result's shape.
    interpolation: between the two nearest ranks: linear, lower, higher, midpoint or nearest.

    >>> import rushlight as torch
    >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 3.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("quantile", input, q, dim, keepdim, interpolation, False)


@public("torch", "Tensor", out=True)
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *,
    interpolation: str = "linear",
) -> Any:  # fmt: skip
    """`quantile` of the elements that are not NaN.

    >>> torch.nanquantile(torch.tensor([1.0, float("nan"), 2.0]), 0.5)
    tensor(1.5000)
    """
    return _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)


def _check(op: str, x: Any, q: Any, interpolation: str) -> None:
    if not x.numel():
        raise RuntimeError(f"{op}() input tensor must be non-empty, got shape {list(x.shape)}")
    if x.dtype not in (float32, float64):
        raise RuntimeError(
            f"{op}() input tensor must be either float or double dtype, got {x.dtype!r}"
        )
    if interpolation not in INTERPOLATIONS:
        raise RuntimeError(
            f"{op}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if not hasattr(q, "_storage"):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{op}() q must be in the range [0, 1] but got {q}")
        return
    if q.ndim > 1:
        raise RuntimeError(f"{op}() q must be a scalar or 1D tensor, got {list(q.shape)}")
    if q.dtype is not x.dtype:
        raise RuntimeError(
            f"{op}() q tensor must be same dtype as the input tensor: {q.dtype!r} and "
            f"{x.dtype!r}"
        )
    asked = batching.whole(q)
    if q.numel() and not bool(((asked >= 0) & (asked <= 1)).all()):
        raise RuntimeError(f"{op}() q values must be in the range [0, 1]")


def _quantile(
    op: str, x: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips_nan: bool
) -> Any:
    _check(op, x, q, interpolation)
    at = None if dim is None else views.dim_index(op, dim, x.ndim)
    shape = views.reduced_shape(x.shape, range(x.ndim) if at is None else (at,), keepdim)
    rows = x.reshape(1, -1) if at is None or not x.ndim else x.movedim(at, -1)
    if not hasattr(q, "_storage"):
        q = FULL(shape=(), value=float(q), dtype=x.dtype)
    values = rows.sort(-1).values  # (*, n), NaN at the end
    found = _at_ranks(values, _ranks(values, q.reshape(-1), skips_nan), interpolation)
    return found.movedim(-1, 0).reshape((*q.shape, *shape))


def _ranks(values: Any, q: Any, skips_nan: bool) -> Any:
    """Fractional positions (*, len(q)) in the sorted rows."""
    last = values.shape[-1] - 1
    held = (values == values).sum(-1, keepdim=True)
    if skips_nan:
        return (q * (held - 1).to(q.dtype)).clamp(min=0)
    return WHERE(held > last, q * last, last)


def _at_ranks(values: Any, ranks: Any, interpolation: str) -> Any:
    rounded = {"lower": "floor", "higher": "ceil", "nearest": "round"}.get(interpolation)
    if rounded is not None:
        return values.gather(-1, getattr(ranks, rounded)().to(int64))
    below = ranks.detach().floor()
    low = values.gather(-1, below.to(int64))
    high = values.gather(-1, ranks.ceil().to(int64))
    part = below * 0 + 0.5 if interpolation == "midpoint" else ranks - below
    return low.lerp(high, part)
