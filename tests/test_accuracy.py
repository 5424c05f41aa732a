"""The stated error bounds (docs/bounds.py) over the whole range, against mpmath.

Arguments are random bit patterns, so also subnormal, and numbers of the sizes at which
functions do something; results that overflow or are subnormal count like all others.
"""

from __future__ import annotations

import math
import zlib
from typing import Any  # functions of tensors

import numpy as np
import pytest

import rushlight as torch
from docs.bounds import BOUNDS, COMPLEX, ONE, PAGE, Bound, page

mpmath = pytest.importorskip("mpmath")
from accuracy_references import EXACT  # noqa: E402  (it needs mpmath)

DTYPES = (np.float32, np.float64)
Arrays = tuple[np.ndarray, ...]


def function_of(name: str) -> Any:
    """The function of a row; `(n)` in a name is a first argument, `(tanh)` an approximation."""
    path, _, given = name.split()[0].rstrip(")").partition("(")
    function = torch
    for part in path.split("."):
        function = getattr(function, part)
    if given == "tanh":
        return lambda x: function(x, approximate="tanh")
    if path == "polygamma":
        return lambda x: function(int(given), x)
    return (lambda x: function(x, int(given))) if given else function


# ---------------------------------------------------------------- arguments


def corners(dtype: type) -> np.ndarray:
    info = np.finfo(dtype)
    sizes = [1.0, 0.5, 2.0, 3.0, 2.5, 1e10, 88.0, 710.0, 5 * info.smallest_subnormal]
    sizes += [info.tiny, info.max, info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg]
    return np.array([*sizes, *(-s for s in sizes)], dtype)


