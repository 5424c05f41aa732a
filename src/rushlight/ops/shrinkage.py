"""Functions that move what is near zero to zero."""

from __future__ import annotations

from typing import Any  # operands are tensors, references or numbers

from rushlight.ops.activation import activation_op
from rushlight.ops.elementwise import RECORDED, pointwise
from rushlight.ops.registry import public


def _tanhshrink_slope(m: Any, out: Any, x: Any) -> Any:
    t = m.tanh(x)
    return t * t


_TANHSHRINK_SERIES = (  # Taylor's, of (x - tanh x) / x**3 in x**2
    0.3333333333333333, -0.13333333333333333, 0.05396825396825397,
    -0.021869488536155203, 0.008863235529902197, -0.003592128036572481,
    0.0014558343870513183, -0.000590027440945586, 0.00023912911424355248,
    -9.691537956929451e-05, 3.927832388331683e-05, -1.5918905069328964e-05,
    6.451689215655431e-06, -2.6147711512907546e-06, 1.0597268320104654e-06,
    -4.294911078273806e-07, 1.7406618963571648e-07,
)  # fmt: skip


def _tanhshrink_lower(k: Any, x: Any) -> Any:
    """The power series near zero, where the difference cancels."""
    if x.dtype.is_complex:
        return x - k.tanh(x)
    square = x * x
    total = square * 0 + _TANHSHRINK_SERIES[-1]
    for c in reversed(_TANHSHRINK_SERIES[:-1]):
        total = total * square + c
    return k.select(k.abs(x) < 0.5, total * square * x, x - k.tanh(x))


TANHSHRINK = pointwise(
    "tanhshrink",
    _tanhshrink_lower,
    _tanhshrink_slope,
    to="float",
    of_complex=True,
)


@public("F")
def tanhshrink(input: Any) -> Any:
    """x - tanh(x).

    >>> torch.nn.functional.tanhshrink(torch.tensor([-1.0, 3.0]))
    tensor([-0.2384,  2.0049])
    """
    return TANHSHRINK(input)


HARDSHRINK = activation_op(
    "hardshrink",
    lambda k, x, lambd: k.select((x >= -lambd) & (x <= lambd), 0, x),
    attrs=("lambd",),
    vjp=lambda g, out, x, lambd: RECORDED.where((x >= -lambd) & (x <= lambd), 0, g),
)
SOFTSHRINK = activation_op(
    "softshrink",
    lambda k, x, lambd: k.select(x > lambd, x - lambd, k.select(x < -lambd, x + lambd, x * 0)),
    attrs=("lambd",),
    vjp=lambda g, out, x, lambd: RECORDED.where((x >= -lambd) & (x <= lambd), 0, g),
)


@public("torch", "Tensor", "F", out=True)
def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """x where |x| is above lambd, 0 elsewhere.

    >>> torch.hardshrink(torch.tensor([-1.0, 0.25, 0.75]))
    tensor([-1.0000,  0.0000,  0.7500])
    """
    return HARDSHRINK(input, lambd=float(lambd))


@public("F", out=True)
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """x moved towards 0 by lambd, and 0 within it.

    >>> torch.nn.functional.softshrink(torch.tensor([-1.0, 0.25, 0.75]))
    tensor([-0.5000,  0.0000,  0.2500])
    """
    if lambd < 0:
        raise RuntimeError(f"softshrink: lambda must be at least 0, but found {lambd}")
    return SOFTSHRINK(input, lambd=float(lambd))
