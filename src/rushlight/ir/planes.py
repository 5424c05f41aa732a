"""What the builder's primitives mean for complex operands, said in real ones.

Each rule takes the builder and the arguments of its method of the same name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar  # attributes and arrays

import numpy as np

from rushlight import dtypes as dt
from rushlight import views
from rushlight.dtypes import dtype
from rushlight.ir.formulas import FORMULAS, WIDE
from rushlight.ir.host import takes_batches
from rushlight.ir.ref import Operand, Pair, Ref, part_view
from rushlight.views import Shape, View

if TYPE_CHECKING:
    from rushlight.ir.builder import Builder

Indices = Sequence[tuple[Ref, int, int]]
Method = TypeVar("Method", bound=Callable[..., Any])


def over_planes(method: Method) -> Method:
    """A method of a builder that does to complex operands what its rule here says, or else to
    each of the planes what it does to real ones.
    """
    name = method.__name__
    rule = RULES.get(name)

    @functools.wraps(method)
    def chosen(self: Builder, *args: Any, **named: Any) -> Any:
        assert rule is not None
        if _has_complex(args) or (named and _has_complex(named.values())):
            return rule(self, *args, **named)
        return method(self, *args, **named)

    @functools.wraps(method)
    def each(self: Builder, x: Ref, *rest: Any, **named: Any) -> Any:
        if type(x) is Pair:
            return x.each(lambda part: getattr(self, name)(part, *rest, **named))
        return method(self, x, *rest, **named)

    return chosen if rule is not None else each  # type: ignore[return-value]


def _has_complex(args: Iterable[Any]) -> bool:
    """Whether complex operands or dtypes are among the arguments."""
    for x in args:
        kind = type(x)
        if kind is Ref or kind is str:
            continue
        if kind is Pair or (kind is dtype and x.is_complex):
            return True
        if (kind is tuple or kind is list) and _has_complex(x):
            return True
    return False


def map(k: Builder, name: str, *operands: Operand) -> Ref:
    """One elementwise primitive. What cancels or overflows in between is calculated in float64
    for complex64.
    """
    kind = next(x.dtype for x in operands if isinstance(x, Pair))
    refs = [x if isinstance(x, Ref) else k.const(x, kind) for x in operands]
    formula = FORMULAS.get(name)
    if formula is None:
        raise TypeError(f"{name} has no meaning for complex numbers")
    is_widened = name in WIDE and kind is dt.complex64
    if is_widened:
        refs = [k.cast(x, dt.complex128) for x in refs]
    out = formula(k, *refs)
    if not is_widened:
        return out
    return k.cast(out, dt.complex64 if out.dtype.is_complex else dt.float32)


def cast(k: Builder, x: Ref, to: dtype) -> Ref:
    """To complex with an imaginary part of zero; to real by leaving the imaginary part out."""
    if isinstance(x, Pair):
        if to is dt.bool_:
            return k.map("or", k.cast(x.re, to), k.cast(x.im, to))
        if not to.is_complex:
            return k.cast(x.re, to)
        return x.weakened(False).each(lambda part: k.cast(part, to.to_real()))
    real = to.to_real()
    return Pair(k.cast(x, real), k.full(x.shape, 0, real))


def reduce(
    k: Builder,
    kind: str,
    x: Ref,
    dims: Sequence[int],
    keepdim: bool = False,
    dtype: dtype | None = None,
) -> Ref:
    x = x if dtype is None else k.cast(x, dtype)
    if not isinstance(x, Pair):
        return k.reduce(kind, x, dims, keepdim)
    if kind == "sum":
        return x.each(lambda part: k.reduce(kind, part, dims, keepdim))
    if kind != "prod":
        raise TypeError(f"{kind} has no meaning for complex numbers")
    shape = views.reduced_shape(x.shape, dims, keepdim)
    axes = tuple(d % len(x.shape) - len(x.shape) for d in dims)  # counted from the last
    return k.host(_product, [(shape, x.dtype)], x, dims=axes, keepdim=keepdim)[0]


@takes_batches
def _product(x: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    return x.astype(np.complex128).prod(dims, keepdims=keepdim)


def contract(k: Builder, equation: str, a: Ref, b: Ref, dtype: dtype | None = None) -> Ref:
    """Of four real products: each part of the one by each part of the other."""
    kind = dtype or dt.promote_types(a.dtype, b.dtype)
    x, y = k.cast(a, kind), k.cast(b, kind)
    assert isinstance(x, Pair) and isinstance(y, Pair)

    def product(p: Ref, q: Ref) -> Ref:
        return k.contract(equation, p, q)

    re = product(x.re, y.re) - product(x.im, y.im)
    im = product(x.re, y.im) + product(x.im, y.re)
    return Pair(re, im)


def gather(k: Builder, base: Pair, view: View, indices: Indices, label: str = "index") -> Ref:
    stored = k.interleaved(base)
    steps = [(index, 2 * stride, size) for index, stride, size in indices]
    re, im = (k.gather(stored, part_view(view, i), steps, label) for i in (0, 1))
    return Pair(re, im)


def scatter(
    k: Builder,
    kind: str,
    base: Pair,
    source: Ref,
    view: View,
    indices: Indices,
    label: str = "index",
) -> Ref:
    source = k.cast(source, base.dtype)
    assert isinstance(source, Pair)
    if kind in ("set", "add"):
        re = k.scatter(kind, base.re, source.re, view, indices, label)
        return Pair(re, k.scatter(kind, base.im, source.im, view, indices, label))
    raise TypeError(f"scatter of {kind} has no meaning for complex numbers")


def scan(k: Builder, kind: str, x: Ref, dim: int, dtype: dtype | None = None) -> Ref:
    x = x if dtype is None else k.cast(x, dtype)
    if not isinstance(x, Pair):
        return k.scan(kind, x, dim)
    if kind == "sum":
        return x.each(lambda part: k.scan(kind, part, dim))
    if kind != "prod":
        raise TypeError(f"scan of {kind} has no meaning for complex numbers")
    from_last = dim % len(x.shape) - len(x.shape)
    return k.host(_running_product, [(x.shape, x.dtype)], x, dim=from_last)[0]


@takes_batches
def _running_product(x: Any, dim: int) -> Any:
    return np.multiply.accumulate(x.astype(np.complex128), axis=dim)


def update(
    k: Builder,
    base: Ref | None,
    parts: Sequence[tuple[Ref, View]],
    shape: Shape,
    dtype: dtype,
) -> Ref:
    """In memory, where a complex part is two real ones with strides of 2."""
    first, place = parts[0]
    is_whole = len(parts) == 1 and views.is_whole(place, views.numel(shape))
    if is_whole and first.dtype is dtype:
        return k.reshape(first, shape)
    planes: list[tuple[Ref, View]] = []
    for part, view in parts:
        if isinstance(part, Pair):
            planes += [(p, part_view(view, i)) for i, p in enumerate((part.re, part.im))]
        else:
            planes.append((part, view))  # the view is one of real numbers
    below = k.interleaved(base) if isinstance(base, Pair) else base
    real_shape = (*shape, 2) if dtype.is_complex else shape
    out = k.update(below, planes, real_shape, dtype.to_real())
    return k.paired(out) if dtype.is_complex else out


# -- functions in NumPy


def host(
    k: Builder,
    function: Callable[..., Any],
    outputs: Sequence[tuple[Shape, dtype]],
    *operands: Ref,
    **attrs: Any,
) -> list[Ref]:
    """The function sees complex arrays; the graph, their parts in turn."""
    stored = [k.interleaved(x) if isinstance(x, Pair) else x for x in operands]
    results = [((*s, 2), t.to_real()) if t.is_complex else (s, t) for s, t in outputs]
    made = k.host(
        _on_complex,
        results,
        *stored,
        rule=function,
        named=tuple(sorted(attrs.items())),
        operands=tuple(x.dtype.is_complex for x in operands),
        results=tuple(t.is_complex for _, t in outputs),
    )
    return [k.paired(x) if t.is_complex else x for x, (_, t) in zip(made, outputs, strict=True)]


def _on_complex(
    *arrays: Any,
    rule: Callable[..., Any],
    named: tuple[tuple[str, Any], ...],
    operands: tuple[bool, ...],
    results: tuple[bool, ...],
) -> list[Any]:
    given = [
        _joined(a) if is_complex else a for a, is_complex in zip(arrays, operands, strict=True)
    ]
    made = rule(*given, **dict(named))
    many = made if isinstance(made, tuple | list) else (made,)
    return [_parts(m) if is_complex else m for m, is_complex in zip(many, results, strict=True)]


def _joined(parts: Any) -> Any:
    kind = np.result_type(parts.dtype, np.complex64)
    return np.ascontiguousarray(parts).view(kind).reshape(parts.shape[:-1])


def _parts(x: Any) -> Any:
    return np.stack([np.real(x), np.imag(x)], -1)


RULES: dict[str, Callable[..., Any]] = {
    rule.__name__: rule
    for rule in (map, cast, reduce, contract, gather, scatter, update, scan, host)
}
