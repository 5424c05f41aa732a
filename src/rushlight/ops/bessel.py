"""Modified Bessel functions of the first kind, and the functions that only SciPy calculates."""

from __future__ import annotations

from typing import Any  # operands are tensors, references or numbers

import numpy as np

from rushlight.ir.host import takes_batches
from rushlight.ops.elementwise import RECORDED, WHERE, pointwise, scaled, unary_function
from rushlight.ops.registry import Op, public


def _over(x: Any, value: Any) -> Any:
    """I1(x) / x, which is one half of I0 at zero."""
    is_zero = RECORDED.eq(x, 0)
    return WHERE(is_zero, 0.5, value / WHERE(is_zero, 1, x))


def _i0e_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I1E(x) - RECORDED.sign(x) * out)


def _i1_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I0(x) - _over(x, out))


def _i1e_vjp(g: Any, out: Any, x: Any) -> Any:
    return scaled(g, I0E(x) - RECORDED.sign(x) * out - _over(x, out))


I0 = pointwise("i0", lambda k, x: k.i0(x), to="float", vjp=lambda g, out, x: scaled(g, I1(x)))
I1 = pointwise("i1", lambda k, x: k.i1(x), to="float", vjp=_i1_vjp)
I0E = pointwise("i0e", lambda k, x: k.i0e(x), to="float", vjp=_i0e_vjp)
I1E = pointwise("i1e", lambda k, x: k.i1e(x), to="float", vjp=_i1e_vjp)

i0 = unary_function(
    I0,
    "The modified Bessel function of the first kind of order 0.",
    places=("torch", "Tensor", "special"),
)
i0e = unary_function(I0E, "e^-|x| times `i0` of x.", places=("special",), inplace=False)
i1 = unary_function(
    I1,
    "The modified Bessel function of the first kind of order 1.",
    places=("special",),
    inplace=False,
)
i1e = unary_function(I1E, "e^-|x| times `i1` of x.", places=("special",), inplace=False)


@public("special", out=True)
def modified_bessel_i0(input: Any) -> Any:
    """The modified Bessel function of the first kind of order 0.

    >>> torch.special.modified_bessel_i0(torch.tensor([0.0, 1.0, 2.0]))
    tensor([1.0000, 1.2661, 2.2796])
    """
    return I0(input)


@public("special", out=True)
def modified_bessel_i1(input: Any) -> Any:
    """The modified Bessel function of the first kind of order 1.

    >>> torch.special.modified_bessel_i1(torch.tensor([0.0, 1.0, 2.0]))
    tensor([0.0000, 0.5652, 1.5906])
    """
    return I1(input)


# -- by SciPy


@takes_batches
def by_scipy(*arrays: Any, name: str) -> Any:
    """`scipy.special.<name>` of the arrays."""
    try:
        from scipy import special  # an optional dependency
    except ImportError:
        raise ImportError(f"special.{name} needs SciPy: pip install scipy") from None
    return getattr(special, name)(*arrays)


def host_function(name: str, scipy_name: str, vjp: Any = None) -> Op:
    """An op that SciPy calculates between kernels."""

    def lower(k: Any, *operands: Any) -> Any:
        shape = sum((o * 0 for o in operands[1:]), start=operands[0] * 0).shape
        spread = [k.expand(o, shape) for o in operands]
        return k.host(by_scipy, [(shape, operands[0].dtype)], *spread, name=scipy_name)[0]

    return pointwise(name, lower, to="float", vjp=vjp)


def _scipy_function(name: str, scipy_name: str) -> Any:
    op = host_function(name, scipy_name)

    def function(input: Any) -> Any:
        return op(input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name}` of each element (needs SciPy)."
    return public("special", name=name, out=True)(function)


for _name, _scipy_name in (
    ("bessel_j0", "j0"), ("bessel_j1", "j1"), ("bessel_y0", "y0"), ("bessel_y1", "y1"),
    ("modified_bessel_k0", "k0"), ("modified_bessel_k1", "k1"),
    ("scaled_modified_bessel_k0", "k0e"), ("scaled_modified_bessel_k1", "k1e"),
):  # fmt: skip
    _scipy_function(_name, _scipy_name)


@takes_batches
def airy_values(x: Any) -> Any:
    """Ai(x), the first of SciPy's four."""
    made = by_scipy(x, name="airy")[0]
    return np.where(x > 110, made.dtype.type(0), made)  # SciPy's is NaN far beyond underflow


AIRY_AI = pointwise(
    "airy_ai", lambda k, x: k.host(airy_values, [(x.shape, x.dtype)], x)[0], to="float"
)


@public("special", out=True)
def airy_ai(input: Any) -> Any:
    """The Airy function Ai (needs SciPy).

    >>> torch.special.airy_ai(torch.tensor([0.0, 1.0]))
    tensor([0.3550, 0.1353])
    """
    return AIRY_AI(input)
