"""Vector mathematics: stated error bounds, special values, the same bits on every target."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from rushlight.loops import vecmath
from rushlight.loops.vecmath.lanes import ELEMENTS

mpmath = pytest.importorskip("mpmath")
special = pytest.importorskip("scipy.special")

SEED = 20261130
DTYPES = {"float32": np.dtype(np.float32), "float64": np.dtype(np.float64)}
KIND = {"float32": "f32", "float64": "f64"}
LONG = np.longdouble
EXTENDED = np.finfo(LONG).nmant >= 63

# ---------------------------------------------------------------- running the functions


def _closure(names: set[str]) -> list[str]:
    """The text of every function and intrinsic that `names` reach."""
    texts: dict[str, str] = {}
    waiting = sorted(names)
    while waiting:
        name = waiting.pop()
        if name in texts:
            continue
        if name.startswith("llvm."):
            texts[name] = vecmath.declaration(name)
            continue
        texts[name], needs = vecmath.definition(name)
        waiting.extend(sorted(needs))
    return list(texts.values())


def _driver(function: str, dtype: str) -> str:
    """A loop that applies one function to arrays: args holds the inputs, then the output."""
    element, name = ELEMENTS[KIND[dtype]], vecmath.symbol(function, dtype)
    vector, count = f"<16 x {element}>", vecmath.arity(function)
    loads = "\n".join(
        f"  %s{i} = getelementptr ptr, ptr %args, i64 {i}\n  %p{i} = load ptr, ptr %s{i}"
        for i in range(count + 1)
    )
    reads = "\n".join(
        f"  %q{i} = getelementptr {vector}, ptr %p{i}, i64 %i\n"
        f"  %x{i} = load {vector}, ptr %q{i}, align 4"
        for i in range(count)
    )
    listed = ", ".join(f"{vector} %x{i}" for i in range(count))
    return f"""
