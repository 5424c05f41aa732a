"""Reducing into places: `scatter_reduce` and `index_reduce`, whose elements meet at one place
and are added, multiplied or compared there.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ops.advanced import (
    GATHER,
    SCATTER,
    check_along,
    grown,
    placed_parts,
    scatter_lower,
)
from rushlight.ops.creation import FILL
from rushlight.ops.elementwise import WHERE, conjugate
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public

_REDUCES = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}


def _neutral(reduce: str, kind: Any) -> Any:
    if reduce not in ("amax", "amin"):
        return 1 if reduce == "prod" else 0
    if kind is dt.bool_:
        return reduce == "amin"
    if kind.is_floating_point:
        return float("-inf" if reduce == "amax" else "inf")
    return dt.iinfo(kind).min if reduce == "amax" else dt.iinfo(kind).max


def _reduced_type(
    base: TensorType, source: TensorType, index: TensorType, dim: int, kind: str
) -> TensorType:
    if base.dtype.is_complex and kind != "mul":
        raise errors.not_for_complex(f"scatter_reduce (by {kind})", base.dtype)
    return TensorType(base.shape, base.dtype)


REDUCED = Op(  # base with `kind` of source's elements at the places of scatter
    "scatter_reduced",
    attrs=("dim", "kind"),
    type=_reduced_type,
    lower=scatter_lower,
    vjp=lambda g, out, base, source, index, dim, kind: _reduced_vjp(
        g, out, base, source, index, dim, kind
    ),
)


def _reduced_vjp(
    g: Any, out: Any, base: Any, source: Any, index: Any, dim: int, kind: str
) -> Any:
    corner = source
    for d, size in enumerate(index.shape):
        corner = corner.narrow(d, 0, size)
    if kind == "mul":
        return *_product_gradients(g, base, corner, source, index, dim), None
    from_base = (out == base).to(g.dtype)
    from_source = (GATHER(out, index, dim=dim) == corner).to(g.dtype)
    ties = SCATTER(from_base, from_source, index, dim=dim, kind="add")
    share = g / WHERE(ties == 0, 1.0, ties)
    return (
        share * from_base,
        grown(GATHER(share, index, dim=dim) * from_source, source.shape),
        None,
    )


def _product_gradients(
    g: Any, base: Any, corner: Any, source: Any, index: Any, dim: int
) -> tuple[Any, Any]:
    """Each factor's gradient is the product of the others. Zeros are counted, not divided by;
    a single other one is multiplied back, for the second derivative by it. (Third derivatives
    by two zeros are left out.)
    """
    (of_base, base_zero), (own, own_zero) = _without_zeros(base), _without_zeros(corner)
    product = REDUCED(of_base, own, index, dim=dim, kind="mul")
    count = SCATTER(base_zero, own_zero, index, dim=dim, kind="add")
    zeros = WHERE(base == 0, base, 0.0), WHERE(corner == 0, corner, 0.0)
    zero = SCATTER(*zeros, index, dim=dim, kind="add")  # the one of its place, or their sum

    def there(x: Any) -> Any:
        return GATHER(x, index, dim=dim)

    def gradient(g: Any, rest: Any, count: Any, zero: Any) -> Any:
        others = WHERE(count == 0, rest, WHERE(count == 1, rest * zero, 0.0))
        return g * conjugate(others)

    to_base = gradient(g, product / of_base, count - base_zero, zero - zeros[0])
    to_source = gradient(
        there(g), there(product) / own, there(count) - own_zero, there(zero) - zeros[1]
    )
    return to_base, grown(to_source, source.shape)


def _without_zeros(x: Any) -> tuple[Any, Any]:
    """The factors with ones for zeros, and how many zeros that were: one or none each."""
    is_zero = x == 0
    return WHERE(is_zero, 1.0, x), is_zero.to(dt.int64)


@public("torch", "Tensor", inplace=True, out=True)
def scatter_reduce(
    input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy with src reduced (sum, prod, mean, amax, amin) into the places of `scatter`.

    >>> x = torch.ones(3)
    >>> x.scatter_reduce(0, torch.tensor([0, 0]), torch.tensor([2.0, 3.0]), "prod")
    tensor([6., 1., 1.])
    """
    if reduce not in _REDUCES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    at = check_along("scatter_reduce", input, dim, index, src)
    if src.dtype is not input.dtype:
        raise RuntimeError("scatter_reduce(): Expected self.dtype to be equal to src.dtype")
    if not index.numel():
        return input.clone()
    shape = input._shape
    x, index, src = (t if t.ndim else t.reshape(1) for t in (input, index, src))
    base = x
    if not include_self:
        base = SCATTER(x, _neutral(reduce, x.dtype), index, dim=at, kind="set")
    if reduce in ("sum", "mean"):
        out = SCATTER(base, src, index, dim=at, kind="add")
        return (_meaned(out, x, index, at, include_self) if reduce == "mean" else out).reshape(
            shape
        )
    return REDUCED(base, src, index, dim=at, kind=_REDUCES[reduce]).reshape(shape)


def _meaned(total: Any, x: Any, index: Any, dim: int, include_self: bool) -> Any:
    start = FILL(int(include_self), shape=x._shape, dtype=dt.int64)
    count = SCATTER(start, 1, index, dim=dim, kind="add").clamp(min=1)
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return total / count.to(x.dtype)
    return total.div(count, rounding_mode="floor").to(x.dtype)


# -- along one dimension


_KINDS = {"prod": "mul", "mean": "add", "amax": "max", "amin": "min"}
ROWS = Op(  # index, at which scatter_reduce's own checks would raise what it raises
    "index_reduce",
    attrs=("size",),
    type=lambda index, size: index,
    lower=lambda k, index, size: k.checked(index, index, size, "index"),
    vjp=NOT_DIFFERENTIABLE,
)


@public("torch", "Tensor", inplace=True, out=True)
def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """A copy with parts of `source` reduced (prod, mean, amax, amin) at these indices.

    >>> x = torch.ones(2)
    >>> x.index_reduce(0, torch.tensor([0, 0]), torch.tensor([2.0, 3.0]), "prod")
    tensor([6., 1.])
    """
    if reduce not in _KINDS:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    x, vector, parts, at = placed_parts("index_reduce", input, dim, index, source)
    shape = [1] * x.ndim
    shape[at] = -1
    rows = ROWS(vector.to(dt.int64), size=x._shape[at])
    wide = rows.reshape(shape).expand(parts._shape)
    out = scatter_reduce(x, at, wide, parts, reduce, include_self=include_self)
    return out.reshape(input._shape)