def points(dtype: type, count: int, within: tuple[float, float], seed: int) -> np.ndarray:
    """Random bit patterns and magnitudes, uniform numbers, neighbours of one, all inside."""
    rng = np.random.default_rng(seed)
    low, high = within
    word = f"u{np.dtype(dtype).itemsize}"
    bits = rng.integers(0, np.iinfo(word).max, 3 * count, dtype=word, endpoint=True)
    drawn = [bits.view(dtype), 1 + rng.normal(0, 2.0**-8, count // 4)]
    spans = [(max(low, -s), min(high, s)) for s in (1.2, 9, 110, 720)]
    drawn += [rng.uniform(*span, count // 2) for span in spans if span[0] < span[1]]
    drawn += [rng.choice([-1, 1], count) * np.exp(rng.uniform(-30, 7, count))]
    with np.errstate(over="ignore", invalid="ignore"):
        x = np.concatenate([part.astype(dtype) for part in drawn])
    x = x[np.isfinite(x) & (x > low) & (x < high)]
    edge = corners(dtype)
    return np.concatenate([edge[(edge > low) & (edge < high)], rng.permutation(x)[:count]])


def arguments(name: str, dtype: type, count: int) -> Arrays:
    bound, seed = BOUNDS[name], zlib.crc32(name.encode())
    first = points(dtype, count, bound.within, seed)
    if name in ONE:
        return (first,)
    second = points(dtype, count, bound.second, seed + 1)
    size = min(first.size, second.size)
    pairs = np.random.default_rng(seed).permutation(second)[:size]
    near = np.nextafter(first[: size // 8], dtype(0))
    near = near[(near > bound.second[0]) & (near < bound.second[1])]
    return np.concatenate([first[: near.size], first[:size]]), np.concatenate([near, pairs])


# ---------------------------------------------------------------- errors


def exact_value(name: str, args: tuple[float, ...]) -> Any:
    """mpmath's value; NaN where there is no real one."""
    try:
        value = EXACT[name.split()[0]](*map(mpmath.mpf, args))
    except (ValueError, ZeroDivisionError):
        return mpmath.nan
    if isinstance(value, mpmath.mpc):
        return value.real if value.imag == 0 else mpmath.nan
    return value


def error_of(found: float, want: Any, bound: Bound, info: np.finfo) -> float:
    """In units in the last place; infinity counts as the power of two that follows `max`."""
    if math.isnan(found) or mpmath.isnan(want):
        return 0.0 if math.isnan(found) and mpmath.isnan(want) else math.inf
    top = mpmath.ldexp(1, int(info.maxexp))
    found, want = (max(-top, min(top, mpmath.mpf(v))) for v in (found, want))
    size = max(abs(want), mpmath.mpf(bound.least))
    exponent = max(mpmath.frexp(size)[1] - 1, int(info.minexp))
    exponent = min(exponent, int(info.maxexp) - 1)
    return float(abs(found - want) / mpmath.ldexp(1, exponent - int(info.nmant)))


def worst(name: str, dtype: type, count: int) -> tuple[float, tuple[float, ...], float]:
    """The largest error of a function, its arguments and what was found there."""
    args = arguments(name, dtype, count)
    found = function_of(name)(*map(torch.tensor, args)).numpy().tolist()
    with mpmath.workprec(256):
        errors = [
            (error_of(v, exact_value(name, at), BOUNDS[name], np.finfo(dtype)), at, v)
            for v, at in zip(found, zip(*(a.tolist() for a in args)), strict=True)
        ]
    return max(errors)


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BOUNDS)
def test_errors_are_within_the_stated_bound(name: str, dtype: type) -> None:
    error, at, found = worst(name, dtype, 24)
    assert error <= (BOUNDS[name].float64 if dtype is np.float64 else BOUNDS[name].float32), (
        at,
        found,
    )


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BOUNDS)
def test_errors_of_many_arguments_are_within_the_stated_bound(name: str, dtype: type) -> None:
    error, at, found = worst(name, dtype, 1000)
    assert error <= (BOUNDS[name].float64 if dtype is np.float64 else BOUNDS[name].float32), (
        at,
        found,
    )


@pytest.mark.parametrize("x", [1e-300, 1e-9, 0.3, 0.999, 1.0, 7.5, 150.0, 1e9])
@pytest.mark.parametrize("order", [0, 1])
def test_the_reference_of_bessel_functions_agrees_with_mpmath(order: int, x: float) -> None:
    with mpmath.workprec(256):
        want = mpmath.besselk(order, mpmath.mpf(x)) * mpmath.exp(mpmath.mpf(x))
        found = EXACT[f"special.scaled_modified_bessel_k{order}"](mpmath.mpf(x))
        assert abs(found - want) < 1e-29 * want


def test_the_page_shows_the_bounds() -> None:
    assert PAGE.read_text() == page(), "run `python -m docs.build`"


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_errors_are_within_the_stated_bound(name: str) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    size, angle = np.exp(rng.uniform(-6.9, 3.4, 60)), rng.uniform(-np.pi, np.pi, 60)
    for dtype, bound in ((np.complex64, 0.51), (np.complex128, COMPLEX[name])):
        z = (size * np.exp(1j * angle)).astype(dtype)
        eps = float(np.finfo(dtype).eps)
        found = getattr(torch, name)(torch.tensor(z)).numpy().tolist()
        with mpmath.workprec(200):
            for at, value in zip(z.tolist(), found, strict=True):
                want = EXACT[name](mpmath.mpc(at))
                assert abs(mpmath.mpc(value) - want) <= bound * eps * abs(want), (at, value)


# How half precision is made: by a formula of its own, and of functions that are rounded each.
OF_THEIR_OWN = ("nn.functional.gelu", "mvlgamma(3)")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [n for n in ONE if n not in OF_THEIR_OWN and " " not in n])
def test_half_types_are_float32_rounded_once(name: str, dtype: torch.dtype) -> None:
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    function = function_of(name)
    found, want = function(x), function(x.float()).to(dtype)
    same = found.view(torch.int16).eq(want.view(torch.int16)) | (found.isnan() & want.isnan())
    assert same.all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_gelu_of_half_types_is_nearly_correctly_rounded(dtype: torch.dtype) -> None:
    special = pytest.importorskip("scipy.special")
    x = torch.arange(-(2**15), 2**15).to(torch.int16).view(dtype)
    x = x[x.isfinite()]
    at, found = x.double().numpy(), torch.nn.functional.gelu(x).double().numpy()
    want, info = at * special.ndtr(at), torch.finfo(dtype)
    exponent = np.frexp(np.maximum(abs(want), info.smallest_normal))[1] - 1
    assert (abs(found - want) <= 0.505 * np.ldexp(info.eps, exponent)).all()


CORNERS = [math.nan, math.inf, -math.inf, 0.0, -0.0]
BETTER = {  # (function, argument) -> the limit, where PyTorch gives another value
    ("nn.functional.gelu", math.inf): math.inf,
    ("nn.functional.tanhshrink", -0.0): -0.0,
    ("i0", math.inf): math.inf,
    ("i0", -math.inf): math.inf,
    ("special.i1", math.inf): math.inf,
    ("special.i1", -math.inf): -math.inf,
    ("special.i1", -0.0): -0.0,
    ("special.i1e", -0.0): -0.0,
    ("special.airy_ai", math.inf): 0.0,
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [n for n in ONE if "(" not in n and " " not in n])
def test_infinities_nan_and_zeros_give_what_pytorch_gives(name: str, dtype: type) -> None:
    oracle = pytest.importorskip("torch")
    theirs: Any = oracle
    for part in name.split("."):
        theirs = getattr(theirs, part)
    x = np.array(CORNERS, dtype)
    want = theirs(oracle.from_numpy(x)).numpy()
    for (function, at), value in BETTER.items():
        is_there = (x == at) & (np.signbit(x) == np.signbit(at))
        want = np.where((function == name) & is_there, dtype(value), want)
    found = function_of(name)(torch.tensor(x)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-6)
    zeros = (want == 0) & (found == 0)
    assert (np.signbit(found) == np.signbit(want))[zeros].all()


# Each was NaN, zero or far off: the end of a range, or where terms overflow or cancel.
ENDS = [
    ("special.erfcx", (math.inf,), 0.0),
    ("special.log_ndtr", (-math.inf,), -math.inf),
    ("special.airy_ai", (1e10,), 0.0),
    ("special.zeta", (math.inf, 1.0), 1.0),
    ("special.zeta", (1e308, 2.0), 0.0),
    ("special.zeta", (math.inf, 0.5), math.inf),
    ("polygamma(1)", (1e300,), 1e-300),
    ("i0", (712.0,), 2.4684110577627523e307),
    ("nn.functional.tanhshrink", (1e-5,), 3.3333333332e-16),
    ("nn.functional.gelu", (-20.0,), -5.507248237212474e-88),
    ("special.spherical_bessel_j0", (0.375,), 0.9767267442294602),
]


@pytest.mark.parametrize(("name", "at", "want"), ENDS)
def test_ends_of_ranges(name: str, at: tuple[float, ...], want: float) -> None:
    found = function_of(name)(*(torch.tensor(x, dtype=torch.float64) for x in at)).item()
    assert found == pytest.approx(want, rel=1e-14, abs=0)


# Large imaginary parts multiply what pi times them loses; near whole numbers sines cancel.
SINCS = [0.3 + 25j, 3 - 20j, 1000.25 + 3j, 1.0000001 + 1e-9j, 5 + 1e-7j]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("at", SINCS)
def test_complex_sinc_far_from_zero(at: complex, dtype: torch.dtype) -> None:
    z = torch.tensor(at, dtype=dtype)
    with mpmath.workprec(200):
        want = EXACT["sinc"](mpmath.mpc(z.item()))
        found = mpmath.mpc(torch.sinc(z).item())
        assert abs(found - want) <= 2 * torch.finfo(dtype).eps * abs(want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_slope_of_sinc_far_from_zero(dtype: torch.dtype) -> None:
    x = torch.tensor([0.2, 0.75, 3.0, 1000.25, -12345.625], dtype=dtype, requires_grad=True)
    (first,) = torch.autograd.grad(torch.sinc(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    for order, found in ((1, first), (2, second)):
        for at, slope in zip(x.tolist(), found.tolist(), strict=True):
            with mpmath.workprec(200):
                want = float(mpmath.diff(EXACT["sinc"], mpmath.mpf(at), order))
            assert slope == pytest.approx(want, rel=100 * torch.finfo(dtype).eps)


def test_complex_atanh_left_of_zero_does_not_cancel() -> None:
    z = -0.8993555105761982 + 0.004412689381741314j
    want = complex(mpmath.atanh(mpmath.mpc(z)))
    assert torch.atanh(torch.tensor(z, dtype=torch.complex128)).item() == pytest.approx(
        want, rel=1e-15
    )
