"""Samples of gamma distributions, and how they move with the shape parameter.

Note: implicit gradients. A sample x of shape a keeps its place P(a, x) in the distribution as a
changes, P being the regularised incomplete gamma function, so dx/da = -(dP/da) / (dP/dx). With
P = x^a e^-x / Gamma(a) * S and the series S = sum x^n / (a (a+1) ... (a+n)), both derivatives
have the same factor before S, and dx/da = -x ((log x - digamma(a)) S + dS/da).
"""

from __future__ import annotations

from typing import Any  # operands are tensors or arrays

import numpy as np

from rushlight import dtypes as dt
from rushlight.ops.elementwise import scaled
from rushlight.ops.random import floating as _floating
from rushlight.ops.random import next_counter as _take
from rushlight.ops.random import source_of as _source
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public
from rushlight.ops.samples import numpy_stream
from rushlight.ops.special import digamma

_LARGE = 1e4  # from here on the cube root of x is normal to more digits than are asked for


def _gamma_rows(shapes: Any, bits: Any) -> Any:
    if (shapes < 0).any():
        raise RuntimeError("_standard_gamma: expected shape parameters to be non-negative")
    return numpy_stream(bits).standard_gamma(shapes)


def _series(a: Any, x: Any) -> tuple[Any, Any]:
    """S and dS/da."""
    term, slope = 1 / a, -1 / (a * a)
    total, change = term.copy(), slope.copy()
    n = 0.0
    while term.size and (term > total * 1e-17).any() and n < 1e5:
        n += 1
        term = term * x / (a + n)
        slope = slope * x / (a + n) - term / (a + n)
        total, change = total + term, change + slope
    return total, change


def _by_cube_root(a: Any, x: Any) -> Any:
    """dx/da where (x / a)^(1/3) is normal: Wilson and Hilferty (1931)."""
    root = np.cbrt(x / a)
    z = 3 * np.sqrt(a) * (root - 1 + 1 / (9 * a))
    return root**3 + 3 * a * root**2 * (1 / (9 * a * a) - z / (6 * a**1.5))


def _gamma_slopes(shapes: Any, samples: Any, digammas: Any) -> Any:
    a, x, psi = (np.asarray(v, np.float64) for v in (shapes, samples, digammas))
    made = np.zeros(np.shape(x))
    small = (a < _LARGE) & (x > 0) & (a > 0)
    with np.errstate(over="ignore", invalid="ignore"):
        total, change = _series(a[small], x[small])
        made[small] = -x[small] * ((np.log(x[small]) - psi[small]) * total + change)
    large = a >= _LARGE
    made[large] = _by_cube_root(a[large], x[large])
    return made


GAMMA_SLOPE = Op(
    "standard_gamma_slope",
    type=lambda shapes, samples, digammas: TensorType(samples.shape, samples.dtype),
    lower=lambda k, shapes, samples, digammas: k.cast(
        k.host(_gamma_slopes, [(samples.shape, dt.float64)], shapes, samples, digammas)[0],
        samples.dtype,
    ),
    vjp=NOT_DIFFERENTIABLE,
)
STANDARD_GAMMA = Op(
    "standard_gamma",
    type=lambda shapes, seed, counter: TensorType(shapes.shape, shapes.dtype),
    lower=lambda k, shapes, seed, counter: k.cast(
        k.host(
            _gamma_rows,
            [(shapes.shape, dt.float64)],
            k.cast(shapes, dt.float64),
            k.random(shapes.shape, seed, counter),
        )[0],
        shapes.dtype,
    ),
    vjp=lambda g, out, shapes, seed, counter: (
        scaled(g, GAMMA_SLOPE(shapes.detach(), out.detach(), digamma(shapes.detach()))),
        None,
        None,
    ),
)


@public("torch")
def _standard_gamma(input: Any, generator: Any = None) -> Any:
    """Gamma numbers of rate 1 with these shape parameters, as functions of them."""
    _floating("_standard_gamma", input.dtype)
    seed, counter = _take(_source(generator, like=input), input.numel())
    return STANDARD_GAMMA(input, seed, counter)
