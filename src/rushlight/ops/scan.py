"""Running sums, products and extremes along a dimension."""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import dtype_given
from rushlight.dtypes import dtype
from rushlight.ir.host import takes_batches
from rushlight.ops import return_types
from rushlight.ops.elementwise import CAST, conjugate, scaled
from rushlight.ops.registry import Op, TensorType, public


def suffix_recurrence(a: Any, b: Any, dim: int) -> Any:
    """s with s[i] = b[i] + a[i] * s[i + 1], by doubling: log2(n) steps, exact where a is
    zero.
    """
    size = b.shape[dim]
    reach = 1
    while reach < size:
        rest = size - reach
        later_b, later_a = b.narrow(dim, reach, rest), a.narrow(dim, reach, rest)
        tail = b.narrow(dim, rest, reach)
        b = _cat([b.narrow(dim, 0, rest) + a.narrow(dim, 0, rest) * later_b, tail], dim)
        a = _cat([a.narrow(dim, 0, rest) * later_a, a.narrow(dim, rest, reach) * 0], dim)
        reach *= 2
    return b


def _cat(parts: list[Any], dim: int) -> Any:
    from rushlight.ops import joining  # a later family

    return joining.cat(parts, dim)


def _next(x: Any, dim: int, last: float) -> Any:
    """x moved one place towards the start, with `last` at the end."""
    size = x.shape[dim]
    return _cat([x.narrow(dim, 1, size - 1), x.narrow(dim, 0, 1) * 0 + last], dim)


def reversed_cumsum(g: Any, dim: int) -> Any:
    return g.flip(dim).cumsum(dim).flip(dim)


def _scan_op(name: str, kind: str, vjp: Any) -> Op:
    return Op(
        name,
        attrs=("dim", "dtype"),
        type=lambda x, dim, dtype: TensorType(x.shape, dtype),
        lower=lambda k, x, dim, dtype: k.cast(
            k.scan(kind, k.wide(k.cast(x, dtype)), dim), dtype
        ),
        vjp=vjp,
    )


def cumprod_vjp(g: Any, out: Any, x: Any, dim: int, dtype: dtype) -> Any:
    """d out[j] / d x[i] is the product of the others up to j: a prefix times a suffix sum."""
    size = x.shape[dim]
    x = conjugate(x if x.dtype is dtype else CAST(x, dtype=dtype))
    suffix = suffix_recurrence(_next(x, dim, 0), g, dim)
    one = x.narrow(dim, 0, 1) * 0 + 1
    return suffix * _cat([one, x.narrow(dim, 0, size - 1).cumprod(dim)], dim)


CUMSUM = _scan_op("cumsum", "sum", lambda g, out, x, dim, dtype: reversed_cumsum(g, dim))
CUMPROD = _scan_op("cumprod", "prod", cumprod_vjp)


def _scanned(op: Op, input: Any, dim: int, kind: dtype | None) -> Any:
    d = views.dim_index(op.name, dim, input.ndim)
    own = dt.int64 if input.dtype.is_integral else input.dtype
    kind = own if kind is None else dtype_given(op.name, kind)
    if kind is dt.bool_:
        raise errors.not_implemented_for(op.name, kind, "numbers")
    if input.ndim == 0 or input.numel() == 0:
        return CAST(input, dtype=kind) if input.dtype is not kind else input.clone()
    return op(input, dim=d, dtype=kind)


@public("torch", "Tensor", inplace=True, out=True)
def cumsum(input: Any, dim: int, *, dtype: dtype | None = None) -> Any:
    """Running sums along `dim`.

    >>> torch.tensor([1.0, 2.0, 3.0]).cumsum(0)
    tensor([1., 3., 6.])
    """
    return _scanned(CUMSUM, input, dim, dtype)


@public("torch", "Tensor", inplace=True, out=True)
def cumprod(input: Any, dim: int, *, dtype: dtype | None = None) -> Any:
    """Running products along `dim`.

    >>> torch.tensor([1.0, 2.0, 3.0]).cumprod(0)
    tensor([1., 2., 6.])
    """
    return _scanned(CUMPROD, input, dim, dtype)


