"""Arithmetic: sums, products, quotients, powers, and the updates that optimizers are made
of.
"""

from __future__ import annotations

from typing import Any  # operands are tensors or numbers

import numpy as np

from rushlight import config, errors
from rushlight import dtypes as dt
from rushlight.dtypes import Category, category_of, of_number
from rushlight.ops.elementwise import (
    CAST,
    RECORDED,
    check_one_tensor,
    check_operands,
    check_tensors,
    conjugate,
    is_fractional,
    is_not_bool,
    pointwise,
    pointwise_type,
    real_part,
    scaled,
    shared,
    total,
    type_of,
    unary_function,
    working,
    zeros_of,
)
from rushlight.ops.registry import Linearity, Op, TensorType, public

# -- sums and products


def _or_for_bool(k: Any, a: Any, b: Any) -> Any:
    return a | b if a.dtype is dt.bool_ else a + b


def _and_for_bool(k: Any, a: Any, b: Any) -> Any:
    return a & b if a.dtype is dt.bool_ else a * b


def sub_type(*types: TensorType) -> TensorType:
    out = pointwise_type("sub", "same", *types)
    if any(t.dtype is dt.bool_ for t in types):
        raise errors.wrong_dtype("sub", dt.bool_, "no bool: use `^`, `~` or logical_xor()")
    return out


def sub_lower(k: Any, a: Any, b: Any) -> Any:
    out = sub_type(type_of(a), type_of(b))
    kind = working(out.dtype)
    return k.expand(k.cast(k.cast(a, kind) - k.cast(b, kind), out.dtype), out.shape)


def _mul_jvp(tangents: Any, out: Any, a: Any, b: Any) -> Any:
    pairs = zip(tangents, (b, a), strict=True)
    return total(None if t is None else scaled(t, conjugate(other)) for t, other in pairs)


LINEAR = Linearity.TOGETHER
ADD = pointwise(
    "add", _or_for_bool, vjp=lambda g, out, a, b: (g, g), jvp=LINEAR, of_complex=True
)
SUB = Op("sub", type=sub_type, lower=sub_lower, vjp=lambda g, out, a, b: (g, -g), jvp=LINEAR)
MUL = pointwise(
    "mul",
    _and_for_bool,
    vjp=lambda g, out, a, b: (scaled(g, b), scaled(g, a)),
    jvp=_mul_jvp,
    of_complex=True,
)
DIV = pointwise(
    "div",
    lambda k, a, b: a / b,
    to="float",
    vjp=lambda g, out, a, b: (shared(g, b), shared(scaled(-g, out), b)),
    of_complex=True,
)
NEG = pointwise(
    "neg",
    lambda k, x: -x,
    vjp=lambda g, out, x: -g,
    jvp=LINEAR,
    accepts=is_not_bool,
    wanted="no bool: use the `~` or logical_not() operator",
    refuse=errors.wrong_dtype,
    of_complex=True,
)
ADD_SCALED = pointwise(  # one rounding in half precision, one step for the recorder
    "add_scaled",
    lambda k, a, b, alpha: _or_for_bool(k, a, _and_for_bool(k, alpha, b)),
    vjp=lambda g, out, a, b, alpha: (g, scaled(g, alpha), None),
    of_complex=True,
)


def _checked_alpha(op: str, alpha: Any, *operands: Any) -> Any:
    """The multiplier, which has no say in the result's dtype; refused where it is of a higher
    category than the result, as PyTorch does.
    """
    if type(alpha) is float and category_of(operands[0]) is Category.FLOATING:
        return alpha
    kinds = list(map(category_of, operands))
    kind = category_of(alpha)
    if kind is Category.BOOL and max(kinds) is not Category.BOOL:
        raise RuntimeError(f"{op}: Boolean alpha only supported for Boolean results.")
    if kind > Category.INTEGRAL and max(kinds) <= Category.INTEGRAL:
        raise RuntimeError(
            f"{op}: For integral input tensors, argument alpha must not be a floating point "
            f"number."
        )
    if isinstance(alpha, np.generic):  # whose negative may be none
        alpha = alpha.item()
    return bool(alpha) if max(kinds) is Category.BOOL else alpha


