"""Stated error bounds of special functions and activations, against mpmath.

Bounds are in units in the last place for float32 and float64, over the range that is given; the
functions that these are made of have theirs in `loops/vecmath` (test_vecmath.py).
"""

import numpy as np
import pytest

import rushlight as torch

mpmath = pytest.importorskip("mpmath")
S, F = torch.special, torch.nn.functional


def _ndtr(x):
    return mpmath.erfc(-x / mpmath.sqrt(2)) / 2


def _log_ndtr(x):
    return mpmath.log(_ndtr(x)) if x < 5 else mpmath.log1p(-_ndtr(-x))


def _softplus(x):
    return mpmath.log1p(mpmath.exp(x))


# name -> (function, exact, from, to, bound in float32, in float64)
BOUNDS = {
    "ndtr": (S.ndtr, _ndtr, -37, 9, 1, 2),
    "log_ndtr": (S.log_ndtr, _log_ndtr, -1e4, 13, 1, 3),
    "ndtri": (S.ndtri, lambda p: mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1), 0.01, 1, 1, 3),
    "erfcx": (S.erfcx, lambda x: mpmath.exp(x * x) * mpmath.erfc(x), -9, 1e6, 1, 3),
    "entr": (S.entr, lambda x: -x * mpmath.log(x), 0, 1e6, 1, 1),
    "logit": (torch.logit, lambda x: mpmath.log(x / (1 - x)), 0, 1, 3, 3),
    "sinc": (torch.sinc, lambda x: mpmath.sincpi(x), -30, 30, 3, 3),
    "silu": (F.silu, lambda x: x / (1 + mpmath.exp(-x)), -80, 80, 2, 2),
    "mish": (F.mish, lambda x: x * mpmath.tanh(_softplus(x)), -80, 80, 3, 3),
    "softplus": (F.softplus, _softplus, -80, 19, 2, 2),
    "logsigmoid": (F.logsigmoid, lambda x: -_softplus(-x), -80, 80, 2, 2),
    "gelu": (F.gelu, lambda x: x * _ndtr(x), -2, 12, 4, 4),
    "zeta": (lambda q: S.zeta(q * 0 + 2.5, q), lambda q: mpmath.zeta(2.5, q), 0.001, 1e3, 1, 5),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: mpmath.psi(1, x), 0, 1e3, 1, 5),
    "tetragamma": (lambda x: torch.polygamma(2, x), lambda x: mpmath.psi(2, x), 0, 1e3, 1, 5),
    "bessel k0": (S.modified_bessel_k0, lambda x: mpmath.besselk(0, x), 0, 80, 1, 8),
    "bessel k1": (S.modified_bessel_k1, lambda x: mpmath.besselk(1, x), 0, 80, 1, 5),
    "bessel i0": (S.modified_bessel_i0, lambda x: mpmath.besseli(0, x), -80, 80, 1, 5),
}


def _points(low, high, dtype):
    rng = np.random.default_rng(11)
    parts = [rng.uniform(max(low, -50), min(high, 50), 25)]
    parts += [-np.exp(rng.uniform(-20, np.log(-low), 25))] if low < 0 else []
    parts += [np.exp(rng.uniform(-20, np.log(high), 25))]
    x = np.concatenate(parts).astype(dtype)
    return x[(x > low) & (x < high)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_the_stated_bounds(name, dtype):
    function, exact, low, high, *bounds = BOUNDS[name]
    x, info = _points(low, high, dtype), np.finfo(dtype)
    got = function(torch.tensor(x)).numpy()
    with mpmath.workprec(120):
        for value, found in zip(x.tolist(), got.tolist(), strict=True):
            want = exact(mpmath.mpf(value))
            exponent = max(mpmath.frexp(want)[1] - 1, info.minexp)
            error = abs(mpmath.mpf(found) - want) / mpmath.ldexp(1, exponent - info.nmant)
            assert error <= bounds[dtype is np.float64], (value, found, float(error))