# -- running extremes


def _extreme_lower(k: Any, x: Any, kind: str, dim: int) -> tuple[Any, Any]:
    """Values, and the last position so far that reached them (NaN, once met, stays)."""
    wide = k.cast(x, dt.uint8) if x.dtype is dt.bool_ else k.wide(x)
    values = k.scan(kind, wide, dim)
    is_new = wide.equals(values) | wide.differs(wide)
    place = k.select(is_new, k.iota(x.shape, dim), -1)
    return k.cast(values, x.dtype), k.scan("max", place, dim)


def _place_vjp(g: Any, out: Any, x: Any, dim: int) -> Any:
    return _zeros(x.shape, g[0].dtype).scatter_add(dim, out[1], g[0])


def _zeros(shape: Any, kind: dtype) -> Any:
    from rushlight.ops.creation import FULL  # a later family

    return FULL(shape=tuple(shape), value=0, dtype=kind)


def _cum_extreme(name: str, kind: str) -> Op:
    return Op(
        name,
        attrs=("dim",),
        type=lambda x, dim: (x, TensorType(x.shape, dt.int64)),
        lower=lambda k, x, dim: _extreme_lower(k, x, kind, dim),
        vjp=_place_vjp,
        reads=1,
    )


CUMMAX, CUMMIN = _cum_extreme("cummax", "max"), _cum_extreme("cummin", "min")


def _extremes(op: Op, input: Any, dim: int) -> tuple[Any, Any]:
    d = views.dim_index(op.name, dim, input.ndim)
    if input.dtype.is_complex:
        raise errors.not_for_complex(op.name, input.dtype)
    if input.ndim == 0 or input.numel() == 0:
        return input.clone(), _zeros(input.shape, dt.int64)
    found: tuple[Any, Any] = op(input, dim=d)
    return found


@public("torch", "Tensor", out=True)
def cummax(input: Any, dim: int) -> Any:
    """The largest values so far along `dim`, and where they are.

    >>> torch.cummax(torch.tensor([1.0, 3.0, 2.0]), 0)
    torch.return_types.cummax(
    values=tensor([1., 3., 3.]),
    indices=tensor([0, 1, 1]))
    """
    return return_types.cummax(*_extremes(CUMMAX, input, dim))


@public("torch", "Tensor", out=True)
def cummin(input: Any, dim: int) -> Any:
    """The smallest values so far along `dim`, and where they are.

    >>> torch.cummin(torch.tensor([3.0, 1.0, 2.0]), 0)
    torch.return_types.cummin(
    values=tensor([3., 1., 1.]),
    indices=tensor([0, 1, 1]))
    """
    return return_types.cummin(*_extremes(CUMMIN, input, dim))


# -- logcumsumexp


def _log_add(k: Any, a: Any, b: Any) -> Any:
    high, low = k.max(a, b), k.min(a, b)
    is_flat = high.equals(low)  # covers pairs of equal infinities
    added = high + k.log1p(k.exp(k.select(is_flat, 0.0, low - high)))
    both_infinite = is_flat & k.map("abs", high).equals(float("inf"))
    return k.select(both_infinite, high, added)


@takes_batches
def _complex_logcumsumexp(x: Any, dim: int) -> Any:
    """One after the other: of the logarithms of a sum, all 2 pi i apart, PyTorch takes the one
    near the term of the larger size, and that depends on the order.
    """
    terms = np.moveaxis(x.astype(np.complex128), dim, 0)
    out = terms.copy()
    with np.errstate(all="ignore"):
        for i in range(1, len(out)):
            out[i] = _complex_log_add(out[i - 1], terms[i])
    return np.moveaxis(out, 0, dim)


