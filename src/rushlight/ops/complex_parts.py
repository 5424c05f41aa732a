"""Complex numbers and their parts. Of real tensors most of these are the tensor itself."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

import numpy as np

from rushlight import config, views
from rushlight.dtypes import float16, float32, float64
from rushlight.ir.builder import takes_batches
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import CAST, WHERE, check_tensors, zeros_of
from rushlight.ops.registry import Op, TensorType, public


@takes_batches
def _joined(real: Any, imag: Any) -> Any:
    """Without a product by i, which makes NaN of infinite parts."""
    out = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    out.real, out.imag = real, imag
    return out


def _complex_type(real: TensorType, imag: TensorType) -> TensorType:
    shape = views.broadcast_shapes("complex", real.shape, imag.shape)
    return TensorType(shape, real.dtype.to_complex())


def _complex_lower(k: Any, real: Any, imag: Any) -> Any:
    out = _complex_type(TensorType(real.shape, real.dtype), TensorType(imag.shape, imag.dtype))
    parts = [k.expand(k.wide(x), out.shape) for x in (real, imag)]
    return k.host(_joined, [(out.shape, out.dtype)], *parts)[0]


def _part_op(name: str, function: Any, vjp: Any) -> Op:
    return Op(
        name,
        type=lambda x: TensorType(x.shape, x.dtype.to_real()),
        lower=lambda k, x: k.host(function, [(x.shape, x.dtype.to_real())], x)[0],
        vjp=vjp,
    )


COMPLEX = Op(
    "complex",
    type=_complex_type,
    lower=_complex_lower,
    vjp=lambda g, out, real, imag: (REAL(g), IMAG(g)),
)
REAL = _part_op("real", takes_batches(np.real), lambda g, out, x: COMPLEX(g, zeros_of(g)))
IMAG = _part_op("imag", takes_batches(np.imag), lambda g, out, x: COMPLEX(zeros_of(g), g))
CONJ = Op(
    "conj",
    type=lambda x: x,
    lower=lambda k, x: k.host(np.conj, [(x.shape, x.dtype)], x)[0],
    vjp=lambda g, out, x: CONJ(g),
)


def _check_parts(op: str, **parts: Any) -> None:
    check_tensors(op, **parts)
    kinds = [x.dtype for x in parts.values()]
    names = " and ".join(parts)
    if any(kind not in (float16, float32, float64) for kind in kinds):
        raise RuntimeError(
            f"{op}: expected both inputs to be Half, Float or Double tensors but got "
            f"{names} of {kinds[0]!r} and {kinds[1]!r}"
        )
    if kinds[0] is not kinds[1]:
        raise RuntimeError(
            f"{op}: expected {names} to be of one dtype but got {kinds[0]!r} and {kinds[1]!r}"
        )


@public("torch", out=True)
def complex(real: Any, imag: Any) -> Any:
    """real + i imag."""
    _check_parts("complex", real=real, imag=imag)
    return COMPLEX(real, imag)


@public("torch", out=True)
def polar(abs: Any, angle: Any) -> Any:
    """abs (cos angle + i sin angle)."""
    _check_parts("polar", abs=abs, angle=angle)
    return COMPLEX(abs * angle.cos(), abs * angle.sin())


@public("torch")
def real(input: Any) -> Any:
    """The real parts: a real tensor itself, a copy of those of a complex one."""
    return REAL(input) if input.dtype.is_complex else input


@public("torch")
def imag(input: Any) -> Any:
    """A copy of the imaginary parts of a complex tensor."""
    if not input.dtype.is_complex:
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype!r}"
        )
    return IMAG(input)


@public("torch", "Tensor")
def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return CONJ(input) if input.dtype.is_complex else input


@public("torch", "Tensor", inplace=True, out=True)
def conj_physical(input: Any) -> Any:
    """The complex conjugate; a real tensor itself."""
    return conj(input)


@public("torch", "Tensor")
def resolve_conj(input: Any) -> Any:
    """The tensor itself: conjugates are always calculated here."""
    return input


@public("torch", "Tensor")
def resolve_neg(input: Any) -> Any:
    """The tensor itself: negatives are always calculated here."""
    return input


@public("torch", "Tensor")
def is_conj(input: Any) -> bool:
    """Whether a conjugate still has to be calculated: never here."""
    return False


@public("torch", "Tensor")
def is_neg(input: Any) -> bool:
    """Whether a negative still has to be calculated: never here."""
    return False


@public("torch", "Tensor", out=True)
def angle(input: Any) -> Any:
    """The argument of each number: of real ones 0, or pi if they are negative."""
    if input.dtype.is_complex:
        return IMAG(input).atan2(REAL(input))
    x = input.detach()
    x = CAST(x, dtype=config.default_dtype()) if x.dtype.is_integral else x
    made = WHERE(x != x, x, CAST(x < 0, dtype=x.dtype) * math.pi)
    return unrelated(made, input)
