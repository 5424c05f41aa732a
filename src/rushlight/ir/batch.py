"""Lowering of one sample's operation for all samples of the batches of `vmap`.

A lowering is written for one sample. `BatchBuilder` gives it references that have the shape of
one sample, and makes each primitive it asks for over all samples: a batch is one more outermost
dimension of the operands that have it, and of the result. So an operation needs no batching
rule of its own, and rows of a batch are computed as they would be alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any  # attributes and Python numbers

import numpy as np

from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir import sums
from rushlight.ir.builder import Builder
from rushlight.ir.host import does_take_batches
from rushlight.ir.node import Node, view_of
from rushlight.ir.planes import over_planes
from rushlight.ir.ref import Operand, Pair, Ref
from rushlight.views import Shape, View

Levels = tuple[tuple[int, int], ...]  # (number, size) in order of number, as in a TensorType


class BatchedRef(Ref):
    """A reference to all samples that looks like one of them. Its view reads the batches
    first, in order of `levels`.
    """

    __slots__ = ("levels",)

    def __init__(self, k: Builder, ref: Ref, levels: Levels) -> None:
        super().__init__(k, ref.node, ref.view, ref.weak)
        self.levels = levels

    @property
    def shape(self) -> Shape:
        stored = self.node.shape if self.view is None else self.view.shape
        return stored[len(self.levels) :]


def levels_of(ref: Operand) -> Levels:
    if isinstance(ref, Pair):
        return union((ref.re, ref.im))
    return ref.levels if isinstance(ref, BatchedRef) else ()


def union(refs: Iterable[Operand]) -> Levels:
    """Every batch that one of the references has."""
    return tuple(sorted({level for r in refs for level in levels_of(r)}))


def sizes_of(levels: Levels) -> Shape:
    return tuple([size for _, size in levels])


def lower_batched(k: Builder, step: Any, refs: Mapping[int, Ref]) -> list[Ref]:
    """References to all samples of the results of a recorded step."""
    batch = BatchBuilder(k)
    operands = []
    for operand in step.operands:
        ref = batch.given(refs[operand.position], operand.type.levels)
        if operand.view is not None:
            ref = batch.seen(ref, operand.view)
        assert ref.shape == operand.type.shape, (step.op.name, ref.shape, operand)
        operands.append(ref.weakened(True) if operand.type.weak else ref)
    k.origin = step
    named = dict(zip(step.op.attrs, step.attrs, strict=True))
    made = step.op.lower(batch, *operands, **named)
    results = made if isinstance(made, tuple) else (made,)
    stored = []
    for ref, type in zip(results, step.outs, strict=True):
        assert ref.shape == type.shape and ref.dtype is type.dtype, (
            f"{step.op.name}: lowered to {ref.dtype}{ref.shape}, the type rule said {type}"
        )
        stored.append(batch.spread(ref, type.levels))
    return stored


class BatchBuilder(Builder):
    """Makes primitives over all samples in the graph of another builder."""

    def __init__(self, inner: Builder) -> None:
        self.inner = inner

    def node(self, *parts: Any) -> Node:
        return self.inner.node(*parts)

    # -- references of both builders

    @over_planes
    def given(self, ref: Ref, levels: Levels, weak: bool = False) -> Ref:
        """What the inner builder made, as a reference to one sample."""
        plain = Ref(self, ref.node, ref.view, weak)
        return BatchedRef(self, plain, levels) if levels else plain

    @over_planes
    def spread(self, ref: Ref, levels: Levels, shape: Shape | None = None) -> Ref:
        """All samples of `levels`, each broadcast to `shape`, for the inner builder."""
        own, count = view_of(ref.arg), len(levels_of(ref))
        steps = dict(zip(levels_of(ref), own.strides, strict=False))
        sample = View(own.shape[count:], own.strides[count:], own.offset)
        if shape is not None:
            sample = views.expand(sample, tuple(shape))
        strides = tuple([steps.get(level, 0) for level in levels])
        sizes = (*sizes_of(levels), *sample.shape)
        whole = View(sizes, (*strides, *sample.strides), own.offset)
        return Ref(self.inner, ref.node, whole, ref.weak)

    @over_planes
    def raw(self, ref: Ref) -> Ref:
        """All samples, as the inner builder refers to them."""
        return Ref(self.inner, ref.node, ref.view, ref.weak)

    # -- the beginning and the end of a batch

    @over_planes
    def enter(self, x: Ref, number: int, dim: int) -> Ref:
        """Samples of a new batch along `dim`."""
        known = levels_of(x)
        levels = tuple(sorted((*known, (number, x.shape[dim]))))
        at = len(known) + dim
        order = [d for d in range(len(known) + len(x.shape)) if d != at]
        order.insert([n for n, _ in levels].index(number), at)
        return self.given(self.inner.permute(self.raw(x), order), levels)

    @over_planes
    def repeat(self, x: Ref, levels: Levels) -> Ref:
        """x for every sample of more batches."""
        levels = tuple(sorted({*levels_of(x), *levels}))
        return self.given(self.spread(x, levels), levels)

    @over_planes
    def leave(self, x: Ref, level: tuple[int, int], dim: int) -> Ref:
        """The samples of a batch as the dimension `dim`."""
        levels = tuple(sorted({*levels_of(x), level}))
        whole = self.spread(x, levels)
        order = list(range(len(whole.shape)))
        order.insert(len(levels) - 1 + dim, order.pop(levels.index(level)))
        rest = tuple([found for found in levels if found != level])
        return self.given(self.inner.permute(whole, order), rest)

    @over_planes
    def total(self, x: Ref, level: tuple[int, int]) -> Ref:
        """The sum over a batch; where possible the gradient of a shared weight is made as one
        sum, so that those of each sample are never stored.
        """
        whole = self.leave(x, level, 0)
        found = sums.folded(self.inner, self.raw(whole), len(levels_of(whole)))
        if found is not None:
            return self.given(found, levels_of(whole))
        return self.cast(self.reduce("sum", self.wide(whole), (0,)), x.dtype)

    # -- elementwise

    @over_planes
    def map(self, name: str, *operands: Operand) -> Ref:
        levels = union(operands)
        if not levels:
            return super().map(name, *operands)
        shape = views.broadcast_shapes(name, *(o.shape for o in operands if isinstance(o, Ref)))
        spread = [self.spread(o, levels, shape) if isinstance(o, Ref) else o for o in operands]
        return self.given(self.inner.map(name, *spread), levels)

    @over_planes
    def cast(self, x: Ref, to: dtype) -> Ref:
        return self.given(self.inner.cast(self.raw(x), to), levels_of(x))

    def random(self, shape: Shape, seed: Ref, offset: Ref) -> Ref:
        """Every sample counts from its own offset."""
        levels = union((seed, offset))
        if not levels:
            return super().random(shape, seed, offset)
        whole = (*sizes_of(levels), *shape)
        first = self.spread(offset, levels, shape)
        for d, step in enumerate(views.contiguous_strides(whole)[: len(levels)]):
            first = first - self.inner.iota(whole, d) * self.inner.extent(step)
        made = self.inner.random(whole, self.spread(seed, levels, shape), first)
        return self.given(made, levels)

    # -- movement

    @over_planes
    def expand(self, x: Ref, shape: Shape) -> Ref:
        if not levels_of(x) or x.shape == shape:
            return super().expand(x, shape)
        return self.given(self.spread(x, levels_of(x), shape), levels_of(x), x.weak)

    @over_planes
    def permute(self, x: Ref, dims: Sequence[int]) -> Ref:
        count = len(levels_of(x))
        order = [*range(count), *(count + d for d in dims)]
        return self.given(self.inner.permute(self.raw(x), order), levels_of(x))

    @over_planes
    def reshape(self, x: Ref, shape: Shape) -> Ref:
        levels = levels_of(x)
        if x.shape == shape:
            return x
        return self.given(self.inner.reshape(self.raw(x), (*sizes_of(levels), *shape)), levels)

    @over_planes
    def as_strided(self, x: Ref, shape: Shape, strides: Shape, offset: int = 0) -> Ref:
        levels = levels_of(x)
        whole = self._over(levels, levels, x.shape, View(shape, strides, offset))
        return self.given(self.inner.as_strided(self.raw(x), *whole), levels)

    @over_planes
    def slice(self, x: Ref, dim: int, start: int, length: int, step: int = 1) -> Ref:
        levels = levels_of(x)
        made = self.inner.slice(self.raw(x), len(levels) + dim, start, length, step)
        return self.given(made, levels)

    @over_planes
    def copy(self, x: Ref) -> Ref:
        return self.given(self.inner.copy(self.raw(x)), levels_of(x))

    def source_of(self, x: Ref) -> tuple[Ref, View]:
        if isinstance(x, Pair):
            return x, views.whole(x.shape)
        if levels_of(x) and x.view is not None:
            x = self.copy(x)
        return (x, views.whole(x.shape)) if levels_of(x) else super().source_of(x)

    @staticmethod
    def _over(levels: Levels, own: Levels, sample: Shape, view: View) -> View:
        """A view of one sample's elements as one of all samples of `levels`, of memory that
        holds those of `own` in order.
        """
        step, steps = views.numel(sample), dict.fromkeys(levels, 0)
        for level in reversed(own):
            steps[level] = step
            step *= level[1]
        return View(
            (*sizes_of(levels), *view.shape), (*steps.values(), *view.strides), view.offset
        )

    # -- kernels of their own

    @over_planes
    def reduce(
        self,
        kind: str,
        x: Ref,
        dims: Sequence[int],
        keepdim: bool = False,
        dtype: dtype | None = None,
    ) -> Ref:
        levels = levels_of(x)
        shifted = [len(levels) + d for d in dims]
        made = self.inner.reduce(kind, self.raw(x), shifted, keepdim, dtype)
        return self.given(made, levels)

    @over_planes
    def contract(self, equation: str, a: Ref, b: Ref, dtype: dtype | None = None) -> Ref:
        """A batch is one more letter: of both operands, or of the one that has it."""
        levels = union((a, b))
        letter = {level: chr(0x3B1 + i) for i, level in enumerate(levels)}
        left, right, out = equation.replace("->", ",").split(",")
        mine, theirs, made = (
            "".join(letter[level] for level in found)
            for found in (levels_of(a), levels_of(b), levels)
        )
        widened = f"{mine}{left},{theirs}{right}->{made}{out}"
        return self.given(self.inner.contract(widened, self.raw(a), self.raw(b), dtype), levels)

    @over_planes
    def gather(
        self,
        base: Ref,
        view: View,
        indices: Sequence[tuple[Ref, int, int]],
        label: str = "index",
    ) -> Ref:
        levels = union((base, *(i for i, _, _ in indices)))
        whole = self._over(levels, levels_of(base), base.shape, view)
        spread = [(self.spread(i, levels, view.shape), s, n) for i, s, n in indices]
        return self.given(self.inner.gather(self.raw(base), whole, spread, label), levels)

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
        levels = union((base, source, *(i for i, _, _ in indices)))
        whole = self._over(levels, levels, base.shape, view)
        spread = [(self.spread(i, levels, view.shape), s, n) for i, s, n in indices]
        made = self.inner.scatter(
            kind,
            self.spread(base, levels),
            self.spread(source, levels, view.shape),
            whole,
            spread,
            label,
        )
        return self.given(made, levels)

    @over_planes
    def update(
        self,
        base: Ref | None,
        parts: Sequence[tuple[Ref, View]],
        shape: Shape,
        dtype: dtype,
    ) -> Ref:
        refs = [p for p, _ in parts] if base is None else [base, *(p for p, _ in parts)]
        levels = union(refs)
        spread = [
            (self.spread(p, levels), self._over(levels, levels, shape, v)) for p, v in parts
        ]
        under = None if base is None else self.spread(base, levels)
        made = self.inner.update(under, spread, (*sizes_of(levels), *shape), dtype)
        return self.given(made, levels)

    @over_planes
    def scan(self, kind: str, x: Ref, dim: int, dtype: dtype | None = None) -> Ref:
        levels = levels_of(x)
        return self.given(self.inner.scan(kind, self.raw(x), len(levels) + dim, dtype), levels)

    @over_planes
    def host(
        self,
        function: Callable[..., Any],
        outputs: Sequence[tuple[Shape, dtype]],
        *operands: Ref,
        **attrs: Any,
    ) -> list[Ref]:
        levels = union(operands)
        if not levels:
            return super().host(function, outputs, *operands, **attrs)
        sizes = sizes_of(levels)
        stored = tuple([((*sizes, *shape), kind) for shape, kind in outputs])
        spread = [self.spread(o, levels) for o in operands]
        if does_take_batches(function, attrs):
            made = self.inner.host(function, stored, *spread, **attrs)
        else:
            warn_of_loop(self.inner.origin.op.name, self.inner.origin.where)
            samples = Samples(function, len(sizes), tuple(outputs))
            made = self.inner.host(samples, stored, *spread, **attrs)
        return [self.given(ref, levels) for ref in made]

    def attention(
        self, q: Ref, key: Ref, value: Ref, mask: Ref | None, scale: float, is_causal: bool
    ) -> list[Ref]:
        levels = union((q, key, value, *(() if mask is None else (mask,))))
        q, key, value = (self._fold(x, levels, 0) for x in (q, key, value))
        mask = None if mask is None else self._fold(mask, levels, 0)
        made = self.inner.attention(q, key, value, mask, scale, is_causal)
        return self._unfolded(made, levels)

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
        given = (g, out, sums, q, key, value)
        levels = union((*given, *(() if mask is None else (mask,))))
        g, out, sums, q, key, value = (self._fold(x, levels, 0) for x in given)
        mask = None if mask is None else self._fold(mask, levels, 0)
        made = self.inner.attention_grad(g, out, sums, q, key, value, mask, scale, is_causal)
        return self._unfolded(made, levels)

    def _fold(self, x: Ref, levels: Levels, dim: int) -> Ref:
        """All samples of x for the inner builder, the batches within dimension `dim`."""
        count, shape = len(levels), x.shape
        whole = self.spread(x, levels)
        order = list(range(count, len(whole.shape)))
        order[dim:dim] = range(count)
        rows = views.numel(sizes_of(levels)) * shape[dim]
        turned = self.inner.permute(whole, order)
        return self.inner.reshape(turned, (*shape[:dim], rows, *shape[dim + 1 :]))

    def _unfolded(
        self, made: Sequence[Ref], levels: Levels, dims: Sequence[int] = ()
    ) -> list[Ref]:
        """Results that have the batches within a dimension (the first one), as samples."""
        sizes = sizes_of(levels)
        count = views.numel(sizes)
        found = []
        for x, dim in zip(made, dims or [0] * len(made), strict=True):
            rows = x.shape[dim] // count if count else 0
            apart = self.inner.reshape(x, (*x.shape[:dim], *sizes, rows, *x.shape[dim + 1 :]))
            inside = range(dim, dim + len(sizes))
            order = [*inside, *(d for d in range(len(apart.shape)) if d not in inside)]
            found.append(self.given(self.inner.permute(apart, order), levels))
        return found

    def _walk(
        self,
        op: str,
        cell: str,
        operands: Mapping[str, Ref],
        outputs: Mapping[str, tuple[Shape, dtype]],
    ) -> list[Ref]:
        """Samples that share the weights are more rows of the recurrence's own batch."""
        levels = union(operands.values())
        if not levels:
            return super()._walk(op, cell, operands, outputs)
        rows = {n: _dim_of_rows(n, len(x.shape)) for n, x in operands.items()}
        if any(levels_of(x) for n, x in operands.items() if rows[n] is None):
            return self._walk_each(op, cell, operands, outputs)
        folded = {
            n: self.raw(x) if d is None else self._in_order(self._fold(x, levels, d))
            for (n, x), d in zip(operands.items(), rows.values(), strict=True)
        }
        count = views.numel(sizes_of(levels))
        dims = [_dim_of_rows(n, len(shape)) or 0 for n, (shape, _) in outputs.items()]
        wide = {
            n: ((*shape[:d], count * shape[d], *shape[d + 1 :]), kind)
            for (n, (shape, kind)), d in zip(outputs.items(), dims, strict=True)
        }
        return self._unfolded(self.inner._walk(op, cell, folded, wide), levels, dims)

    def _walk_each(
        self,
        op: str,
        cell: str,
        operands: Mapping[str, Ref],
        outputs: Mapping[str, tuple[Shape, dtype]],
    ) -> list[Ref]:
        """One recurrence for each sample's weights."""
        warn_of_loop(self.inner.origin.op.name, self.inner.origin.where)
        levels = union(operands.values())
        sizes, k = sizes_of(levels), self.inner
        parts = []
        for place in np.ndindex(*sizes):
            own = {}
            for n, x in operands.items():
                whole = view_of(self.spread(x, levels).arg)
                start = sum(i * s for i, s in zip(place, whole.strides, strict=False))
                at = View(x.shape, whole.strides[len(sizes) :], whole.offset + start)
                own[n] = self._in_order(Ref(k, x.node, at))
            parts.append(k._walk(op, cell, own, outputs))
        joined = []
        for i, (shape, _) in enumerate(outputs.values()):
            rows = k.cat([k.reshape(made[i], (1, *shape)) for made in parts], 0)
            joined.append(self.given(k.reshape(rows, (*sizes, *shape)), levels))
        return joined

    def _in_order(self, x: Ref) -> Ref:
        return x if views.is_whole(view_of(x.arg), x.node.numel) else self.inner.copy(x)


