"""The builder that lowerings write against: primitives, movement, and small simplifications.

A lowering is `lower(k, *operands, **attributes)`; operands are `Ref`s with Python operators, so
that it reads like the formula. Movement (reshape, permute, slices) makes views and no nodes.
What each primitive means for complex operands is in `planes.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any  # attributes and Python numbers

from rushlight import dtypes as dt
from rushlight import float8, views
from rushlight.dtypes import Category, dtype
from rushlight.ir.node import Arg, Node, view_of
from rushlight.ir.planes import over_planes
from rushlight.ir.prims import PRIMS
from rushlight.ir.ref import Operand, Pair, Ref, part_view
from rushlight.views import AnyView, Recast, Shape, View

EMPTY_RESULTS = {"sum": 0, "prod": 1, "any": False, "all": True}  # reductions of nothing
_RESULTS: dict[str, Callable[[dtype], dtype]] = {
    "bool": lambda kind: dt.bool_,
    "bits": lambda kind: {4: dt.int32, 8: dt.int64}[kind.itemsize],
}
_NARROW = frozenset(t for t in dt.ALL if t.is_floating_point and t.itemsize <= 2)


class Builder:
    """Makes hash-consed nodes. One builder holds one graph."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._known: dict[tuple[Any, ...], Node] = {}
        self.origin: Any = None

    # -- nodes

    def node(
        self, op: str, args: Sequence[Arg], attrs: tuple[Any, ...], shape: Shape, dtype: dtype
    ) -> Node:
        """The node with these parts: an existing one if it was made before."""
        plain = tuple([a if a[1] is None else self._plain(a) for a in args])
        key: tuple[Any, ...] = (op, attrs, shape, dtype, plain)
        if op == "const":
            key = (*key, tuple(map(type, attrs)), tuple(map(_sign, attrs)))
        found = self._known.get(key)
        if found is None:
            found = Node(len(self.nodes), op, plain, attrs, shape, dtype)
            found.origin = self.origin
            self._known[key] = found
            self.nodes.append(found)
        return found

    @staticmethod
    def _plain(arg: Arg) -> Arg:
        node, view = arg
        if view is None or view.shape != node.shape or view.offset:
            return arg
        return (node, None) if views.is_contiguous(view.shape, view.strides) else arg

    def leaf(self, position: int, shape: Shape, dtype: dtype) -> Ref:
        if dtype.is_complex:
            return self.paired(self.leaf(position, (*shape, 2), dtype.to_real()))
        return Ref(self, self.node("leaf", (), (position,), shape, dtype))

    def scalar(self, position: int, dtype: dtype) -> Ref:
        """A run-time Python number (float64, int64 or bool memory cell)."""
        return Ref(self, self.node("scalar", (), (position,), (), dtype), None, True)

    def const(self, value: Any, dtype: dtype) -> Ref:
        """A compile-time number of this dtype."""
        if dtype.is_complex:
            number, real = complex(value), dtype.to_real()
            return Pair(self.const(number.real, real), self.const(number.imag, real))
        if dtype.is_float8:
            return self.cast(self.const(value, dt.float32), dtype)
        plain = dtype.compute.type(value).item()
        return Ref(self, self.node("const", (), (plain,), (), dtype))

    def extent(self, value: int | float) -> Ref:
        """A number that follows from the sizes of tensors (int64 or float64): kernels read it
        from memory, so that another size needs no other kernel.
        """
        kind = dt.int64 if isinstance(value, int) else dt.float64
        return Ref(self, self.node("extent", (), (value,), (), kind))

    def full(self, shape: Shape, value: Any, dtype: dtype) -> Ref:
        return self.expand(self.const(value, dtype), shape)

    # -- elementwise

    @over_planes
    def map(self, name: str, *operands: Operand) -> Ref:
        """One elementwise primitive over broadcast operands; numbers take the others' dtype."""
        prim = PRIMS[name]
        first = 1 if name == "select" else 0
        kind = next(o.dtype for o in operands[first:] if isinstance(o, Ref))
        refs = [o if isinstance(o, Ref) else self.const(o, kind) for o in operands]
        for r in refs[first:]:
            assert r.dtype is kind, f"{name}: {[r.dtype for r in refs]}"
        shape = views.broadcast_shapes(name, *[r.shape for r in refs])
        out = kind if prim.result == "same" else _RESULTS[prim.result](kind)
        args = [r.arg if r.shape == shape else self.expand(r, shape).arg for r in refs]
        return Ref(self, self.node("map", args, (name,), shape, out))

    def __getattr__(self, name: str) -> Callable[..., Ref]:
        """`k.exp(x)`, `k.max(a, b)`, `k.select(c, a, b)`: every row of the primitive table."""
        if name not in PRIMS:
            raise AttributeError(name)
        return lambda *operands: self.map(name, *operands)

    @over_planes
    def cast(self, x: Ref, to: dtype) -> Ref:
        """Convert elements: floats to integers truncate, to bool compare with zero."""
        if x.dtype is to:
            return x.weakened(False)
        if x.dtype.is_float8 or to.is_float8:
            return self._cast_float8(x, to)
        if x.node.op == "const":
            return self._cast_const(x, to)
        return Ref(self, self.node("cast", [x.arg], (), x.shape, to))

    def _cast_float8(self, x: Ref, to: dtype) -> Ref:
        """To and from eight bits by way of float32, by NumPy: kernels only move the bits."""
        if x.dtype.is_float8:
            made = self.host(float8.decoded, [(x.shape, dt.float32)], x, name=x.dtype.name)
            return self.cast(made[0], to)
        x = self.cast(x, dt.float32)
        return self.host(float8.encoded, [(x.shape, to)], x, name=to.name)[0]

    def _cast_const(self, x: Ref, to: dtype) -> Ref:
        value = x.node.attrs[0]
        is_plain = to not in (dt.float16, dt.bfloat16)
        if to.category is Category.INTEGRAL and is_plain:
            is_plain = math.isfinite(value) and abs(value) < 2**31 and to.itemsize >= 4
        if not is_plain:
            return Ref(self, self.node("cast", [x.arg], (), x.shape, to))
        exact = bool(value) if to is dt.bool_ else int(value) if to.is_integral else value
        return self.expand(self.const(exact, to), x.shape)

    def wide(self, x: Ref) -> Ref:
        """Half-precision values as float32, in which all arithmetic on them is done."""
        return self.cast(x, dt.float32) if x.dtype in _NARROW else x

    def iota(self, shape: Shape, dim: int, dtype: dtype = dt.int64) -> Ref:
        """The index along `dim`, at every element."""
        return Ref(self, self.node("iota", (), (dim,), shape, dtype))

    def random(self, shape: Shape, seed: Ref, offset: Ref) -> Ref:
        """64 random bits an element: Philox4x32-10 of (seed, offset + linear index), int64."""
        args = [self.expand(r, shape).arg for r in (seed, offset)]
        return Ref(self, self.node("random", args, (), shape, dt.int64))

    # -- movement: views only

    @over_planes
    def expand(self, x: Ref, shape: Shape) -> Ref:
        if x.shape == shape:
            return x
        return Ref(self, x.node, views.expand(view_of(x.arg), tuple(shape)), x.weak)

    @over_planes
    def permute(self, x: Ref, dims: Sequence[int]) -> Ref:
        return Ref(self, x.node, views.permute(view_of(x.arg), tuple(dims)))

    @over_planes
    def reshape(self, x: Ref, shape: Shape) -> Ref:
        """The same elements in order; copies when no single view says so."""
        if x.shape == shape:
            return x
        found = views.try_reshape(view_of(x.arg), tuple(shape))
        if found is None:
            return self.reshape(self.copy(x), shape)
        return Ref(self, x.node, found)

    @over_planes
    def as_strided(self, x: Ref, shape: Shape, strides: Shape, offset: int = 0) -> Ref:
        """A view of x's own elements numbered in order (x is copied if it is itself a view)."""
        if x.view is None:
            return Ref(self, x.node, View(shape, strides, offset))
        found = views.compose(View(shape, strides, offset), x.view)
        if found is None:
            return self.as_strided(self.copy(x), shape, strides, offset)
        return Ref(self, x.node, found)

    @over_planes
    def slice(self, x: Ref, dim: int, start: int, length: int, step: int = 1) -> Ref:
        own = view_of(x.arg)
        shape, strides = list(own.shape), list(own.strides)
        offset = own.offset + (start * strides[dim] if length else 0)
        shape[dim] = length
        strides[dim] *= step
        return Ref(self, x.node, View(tuple(shape), tuple(strides), offset))

    def flip(self, x: Ref, dims: Sequence[int]) -> Ref:
        for dim in dims:
            size = x.shape[dim]
            x = self.slice(x, dim, max(size - 1, 0), size, -1)
        return x

    @over_planes
    def copy(self, x: Ref) -> Ref:
        """x's elements as a node of their own, whole and in order."""
        return Ref(self, self.node("cast", [x.arg], (), x.shape, x.dtype))

    # -- complex numbers

    def complex(self, re: Ref, im: Ref) -> Ref:
        """re + i im, of real operands of one shape and dtype."""
        return Pair(re, im)

    def conj(self, x: Ref) -> Ref:
        """The conjugate of complex operands; real ones themselves."""
        return Pair(x.re, -x.im, x.weak) if isinstance(x, Pair) else x

    def paired(self, x: Ref) -> Ref:
        """The complex numbers whose parts are the two elements of x's last dimension."""
        rest = x.shape[:-1]
        re, im = (self.reshape(self.slice(x, len(rest), i, 1), rest) for i in (0, 1))
        return Pair(re, im)

    def interleaved(self, x: Ref) -> Ref:
        """Complex numbers as real ones with a last dimension of 2, as they lie in memory."""
        assert isinstance(x, Pair)
        shape, kind = (*x.shape, 2), x.re.dtype
        if 0 in shape:
            return self.full(shape, 0, kind)
        found = x.in_memory()
        if found is not None and views.is_whole(found[1], found[0].numel // 2):
            return Ref(self, found[0], views.whole(shape))
        place = views.whole(x.shape)
        parts = [(p, part_view(place, i)) for i, p in enumerate((x.re, x.im))]
        return self.update(None, parts, shape, kind)

    def source_of(self, x: Ref) -> tuple[Ref, View]:
        """A reference to the whole of a node, and the view through which x reads it."""
        if not isinstance(x, Pair):
            return Ref(self, x.node), view_of(x.arg)
        found = x.in_memory()
        if found is None:
            return x, views.whole(x.shape)
        node, own = found
        return self.recast(Ref(self, node), x.dtype), own

    def recast(self, x: Ref, to: dtype) -> Ref:
        """x's memory as elements of another dtype: complex numbers as pairs of real ones, or
        real ones in pairs as complex ones.
        """
        if x.dtype is to:
            return x
        if isinstance(x, Pair):
            return self.interleaved(x)
        count = views.numel(x.shape) // 2
        return self.paired(self.as_strided(x, (count, 2), (2, 1)))

    def seen(self, x: Ref, view: AnyView) -> Ref:
        """x's memory as a tensor reads it through `view`."""
        kind = view.dtype if type(view) is Recast else x.dtype
        strided = self.as_strided(self.recast(x, kind), view.shape, view.strides, view.offset)
        return self.marked(strided, view)

    def marked(self, x: Ref, view: AnyView) -> Ref:
        """x conjugated and negated as a view says: on the way out of memory, and into it."""
        is_conj, is_neg = views.marks(view)
        x = self.conj(x) if is_conj else x
        return -x if is_neg else x

    # -- computed by kernels of their own

    @over_planes
    def reduce(
        self,
        kind: str,
        x: Ref,
        dims: Sequence[int],
        keepdim: bool = False,
        dtype: dtype | None = None,
    ) -> Ref:
        """`sum prod max min any all argmax argmin` over `dims`. Sums and products of float32
        are kept in float64 on the way; max and min carry NaN; arg forms give the first position
        (int64, over the reduced dims in order).
        """
        kept = [d for d in range(len(x.shape)) if d not in dims]
        order = kept + list(dims)
        moved = self.permute(x, order) if order != list(range(len(order))) else x
        out_type = dtype or (dt.int64 if kind.startswith("arg") else x.dtype)
        shape = tuple(x.shape[d] for d in kept)
        if 0 in x.shape and (kind in EMPTY_RESULTS or 0 in shape):
            out = self.full(shape, EMPTY_RESULTS.get(kind, 0), out_type)
        else:
            out = Ref(
                self, self.node("reduce", [moved.arg], (kind, len(dims)), shape, out_type)
            )
        if keepdim:
            out = self.reshape(out, views.reduced_shape(x.shape, dims, True))
        return out

    @over_planes
    def contract(self, equation: str, a: Ref, b: Ref, dtype: dtype | None = None) -> Ref:
        """A sum of products in einsum's letters: `contract("bmk,bkn->bmn", a, b)`.

        Each letter of one operand alone must be in the output. Half-precision products are
        summed in float32.
        """
        inputs, _, letters = equation.partition("->")
        left, _, right = inputs.partition(",")
        batch = [c for c in letters if c in left and c in right]
        rows = [c for c in letters if c in left and c not in right]
        columns = [c for c in letters if c in right and c not in left]
        summed = [c for c in left if c in right and c not in letters]
        x = self.permute(a, [left.index(c) for c in batch + rows + summed])
        y = self.permute(b, [right.index(c) for c in batch + columns + summed])
        sizes = dict(zip(left, a.shape, strict=True)) | dict(zip(right, b.shape, strict=True))
        shape = tuple(sizes[c] for c in batch + rows + columns)
        if 0 in sizes.values():  # an empty result, or sums of nothing
            return self.full(tuple(sizes[c] for c in letters), 0, dtype or a.dtype)
        counts = (len(batch), len(rows), len(columns), len(summed))
        made = self.node("contract", [x.arg, y.arg], counts, shape, dtype or a.dtype)
        natural = batch + rows + columns
        return self.permute(Ref(self, made), [natural.index(c) for c in letters])

    @over_planes
    def gather(
        self,
        base: Ref,
        view: View,
        indices: Sequence[tuple[Ref, int, int]],
        label: str = "index",
    ) -> Ref:
        """out[i] = base[view(i) + sum(index(i) * stride)] over base's elements in order.

        `indices` are (int64 index broadcastable to view.shape, stride, size), checked at run
        time for 0 <= index < size; one outside raises IndexError at the flush, naming `label`.
        """
        plain = base if base.view is None else self.copy(base)
        refs = [self.expand(i, view.shape).arg for i, _, _ in indices]
        steps = tuple((stride, size) for _, stride, size in indices)
        attrs = (view, steps, label)
        return Ref(self, self.node("gather", [plain.arg, *refs], attrs, view.shape, base.dtype))

    def checked(self, x: Ref, index: Ref, size: int, label: str) -> Ref:
        """x; where 0 <= index < size does not hold, the flush fails as `gather` does."""
        nowhere = View(index.shape, (0,) * len(index.shape), 0)
        one = self.gather(self.full((1,), 1, x.dtype), nowhere, [(index, 0, size)], label)
        return x * one

    @over_planes
    def scatter(
        self,
        kind: str,
        base: Ref,
        source: Ref,
        view: View,
        indices: Sequence[tuple[Ref, int, int]],
        label: str = "index",
    ) -> Ref:
        """A copy of base with `kind` (set add mul max min) of source's elements, in order of
        position, at base[view(i) + sum(index(i) * stride)]; indices as in `gather`. Sums and
        products of half precision are kept in float32 and rounded once.
        """
        if kind in ("add", "mul") and base.dtype in (dt.float16, dt.bfloat16):
            wide = self.scatter(kind, self.wide(base), self.wide(source), view, indices, label)
            return self.cast(wide, base.dtype)
        refs = [self.expand(i, view.shape).arg for i, _, _ in indices]
        steps = tuple((stride, size) for _, stride, size in indices)
        args = [base.arg, self.expand(source, view.shape).arg, *refs]
        attrs = (kind, view, steps, label)
        return Ref(self, self.node("scatter", args, attrs, base.shape, base.dtype))

    @over_planes
    def update(
        self,
        base: Ref | None,
        parts: Sequence[tuple[Ref, View]],
        shape: Shape,
        dtype: dtype,
    ) -> Ref:
        """base (or nothing, where the parts cover everything) with each part written at its
        view of the result's elements: of its memory as elements of the part's dtype.

        A part whose elements meet in memory is written in order, so that the last one stays.
        """
        if len(parts) == 1 and views.is_whole(parts[0][1], views.numel(shape)):
            return self.reshape(parts[0][0], shape)
        if base is not None and any(views.has_overlap(v) for _, v in parts):
            return self._written_in_order(base, parts)
        args = ([base.arg] if base is not None else []) + [p.arg for p, _ in parts]
        attrs = (base is not None, tuple(v for _, v in parts))
        return Ref(self, self.node("update", args, attrs, shape, dtype))

    def _written_in_order(self, base: Ref, parts: Sequence[tuple[Ref, View]]) -> Ref:
        for part, view in parts:
            assert part.dtype is base.dtype, (part.dtype, base.dtype)
            base = self.scatter("set", base, part, view, ())
        return base

    def pad(
        self,
        x: Ref,
        before: Sequence[int],
        after: Sequence[int],
        value: Any,
        gaps: Sequence[int] | None = None,
    ) -> Ref:
        """x surrounded by `value`: sizes before and after each dim, and `gaps[d]` elements of
        `value` between neighbours. Negative sizes crop (before any gaps are made).
        """
        gaps = gaps or [0] * len(x.shape)
        for d, (low, high) in enumerate(zip(before, after, strict=True)):
            start, stop = max(-low, 0), x.shape[d] - max(-high, 0)
            if (start, stop) != (0, x.shape[d]):
                x = self.slice(x, d, start, max(stop - start, 0))
        before, after = [max(b, 0) for b in before], [max(a, 0) for a in after]
        if not any(before) and not any(after) and not any(gaps):
            return x
        inner = [max(s + (s - 1) * g, 0) for s, g in zip(x.shape, gaps, strict=True)]
        shape = tuple(b + s + a for b, s, a in zip(before, inner, after, strict=True))
        around = self.full(shape, value, x.dtype)
        if 0 in x.shape:
            return around
        own = views.contiguous_strides(shape)
        offset = sum(b * s for b, s in zip(before, own, strict=True))
        steps = tuple(s * (g + 1) for s, g in zip(own, gaps, strict=True))
        return self.update(around, [(x, View(x.shape, steps, offset))], shape, x.dtype)

    def cat(self, parts: Sequence[Ref], dim: int) -> Ref:
        shape = list(parts[0].shape)
        shape[dim] = sum(p.shape[dim] for p in parts)
        own = views.contiguous_strides(shape)
        placed, at = [], 0
        for part in parts:
            if views.numel(part.shape):
                placed.append((part, View(part.shape, own, at * own[dim])))
            at += part.shape[dim]
        if not placed:
            return self.full(tuple(shape), 0, parts[0].dtype)
        return self.update(None, placed, tuple(shape), parts[0].dtype)

    @over_planes
    def scan(self, kind: str, x: Ref, dim: int, dtype: dtype | None = None) -> Ref:
        """Running `sum prod max min` along `dim` (inclusive). Sums and products of float32 are
        kept in float64 on the way.
        """
        made = self.node("scan", [x.arg], (kind, dim), x.shape, dtype or x.dtype)
        return Ref(self, made)

    @over_planes
    def host(
        self,
        function: Callable[..., Any],
        outputs: Sequence[tuple[Shape, dtype]],
        *operands: Ref,
        **attrs: Any,
    ) -> list[Ref]:
        """Call a NumPy function between kernels: `function(*arrays, **attrs)` returns an array
        for each declared output (or one array alone). Half-precision arrays come as float32.
        """
        fixed = (function, tuple(sorted(attrs.items())), tuple(outputs))
        call = self.node("host", [o.arg for o in operands], fixed, (), dt.uint8)
        return self.items(call, outputs)

    def attention(
        self, q: Ref, key: Ref, value: Ref, mask: Ref | None, scale: float, is_causal: bool
    ) -> list[Ref]:
        """softmax(scale * q key^T + mask) value over (batch, heads, length, width) operands,
        and the log of each row's sum (batch, heads, length), in float32 for half precision.
        """
        rows = q.shape[:-1]
        kind = dt.float64 if q.dtype is dt.float64 else dt.float32
        outputs = (((*rows, value.shape[-1]), q.dtype), (rows, kind))
        args = [x.arg for x in (q, key, value, mask) if x is not None]
        call = self.node("attention", args, (scale, is_causal, outputs), (), dt.uint8)
        return self.items(call, outputs)

    def attention_grad(
        self,
        g: Ref,
        out: Ref,
        sums: Ref,
        q: Ref,
        key: Ref,
        value: Ref,
        mask: Ref | None,
        scale: float,
        is_causal: bool,
    ) -> list[Ref]:
        """Gradients of `attention` by q, key and value, from its results and their gradient."""
        outputs = tuple((x.shape, x.dtype) for x in (q, key, value))
        args = [x.arg for x in (g, out, sums, q, key, value, mask) if x is not None]
        call = self.node("attention_grad", args, (scale, is_causal, outputs), (), dt.uint8)
        return self.items(call, outputs)

    def recurrence(
        self, cell: str, operands: Mapping[str, Ref], outputs: Mapping[str, tuple[Shape, dtype]]
    ) -> list[Ref]:
        """A recurrent cell over all steps of a sequence (`loops/recurrence.py`), from the
        input's part of the gates, the hidden weight and the first states.
        """
        return self._walk("recurrence", cell, operands, outputs)

    def recurrence_grad(
        self, cell: str, operands: Mapping[str, Ref], outputs: Mapping[str, tuple[Shape, dtype]]
    ) -> list[Ref]:
        """Gradients of `recurrence` by the input's part of the gates and the first states."""
        return self._walk("recurrence_grad", cell, operands, outputs)

    def _walk(
        self,
        op: str,
        cell: str,
        operands: Mapping[str, Ref],
        outputs: Mapping[str, tuple[Shape, dtype]],
    ) -> list[Ref]:
        made = tuple(outputs.values())
        attrs = (cell, tuple(operands), made, tuple(outputs))
        args = [x.arg for x in operands.values()]
        return self.items(self.node(op, args, attrs, (), dt.uint8), made)

    def items(self, call: Node, outputs: Sequence[tuple[Shape, dtype]]) -> list[Ref]:
        """References to the results of a node that has several."""
        return [
            Ref(self, self.node("item", [(call, None)], (i,), shape, kind))
            for i, (shape, kind) in enumerate(outputs)
        ]


def _sign(value: Any) -> float:
    """Tells 0.0 from -0.0 in a node's key."""
    return math.copysign(1.0, value) if isinstance(value, float) else 0.0
