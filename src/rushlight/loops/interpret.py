"""The primitives in NumPy: the definition of what the compiler must compute.

An oracle for tests, and the backend `RUSHLIGHT_BACKEND=reference`. One function a primitive,
none of them fast. bfloat16 values are float32 arrays rounded to bfloat16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any  # arrays of any dtype

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.dtypes import Category, dtype
from rushlight.ir.node import Node, view_of
from rushlight.ir.prims import PRIMS
from rushlight.loops import recurrence_formula
from rushlight.views import View

Array = np.ndarray[Any, Any]


class IndexOutOfRange(Exception):
    """A gather or scatter met an index outside its range; `node` says which."""

    def __init__(self, node: Node) -> None:
        super().__init__(repr(node))
        self.node = node


class HostFailed(Exception):
    """The function of a host node raised `error`."""

    def __init__(self, node: Node, error: Exception) -> None:
        super().__init__(repr(node))
        self.node = node
        self.error = error


def evaluate(
    outputs: Sequence[Node],
    inputs: Callable[[Node], Array],
    given: Mapping[Node, Array] | None = None,
) -> list[Array]:
    """The values of `outputs`; `inputs` gives the arrays of leaf and scalar nodes, `given`
    those
    of nodes computed before.
    """
    known: dict[Node, Any] = dict(given or {})
    order = [n for n in ancestors(outputs, known) if n not in known]
    with np.errstate(all="ignore"):
        for node in order:
            if node.op in ("leaf", "scalar"):
                known[node] = np.asarray(inputs(node))
            else:
                known[node] = _RULES[node.op](node, *_operands(node, known))
    return [known[n] for n in outputs]


def _operands(node: Node, known: dict[Node, Any]) -> list[Any]:
    if node.op == "item":
        return [known[node.args[0][0]]]
    return [_read(known[n], view_of((n, v))) for n, v in node.args]


def ancestors(outputs: Sequence[Node], known: Mapping[Node, Array]) -> list[Node]:
    """The nodes that `outputs` need and nobody knows, operands first."""
    seen: set[Node] = set()
    stack = list(outputs)
    while stack:
        node = stack.pop()
        if node not in seen and node not in known:
            seen.add(node)
            stack.extend(n for n, _ in node.args)
    return sorted(seen, key=lambda n: n.number)


def _read(array: Array, view: View) -> Array:
    """The elements that `view` reads of an array numbered in order."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if views.numel(view.shape) == 0:
        return np.empty(view.shape, flat.dtype)
    size = flat.itemsize
    strides = [s * size for s in view.strides]
    return np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides)


def _place(flat: Array, view: View) -> Array:
    size = flat.itemsize
    strides = [s * size for s in view.strides]
    return np.lib.stride_tricks.as_strided(flat[view.offset :], view.shape, strides)


def round_bfloat16(x: Array) -> Array:
    """float32 rounded to the nearest bfloat16, ties to even, NaN kept."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    out = (rounded & 0xFFFF0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), out).reshape(np.shape(x))


def round_to(x: Array, to: dtype) -> Array:
    """An array in the dtype's compute type, holding only values that the dtype has."""
    if to is dt.bfloat16:
        return round_bfloat16(x.astype(np.float32))
    if to is dt.float16:
        return x.astype(np.float16).astype(np.float32)
    return x.astype(to.compute, copy=False)


def cast_array(x: Array, to: dtype) -> Array:
    """PyTorch's conversion: floats to integers truncate (wrapping through int64), to bool
    test.
    """
    if to is dt.bool_:
        return x != 0  # type: ignore[no-any-return]
    if to.category is Category.INTEGRAL and x.dtype.kind == "f":
        whole = np.trunc(x)
        inside = (whole >= -(2.0**63)) & (whole < 2.0**63)
        if to is dt.uint64:
            upper = (whole >= 2.0**63) & (whole < 2.0**64)
            high = np.where(upper, whole, 0).astype(np.uint64)
            low = np.where(inside, whole, -(2.0**63)).astype(np.int64).astype(np.uint64)
            return np.where(upper, high, low)
        return np.where(inside, whole, -(2.0**63)).astype(np.int64).astype(to.compute)
    return round_to(x, to)


def _map(node: Node, *operands: Array) -> Array:
    out = PRIMS[node.attrs[0]].reference(*operands)
    return np.asarray(out, dtype=node.dtype.compute)


def _iota(node: Node) -> Array:
    dim = node.attrs[0]
    shape = [1] * len(node.shape)
    shape[dim] = node.shape[dim]
    index = np.arange(node.shape[dim]).reshape(shape)
    return np.broadcast_to(index, node.shape).astype(node.dtype.compute)