def _dim_of_rows(name: str, ndim: int) -> int | None:
    """Where an operand or result of a recurrence has the rows of its batch, if it has any."""
    if ndim == 3:
        return 1  # (steps, rows, units)
    return 0 if name.startswith("first_") else None


class Samples:
    """A NumPy function of one sample, as one of all: it is called for each."""

    def __init__(
        self, function: Callable[..., Any], depth: int, outputs: tuple[tuple[Shape, dtype], ...]
    ) -> None:
        self.key = (function, depth, outputs)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Samples) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __call__(self, *arrays: Any, **attrs: Any) -> Any:
        function, depth, outputs = self.key
        sizes = arrays[0].shape[:depth]
        found = [np.zeros((*sizes, *shape), kind.compute) for shape, kind in outputs]
        for place in np.ndindex(*sizes):
            made = function(*(a[place] for a in arrays), **attrs)
            parts = made if isinstance(made, tuple | list) else (made,)
            for whole, part in zip(found, parts, strict=True):
                whole[place] = part
        return found


def warn_of_loop(name: str, where: str) -> None:
    """Say that an operation is computed sample by sample."""
    place = f" ({where})" if where else ""
    warnings.warn(
        f"There is a performance drop because {name}{place} has no batching rule: vmap "
        f"computes it for one sample after another.",
        UserWarning,
        stacklevel=3,
    )
