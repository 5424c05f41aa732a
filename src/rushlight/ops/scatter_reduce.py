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
    scatter_op,
)
from rushlight.ops.bounds import index_check
from rushlight.ops.creation import FILL, unrelated
from rushlight.ops.elementwise import WHERE, conjugate, scaled
from rushlight.ops.joining import cat
from rushlight.ops.registry import Op, TensorType, public
from rushlight.ops.scan import suffix_recurrence

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
SUMMED = scatter_op("scatter_summed")


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
    """Each factor's gradient is the product of the others: of those that are not zero, by
    division, times that of those that are.
    """
    (of_base, base_zero), (own, own_zero) = _without_zeros(base), _without_zeros(corner)
    product = REDUCED(of_base, own, index, dim=dim, kind="mul")
    count = SCATTER(base_zero, own_zero, index, dim=dim, kind="add")

    def there(x: Any) -> Any:
        return GATHER(x, index, dim=dim)

    others = count - base_zero, there(count) - own_zero
    to_base, to_source = _products_of_zeros((base, corner), others, index, dim)
    to_base = scaled(g * conjugate(to_base), product / of_base)
    to_source = scaled(there(g) * conjugate(to_source), there(product) / own)
    return to_base, grown(to_source, source.shape)


def _products_of_zeros(
    factors: tuple[Any, Any], counts: tuple[Any, Any], index: Any, dim: int
) -> tuple[Any, Any]:
    """For the base's factors and for those that meet them the product of the others that are
    zero, of which there are `counts`.
    """
    base, _ = factors
    lines = FILL(1, shape=(base.shape[dim],), dtype=dt.int64).cumsum(0) - 1
    lines = lines.reshape([-1 if d == dim else 1 for d in range(base.ndim)])
    shape = [base.shape[dim] if d == dim else size for d, size in enumerate(index.shape)]
    places = cat([lines.expand(shape), index.to(dt.int64)], dim)

    def met(x: Any) -> Any:
        """The part of something like the base that others may meet."""
        for d, size in enumerate(shape):
            x = x.narrow(d, 0, size)
        return x

    zeros = [WHERE(x == 0, x, 1.0) for x in (met(base), factors[1])]
    both = OTHER_ZEROS(cat(zeros, dim), places, cat([met(counts[0]), counts[1]], dim), dim=dim)
    of_base = both.narrow(dim, 0, shape[dim]) - 1
    return grown(of_base, base.shape) + 1, both.narrow(dim, shape[dim], index.shape[dim])


def _other_zeros_vjp(h: Any, out: Any, zeros: Any, places: Any, count: Any, dim: int) -> Any:
    """The sum over the others of h times the product of those that then remain: what h as a
    change of the factors makes of the product of each one's others (second derivatives of a
    product are symmetric). Factors of a place are brought together; what is before one and
    what is after it are running products, with their changes.
    """
    order = places.argsort(dim, stable=True)
    at, z, h = (GATHER(x, order, dim=dim) for x in (places, conjugate(zeros), h))
    after = _after(at, z, h, dim)
    turned = _after(at.flip(dim), z.flip(dim), h.flip(dim), dim)
    before = [x.flip(dim) for x in turned]
    change = before[1] * after[0] + before[0] * after[1]
    return GATHER(change, order.argsort(dim), dim=dim), None, None


def _after(at: Any, z: Any, h: Any, dim: int) -> tuple[Any, Any]:
    """The product of what comes after each factor at its place, and its change by h."""
    joined = at == cat(
        [at.narrow(dim, 1, at.shape[dim] - 1), at.narrow(dim, 0, 1) * 0 - 1], dim
    )

    def next_of(x: Any) -> Any:
        return WHERE(joined, x.roll(-1, dim), 0.0)

    ratio = next_of(z)
    product = suffix_recurrence(ratio, (~joined).to(z.dtype), dim)
    return product, suffix_recurrence(ratio, next_of(h * product), dim)


OTHER_ZEROS = Op(  # the product of the other factors at a place, of which `count` are zeros
    "other_zeros",
    attrs=("dim",),
    type=lambda zeros, places, count, dim: zeros,
    lower=lambda k, zeros, places, count, dim: k.cast(count.equals(0), zeros.dtype),
    vjp=_other_zeros_vjp,
)


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
        return unrelated(input.clone(), src)
    shape = input._shape
    x, index, src = (t if t.ndim else t.reshape(1) for t in (input, index, src))
    base = x
    if not include_self:
        base = SUMMED(x, _neutral(reduce, x.dtype), index, dim=at, kind="set")
    if reduce in ("sum", "mean"):
        out = SUMMED(base, src, index, dim=at, kind="add")
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
ROWS = index_check("index_reduce", "index")


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
