"""Choosing between values: where, maximum and minimum, clamp, and what replaces NaN."""

from __future__ import annotations

from typing import Any  # operands are tensors or numbers

import numpy as np

from rushlight import dtypes as dt
from rushlight.dtypes import finfo
from rushlight.errors import refuses_complex
from rushlight.ir.host import takes_batches
from rushlight.ops.complex_parts import COMPLEX, DIRECTION, MODULUS
from rushlight.ops.creation import merged
from rushlight.ops.elementwise import (
    RECORDED,
    WHERE,
    binary_function,
    check_tensors,
    is_not_bool,
    masked,
    pointwise,
    scaled,
    zeros_of,
)
from rushlight.ops.fill_value import check_number
from rushlight.ops.registry import OPS, documented, no_derivative, public

# -- where


@public("torch", out=True)
@documented("input", "other")
def where(condition: Any, *values: Any, **named: Any) -> Any:
    """input where the condition holds, other elsewhere, broadcast.

    >>> import rushlight as torch
    >>> torch.where(torch.tensor([True, False]), 1.0, torch.tensor([5.0, 6.0]))
    tensor([1., 6.])
    """
    if not values and not named:
        return condition.nonzero(as_tuple=True)
    check_tensors("where", condition=condition)
    if len(values) != 2 or named:
        given = merged("where", ("input", "other"), values, named)
        if len(given) != 2:
            raise TypeError("where() takes condition, or condition, input and other")
        values = given["input"], given["other"]
    _check_choices(*values)
    return WHERE(condition, *values)


def _check_choices(input: Any, other: Any) -> None:
    """Whole numbers beside a tensor of integers are of its dtype."""
    for number, tensor in ((input, other), (other, input)):
        if hasattr(tensor, "_storage") and tensor.dtype.is_integral:
            check_number("where", number, tensor.dtype)


@public("Tensor", name="where")
def _where_method(input: Any, condition: Any, other: Any) -> Any:
    """input where the condition holds, other elsewhere."""
    _check_choices(input, other)
    return WHERE(condition, input, other)


# -- the greater and the smaller


def _extreme_vjp(name: str) -> Any:
    """The chosen operand gets the gradient, equal ones a half each, unordered ones all of
    it.
    """

    def vjp(g: Any, out: Any, a: Any, b: Any) -> Any:
        beyond = OPS[name]
        first, second = beyond(a, b), beyond(b, a)
        if g.dtype.is_integral:
            return zeros_of(a), zeros_of(b)
        shared = WHERE(RECORDED.eq(a, b), g * 0.5, g)
        return WHERE(second, 0, shared), WHERE(first, 0, shared)

    return vjp


MAXIMUM = pointwise(
    "maximum",
    lambda k, a, b: k.max(a, b),
    vjp=_extreme_vjp("gt"),
    refuse_complex=refuses_complex,
)
MINIMUM = pointwise(
    "minimum",
    lambda k, a, b: k.min(a, b),
    vjp=_extreme_vjp("lt"),
    refuse_complex=refuses_complex,
)


def _ignoring_nan(prim: str) -> Any:
    def lower(k: Any, a: Any, b: Any) -> Any:
        chosen = k.map(prim, a, b)
        if not a.dtype.is_floating_point:
            return chosen
        return k.select(k.ne(a, a), b, k.select(k.ne(b, b), a, chosen))

    return lower


def _ignoring_vjp(name: str) -> Any:
    def vjp(g: Any, out: Any, a: Any, b: Any) -> Any:
        first = OPS[name](a, b) | RECORDED.ne(b, b)
        return WHERE(first, g, 0), WHERE(first, 0, g)

    return vjp


FMAX = pointwise(
    "fmax", _ignoring_nan("max"), vjp=_ignoring_vjp("ge"), refuse_complex=refuses_complex
)
FMIN = pointwise(
    "fmin", _ignoring_nan("min"), vjp=_ignoring_vjp("le"), refuse_complex=refuses_complex
)

maximum = binary_function(
    MAXIMUM,
    "The larger of each pair, broadcast; NaN where either is NaN.",
    inplace=False,
    numbers="none",
)
minimum = binary_function(
    MINIMUM,
    "The smaller of each pair, broadcast; NaN where either is NaN.",
    inplace=False,
    numbers="none",
)
fmax = binary_function(
    FMAX,
    "The larger of each pair, broadcast; the other where one is NaN.",
    inplace=False,
    numbers="none",
)
fmin = binary_function(
    FMIN,
    "The smaller of each pair, broadcast; the other where one is NaN.",
    inplace=False,
    numbers="none",
)


# -- clamp


def _clamp_vjp(g: Any, out: Any, x: Any, low: Any, high: Any) -> Any:
    """x gets the gradient within the bounds (ends included), a bound where it is the result."""
    is_below, is_above = RECORDED.lt(x, low), RECORDED.gt(x, high)
    inside = RECORDED.ge(x, low) & RECORDED.le(x, high)
    crossed = RECORDED.lt(high, low)
    return (
        masked(inside, g),
        masked(is_below & ~crossed, g),
        masked(is_above | crossed, g),
    )