define void @apply_{name}(ptr %args, i64 %n) {{
entry:
{loads}
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
{reads}
  %y = call {vector} @{name}({listed})
  %q = getelementptr {vector}, ptr %p{count}, i64 %i
  store {vector} %y, ptr %q, align 4
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


class Library:
    """Every function of the table, compiled for one CPU."""

    def __init__(self, cpu: str | None) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        pairs = [(f, d) for f in vecmath.FUNCTIONS for d in DTYPES]
        texts = _closure({vecmath.symbol(f, d) for f, d in pairs})
        module = llvm.parse_assembly("\n".join(texts + [_driver(f, d) for f, d in pairs]))
        module.verify()
        features = "" if cpu else llvm.get_host_cpu_features().flatten()
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=cpu or llvm.get_host_cpu_name(), features=features, opt=2
        )
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(2))
        builder.getModulePassManager().run(module, builder)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def __call__(self, function: str, *inputs: np.ndarray) -> np.ndarray:
        dtype, size = inputs[0].dtype, inputs[0].size
        vectors = -(-size // 16)
        arrays = [np.resize(x, vectors * 16) for x in inputs] + [np.empty(vectors * 16, dtype)]
        address = self.engine.get_function_address(
            f"apply_{vecmath.symbol(function, dtype.name)}"
        )
        entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(address)
        block = (ctypes.c_void_p * len(arrays))(*[a.ctypes.data for a in arrays])
        entry(ctypes.addressof(block), vectors)
        return arrays[-1][:size]


@pytest.fixture(scope="module")
def host() -> Library:
    return Library(None)


@pytest.fixture(scope="module")
def haswell() -> Library:
    if llvm.get_host_cpu_features().get("avx2") is not True:
        pytest.skip("this machine cannot run haswell code")
    return Library("haswell")


# ---------------------------------------------------------------- inputs


def _corners(dtype: str) -> np.ndarray:
    info = np.finfo(DTYPES[dtype])
    sizes = [0.0, np.inf, 1.0, 0.5, 2.0, 3.0, 2.5, 1e10, info.tiny, info.max]
    sizes += [info.smallest_subnormal, 1 + info.eps, 1 - info.epsneg]
    return np.array([np.nan] + sizes + [-s for s in sizes], DTYPES[dtype])


@cache
def _inputs(dtype: str, count: int) -> np.ndarray:
    """Corners, random bit patterns, and numbers of the sizes that functions care about."""
    rng = np.random.default_rng(SEED)
    bits = rng.integers(
        0, 2 ** (8 * DTYPES[dtype].itemsize), count, dtype=f"u{DTYPES[dtype].itemsize}"
    )
    spread = [rng.uniform(-a, a, count) for a in (0.7, 1.1, 4.0, 30.0, 110.0, 800.0)]
    spread += [1 + rng.normal(0, 2.0**-8, count), rng.uniform(0, 1, count)]
    spread = [x.astype(DTYPES[dtype]) for x in spread]
    x = np.concatenate([_corners(dtype), bits.view(DTYPES[dtype]), *spread])
    x.flags.writeable = False
    return x


def _arguments(function: str, dtype: str, count: int) -> tuple[np.ndarray, ...]:
    x = _inputs(dtype, count)
    if vecmath.arity(function) == 1:
        return (x,)
    rng = np.random.default_rng(SEED)
    a, b = np.meshgrid(_corners(dtype), _corners(dtype))
    y = rng.permutation(x)
    y[: count // 2] = rng.integers(-40, 40, count // 2) / 2
    return np.concatenate([a.ravel(), x]), np.concatenate([b.ravel(), y])


# ---------------------------------------------------------------- references


def _sigmoid(x: np.ndarray) -> np.ndarray:
    e = np.exp(-abs(x))
    return np.where(x > 0, 1, e) / (1 + e)


NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "pow": np.power, "fmod": np.fmod,
    "sigmoid": _sigmoid,
}  # fmt: skip
SCIPY: dict[str, Callable[..., np.ndarray]] = {
    "erf": special.erf, "erfc": special.erfc, "erfc_half": special.erfc,
    "normal_cdf": special.ndtr,
    "erfinv": special.erfinv, "ndtri": special.ndtri,
    "lgamma": special.gammaln, "digamma": special.digamma,
    "i0": special.i0, "i0e": special.i0e, "i1": special.i1, "i1e": special.i1e,
}  # fmt: skip
GAMMA_FAMILY = ("lgamma", "digamma")


def _log_erfc_inverse(log_c: mpmath.mpf) -> mpmath.mpf:
    y = mpmath.sqrt(max(-log_c - 1, mpmath.mpf(1) / 2))
    for _ in range(80):
        tail = mpmath.erfc(y)
        step = (
            (mpmath.log(tail) - log_c) * tail * mpmath.exp(y * y) * mpmath.sqrt(mpmath.pi) / 2
        )
        y += step
        if abs(step) < mpmath.mpf(2) ** -100 * abs(y):
            break
    return y


def _exact_ndtri(p: mpmath.mpf) -> mpmath.mpf:
    if p > 0.25:
        return mpmath.sqrt(2) * mpmath.erfinv(2 * p - 1)
    return -mpmath.sqrt(2) * _log_erfc_inverse(mpmath.log(2 * p))


EXACT: dict[str, tuple[Callable[[mpmath.mpf], mpmath.mpf], float, float]] = {
    # the function, and the range on which it is compared
    "erf": (mpmath.erf, -6, 6),
    "erfc": (mpmath.erfc, -6, 27.2),
    "erfc_half": (mpmath.erfc, -6, 27.2),
    "normal_cdf": (lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2, -14, 8),
    "erfinv": (mpmath.erfinv, -1, 1),
    "ndtri": (_exact_ndtri, 0, 1),
    "lgamma": (mpmath.loggamma, 0, 1e5),
    "digamma": (mpmath.digamma, 0, 1e5),
    "i0": (lambda x: mpmath.besseli(0, x), -713, 713),
    "i1": (lambda x: mpmath.besseli(1, x), -713, 713),
    "i0e": (lambda x: mpmath.besseli(0, x) * mpmath.exp(-abs(x)), -1e4, 1e4),
    "i1e": (lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)), -1e4, 1e4),
}


def _long(number: mpmath.mpf) -> np.longdouble:
    high = float(number)
    if math.isinf(high):
        return LONG(high)
    return LONG(high) + LONG(float(number - mpmath.mpf(high)))


def _exact(function: Callable[[mpmath.mpf], mpmath.mpf], x: np.ndarray) -> np.ndarray:
    with mpmath.workprec(130):
        return np.array([_long(function(mpmath.mpf(float(v)))) for v in x], LONG)


