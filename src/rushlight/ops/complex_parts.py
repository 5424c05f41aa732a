"""Complex numbers and their parts. Of real tensors most of these are the tensor itself."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight.dtypes import bool_, dtype, float16, float32, float64
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import (
    CAST,
    WHERE,
    check_tensors,
    masked,
    scaled,
    the_tensor,
    zeros_of,
)
from rushlight.ops.registry import Linearity, Op, TensorType, public
from rushlight.ops.view_ops import SCATTER_VIEW, own_view, take_view, view_op
from rushlight.views import Recast, Shape, View

# -- views


def _parts_view(x: Any) -> Recast:
    is_conj, is_neg = views.marks(x._view)
    if is_conj:
        raise errors.view_of_marked("view_as_real", "a conjugate", "resolve_conj()")
    shape, strides = x._shape, tuple(2 * s for s in x._strides)
    kind = x.dtype.to_real()
    return Recast((*shape, 2), (*strides, 1), 2 * x._offset, kind, False, is_neg)


def _part_view(x: Any, part: int) -> Recast:
    """The imaginary parts of a conjugate are the negatives of those in memory."""
    is_conj, is_neg = views.marks(x._view)
    strides, kind = tuple(2 * s for s in x._strides), x.dtype.to_real()
    is_turned = is_neg != (is_conj and part == 1)
    return Recast(x._shape, strides, 2 * x._offset + part, kind, False, is_turned)


def _marked_view(x: Any, conj: bool, neg: bool) -> Recast:
    """The same elements, conjugated or negated once more."""
    is_conj, is_neg = views.marks(x._view)
    return Recast(*own_view(x), x.dtype, is_conj != conj, is_neg != neg)


def _whole_view(x: Any) -> Recast:
    """Complex numbers of real ones in pairs, which lie side by side from an even place on."""
    shape, strides, offset = own_view(x)
    if not shape or shape[-1] != 2:
        raise RuntimeError("view_as_complex: Tensor must have a last dimension of size 2")
    if strides[-1] != 1:
        raise RuntimeError("view_as_complex: Tensor must have a last dimension with stride 1")
    if offset % 2:
        raise RuntimeError("view_as_complex: Tensor must have a storage_offset divisible by 2")
    if any(s % 2 and n != 1 for n, s in zip(shape[:-1], strides, strict=False)):
        raise RuntimeError(
            "view_as_complex: Tensor must have a stride divisible by 2 for all but last "
            "dimension"
        )
    halved = tuple(s // 2 for s in strides[:-1])  # of single elements any stride will do
    _, is_neg = views.marks(x._view)
    return Recast(shape[:-1], halved, offset // 2, x.dtype.to_complex(), False, is_neg)


def _recast_vjp(
    g: Any, out: Any, x: Any, shape: Shape, strides: Shape, offset: int, dtype: dtype,
    is_conj: bool, is_neg: bool,
) -> Any:  # fmt: skip
    g = CONJ_PHYSICAL(g) if is_conj else g
    g = -g if is_neg else g
    view = View(shape, strides, offset)
    if dtype is x.dtype:
        return SCATTER_VIEW(g, shape=tuple(x.shape), view=view)
    if dtype.is_complex:
        pairs = View((*shape, 2), (*(2 * s for s in strides), 1), 2 * offset)
        return SCATTER_VIEW(_pairs_of(g), shape=tuple(x.shape), view=pairs)
    return _numbers_of(SCATTER_VIEW(g, shape=(*x.shape, 2), view=view))


def _numbers_of(pairs: Any) -> Any:
    """Complex numbers of pairs that may lie anywhere."""
    return COMPLEX(pairs[..., 0], pairs[..., 1])


def _pairs_of(numbers: Any) -> Any:
    return take_view(AS_REAL, resolve_conj(numbers))


RECAST = view_op(  # of a tensor that is all of its storage: any other view of it
    "recast",
    lambda x, **view: Recast(**view),
    Recast._fields,
    _recast_vjp,
)
AS_REAL = view_op("view_as_real", _parts_view, (), lambda g, out, x: _numbers_of(g))
AS_COMPLEX = view_op("view_as_complex", _whole_view, (), lambda g, out, x: _pairs_of(g))
REAL = view_op(
    "real", lambda x: _part_view(x, 0), (), lambda g, out, x: COMPLEX(g, zeros_of(g))
)
IMAG = view_op(
    "imag", lambda x: _part_view(x, 1), (), lambda g, out, x: COMPLEX(zeros_of(g), g)
)
CONJ = view_op(
    "conj",
    lambda x: _marked_view(x, conj=True, neg=False),
    (),
    lambda g, out, x: CONJ_PHYSICAL(g),
)
NEG_VIEW = view_op(
    "neg_view", lambda x: _marked_view(x, conj=False, neg=True), (), lambda g, out, x: -g
)


@public("torch")
def view_as_real(input: Any) -> Any:
    """The parts of complex numbers as a last dimension of size 2, in the same memory.

    >>> torch.view_as_real(torch.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not input.dtype.is_complex:
        raise RuntimeError("view_as_real is only supported for complex tensors")
    return take_view(AS_REAL, input)


@public("torch")
def view_as_complex(input: Any) -> Any:
    """The pairs in a last dimension of size 2 as complex numbers, in the same memory.

    >>> import rushlight as torch
    >>> torch.view_as_complex(torch.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    if input.dtype is float16:
        raise errors.no_complex_half()
    if input.dtype not in (float32, float64):
        raise RuntimeError(
            f"view_as_complex is only supported for floating point tensors, but got a tensor "
            f"of scalar type: {input.dtype!r}"
        )
    return take_view(AS_COMPLEX, input)


# -- numbers and their parts


def _complex_type(real: TensorType, imag: TensorType) -> TensorType:
    shape = views.broadcast_shapes("complex", real.shape, imag.shape)
    return TensorType(shape, real.dtype.to_complex())


def _complex_lower(k: Any, real: Any, imag: Any) -> Any:
    shape = views.broadcast_shapes("complex", real.shape, imag.shape)
    return k.complex(*(k.expand(k.wide(x), shape) for x in (real, imag)))


COMPLEX = Op(
    "complex",
    type=_complex_type,
    lower=_complex_lower,
    vjp=lambda g, out, real, imag: (take_view(REAL, g), take_view(IMAG, g)),
    jvp=Linearity.TOGETHER,
)
CONJ_PHYSICAL = Op(
    "conj_physical",
    type=lambda x: x,
    lower=lambda k, x: k.conj(x),
    vjp=lambda g, out, x: CONJ_PHYSICAL(g),
    jvp=Linearity.TOGETHER,
)
MODULUS = Op(
    "modulus",
    type=lambda x: TensorType(x.shape, x.dtype.to_real()),
    lower=lambda k, x: k.abs(x),
    vjp=lambda g, out, x: scaled(DIRECTION(x), g),
)


def _direction_lower(k: Any, x: Any) -> Any:
    """In two steps: a quotient by the length could overflow where the number is tiny."""
    is_zero = k.eq(x, 0)
    size = k.abs(x)
    return k.select(is_zero, x, x / k.cast(k.select(is_zero, 1, size), x.dtype))


def _direction_vjp(g: Any, out: Any, x: Any) -> Any:
    """The part of g across the direction, by the length; 0 at zero."""
    size = MODULUS(x)
    along = take_view(REAL, scaled(g, out))
    return masked(size != 0, (g - along * out) / WHERE(size == 0, 1, size))


DIRECTION = Op("direction", type=lambda x: x, lower=_direction_lower, vjp=_direction_vjp)
ANGLE = Op(
    "angle",
    type=lambda x: TensorType(x.shape, x.dtype.to_real()),
    lower=lambda k, x: k.atan2(x.im, x.re),
    vjp=lambda g, out, x: masked(x != 0, COMPLEX(zeros_of(g), g) / conj(x)),
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
    """real + i imag.

    >>> torch.complex(torch.tensor([1.0]), torch.tensor([2.0]))
    tensor([1.+2.j])
    """
    _check_parts("complex", real=real, imag=imag)
    return COMPLEX(real, imag)


@public("torch", out=True)
def polar(abs: Any, angle: Any) -> Any:
    """abs (cos angle + i sin angle).

    >>> torch.polar(torch.tensor([2.0]), torch.tensor([0.0]))
    tensor([2.+0.j])
    """
    _check_parts("polar", abs=abs, angle=angle)
    return COMPLEX(abs * angle.cos(), abs * angle.sin())


@public("torch")
def real(input: Any) -> Any:
    """The real parts of complex numbers, in the same memory; a real tensor itself.

    >>> torch.real(torch.tensor([1 + 2j]))
    tensor([1.])
    """
    return take_view(REAL, input) if input.dtype.is_complex else the_tensor("real", input)


@public("torch")
def imag(input: Any) -> Any:
    """The imaginary parts of complex numbers, in the same memory.

    >>> torch.imag(torch.tensor([1 + 2j]))
    tensor([2.])
    """
    if not input.dtype.is_complex:
        raise RuntimeError(
            f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype!r}"
        )
    return take_view(IMAG, input)


@public("torch", "Tensor")
def conj(input: Any) -> Any:
    """The complex conjugate, in the same memory; a real tensor itself.

    >>> torch.conj(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return take_view(CONJ, input) if input.dtype.is_complex else the_tensor("conj", input)


@public("torch", "Tensor", inplace=True, out=True)
def conj_physical(input: Any) -> Any:
    """The complex conjugate in memory of its own; a real tensor itself.

    >>> torch.conj_physical(torch.tensor([1 + 2j]))
    tensor([1.-2.j])
    """
    return (
        CONJ_PHYSICAL(input) if input.dtype.is_complex else the_tensor("conj_physical", input)
    )


@public("torch", "Tensor")
def resolve_conj(input: Any) -> Any:
    """A copy whose memory holds the conjugates, if x reads them; otherwise x itself.

    >>> torch.resolve_conj(torch.tensor([1 + 2j]).conj())
    tensor([1.-2.j])
    """
    return input.clone() if is_conj(input) else input


@public("torch", "Tensor")
def resolve_neg(input: Any) -> Any:
    """A copy whose memory holds the negatives, if x reads them; otherwise x itself.

    >>> torch.resolve_neg(torch.tensor([1.0]))
    tensor([1.])
    """
    return input.clone() if is_neg(input) else input


@public("torch", "Tensor")
def is_conj(input: Any) -> bool:
    """Whether the tensor reads the conjugates of what is in its memory.

    >>> torch.is_conj(torch.tensor([1 + 2j]).conj())
    True
    """
    return views.marks(input._view)[0]


@public("torch", "Tensor")
def is_neg(input: Any) -> bool:
    """Whether the tensor reads the negatives of what is in its memory.

    >>> torch.is_neg(torch.tensor([1.0]))
    False
    """
    return views.marks(input._view)[1]


@public("torch", "Tensor", name="_neg_view")
def neg_view(input: Any) -> Any:
    """The negative, in the same memory: what the imaginary part of a conjugate is."""
    if input.dtype is bool_:
        raise errors.wrong_dtype("_neg_view", input.dtype, "no bool")
    return take_view(NEG_VIEW, input)


@public("torch", "Tensor", out=True)
def angle(input: Any) -> Any:
    """The argument of each number: of real ones 0, or pi if they are negative.

    >>> torch.angle(torch.tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    if input.dtype.is_complex:
        return ANGLE(input)
    x = input.detach()
    x = CAST(x, dtype=config.default_dtype()) if x.dtype.is_integral else x
    made = WHERE(x != x, x, CAST(x < 0, dtype=x.dtype) * math.pi)
    return unrelated(made, input)