def _complex_log_add(a: Any, b: Any) -> Any:
    is_first = a.real > b.real
    high, low = np.where(is_first, a, b), np.where(is_first, b, a)
    is_flat = (high == low) | (np.isinf(high.real) & (high.real == low.real))
    added = high + np.log1p(np.exp(np.where(is_flat, 0, low - high)))
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), added)


def logcumsumexp_lower(k: Any, x: Any, dim: int) -> Any:
    """By doubling, each step a log(exp(a) + exp(b)) that cannot overflow."""
    kind = x.dtype
    if kind.is_complex:
        from_last = dim - len(x.shape)
        return k.host(_complex_logcumsumexp, [(x.shape, kind)], x, dim=from_last)[0]
    x = k.wide(x)
    size = x.shape[dim]
    reach = 1
    while reach < size:
        rest = size - reach
        joined = _log_add(k, k.slice(x, dim, 0, rest), k.slice(x, dim, reach, rest))
        x = k.cat([k.slice(x, dim, 0, reach), joined], dim)
        reach *= 2
    return k.cast(x, kind)


def logcumsumexp_vjp(g: Any, out: Any, x: Any, dim: int) -> Any:
    """exp(x[i]) * sum over j >= i of g[j] * exp(-out[j]); every exponent taken is at most
    zero.
    """
    size = x.shape[dim]
    decay = (out - _next(out, dim, float("inf"))).exp() if size > 1 else out * 0
    suffix = suffix_recurrence(conjugate(decay), g, dim)
    return scaled(suffix, (x - out).exp())


LOGCUMSUMEXP = Op(
    "logcumsumexp",
    attrs=("dim",),
    type=lambda x, dim: x,
    lower=logcumsumexp_lower,
    vjp=logcumsumexp_vjp,
)


@public("torch", "Tensor", out=True)
def logcumsumexp(input: Any, dim: int) -> Any:
    """log of the running sums of exp(x), without overflow.

    >>> torch.logcumsumexp(torch.tensor([0.0, 0.0, 0.0]), 0)
    tensor([0.0000, 0.6931, 1.0986])
    """
    d = views.dim_index("logcumsumexp", dim, input.ndim)
    if input.dtype.is_integral:
        raise errors.not_implemented_for("logcumsumexp", input.dtype, "a floating dtype")
    if input.ndim == 0 or input.numel() == 0:
        return input.clone()
    return LOGCUMSUMEXP(input, dim=d)


@public("torch", "Tensor")
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """Running integrals by the trapezoid rule.

    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    return _trapezoids(y, x, dx, dim).cumsum(dim)


@public("torch", aliases=("trapz",))
def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The integral along `dim` by the trapezoid rule.

    >>> torch.trapezoid(torch.tensor([1.0, 3.0, 5.0]), dx=0.5)
    tensor(3.)
    """
    return _trapezoids(y, x, dx, dim).sum(dim)


def _trapezoids(y: Any, x: Any, dx: Any, dim: int) -> Any:
    d = views.dim_index("trapezoid", dim, y.ndim)
    if y.dtype is dt.bool_:
        raise RuntimeError(
            "trapezoid: received a bool input for `y`, but bool is not supported"
        )
    size = y.shape[d]
    count = max(size - 1, 0)
    low, high = y.narrow(d, 0, count), y.narrow(d, size - count, count)
    if x is None:
        return (low + high) * (dx / 2)
    if x.ndim == 1:
        if x.shape[0] != size:
            raise RuntimeError(
                f"trapezoid: There must be one `x` value for each sample point (x has "
                f"{x.shape[0]}, y has {size})"
            )
        x = x.reshape([-1 if i == d else 1 for i in range(y.ndim)])
    if x.ndim <= d:
        raise RuntimeError(
            f"trapezoid: There must be one `x` value for each sample point (x has shape "
            f"{errors.shape_text(x.shape)}, y has {errors.shape_text(y.shape)})"
        )
    gaps = max(x.shape[d] - 1, 0)
    step = x.narrow(d, x.shape[d] - gaps, gaps) - x.narrow(d, 0, gaps)
    return (low + high) * step / 2
