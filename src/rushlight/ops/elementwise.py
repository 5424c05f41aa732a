"""How elementwise operations are made: type rules, the constructor, and derivatives from
slopes.

A slope is the derivative of the result by one operand, written once and read twice: on builder
references, where it becomes one op that rounds once (the ordinary backward pass), and on
tensors, where it is recorded and can be differentiated again. Gradients are `g * slope` with an
exact zero wherever g is zero.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any  # operands are tensors, references or numbers

import numpy as np

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.advice import warn_deprecated
from rushlight.dtypes import dtype
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    OPS,
    Linearity,
    Op,
    TensorType,
    names_used,
    public,
    recorder,
)

Lower = Callable[..., Any]
Slope = Callable[..., Any]
Accepts = Callable[[dtype], bool]


# -- type rules


def promoted(*types: TensorType) -> dtype:
    """The common dtype of operands by PyTorch's rules; numbers alone take the dtype a tensor of
    them would have.
    """
    default = config.default_dtype()
    if all(t.weak for t in types):
        return dt.number_dtype(max(t.dtype.category for t in types), default)
    first = types[0].dtype
    if all(t.dtype is first for t in types):
        return first
    return dt.result_type([t.standing for t in types], default)


def pointwise_type(op: str, to: str, *types: TensorType) -> TensorType:
    """Broadcast shape and promoted dtype; `to` is 'same', 'float' (integers become the default
    float) or 'bool'.
    """
    shape = views.broadcast_shapes(op, *(t.shape for t in types))
    if to == "bool":
        return TensorType(shape, dt.bool_)
    if all(t.weak for t in types):
        kind = max((t.dtype for t in types), key=lambda d: d.category)
        kind = dt.float64 if to == "float" and kind.is_integral else kind
        return TensorType((), kind, True)
    kind = promoted(*types)
    if to == "float" and kind.is_integral:
        kind = config.default_dtype()
    return TensorType(shape, kind)


def working(kind: dtype) -> dtype:
    """The dtype arithmetic is done in."""
    return dt.float32 if kind in (dt.float16, dt.bfloat16) else kind


def type_of(ref: Any) -> TensorType:
    return TensorType(ref.shape, ref.dtype, ref.weak)


def is_not_bool(kind: dtype) -> bool:
    return kind is not dt.bool_


def is_integral(kind: dtype) -> bool:
    return kind.is_integral


def is_integer(kind: dtype) -> bool:
    return kind.is_integral and kind is not dt.bool_


def is_floating(kind: dtype) -> bool:
    return kind.is_floating_point


def is_fractional(kind: dtype) -> bool:
    return not kind.is_integral


def check_tensors(op: str, **operands: Any) -> None:
    """PyTorch takes only tensors here, not Python numbers."""
    for name, x in operands.items():
        if not hasattr(x, "_storage"):
            raise errors.not_a_tensor(op, name, x)


def check_one_tensor(op: str, a: Any, b: Any) -> None:
    """Two Python numbers are not operands."""
    if not hasattr(a, "_storage") and not hasattr(b, "_storage"):
        raise errors.not_a_tensor(op, "input", a)


_NUMBERS = (int, float, complex, np.number, np.bool_)


def check_operands(op: str, *operands: Any) -> None:
    """Tensors and Python numbers are operands."""
    for place, x in enumerate(operands, 1):
        if not hasattr(x, "_storage") and not isinstance(x, _NUMBERS):
            raise errors.not_an_operand(op, place, x)


def the_tensor(op: str, input: Any) -> Any:
    """The tensor itself, where a function has nothing to do with it."""
    if not hasattr(input, "_storage"):
        raise errors.not_a_tensor(op, "input", input, 1)
    return input


# -- the constructor


def pointwise(
    name: str,
    lower: Lower,
    *slopes: Slope | None,
    to: str = "same",
    attrs: tuple[str, ...] = (),
    vjp: Any = None,
    jvp: Any = None,
    accepts: Accepts | None = None,
    wanted: str = "",
    refuse: Callable[[str, object, str], Exception] = errors.not_implemented_for,
    of_complex: bool = False,
    refuse_complex: Callable[[str, object], Exception] = errors.not_for_complex,
    half: Lower | None = None,
) -> Op:
    """An elementwise op. `lower(k, *operands, **attrs)` gets operands of one working dtype.

    slopes:  `slope(m, out, *operands, **attrs)` for each operand, None where the derivative is
             zero; `m` is the builder or `RECORDED`.
    of_complex: whether complex operands are allowed; the function is then holomorphic if it has
             slopes.
    half:    `lower` where the result is in half precision, if less work gives that as well.
    accepts: which common dtypes are allowed (`wanted` says so in words, `refuse` makes the
    error).
    """

    def type_rule(*types: TensorType, **_: Any) -> TensorType:
        out = pointwise_type(name, to, *types)
        if not of_complex and any(t.dtype.is_complex for t in types):
            raise refuse_complex(name, _complex_of(types))
        if accepts is not None:
            kind = promoted(*types) if to == "bool" else out.dtype
            if not accepts(kind):
                raise refuse(name, kind, wanted)
        return out

    def lower_rule(k: Any, *refs: Any, **named: Any) -> Any:
        types = [type_of(r) for r in refs]
        out = type_rule(*types)
        kind = working(
            out.dtype if to != "bool" else pointwise_type(name, "same", *types).dtype
        )
        form = half if half is not None and working(out.dtype) is not out.dtype else lower
        made = form(k, *[k.cast(r, kind) for r in refs], **named)
        return k.expand(k.cast(made, out.dtype), out.shape)

    rule = vjp if vjp is not None else NOT_DIFFERENTIABLE
    op = Op(name, attrs=attrs, type=type_rule, lower=lower_rule, vjp=rule, jvp=jvp)
    if slopes:
        _differentiate(op, slopes)
    return op


def _complex_of(types: Sequence[TensorType]) -> dtype:
    return next(t.dtype for t in types if t.dtype.is_complex)


def comparison(name: str, lower: Lower, of_complex: bool = False) -> Op:
    """A pointwise op with bool results; a Python integer is compared exactly, also with a
    tensor of small integers that could not hold it.
    """

    def type_rule(*types: TensorType) -> TensorType:
        if not of_complex and any(t.dtype.is_complex for t in types):
            raise errors.not_for_complex(name, _complex_of(types))
        return pointwise_type(name, "bool", *types)

    def lower_rule(k: Any, *refs: Any) -> Any:
        kind = working(promoted(*map(type_of, refs)))
        if kind.is_integral and any(r.weak for r in refs):
            kind = dt.int64
        made = lower(k, *(k.cast(r, kind) for r in refs))
        return k.expand(k.cast(made, dt.bool_), type_rule(*map(type_of, refs)).shape)

    return Op(name, type=type_rule, lower=lower_rule, vjp=NOT_DIFFERENTIABLE)


# -- derivatives


class _Recorded:
    """The names of builder primitives as recorded ops: what a slope calls `m` on tensors."""

    _RENAMED = {"select": "where", "max": "maximum", "min": "minimum"}

    def abs(self, x: Any) -> Any:
        """Of complex numbers an op of its own, with real results."""
        return OPS["modulus" if x.dtype.is_complex else "abs"](x)

    def __getattr__(self, name: str) -> Op:
        found = OPS.get(self._RENAMED.get(name, name))
        if found is None:
            raise AttributeError(name)
        return found


RECORDED = _Recorded()


def conjugate(x: Any) -> Any:
    """The complex conjugate, which derivatives of products are made with (of a real tensor or
    number itself).
    """
    return OPS["conj_physical"](x) if hasattr(x, "_storage") and x.dtype.is_complex else x


def real_part(x: Any) -> Any:
    """The real part of an operand (a real one itself)."""
    return CAST(x, dtype=x.dtype.to_real()) if x.dtype.is_complex else x


def scaled(g: Any, slope: Any) -> Any:
    """g * slope, exactly zero where g is zero (the derivative is linear: 0 * inf is 0).

    A complex slope is conjugated: gradients are steepest ascents (PyTorch's convention).
    """
    return SCALED(g, slope)


def shared(g: Any, divisor: Any) -> Any:
    """g / divisor, exactly zero where g is zero; a complex divisor is conjugated."""
    return SHARED(g, divisor)


def zeros_of(x: Any) -> Any:
    """The gradient of what does not change anything: zeros of x's shape and dtype."""
    return OPS["full"](shape=tuple(x.shape), value=0, dtype=x.dtype)


def total(terms: Iterable[Any]) -> Any:
    """The sum of those terms that are not None."""
    found = [t for t in terms if t is not None]
    return functools.reduce(RECORDED.add, found) if found else None


def masked(keep: Any, g: Any) -> Any:
    """g where `keep` holds, exactly zero elsewhere."""
    return WHERE(keep, g, 0)


def _differentiate(op: Op, slopes: Sequence[Slope | None]) -> None:
    """Give an op the derivative that its slopes say, and save only what they read."""
    first = [
        None if s is None else _FirstOrder(op, i, s, len(slopes)) for i, s in enumerate(slopes)
    ]
    made = [f for f in first if f is not None]

    def vjp(g: Any, out: Any, *operands: Any, **named: Any) -> Any:
        return tuple(
            zeros_of(operands[i]) if f is None else f.gradient(g, out, operands, named)
            for i, f in enumerate(first)
        )

    def jvp(tangents: Any, out: Any, *operands: Any, **named: Any) -> Any:
        return total(
            None
            if slope is None or t is None
            else scaled(t, conjugate(slope(RECORDED, out, *operands, **named)))
            for slope, t in zip(slopes, tangents, strict=True)
        )

    op.vjp = vjp
    if made:  # else the derivative is zero
        op.jvp = jvp
    op.is_differentiable = True

    def find_uses() -> tuple[bool, tuple[bool, ...]]:
        operands = tuple(any(f.uses[i] for f in made) for i in range(len(slopes)))
        return any(f.uses_out for f in made), operands

    op.find_uses = find_uses


class _FirstOrder:
    """The gradient by one operand: one op when it need not be differentiated, or recorded."""

    def __init__(self, op: Op, number: int, slope: Slope, count: int) -> None:
        self.slope = slope
        self.count = count
        name = f"{op.name}_gradient" + (str(number) if count > 1 else "")
        self.op = Op(
            name, attrs=op.attrs, type=self._type, lower=self._lower, vjp=NOT_DIFFERENTIABLE
        )

    @functools.cached_property
    def _used(self) -> tuple[bool, tuple[bool, ...]]:
        out, operands = names_used(self.slope)
        return out, (True,) * self.count if operands is None else operands[: self.count]

    @property
    def uses_out(self) -> bool:
        return self._used[0]

    @property
    def uses(self) -> tuple[bool, ...]:
        return self._used[1]

    def gradient(self, g: Any, out: Any, operands: Sequence[Any], named: dict[str, Any]) -> Any:
        if config.scopes.grad_enabled or config.scopes.levels:  # it has derivatives itself
            return self._recorded(g, out, operands, named)
        read = [x for x, is_used in zip(operands, self.uses, strict=True) if is_used]
        return self.op(g, *([out] if self.uses_out else []), *read, **named)

    def _recorded(self, g: Any, out: Any, operands: Sequence[Any], named: Any) -> Any:
        """In the dtype that `_lower` works in: of a narrow one 1 / x alone may be infinite."""
        kind = working(g.dtype)
        if kind is g.dtype:
            return scaled(g, self.slope(RECORDED, out, *operands, **named))
        out = CAST(out, dtype=kind) if self.uses_out else None
        wide = [
            CAST(x, dtype=kind) if is_used else None
            for x, is_used in zip(operands, self.uses, strict=True)
        ]
        slope = self.slope(RECORDED, out, *wide, **named)
        return CAST(scaled(CAST(g, dtype=kind), slope), dtype=g.dtype)

    def _type(self, g: TensorType, *read: TensorType, **_: Any) -> TensorType:
        shape = views.broadcast_shapes(self.op.name, g.shape, *(t.shape for t in read))
        return TensorType(shape, g.dtype)

    def _lower(self, k: Any, g: Any, *read: Any, **named: Any) -> Any:
        kind = working(g.dtype)
        wide = k.cast(g, kind)
        given = iter([k.cast(r, kind) for r in read])
        out = next(given) if self.uses_out else None
        operands = [next(given) if is_used else None for is_used in self.uses]
        slope = self.slope(k, out, *operands, **named)
        made = k.select(k.eq(wide, 0), wide, wide * k.conj(slope))
        shape = self._type(type_of(g), *map(type_of, read)).shape
        return k.expand(k.cast(made, g.dtype), shape)


SCALED = pointwise(
    "scaled",
    lambda k, g, slope: k.select(k.eq(g, 0), g, g * k.conj(slope)),
    vjp=lambda h, out, g, slope: (
        scaled(h, conjugate(slope)),
        scaled(conjugate(h), conjugate(g)),
    ),
    of_complex=True,
)
SHARED = pointwise(
    "shared",
    lambda k, g, divisor: k.select(k.eq(g, 0), g, g / k.conj(divisor)),
    to="float",
    vjp=lambda h, out, g, divisor: (
        shared(h, conjugate(divisor)),
        shared(scaled(conjugate(-h), conjugate(out)), divisor),
    ),
    of_complex=True,
)


def unary_function(
    op: Op,
    about: str,
    name: str | None = None,
    places: tuple[str, ...] = ("torch", "Tensor"),
    aliases: tuple[str, ...] = (),
    inplace: bool = True,
) -> Callable[..., Any]:
    """The public function of a one-operand op: function, method, `_` and `out=` forms. Its
    docstring says what it is `about`; the example is made for its page (docs/build.py).
    """

    def function(input: Any) -> Any:
        return recorder.record(op, (input,), ())

    function.__name__ = function.__qualname__ = name or op.name
    function.__doc__ = about
    bind = public(*places, name=name or op.name, inplace=inplace, out=True, aliases=aliases)
    return bind(function)


def binary_function(
    op: Op,
    about: str,
    name: str | None = None,
    places: tuple[str, ...] = ("torch", "Tensor"),
    aliases: tuple[str, ...] = (),
    inplace: bool = True,
    numbers: str = "second",
) -> Callable[..., Any]:
    """The public function of a two-operand op. `numbers`: where PyTorch takes a Python number:
    'second' operand only, 'either' or 'none'.
    """

    def second(input: Any, other: Any) -> Any:
        if not hasattr(input, "_storage"):
            raise errors.not_a_tensor(op.name, "input", input)
        return recorder.record(op, (input, other), ())

    def either(input: Any, other: Any) -> Any:
        check_one_tensor(op.name, input, other)
        return recorder.record(op, (input, other), ())

    def none(input: Any, other: Any) -> Any:
        check_tensors(op.name, input=input, other=other)
        return recorder.record(op, (input, other), ())

    chosen = {"second": second, "either": either, "none": none}[numbers]
    chosen.__name__ = chosen.__qualname__ = name or op.name
    chosen.__doc__ = about
    bind = public(*places, name=name or op.name, inplace=inplace, out=True, aliases=aliases)
    return bind(chosen)


# -- selection, conversion


def where_type(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    if condition.dtype is dt.uint8:
        warn_deprecated("where with a condition of torch.uint8", "torch.bool")
    if condition.dtype not in (dt.bool_, dt.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype!r}"
        )
    shape = views.broadcast_shapes("where", condition.shape, a.shape, b.shape)
    return TensorType(shape, promoted(a, b))


def where_lower(k: Any, condition: Any, a: Any, b: Any) -> Any:
    out = where_type(*map(type_of, (condition, a, b)))
    made = k.select(k.cast(condition, dt.bool_), k.cast(a, out.dtype), k.cast(b, out.dtype))
    return k.expand(made, out.shape)


WHERE = Op(
    "where",
    type=where_type,
    lower=where_lower,
    vjp=lambda g, out, c, a, b: (None, WHERE(c, g, 0), WHERE(c, 0, g)),
    jvp=lambda t, out, c, a, b: WHERE(c, *(0 if each is None else each for each in t[1:])),
)
CAST = Op(
    "cast",
    attrs=("dtype",),
    type=lambda x, dtype: TensorType(x.shape, dtype),
    lower=lambda k, x, dtype: k.cast(x, dtype),
    vjp=lambda g, out, x, dtype: g,
    jvp=Linearity.TOGETHER,
)
CLONE = Op(
    "clone",
    type=lambda x: TensorType(x.shape, x.dtype),
    lower=lambda k, x: x,
    vjp=lambda g, out, x: g,
    jvp=Linearity.TOGETHER,
)