@public("torch", "Tensor", inplace=True, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input + alpha * other, broadcast.

    >>> torch.add(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), alpha=2)
    tensor([21., 42.])
    """
    if type(alpha) is int and alpha == 1:
        return ADD(input, other)
    return ADD_SCALED(input, other, _checked_alpha("add", alpha, input, other))


@public("torch", "Tensor", inplace=True, out=True, aliases=("subtract",))
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """input - alpha * other, broadcast.

    >>> torch.sub(torch.tensor([5.0, 3.0]), torch.tensor([1.0, 2.0]), alpha=2)
    tensor([ 3., -1.])
    """
    if type(alpha) is int and alpha == 1:
        return SUB(input, other)
    alpha = _checked_alpha("sub", alpha, input, other)
    if any(getattr(x, "dtype", None) is dt.bool_ for x in (input, other)):
        return SUB(input, other)
    return ADD_SCALED(input, other, -alpha)


@public("torch", "Tensor")
def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Any:
    """other - alpha * input, broadcast.

    >>> torch.rsub(torch.tensor([1.0, 2.0]), 10)
    tensor([9., 8.])
    """
    check_tensors("rsub", input=input)
    return sub(other, input, alpha=alpha)


@public("torch", "Tensor", inplace=True, out=True, aliases=("multiply",))
def mul(input: Any, other: Any = None, *, value: Any = None) -> Any:
    """input * other, broadcast; `value` is another name of `other`.

    >>> torch.tensor([[1.0], [2.0]]) * torch.tensor([3.0, 4.0])
    tensor([[3., 4.],
            [6., 8.]])
    """
    return MUL(input, value if other is None else other)


neg = unary_function(NEG, "-x; bool is refused.", aliases=("negative",))


@public("torch", "Tensor")
def positive(input: Any) -> Any:
    """The tensor itself; bool is refused.

    >>> +torch.tensor([-1.0, 2.0])
    tensor([-1.,  2.])
    """
    check_tensors("positive", input=input)
    if input.dtype is dt.bool_:
        raise RuntimeError("positive: The `+` operator, on a bool tensor is not supported.")
    return input


# -- quotients


def _rounded_quotient(name: str, lower: Any, vjp: Any) -> Op:
    """Whole-number division: integers of a small dtype are divided as int64 when a Python
    number takes part, so that a number which does not fit is not wrapped around first.
    """

    def type_rule(a: TensorType, b: TensorType) -> TensorType:
        out = pointwise_type(name, "same", a, b)
        if out.dtype is dt.bool_ or out.dtype.is_complex:
            raise errors.not_implemented_for(name, out.dtype, "real numbers")
        return out

    def lower_rule(k: Any, a: Any, b: Any) -> Any:
        out = type_rule(type_of(a), type_of(b))
        kind = working(out.dtype)
        is_exact = kind.is_integral and kind.is_signed and (a.weak or b.weak)
        kind = dt.int64 if is_exact else kind
        divisor = k.cast(b, kind)
        is_looked_at = b.weak or 0 in out.shape  # a number was, when the op was called
        if kind.is_integral and not is_looked_at:
            is_zero = k.cast(divisor.equals(0), dt.int64)
            divisor = k.checked(divisor, is_zero, 1, "divisor")
        made = lower(k, k.cast(a, kind), divisor)
        return k.expand(k.cast(made, out.dtype), out.shape)

    return Op(name, type=type_rule, lower=lower_rule, vjp=vjp)


def _no_change(g: Any, out: Any, a: Any, b: Any) -> Any:
    return zeros_of(a), zeros_of(b)


TRUNC_DIVIDE = _rounded_quotient("trunc_divide", lambda k, a, b: k.truncdiv(a, b), _no_change)
FLOOR_QUOTIENT = _rounded_quotient(
    "floor_quotient", lambda k, a, b: k.floordiv(a, b), _no_change
)
FLOOR_DIVIDE = _rounded_quotient("floor_divide", lambda k, a, b: k.floordiv(a, b), None)
REMAINDER = _rounded_quotient(
    "remainder",
    lambda k, a, b: k.remainder(a, b),
    lambda g, out, a, b: (g, scaled(-g, FLOOR_QUOTIENT(a, b))),
)
FMOD = _rounded_quotient(
    "fmod",
    lambda k, a, b: k.fmod(a, b),
    lambda g, out, a, b: (g, scaled(-g, TRUNC_DIVIDE(a, b))),
)


def check_divisor(op: str, a: Any, b: Any) -> None:
    """An integer zero as divisor of integers raises."""
    is_number = isinstance(b, int | np.integer)
    if is_number and b == 0 and (not hasattr(a, "_storage") or a.dtype.is_integral):
        raise errors.zero_division(op)


@public("torch", "Tensor", inplace=True, out=True, aliases=("divide",))
def div(
    input: Any, other: Any = None, *, value: Any = None, rounding_mode: str | None = None
) -> Any:
    """input / other, broadcast; `rounding_mode` 'trunc' or 'floor' makes whole numbers of it.

    value: another name of `other`, from PyTorch's documentation.

    >>> torch.div(torch.tensor([7.0, -7.0]), 2, rounding_mode="floor")
    tensor([ 3., -4.])
    """
    if other is None:
        other = value
    if rounding_mode is None:
        return DIV(input, other)
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    check_divisor("div", input, other)
    return (TRUNC_DIVIDE if rounding_mode == "trunc" else FLOOR_QUOTIENT)(input, other)


@public("torch", "Tensor", inplace=True, out=True)
def true_divide(input: Any, other: Any) -> Any:
    """input / other, broadcast.

    >>> torch.true_divide(torch.tensor([1, 2]), 2)
    tensor([0.5000, 1.0000])
    """
    return DIV(input, other)


@public("torch", "Tensor", inplace=True, out=True)
def floor_divide(input: Any, other: Any) -> Any:
    """The quotient rounded down; it has no derivative (`div(rounding_mode="floor")` has).

    >>> torch.tensor([7.0, -7.0]) // 2
    tensor([ 3., -4.])
    """
    check_divisor("floor_divide", input, other)
    return FLOOR_DIVIDE(input, other)


@public("torch", "Tensor", inplace=True, out=True)
def remainder(input: Any, other: Any) -> Any:
    """What is left of input after division by other, with the sign of other (Python's %).

    >>> torch.remainder(torch.tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """
    check_one_tensor("remainder", input, other)
    check_divisor("remainder", input, other)
    return REMAINDER(input, other)


@public("torch", "Tensor", inplace=True, out=True)
def fmod(input: Any, other: Any) -> Any:
    """What is left of input after division by other, with the sign of input (C's fmod).

    >>> torch.fmod(torch.tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    """
    check_tensors("fmod", input=input)
    check_divisor("fmod", input, other)
    return FMOD(input, other)


RECIPROCAL = pointwise(
    "reciprocal",
    lambda k, x: 1 / x,
    lambda m, out, x: -(out * out),
    to="float",
    of_complex=True,
)
reciprocal = unary_function(RECIPROCAL, "1 / x.")


# -- powers


@public("torch", "Tensor", inplace=True, out=True)
def square(input: Any) -> Any:
    """input * input; bool becomes int64.

    >>> torch.square(torch.tensor([-3.0, 2.0]))
    tensor([9., 4.])
    """
    return pow(input, 2)


def _constant_power(exponent: float, form: Any, slope: Any) -> Op:
    """x to one of the small exponents that have a cheap exact form, each an op of its own."""
    name = "pow_" + str(exponent).replace("-", "minus_").replace(".", "_")
    return pointwise(name, form, slope, of_complex=True)


CONSTANT_POWERS = {
    0: pointwise(
        "pow_0",
        lambda k, x: k.full(x.shape, 1, x.dtype),
        vjp=lambda g, out, x: zeros_of(x),
        of_complex=True,
    ),
    1: pointwise("pow_1", lambda k, x: x, vjp=lambda g, out, x: g, of_complex=True),
    2: _constant_power(2, lambda k, x: x * x, lambda m, out, x: x * 2),
    3: _constant_power(3, lambda k, x: x * x * x, lambda m, out, x: x * x * 3),
    0.5: _constant_power(0.5, lambda k, x: k.sqrt(x), lambda m, out, x: 0.5 / out),
    -0.5: _constant_power(-0.5, lambda k, x: k.rsqrt(x), lambda m, out, x: out * -0.5 / x),
    -1: _constant_power(-1, lambda k, x: 1 / x, lambda m, out, x: -(out * out)),
    -2: _constant_power(-2, lambda k, x: 1 / (x * x), lambda m, out, x: out * -2 / x),
}


def _pow_lower(k: Any, a: Any, b: Any) -> Any:
    return k.ipow(a, b) if a.dtype.is_integral else k.pow(a, b)


def _pow_vjp(g: Any, out: Any, a: Any, b: Any) -> Any:
    """Zero by the base where the exponent is 0, and by the exponent where the base is 0 (and
    the exponent not negative), whatever the other factors are.
    """
    slope = RECORDED.where(RECORDED.eq(b, 0), 0, b * POW(a, b - 1))
    settled = RECORDED.eq(a, 0) & RECORDED.ge(real_part(b), 0)
    growth = RECORDED.where(settled, 0, out * RECORDED.log(a))
    return scaled(g, slope), scaled(g, growth)


POW = pointwise(
    "pow", _pow_lower, vjp=_pow_vjp, accepts=is_not_bool, wanted="numbers", of_complex=True
)


@public("torch", "Tensor", inplace=True, out=True)
def pow(input: Any, exponent: Any) -> Any:
    """input to the power of exponent, broadcast; small constant exponents take an exact short
    form.

    >>> import rushlight as torch
    >>> torch.tensor([2.0, 3.0]).pow(2)
    tensor([4., 9.])
    """
    if not hasattr(exponent, "_storage"):
        return _number_power(input, exponent)
    return POW(input, exponent)


def _number_power(x: Any, exponent: Any) -> Any:
    if not hasattr(x, "_storage"):
        raise TypeError(
            f"pow() needs a tensor: got ({type(x).__name__}, {type(exponent).__name__})"
        )
    kind = of_number(exponent)
    if x.dtype.is_integral:
        if kind is Category.FLOATING:
            x = CAST(x, dtype=config.default_dtype())
        elif kind is Category.INTEGRAL and exponent < 0:
            raise RuntimeError("pow: Integers to negative integer powers are not allowed.")
        elif x.dtype is dt.bool_:
            if kind is Category.BOOL:
                return RECORDED.logical_or(x, not exponent)
            x = CAST(x, dtype=dt.int64)
    constant = CONSTANT_POWERS.get(exponent)
    return POW(x, exponent) if constant is None else constant(x)


@public("torch", "Tensor", out=True)
def float_power(input: Any, exponent: Any) -> Any:
    """input to the power of exponent, calculated in double precision.

    >>> torch.float_power(torch.tensor([2, 3]), -1)
    tensor([0.5000, 0.3333], dtype=torch.float64)
    """
    check_one_tensor("float_power", input, exponent)
    check_operands("float_power", input, exponent)
    kind = _double_of(input, exponent)
    base, power = (
        CAST(x, dtype=kind)
        if hasattr(x, "_storage")
        else complex(x)
        if kind.is_complex
        else float(x)
        for x in (input, exponent)
    )
    return pow(base, power) if hasattr(base, "_storage") else POW(base, power)


def _double_of(*operands: Any) -> dt.dtype:
    """complex128 if one of the operands is complex, otherwise float64."""
    return dt.complex128 if Category.COMPLEX in map(category_of, operands) else dt.float64


def _float_power_in_place(input: Any, exponent: Any) -> Any:
    """In-place form of `float_power`."""
    check_operands("float_power_", input, exponent)
    kind = _double_of(input, exponent)
    if input.dtype is not kind:
        raise errors.cannot_cast("float_power_", kind, input.dtype)
    input.copy_(float_power(input, exponent))
    return input


public("Tensor", name="float_power_")(_float_power_in_place)


# -- updates


def _lerp_lower(k: Any, start: Any, end: Any, weight: Any) -> Any:
    """From the nearer end, so that weights 0 and 1 give the ends exactly."""
    step = end - start
    near = start + weight * step
    far = end - step * (1 - weight)
    return k.select(k.abs(weight) < 0.5, near, far)


LERP = pointwise(
    "lerp",
    _lerp_lower,
    vjp=lambda g, out, a, b, w: (scaled(g, 1 - w), scaled(g, w), scaled(g, b - a)),
    accepts=is_fractional,
    wanted="a floating dtype",
    of_complex=True,
)


@public("torch", "Tensor", inplace=True, out=True)
def lerp(input: Any, end: Any, weight: Any) -> Any:
    """input + weight * (end - input).

    >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0]), 0.5)
    tensor([ 0.5000, 15.0000])
    """
    check_tensors("lerp", input=input, end=end)
    if input.dtype.is_integral:
        raise errors.not_implemented_for("lerp", input.dtype, "a floating dtype")
    _check_same("lerp", input, end=end, weight=weight)
    return LERP(input, end, weight)


def _check_same(op: str, first: Any, **others: Any) -> None:
    for name, x in others.items():
        if not hasattr(x, "_storage") or x._storage.value.type.weak:
            continue  # a number
        if x.dtype is not first.dtype:
            raise RuntimeError(
                f"{op}: expected dtype {first.dtype!r} for `{name}` but got dtype {x.dtype!r}"
            )


ADDCMUL = pointwise(
    "addcmul",
    lambda k, x, a, b, value: x + value * a * b,
    vjp=lambda g, out, x, a, b, value: (g, scaled(g, b * value), scaled(g, a * value), None),
    of_complex=True,
)
ADDCDIV = pointwise(
    "addcdiv",
    lambda k, x, a, b, value: x + value * (a / b),
    vjp=lambda g, out, x, a, b, value: (
        g, shared(scaled(g, value), b), shared(scaled(g, -value * (a / b)), b), None
    ),
    of_complex=True,
)  # fmt: skip


@public("torch", "Tensor", inplace=True, out=True)
def addcmul(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 * tensor2.

    >>> torch.addcmul(torch.ones(2), torch.tensor([1.0, 2.0]), torch.ones(2), value=10)
    tensor([11., 21.])
    """
    check_tensors("addcmul", input=input, tensor1=tensor1, tensor2=tensor2)
    kinds = [t.dtype for t in (input, tensor1, tensor2)]
    if all(kind.is_integral for kind in kinds):
        value = int(value)
    return ADDCMUL(input, tensor1, tensor2, value)


@public("torch", "Tensor", inplace=True, out=True)
def addcdiv(input: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
    """input + value * tensor1 / tensor2.

    >>> torch.addcdiv(torch.ones(2), torch.ones(2), torch.tensor([2.0, 4.0]), value=10)
    tensor([6.0000, 3.5000])
    """
    check_tensors("addcdiv", input=input, tensor1=tensor1, tensor2=tensor2)
    if tensor1.dtype.is_integral and tensor2.dtype.is_integral:
        raise RuntimeError(
            "addcdiv: Integer division with addcdiv is no longer supported: convert to a "
            "floating dtype, or use torch.div(rounding_mode=...)"
        )
    return ADDCDIV(input, tensor1, tensor2, value)


# -- greatest common divisors


def _whole_number_op(name: str, function: Any) -> Op:
    ufunc = getattr(np, function)

    def lower(k: Any, a: Any, b: Any) -> Any:
        shape = (a * 0 + b * 0).shape
        return k.host(ufunc, [(shape, a.dtype)], k.expand(a, shape), k.expand(b, shape))[0]

    return pointwise(
        name, lower, accepts=lambda d: d.is_integral and d is not dt.bool_, wanted="integers"
    )


GCD = _whole_number_op("gcd", "gcd")
LCM = _whole_number_op("lcm", "lcm")


@public("torch", "Tensor", inplace=True, out=True)
def gcd(input: Any, other: Any) -> Any:
    """The greatest common divisor of each pair of integers (gcd(0, 0) is 0).

    >>> torch.gcd(torch.tensor([12, 0, -9]), torch.tensor([18, 5, 6]))
    tensor([6, 5, 3])
    """
    check_tensors("gcd", input=input, other=other)
    return GCD(input, other)


@public("torch", "Tensor", inplace=True, out=True)
def lcm(input: Any, other: Any) -> Any:
    """The least common multiple of each pair of integers.

    >>> torch.lcm(torch.tensor([4, 0]), torch.tensor([6, 5]))
    tensor([12,  0])
    """
    check_tensors("lcm", input=input, other=other)
    return LCM(input, other)
