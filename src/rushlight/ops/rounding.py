"""Rounding to whole numbers, and what is left."""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight.ir.host import takes_batches
from rushlight.ops import return_types
from rushlight.ops.elementwise import (
    CAST,
    RECORDED,
    is_floating,
    is_not_bool,
    pointwise,
    scaled,
    unary_function,
    zeros_of,
)
from rushlight.ops.registry import Op, TensorType, public


def _whole(name: str) -> Op:
    return pointwise(
        name,
        lambda k, x: k.map(name, x) if x.dtype.is_floating_point else x,
        vjp=lambda g, out, x: zeros_of(x),
        accepts=is_not_bool,
        wanted="numbers",
    )


FLOOR, CEIL, TRUNC, ROUND = _whole("floor"), _whole("ceil"), _whole("trunc"), _whole("round")
FRAC = pointwise(
    "frac",
    lambda k, x: x - k.trunc(x),
    vjp=lambda g, out, x: g,
    accepts=is_floating,
    wanted="a floating dtype",
)

floor = unary_function(FLOOR, "The greatest whole number that is not above x.")
ceil = unary_function(CEIL, "The least whole number that is not below x.")
trunc = unary_function(TRUNC, "The whole number next to x towards zero.", aliases=("fix",))
frac = unary_function(FRAC, "x - trunc(x), with the sign of x.")


def _round_decimals_lower(k: Any, x: Any, decimals: int) -> Any:
    power = 10.0 ** abs(decimals)
    if decimals > 0:
        return k.round(x * power) / power
    return k.round(x / power) * power


ROUND_DECIMALS = pointwise(
    "round_decimals",
    _round_decimals_lower,
    attrs=("decimals",),
    vjp=lambda g, out, x, decimals: zeros_of(x),
    accepts=is_floating,
    wanted="a floating dtype",
)


@public("torch", "Tensor", "special", inplace=True, out=True)
def round(input: Any, *, decimals: int = 0) -> Any:
    """Rounded to the nearest whole number (ties to even), or to `decimals` places.

    >>> import rushlight as torch
    >>> torch.tensor([0.5, 1.5, 2.5]).round()
    tensor([0., 2., 2.])
    """
    return ROUND(input) if decimals == 0 else ROUND_DECIMALS(input, decimals=int(decimals))


# -- taking floats apart


def _frexp_type(x: TensorType) -> tuple[TensorType, TensorType]:
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"frexp: only floating-point dtypes are supported, not {x.dtype!r}")
    return TensorType(x.shape, x.dtype), TensorType(x.shape, dt.int32)


@takes_batches
def split_float(x: Any) -> tuple[Any, Any]:
    """Fractions in [0.5, 1) and powers of two (infinities and NaN stay, with 0)."""
    fraction, power = np.frexp(x)
    return fraction, power.astype(np.int32)


def _frexp_lower(k: Any, x: Any) -> tuple[Any, ...]:
    wide = k.wide(x)
    outputs = [(x.shape, wide.dtype), (x.shape, dt.int32)]
    fraction, power = k.host(split_float, outputs, wide)
    return k.cast(fraction, x.dtype), power


def _frexp_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g[0], RECORDED.exp2(CAST(-out[1], dtype=g[0].dtype)))


FREXP = Op("frexp", type=_frexp_type, lower=_frexp_lower, vjp=_frexp_vjp, reads=1)


@public("torch", "Tensor", out=True)
def frexp(input: Any) -> Any:
    """mantissa and exponent with input = mantissa * 2**exponent and 0.5 <= |mantissa| < 1.

    >>> torch.frexp(torch.tensor([6.0, -0.5]))
    torch.return_types.frexp(
    mantissa=tensor([ 0.7500, -0.5000]),
    exponent=tensor([3, 0], dtype=torch.int32))
    """
    return return_types.frexp(*FREXP(input))