def _errors(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Errors in units in the last place of `want`; infinite where only one is NaN."""
    info = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        got, want = got.astype(LONG), want.astype(LONG)
        exponent = np.frexp(np.where(np.isfinite(want), want, 1))[1] - 1
        unit = np.ldexp(LONG(1), np.maximum(exponent, info.minexp) - info.nmant)
        rounds_up = abs(want) >= LONG(info.max) * (1 + LONG(info.epsneg) / 2)
        overflow = np.isinf(got) & rounds_up & (np.sign(got) == np.sign(want))
        error = np.where((got == want) | overflow, 0, abs(got - want) / unit)
    wrong = np.isnan(got) != np.isnan(want)
    return np.where(wrong, np.inf, np.where(np.isnan(want), 0, error)).astype(float)


def _check(function: str, got: np.ndarray, want: np.ndarray, inputs: tuple) -> None:
    bound = vecmath.FUNCTIONS[function][got.dtype == np.float64]
    errors = _errors(got, want)
    worst = int(errors.argmax())
    at = [repr(x[worst]) for x in inputs]
    # the reference in extended precision is itself rounded
    assert errors[worst] <= bound + 2.0**-8, f"{errors[worst]} ulp at {at}: {got[worst]!r}"


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    word = f"u{a.dtype.itemsize}"
    same = (a.view(word) == b.view(word)) | (np.isnan(a) & np.isnan(b))
    return bool(same.all())


# ---------------------------------------------------------------- tests


@pytest.mark.parametrize("function", sorted(NUMPY))
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_error_is_within_the_stated_bound(host: Library, function: str, dtype: str) -> None:
    if not EXTENDED and dtype == "float64":
        pytest.skip("long double is no wider than double here")
    inputs = _arguments(function, dtype, 30_000 if dtype == "float32" else 8_000)
    with np.errstate(all="ignore"):
        want = NUMPY[function](*[x.astype(LONG) for x in inputs])
    got = host(function, *inputs)
    _check(function, got, want, inputs)
    zero = (want == 0) & (got == 0)
    assert (np.signbit(got) == np.signbit(want))[zero].all()


@pytest.mark.parametrize("function", sorted(SCIPY))
def test_float32_is_within_the_stated_bound(host: Library, function: str) -> None:
    x = _inputs("float32", 30_000)
    if function in GAMMA_FAMILY:
        x = x[x > 0]
    with np.errstate(all="ignore"):
        want = SCIPY[function](x.astype(np.float64))
    known = ~(np.isinf(x) & np.isnan(want))
    _check(function, host(function, x)[known], want[known], (x[known],))


@pytest.mark.parametrize("function", sorted(EXACT))
def test_float64_is_within_the_stated_bound(host: Library, function: str) -> None:
    exact, low, high = EXACT[function]
    x = _inputs("float64", 8_000)
    x = np.random.default_rng(SEED).choice(x[(x > low) & (x < high) & (x != 0)], 250)
    _check(function, host(function, x), _exact(exact, x), (x,))


@pytest.mark.parametrize("function", GAMMA_FAMILY)
def test_gamma_family_at_negative_arguments(host: Library, function: str) -> None:
    """No relative bound near the zeros; a few units in the last place of the largest term."""
    rng = np.random.default_rng(SEED)
    x = np.concatenate([-rng.uniform(0, 30, 150), -np.exp(rng.uniform(-80, 3, 50))])
    exact = EXACT[function][0]
    want = _exact(lambda v: mpmath.re(exact(v)), x)
    with np.errstate(all="ignore"):
        size = 1 + abs(special.gammaln(x)) + abs(special.gammaln(1 - x)) + abs(want)
    assert (abs(host(function, x) - want) <= 2.0**-51 * size).all()
    narrow = x.astype(np.float32)
    narrow_want = _exact(lambda v: mpmath.re(exact(v)), narrow)
    narrow_error = abs(host(function, narrow) - narrow_want)
    finite = abs(narrow_want) < np.finfo(np.float32).max
    assert (narrow_error <= abs(narrow_want) * 2.0**-24 + 2.0**-48 * size)[finite].all()


@pytest.mark.parametrize("function", sorted(vecmath.FUNCTIONS))
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_bits_are_the_same_without_avx512(
    host: Library, haswell: Library, function: str, dtype: str
) -> None:
    inputs = _arguments(function, dtype, 100_000)
    assert _same_bits(host(function, *inputs), haswell(function, *inputs))


@pytest.mark.parametrize("function", sorted(vecmath.FUNCTIONS))
@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_a_lane_does_not_depend_on_its_neighbours(
    host: Library, function: str, dtype: str
) -> None:
    inputs = _arguments(function, dtype, 5_000)
    order = np.random.default_rng(SEED).permutation(inputs[0].size)
    together = host(function, *inputs)[order]
    assert _same_bits(host(function, *[x[order] for x in inputs]), together)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("function", ["sin", "cos", "tan"])
def test_huge_angles_are_reduced_exactly(host: Library, function: str, dtype: str) -> None:
    rng = np.random.default_rng(SEED)
    top = {"float32": 127.0, "float64": 1023.0}[dtype]
    x = (2.0 ** rng.uniform(15, top, 300) * rng.choice([-1, 1], 300)).astype(DTYPES[dtype])
    # the double closest to a multiple of pi/2, among others
    x[:3] = np.array([6381956970095103.0 * 2.0**40, 2.0**31, np.finfo(x.dtype).max])
    if dtype == "float64":
        x[3] = 6381956970095103.0 * 2.0**797
    with mpmath.workprec(1400):
        want = np.array(
            [_long(getattr(mpmath, function)(mpmath.mpf(float(v)))) for v in x], LONG
        )
    _check(function, host(function, x), want, (x,))


def test_remainders_of_huge_quotients_are_exact(host: Library) -> None:
    for dtype in DTYPES.values():
        rng = np.random.default_rng(SEED)
        word = f"u{dtype.itemsize}"
        x, y = (
            rng.integers(0, 2 ** (8 * dtype.itemsize), 20_000, dtype=word).view(dtype)
            for _ in range(2)
        )
        x, y = x[np.isfinite(x) & np.isfinite(y)], y[np.isfinite(x) & np.isfinite(y)]
        want = np.array([math.fmod(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)])
        assert _same_bits(host("fmod", x, y), want.astype(dtype))


INF, NAN = math.inf, math.nan
SPECIAL = {
    "exp": [(0.0, 1.0), (-INF, 0.0), (INF, INF)],
    "exp2": [(-1074.0, 2.0**-1074), (1023.0, 2.0**1023), (1024.0, INF), (-0.0, 1.0)],
    "expm1": [(-0.0, -0.0), (-INF, -1.0), (INF, INF)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0), (INF, INF), (-INF, NAN)],
    "log2": [(2.0**-1074, -1074.0), (8.0, 3.0), (0.0, -INF)],
    "log10": [(1000.0, 3.0), (1.0, 0.0), (-INF, NAN)],
    "log1p": [(-1.0, -INF), (-0.0, -0.0), (-2.0, NAN), (INF, INF)],
    "sigmoid": [(-INF, 0.0), (INF, 1.0), (0.0, 0.5)],
    "tanh": [(-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erf": [(-0.0, -0.0), (INF, 1.0), (-INF, -1.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0)],
    "erfinv": [(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN)],
    "ndtri": [(0.0, -INF), (1.0, INF), (0.5, 0.0), (-0.5, NAN), (1.5, NAN)],
    "lgamma": [
        (1.0, 0.0),
        (2.0, 0.0),
        (0.0, INF),
        (-0.0, INF),
        (-3.0, INF),
        (-INF, INF),
        (INF, INF),
    ],
    "digamma": [(0.0, -INF), (-0.0, INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "i0": [(0.0, 1.0), (INF, INF), (-INF, INF)],
    "i0e": [(0.0, 1.0), (INF, 0.0)],
    "i1": [(-0.0, -0.0), (-INF, -INF)],
    "i1e": [(-0.0, -0.0), (-INF, -0.0)],
    "sin": [(-0.0, -0.0), (INF, NAN)],
    "cos": [(-0.0, 1.0), (-INF, NAN)],
    "tan": [(-0.0, -0.0), (INF, NAN)],
    "asin": [(-0.0, -0.0), (1.5, NAN)],
    "acos": [(1.0, 0.0), (-1.5, NAN)],
}


@pytest.mark.parametrize("function", sorted(SPECIAL))
def test_special_values(host: Library, function: str) -> None:
    x, want = (np.array(column) for column in zip(*SPECIAL[function], strict=True))
    assert _same_bits(host(function, x), want)
    assert np.isnan(host(function, np.array([np.nan]))).all()


def test_the_power_function_follows_c(host: Library) -> None:
    """Annex F, F.10.4.4: every pair of corners, with the signs of zeros and infinities."""
    for dtype in DTYPES:
        x, y = (a.ravel() for a in np.meshgrid(_corners(dtype), _corners(dtype)))
        want = [_c_pow(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        plain = np.isin(np.abs(want), [0.0, 1.0, INF]) | np.isnan(want)
        assert _same_bits(host("pow", x, y)[plain], np.array(want)[plain].astype(x.dtype))


def _c_pow(x: float, y: float) -> float:
    odd = math.isfinite(y) and abs(math.fmod(y, 2.0)) == 1.0
    try:
        return math.pow(x, y)
    except OverflowError:
        return math.copysign(INF, x) if odd else INF
    except ValueError:
        return NAN if x != 0 else math.copysign(INF, x) if odd else INF


def test_every_definition_resolves_and_repeats() -> None:
    names = {vecmath.symbol(f, d) for f in vecmath.FUNCTIONS for d in DTYPES}
    text = "\n".join(_closure(names))
    assert text == "\n".join(_closure(names))
    words = set(text.replace("(", " ").split())
    assert not words & {"fast", "reassoc", "contract", "nnan", "ninf", "nsz", "arcp", "afn"}


def test_unknown_names_are_refused() -> None:
    with pytest.raises(KeyError, match="no vector function 'sine'"):
        vecmath.symbol("sine", "float32")
    with pytest.raises(KeyError, match="rl_sine_f32"):
        vecmath.definition("rl_sine_f32")
    with pytest.raises(KeyError, match="llvm.fma.v8f32"):
        vecmath.declaration("llvm.fma.v8f32")
