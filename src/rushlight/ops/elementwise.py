"""Elementwise operations: the constructors, and arithmetic.

`unary` and `binary` fill in the standard rules: promotion, broadcasting, calculation in float32 for half
precision, and derivatives from slopes. A slope is the derivative of the result by one operand; gradients are `g * slope`
with an exact zero wherever g is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # operands are tensors or numbers

from rushlight import config, errors, views
from rushlight import dtype as dt
from rushlight.dtype import Category, dtype
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public

Lower = Callable[..., Any]
Slope = Callable[..., Any]


# -- type rules --------------------------------------------------------------------------------------


def promoted(*types: TensorType) -> dtype:
    """The common dtype of operands by PyTorch's rules."""
    return dt.result_type([t.standing for t in types], config.default_dtype())


def pointwise_type(op: str, to: str, *types: TensorType) -> TensorType:
    """Broadcast shape and promoted dtype; `to` is 'same', 'float' (integers become the default
    float) or 'bool'."""
    shape = views.broadcast_shapes(op, *(t.shape for t in types))
    is_weak = all(t.weak for t in types)
    if to == "bool":
        return TensorType(shape, dt.bool_)
    if is_weak:
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


def in_common(k: Any, op: str, to: str, refs: tuple[Any, ...]) -> list[Any]:
    """Operands cast to the dtype the calculation is done in."""
    types = [TensorType(r.shape, r.dtype, r.weak) for r in refs]
    kind = pointwise_type(op, "same" if to == "bool" else to, *types).dtype
    return [k.cast(r, working(kind)) for r in refs]


# -- constructors --------------------------------------------------------------------------------------


def scaled(g: Any, slope: Any) -> Any:
    """g * slope, exactly zero where g is zero (the derivative is linear: 0 * inf is 0)."""
    return SCALED(g, slope)


def _vjp_of(slopes: tuple[Slope | None, ...]) -> Callable[..., Any]:
    count = len(slopes)
    if count == 1:
        only = slopes[0]
        assert only is not None

        def vjp_unary(g: Any, out: Any, x: Any, **attrs: Any) -> Any:
            return scaled(g, only(out, x, **attrs))

        return vjp_unary

    def vjp(g: Any, out: Any, *operands: Any, **attrs: Any) -> Any:
        return tuple(None if s is None else scaled(g, s(out, *operands, **attrs)) for s in slopes)

    return vjp


def pointwise(
    name: str,
    lower: Lower,
    *slopes: Slope | None,
    to: str = "same",
    attrs: tuple[str, ...] = (),
    vjp: Any = None,
    accepts: Callable[[TensorType], bool] | None = None,
    wanted: str = "",
) -> Op:
    """An elementwise op. `lower(k, *operands, **attrs)` gets operands of one working dtype."""

    def type_rule(*types: TensorType, **_: Any) -> TensorType:
        out = pointwise_type(name, to, *types)
        if accepts is not None:
            kind = TensorType(out.shape, promoted(*types)) if to == "bool" else out
            if not accepts(kind):
                raise errors.wrong_dtype(name, kind.dtype, wanted)
        return out

    def lower_rule(k: Any, *refs: Any, **named: Any) -> Any:
        out = type_rule(*(TensorType(r.shape, r.dtype, r.weak) for r in refs))
        made = lower(k, *in_common(k, name, to, refs), **named)
        return k.cast(made, out.dtype)

    rule = vjp if vjp is not None else _vjp_of(slopes) if slopes else NOT_DIFFERENTIABLE
    return Op(name, attrs=attrs, type=type_rule, lower=lower_rule, vjp=rule)


def unary_function(op: Op, name: str | None = None, places: tuple[str, ...] = ("torch", "Tensor"), aliases: tuple[str, ...] = ()) -> Callable[..., Any]:
    """The public function of a one-operand op: function, method, `_` and `out=` forms."""

    def function(input: Any) -> Any:
        return op(input)

    function.__name__ = function.__qualname__ = name or op.name
    function.__doc__ = f"`{op.name}` of each element."
    return public(*places, name=name or op.name, inplace=True, out=True, aliases=aliases)(function)


# -- arithmetic ----------------------------------------------------------------------------------------

SCALED = pointwise(
    "scaled",
    lambda k, g, slope: k.select(g.equals(0), g, g * slope),
    vjp=lambda h, out, g, slope: (scaled(h, slope), scaled(h, g)),
)


def is_not_bool(t: TensorType) -> bool:
    return t.dtype is not dt.bool_


def _or_for_bool(k: Any, a: Any, b: Any) -> Any:
    return a | b if a.dtype is dt.bool_ else a + b


