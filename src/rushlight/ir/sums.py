"""Sums of what is itself a sum: one contraction or scatter instead of many and their sum."""

from __future__ import annotations

from rushlight import views
from rushlight.ir.builder import Builder
from rushlight.ir.node import Node, view_of
from rushlight.ir.ref import Ref
from rushlight.views import View


def folded(k: Builder, x: Ref, dim: int) -> Ref | None:
    """The sum of x along a dimension, with the sum made where x is made; None if x is something
    else than products or scattered sums.
    """
    if x.node.op == "cast" and views.is_whole(view_of(x.arg), x.node.numel):
        # half precision: the sum is rounded once
        found = folded(k, Ref(k, *x.node.args[0]), dim)
        return None if found is None else k.cast(found, x.dtype)
    order = _permutation_of(x) if x.node.op in ("contract", "scatter") else None
    if order is None:
        return None
    at = order[dim]
    made = (_product if x.node.op == "contract" else _scattered)(k, x.node, at)
    if made is None:
        return None
    return k.permute(made, [d - (d > at) for d in order if d != at])


def _product(k: Builder, node: Node, at: int) -> Ref | None:
    """Over a dimension that both operands of a contraction have."""
    batch, rows, columns, summed = node.attrs
    if at >= batch:
        return None
    letters = "".join([chr(ord("a") + i) for i in range(batch + rows + columns + summed)])
    shared, own = letters[:batch], letters[batch : batch + rows]
    other, inner = letters[batch + rows :][:columns], letters[batch + rows + columns :]
    gone, rest = letters[at], shared.replace(letters[at], "")
    a, b = (_leading(k, Ref(k, *arg), at) for arg in node.args)
    equation = f"{gone}{rest}{own}{inner},{gone}{rest}{other}{inner}->{rest}{own}{other}"
    return k.contract(equation, a, b, node.dtype)


def _leading(k: Builder, x: Ref, dim: int) -> Ref:
    """x with a dimension before all others."""
    return k.permute(x, [dim, *(d for d in range(len(x.shape)) if d != dim)])


def _scattered(k: Builder, node: Node, at: int) -> Ref | None:
    """Over the first dimension of scattered sums, if each part of it is reached only from the
    same part of the source.
    """
    kind, view, steps, label = node.attrs
    base, source, *indices = (Ref(k, *arg) for arg in node.args)
    part = views.numel(node.shape[1:])
    reach = view.offset + sum(stride * (size - 1) for stride, size in steps)
    reach += sum(st * (s - 1) for s, st in zip(view.shape[1:], view.strides[1:], strict=True))
    is_apart = at == 0 and (view.shape[:1], view.strides[:1]) == (node.shape[:1], (part,))
    is_sum = kind == "add" and base.node.op == "const" and base.node.attrs[0] == 0
    if not (is_apart and is_sum and reach < part):
        return None
    onto = View(view.shape, (0, *view.strides[1:]), view.offset)
    places = [(i, stride, size) for i, (stride, size) in zip(indices, steps, strict=True)]
    return k.scatter(kind, k.full(node.shape[1:], 0, node.dtype), source, onto, places, label)


def _permutation_of(x: Ref) -> list[int] | None:
    """The dimension of x's node that each of x's own is; None if x reads it in another way."""
    own, natural = view_of(x.arg), views.whole(x.node.shape)
    rest = list(range(len(natural.shape)))
    order = []
    for place in zip(own.shape, own.strides, strict=True):
        same = [d for d in rest if (natural.shape[d], natural.strides[d]) == place]
        if not same:
            return None
        order.append(same[0])
        rest.remove(same[0])
    return None if rest or own.offset else order
