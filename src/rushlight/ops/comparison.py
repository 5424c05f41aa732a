"""Comparisons, logic, and tests of kinds of numbers: results are bool and have no
derivative.
"""

from __future__ import annotations

from typing import Any  # operands are tensors or numbers

from rushlight import dtypes as dt
from rushlight.errors import refuses_complex
from rushlight.ops.elementwise import (
    CAST,
    binary_function,
    check_tensors,
    comparison,
    pointwise,
    unary_function,
)
from rushlight.ops.registry import Op, public

INF = float("inf")


def _number(k: Any, x: Any) -> Any:
    """What eight bits stand for; others as they are."""
    return k.wide(x) if x.dtype.is_float8 else x


LT = comparison("lt", lambda k, a, b: a < b)
LE = comparison("le", lambda k, a, b: a <= b)
GT = comparison("gt", lambda k, a, b: a > b)
GE = comparison("ge", lambda k, a, b: a >= b)
EQ = comparison("eq", lambda k, a, b: k.eq(_number(k, a), _number(k, b)), of_complex=True)
NE = comparison("ne", lambda k, a, b: k.ne(_number(k, a), _number(k, b)), of_complex=True)

lt = binary_function(LT, "Where input < other, broadcast.", aliases=("less",))
le = binary_function(LE, "Where input <= other, broadcast.", aliases=("less_equal",))
gt = binary_function(GT, "Where input > other, broadcast.", aliases=("greater",))
ge = binary_function(GE, "Where input >= other, broadcast.", aliases=("greater_equal",))
eq = binary_function(EQ, "Where input == other, broadcast; NaN equals nothing.")
ne = binary_function(NE, "Where input != other, broadcast.", aliases=("not_equal",))


# -- logic


def _truth(k: Any, x: Any) -> Any:
    return k.cast(x, dt.bool_)


def _test(name: str, lower: Any) -> Op:
    """An op with bool results that takes numbers of any kind."""
    return pointwise(name, lower, to="bool", of_complex=True)


LOGICAL_AND = _test("logical_and", lambda k, a, b: _truth(k, a) & _truth(k, b))
LOGICAL_OR = _test("logical_or", lambda k, a, b: _truth(k, a) | _truth(k, b))
LOGICAL_XOR = _test("logical_xor", lambda k, a, b: _truth(k, a) ^ _truth(k, b))
LOGICAL_NOT = _test("logical_not", lambda k, x: k.eq(x, 0))

logical_and = binary_function(LOGICAL_AND, "Where neither is zero, broadcast.", numbers="none")
logical_or = binary_function(
    LOGICAL_OR, "Where one or both are not zero, broadcast.", numbers="none"
)
logical_xor = binary_function(
    LOGICAL_XOR, "Where one of both is zero, broadcast.", numbers="none"
)
logical_not = unary_function(LOGICAL_NOT, "Where elements are zero.")


# -- kinds of numbers


def _signbit_lower(k: Any, x: Any) -> Any:
    if x.dtype.is_floating_point:
        return k.copysign(k.const(1, x.dtype), x) < 0
    return x < 0 if x.dtype.is_signed else k.ne(x, x)


def _isinf_lower(k: Any, x: Any) -> Any:
    return k.ne(x, x) if x.dtype.is_integral else k.eq(k.abs(x), INF)


def _isfinite_lower(k: Any, x: Any) -> Any:
    return k.eq(x, x) if x.dtype.is_integral else k.abs(x) < INF


def _is_infinity(value: float) -> Any:
    def lower(k: Any, x: Any) -> Any:
        return k.eq(x, value) if x.dtype.is_floating_point else k.ne(x, x)

    return lower


ISNAN = _test("isnan", lambda k, x: k.ne(_number(k, x), _number(k, x)))
ISINF = _test("isinf", _isinf_lower)
ISFINITE = _test("isfinite", _isfinite_lower)
ISPOSINF = pointwise("isposinf", _is_infinity(INF), to="bool", refuse_complex=refuses_complex)
ISNEGINF = pointwise("isneginf", _is_infinity(-INF), to="bool", refuse_complex=refuses_complex)
SIGNBIT = pointwise("signbit", _signbit_lower, to="bool")

isposinf = unary_function(ISPOSINF, "Where elements are +infinity.", inplace=False)
isneginf = unary_function(ISNEGINF, "Where elements are -infinity.", inplace=False)
signbit = unary_function(
    SIGNBIT, "Where the sign bit is set: below zero, and at -0.0.", inplace=False
)


@public("torch", "Tensor")
def isnan(input: Any) -> Any:
    """Where elements are NaN.

    >>> torch.isnan(torch.tensor([1.0, float("nan")]))
    tensor([False,  True])
    """
    return ISNAN(input)


@public("torch", "Tensor")
def isinf(input: Any) -> Any:
    """Where elements are positive or negative infinity.

    >>> torch.isinf(torch.tensor([1.0, float("-inf")]))
    tensor([False,  True])
    """
    return ISINF(input)


@public("torch", "Tensor")
def isfinite(input: Any) -> Any:
    """Where elements are neither infinite nor NaN.

    >>> torch.isfinite(torch.tensor([1.0, float("inf"), float("nan")]))
    tensor([ True, False, False])
    """
    return ISFINITE(input)


@public("torch", "Tensor")
def isreal(input: Any) -> Any:
    """Where elements have no imaginary part.

    >>> torch.isreal(torch.tensor([1 + 0j, 2j]))
    tensor([ True, False])
    """
    check_tensors("isreal", input=input)
    return EQ(input.imag, 0) if input.dtype.is_complex else ISFINITE(input) | True


# -- closeness


@public("torch", "Tensor")
def isclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Where |input - other| <= atol + rtol * |other|, or both are the same.

    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0 + 1e-6, 2.1]))
    tensor([ True, False])
    """
    check_tensors("isclose", input=input, other=other)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"isclose: {input.dtype!r} did not match {other.dtype!r}")
    for name, value in (("rtol", rtol), ("atol", atol)):
        if not value >= 0:
            raise RuntimeError(
                f"isclose: {name} must be greater than or equal to zero, but got {value}"
            )
    same = EQ(input, other)
    if equal_nan and not input.dtype.is_integral:
        same = same | (ISNAN(input) & ISNAN(other))
    if rtol == 0 and atol == 0:
        return same
    if input.dtype is dt.bool_:
        return same
    if input.dtype.is_integral:
        input, other = CAST(input, dtype=dt.float64), CAST(other, dtype=dt.float64)
    gap = (input - other).abs()
    return same | (ISFINITE(gap) & LE(gap, atol + (rtol * other).abs()))


@public("torch", "Tensor")
def allclose(
    input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close (see `isclose`).

    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]))
    True
    """
    return bool(isclose(input, other, rtol, atol, equal_nan).all().item())


@public("torch", "Tensor")
def equal(input: Any, other: Any) -> bool:
    """Whether both tensors have the same size and elements.

    >>> torch.equal(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0]))
    True
    """
    check_tensors("equal", input=input, other=other)
    return input.shape == other.shape and bool(EQ(input, other).all().item())