def _and_for_bool(k: Any, a: Any, b: Any) -> Any:
    return a & b if a.dtype is dt.bool_ else a * b


ADD = pointwise("add", _or_for_bool, vjp=lambda g, out, a, b: (g, g))
SUB = pointwise(
    "sub",
    lambda k, a, b: a - b,
    vjp=lambda g, out, a, b: (g, -g),
    accepts=is_not_bool,
    wanted="no bool: use `^` or logical_xor()",
)
MUL = pointwise("mul", _and_for_bool, vjp=lambda g, out, a, b: (scaled(g, b), scaled(g, a)))
DIV = pointwise(
    "div",
    lambda k, a, b: a / b,
    to="float",
    vjp=lambda g, out, a, b: (scaled(g, 1 / b), scaled(-g, out / b)),
)
NEG = pointwise(
    "neg",
    lambda k, x: -x,
    vjp=lambda g, out, x: -g,
    accepts=is_not_bool,
    wanted="no bool: use the `~` or logical_not() operator",
)


@public("torch", "Tensor", inplace=True, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other, broadcast.

    >>> import rushlight as torch
    >>> torch.add(torch.tensor([1, 2]), 10)
    tensor([11, 12])
    """
    return ADD(input, other if alpha == 1 else other * alpha)


@public("torch", "Tensor", inplace=True, out=True, aliases=("subtract",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other, broadcast."""
    return SUB(input, other if alpha == 1 else other * alpha)


@public("torch", "Tensor", inplace=True, out=True, aliases=("multiply",))
def mul(input: Any, other: Any) -> Any:
    """input * other, broadcast."""
    return MUL(input, other)


EXP = pointwise("exp", lambda k, x: k.exp(x), lambda out, x: out, to="float")
LOG = pointwise("log", lambda k, x: k.log(x), lambda out, x: 1 / x, to="float")
TANH = pointwise("tanh", lambda k, x: k.tanh(x), lambda out, x: 1 - out * out, to="float")
SIGMOID = pointwise(
    "sigmoid", lambda k, x: k.sigmoid(x), lambda out, x: out * (1 - out), to="float"
)
SQRT = pointwise("sqrt", lambda k, x: k.sqrt(x), lambda out, x: 0.5 / out, to="float")

neg = unary_function(NEG, aliases=("negative",))
exp = unary_function(EXP)
log = unary_function(LOG)
tanh = unary_function(TANH)
sigmoid = unary_function(SIGMOID)
sqrt = unary_function(SQRT)


# -- comparison, selection ---------------------------------------------------------------------------------


def comparison(name: str, prim: str) -> Op:
    return pointwise(name, lambda k, a, b: k.map(prim, a, b), to="bool")


LT, LE, GT = comparison("lt", "lt"), comparison("le", "le"), comparison("gt", "gt")
GE, EQ, NE = comparison("ge", "ge"), comparison("eq", "eq"), comparison("ne", "ne")


def where_type(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    if condition.dtype not in (dt.bool_, dt.uint8):
        raise RuntimeError(
            f"where expected condition to be a boolean tensor, but got a tensor with dtype "
            f"{condition.dtype!r}"
        )
    shape = views.broadcast_shapes("where", condition.shape, a.shape, b.shape)
    return TensorType(shape, promoted(a, b))


def where_lower(k: Any, condition: Any, a: Any, b: Any) -> Any:
    kind = promoted(*(TensorType(r.shape, r.dtype, r.weak) for r in (a, b)))
    return k.select(k.cast(condition, dt.bool_), k.cast(a, kind), k.cast(b, kind))


WHERE = Op(
    "where",
    type=where_type,
    lower=where_lower,
    vjp=lambda g, out, c, a, b: (None, WHERE(c, g, 0), WHERE(c, 0, g)),
)


# -- conversion ----------------------------------------------------------------------------------------

CAST = Op(
    "cast",
    attrs=("dtype",),
    type=lambda x, dtype: TensorType(x.shape, dtype),
    lower=lambda k, x, dtype: k.cast(x, dtype),
    vjp=lambda g, out, x, dtype: g,
)
CLONE = Op(
    "clone",
    type=lambda x: TensorType(x.shape, x.dtype),
    lower=lambda k, x: x,
    vjp=lambda g, out, x: g,
)


@public("torch", "Tensor")
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy with memory of its own, through which gradients flow."""
    return CLONE(input)


@public("Tensor")
def contiguous(input: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements lie in order in memory, otherwise a copy that does."""
    return input if input.is_contiguous() else CLONE(input)