_PHILOX_M = (0xD2511F53, 0xCD9E8D57)
_PHILOX_W = (0x9E3779B9, 0xBB67AE85)


def _random(node: Node, seed: Array, offset: Array) -> Array:
    """Philox4x32-10 (Salmon et al., SC 2011): counter (offset + index), key seed; words 0 and
    1.
    """
    count = views.numel(node.shape)
    counter = offset.reshape(-1)[:1].astype(np.uint64) + np.arange(count, dtype=np.uint64)
    low32 = np.uint64(0xFFFFFFFF)
    c = [
        counter & low32,  # type: ignore[operator]
        counter >> np.uint64(32),  # type: ignore[operator]
        np.zeros_like(counter),
        np.zeros_like(counter),
    ]
    key = int(seed.reshape(-1)[0]) & 0xFFFFFFFFFFFFFFFF if count else 0
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(_PHILOX_M[0]), c[2] * np.uint64(_PHILOX_M[1])
        c = [
            (p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0),
            p1 & low32,
            (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
            p0 & low32,
        ]
        k0, k1 = (k0 + _PHILOX_W[0]) & 0xFFFFFFFF, (k1 + _PHILOX_W[1]) & 0xFFFFFFFF
    return (c[0] | (c[1] << np.uint64(32))).view(np.int64).reshape(node.shape)  # type: ignore[no-any-return]


def _reduce(node: Node, x: Array) -> Array:
    kind, count = node.attrs
    kept = x.shape[: x.ndim - count]
    rows = np.ascontiguousarray(x).reshape(*kept, views.numel(x.shape[len(kept) :]))
    if kind in ("sum", "prod"):
        wide = rows.astype(np.float64) if rows.dtype == np.float32 else rows
        out = wide.sum(-1) if kind == "sum" else wide.prod(-1)
    elif kind in ("any", "all"):
        out = rows.any(-1) if kind == "any" else rows.all(-1)
    elif kind in ("max", "min"):
        out = rows.max(-1) if kind == "max" else rows.min(-1)
    else:
        out = rows.argmax(-1) if kind == "argmax" else rows.argmin(-1)
    return np.asarray(out).astype(node.dtype.compute)


def _contract(node: Node, a: Array, b: Array) -> Array:
    batch, rows, columns, summed = node.attrs
    k = int(np.prod(a.shape[batch + rows :], dtype=np.int64))
    lead = a.shape[:batch]
    x = np.ascontiguousarray(a).reshape(
        *lead, -1 if k else int(np.prod(a.shape[batch : batch + rows])), k
    )
    y = np.ascontiguousarray(b).reshape(
        *lead, -1 if k else int(np.prod(b.shape[batch : batch + columns])), k
    )
    if x.dtype.kind == "b":
        out = (x.astype(np.int64) @ y.astype(np.int64).swapaxes(-1, -2)) != 0
    elif x.dtype == np.float32 and node.dtype in (dt.float16, dt.bfloat16):
        out = x.astype(np.float64) @ y.astype(np.float64).swapaxes(-1, -2)
    else:
        out = x @ y.swapaxes(-1, -2)
    return round_to(np.asarray(out).reshape(node.shape), node.dtype)


def _positions(node: Node, view: View, steps: Any, indices: Sequence[Array]) -> Array:
    place = np.full(view.shape, view.offset, np.int64)
    for d, stride in enumerate(view.strides):
        shape = [1] * len(view.shape)
        shape[d] = view.shape[d]
        place = place + (np.arange(view.shape[d]) * stride).reshape(shape)
    for (stride, size), index in zip(steps, indices, strict=True):
        if ((index < 0) | (index >= size)).any():
            raise IndexOutOfRange(node)
        place = place + index * stride
    return place


def _gather(node: Node, base: Array, *indices: Array) -> Array:
    view, steps, _ = node.attrs
    return base.reshape(-1)[_positions(node, view, steps, indices)]


_SCATTER = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter(node: Node, base: Array, source: Array, *indices: Array) -> Array:
    kind, view, steps, _ = node.attrs
    out = base.copy().reshape(-1)
    places = _positions(node, view, steps, indices)
    if kind == "set":
        out[places.reshape(-1)] = source.reshape(-1)
    else:
        _SCATTER[kind].at(out, places.reshape(-1), source.reshape(-1))
    return round_to(out, node.dtype).reshape(node.shape)


def _update(node: Node, *operands: Array) -> Array:
    has_base, parts = node.attrs
    if has_base:
        out = operands[0].copy().reshape(-1)
    else:
        out = np.zeros(views.numel(node.shape), node.dtype.compute)
    for view, part in zip(parts, operands[has_base:], strict=True):
        if views.numel(view.shape):
            _place(out, view)[...] = part
    return out.reshape(node.shape)


def _scan(node: Node, x: Array) -> Array:
    kind, dim = node.attrs
    rule = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    wide = x.astype(np.float64) if x.dtype == np.float32 and kind in ("sum", "prod") else x
    return cast_array(np.asarray(rule.accumulate(wide, axis=dim, dtype=wide.dtype)), node.dtype)


def _host(node: Node, *operands: Array) -> list[Array]:
    function, attrs, _ = node.attrs
    try:
        made = function(*(np.ascontiguousarray(o) for o in operands), **dict(attrs))
    except RecursionError:
        raise  # the stack is at its end, not the function's fault
    except Exception as error:
        raise HostFailed(node, error) from error
    return _rounded(node, made if isinstance(made, tuple | list) else (made,))


def _scores(node: Node, q: Array, key: Array, mask: tuple[Array, ...]) -> Array:
    scale, is_causal, _ = node.attrs
    scores = q.astype(np.float64) @ key.astype(np.float64).swapaxes(-1, -2) * scale
    if is_causal:
        rows, columns = scores.shape[-2:]
        scores = np.where(np.tri(rows, columns, dtype=bool), scores, -np.inf)
    for m in mask:
        is_blocked = ~m if m.dtype.kind == "b" else np.isneginf(m)
        scores = np.where(is_blocked, -np.inf, scores if m.dtype.kind == "b" else scores + m)
    return scores  # type: ignore[no-any-return]


def _attention(node: Node, q: Array, key: Array, value: Array, *mask: Array) -> list[Array]:
    scores = _scores(node, q, key, mask)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    top = np.where(np.isneginf(top), 0, top)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    out = _weighted(weights / np.where(total == 0, 1, total), value.astype(np.float64))
    return _rounded(node, [out, (top + np.log(total))[..., 0]])


def _attention_grad(node: Node, *operands: Array) -> list[Array]:
    g, out, sums, q, key, value, *mask = (
        o if o.dtype.kind == "b" else o.astype(np.float64) for o in operands
    )
    lost = np.where(np.isneginf(sums), 0, sums)[..., None]
    weights = np.exp(_scores(node, q, key, tuple(mask)) - lost)
    slopes = g @ value.swapaxes(-1, -2) - (g * out).sum(-1, keepdims=True)
    slopes = np.where(weights == 0, 0, weights * slopes * node.attrs[0])
    turned = slopes.swapaxes(-1, -2)
    grads = [
        _weighted(slopes, key),
        _weighted(turned, q),
        _weighted(weights.swapaxes(-1, -2), g),
    ]
    return _rounded(node, grads)


def _weighted(weights: Array, values: Array) -> Array:
    """weights @ values, where a weight of zero makes nothing even of inf and nan."""
    is_finite = np.isfinite(values)
    total = weights @ np.where(is_finite, values, 0)
    if is_finite.all():
        return total
    skipped = (weights[..., None] == 0) | is_finite[..., None, :, :]
    each = weights[..., None] * values[..., None, :, :]
    return total + np.where(skipped, 0, each).sum(-2)  # type: ignore[no-any-return]


def _recurrence(node: Node, *operands: Array) -> list[Array]:
    cell, names, _, made = node.attrs
    wide = {n: o.astype(np.float64) for n, o in zip(names, operands, strict=True)}
    rule = recurrence_formula.states if node.op == "recurrence" else recurrence_formula.slopes
    found = rule(cell, wide)
    return _rounded(node, [found[name] for name in made])


def _rounded(node: Node, arrays: Sequence[Array]) -> list[Array]:
    outputs = results_of(node)
    return [
        round_to(np.asarray(a).reshape(s), k) for a, (s, k) in zip(arrays, outputs, strict=True)
    ]


def results_of(node: Node) -> Sequence[tuple[views.Shape, dtype]]:
    """Shapes and dtypes of a node that has several results."""
    return node.attrs[2]  # type: ignore[no-any-return]


_RULES: dict[str, Callable[..., Any]] = {
    "const": lambda node: np.asarray(node.attrs[0], node.dtype.compute),
    "extent": lambda node: np.asarray(node.attrs[0], node.dtype.compute),
    "map": _map,
    "cast": lambda node, x: cast_array(x, node.dtype),
    "iota": _iota,
    "random": _random,
    "reduce": _reduce,
    "contract": _contract,
    "gather": _gather,
    "scatter": _scatter,
    "update": _update,
    "scan": _scan,
    "host": _host,
    "attention": _attention,
    "attention_grad": _attention_grad,
    "recurrence": _recurrence,
    "recurrence_grad": _recurrence,
    "item": lambda node, results: results[node.attrs[0]],
}