CLAMP = pointwise("clamp", lambda k, x, low, high: k.min(k.max(x, low), high), vjp=_clamp_vjp)
CLAMP_MIN = pointwise(
    "clamp_min",
    lambda k, x, low: k.max(x, low),
    vjp=lambda g, out, x, low: (
        masked(RECORDED.ge(x, low), g), masked(RECORDED.lt(x, low), g)
    ),
)  # fmt: skip
CLAMP_MAX = pointwise(
    "clamp_max",
    lambda k, x, high: k.min(x, high),
    vjp=lambda g, out, x, high: (
        masked(RECORDED.le(x, high), g), masked(RECORDED.gt(x, high), g)
    ),
)  # fmt: skip


@public("torch", "Tensor", inplace=True, out=True, aliases=("clip",))
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Values below min become min and values above max become max; NaN stays.

    >>> import rushlight as torch
    >>> torch.tensor([-2.0, 0.5, 3.0]).clamp(0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensors("clamp", input=input)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    check_number("clamp", min, input.dtype)
    check_number("clamp", max, input.dtype)
    if max is None:
        return CLAMP_MIN(input, min)
    if min is None:
        return CLAMP_MAX(input, max)
    if hasattr(min, "_storage") != hasattr(max, "_storage"):
        min, max = _plain_bound(min), _plain_bound(max)
    return CLAMP(input, min, max)


def _plain_bound(bound: Any) -> Any:
    """A bound as a number, where the other one is a number."""
    if getattr(bound, "ndim", 0):
        raise TypeError("clamp: min and max must be both tensors or both numbers")
    return bound.item() if hasattr(bound, "_storage") else bound


@public("torch", "Tensor", inplace=True, out=True)
def clamp_min(input: Any, min: Any) -> Any:
    """Values below min become min.

    >>> torch.clamp_min(torch.tensor([-1.0, 2.0]), 0)
    tensor([0., 2.])
    """
    check_tensors("clamp_min", input=input)
    check_number("clamp_min", min, input.dtype)
    return CLAMP_MIN(input, min)


@public("torch", "Tensor", inplace=True, out=True)
def clamp_max(input: Any, max: Any) -> Any:
    """Values above max become max.

    >>> torch.clamp_max(torch.tensor([-1.0, 2.0]), 0)
    tensor([-1.,  0.])
    """
    check_tensors("clamp_max", input=input)
    check_number("clamp_max", max, input.dtype)
    return CLAMP_MAX(input, max)


# -- replacing what is not a number


def _nan_to_num_lower(k: Any, x: Any, nan: float, posinf: float, neginf: float) -> Any:
    if x.dtype.is_integral:
        return x
    inf = float("inf")
    x = k.select(k.ne(x, x), nan, x)
    return k.select(k.eq(x, inf), posinf, k.select(k.eq(x, -inf), neginf, x))


NAN_TO_NUM = pointwise(
    "nan_to_num",
    _nan_to_num_lower,
    attrs=("nan", "posinf", "neginf"),
    vjp=lambda g, out, x, nan, posinf, neginf: masked(RECORDED.isfinite(x), g),
)


@public("torch", "Tensor", inplace=True, out=True)
def nan_to_num(
    input: Any,
    nan: float | None = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    """NaN and infinities replaced by numbers (the largest of the dtype by default).

    >>> torch.nan_to_num(torch.tensor([float("nan"), float("inf")]), posinf=9.0)
    tensor([0., 9.])
    """
    nan = 0.0 if nan is None else nan
    if input.dtype.is_complex:
        parts = (nan_to_num(part, nan, posinf, neginf) for part in (input.real, input.imag))
        return COMPLEX(*parts)
    if input.dtype.is_integral:
        return NAN_TO_NUM(input, nan=0.0, posinf=0.0, neginf=0.0)
    limits = finfo(input.dtype)
    return NAN_TO_NUM(
        input,
        nan=0.0 if nan is None else float(nan),
        posinf=limits.max if posinf is None else float(posinf),
        neginf=limits.min if neginf is None else float(neginf),
    )


# -- by sign


def _heaviside_lower(k: Any, x: Any, values: Any) -> Any:
    if x.dtype is dt.bool_:
        return x | values
    return k.select(k.eq(x, 0), values, k.select(k.gt(x, 0), k.const(1, x.dtype), 0))


HEAVISIDE = pointwise(
    "heaviside",
    _heaviside_lower,
    vjp=no_derivative("heaviside"),
    refuse_complex=refuses_complex,
)


@public("torch", "Tensor", inplace=True, out=True)
def heaviside(input: Any, values: Any) -> Any:
    """0 for negative elements and NaN, 1 for positive ones, `values` at zero.

    >>> torch.heaviside(torch.tensor([-1.0, 0.0, 2.0]), torch.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    check_tensors("heaviside", input=input, values=values)
    if input.dtype is not values.dtype:
        raise RuntimeError(
            "heaviside is not yet implemented for tensors with different dtypes."
        )
    return HEAVISIDE(input, values)


def _sign_lower(k: Any, x: Any) -> Any:
    if not x.dtype.is_signed:
        return x if x.dtype is dt.bool_ else k.select(k.gt(x, 0), k.const(1, x.dtype), 0)
    negative = k.select(k.lt(x, 0), k.const(-1, x.dtype), 0)
    return k.select(k.gt(x, 0), 1, negative)


def _abs_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, SIGN(x))


SIGN = pointwise("sign", _sign_lower, vjp=lambda g, out, x: zeros_of(x))
ABS = pointwise(
    "abs", lambda k, x: k.abs(x), vjp=_abs_vjp, accepts=is_not_bool, wanted="numbers"
)


@public("torch", "Tensor", inplace=True, out=True)
def sign(input: Any) -> Any:
    """-1, 0 or 1 by the sign of each element.

    >>> torch.sign(torch.tensor([-3.0, 0.0, 2.0]))
    tensor([-1.,  0.,  1.])
    """
    return SIGN(input)


@public("torch", "Tensor", inplace=True, out=True)
def sgn(input: Any) -> Any:
    """The sign of each element; of a complex one, the number of length 1 in its direction.

    >>> torch.sgn(torch.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """
    return DIRECTION(input) if input.dtype.is_complex else SIGN(input)


@public("torch", "Tensor", inplace=True, out=True, aliases=("absolute",))
def abs(input: Any) -> Any:
    """The absolute value of each element: a real number, also of complex ones.

    >>> torch.abs(torch.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    """
    return MODULUS(input) if input.dtype.is_complex else ABS(input)


def _copysign_lower(k: Any, a: Any, b: Any) -> Any:
    return k.copysign(a, b)


def _copysign_vjp(g: Any, out: Any, a: Any, b: Any) -> Any:
    ratio = WHERE(RECORDED.eq(a, 0), 0, out / a)
    return scaled(g, ratio), zeros_of(b)


COPYSIGN = pointwise("copysign", _copysign_lower, to="float", vjp=_copysign_vjp)
copysign = binary_function(COPYSIGN, "|input| with the sign of other, broadcast.")


def _nextafter_lower(k: Any, a: Any, b: Any) -> Any:
    return k.nextafter(a, b)


def _half_nextafter_lower(k: Any, a: Any, b: Any, kind: dt.dtype) -> Any:
    shape = (a * 0 + b * 0).shape
    function = next_bfloat16 if kind is dt.bfloat16 else next_float16
    return k.host(function, [(shape, kind)], k.expand(a, shape), k.expand(b, shape))[0]


@takes_batches
def next_float16(a: Any, b: Any) -> Any:
    """The neighbour of each float16 value of a towards b (float32 arrays)."""
    return np.nextafter(a.astype(np.float16), b.astype(np.float16)).astype(np.float32)


@takes_batches
def next_bfloat16(a: Any, b: Any) -> Any:
    """The neighbour of each bfloat16 value of a towards b: these are float32 values whose last
    16 bits are zero, so the next one is 2**16 steps away.
    """
    bits = a.view(np.int32)
    away = (a < b) == (bits >= 0)
    moved = (bits + np.where(away, 0x10000, -0x10000).astype(np.int32)).view(np.float32)
    tiny = np.full_like(bits, 0x10000).view(np.float32)
    moved = np.where(a == 0, np.copysign(tiny, b), moved)
    moved = np.where(a == b, b, moved)
    return np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), moved).astype(np.float32)


def _nextafter_vjp(g: Any, out: Any, a: Any, b: Any) -> Any:
    return g, zeros_of(b)


NEXTAFTER = pointwise(
    "nextafter",
    _nextafter_lower,
    vjp=_nextafter_vjp,
    accepts=lambda d: d in (dt.float32, dt.float64),
    wanted="float32 or float64",
)
NEXTAFTER_HALF = pointwise(
    "nextafter_half",
    _half_nextafter_lower,
    attrs=("kind",),
    vjp=lambda g, out, a, b, kind: (g, zeros_of(b)),
)


@public("torch", "Tensor", inplace=True, out=True)
def nextafter(input: Any, other: Any) -> Any:
    """The next representable number after each element of input towards other.

    >>> torch.nextafter(torch.tensor([1.0]), torch.tensor([2.0])) - 1
    tensor([1.1921e-07])
    """
    check_tensors("nextafter", input=input, other=other)
    if input.dtype in (dt.float16, dt.bfloat16) and other.dtype is input.dtype:
        return NEXTAFTER_HALF(input, other, kind=input.dtype)
    return NEXTAFTER(input, other)
