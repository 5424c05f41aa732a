"""The stated error bounds: one table, which the tests check and docs/accuracy.md shows.

A bound is in units in the last place of the exact result. Those of the functions that the
vector mathematics has are its own (loops/vecmath); all others are here. `python -m docs.build`
writes the page; tests/test_accuracy.py measures every row against mpmath.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path

from rushlight.loops.vecmath import FUNCTIONS

INF = math.inf
POSITIVE = (0.0, INF)
NORMAL = (sys.float_info.min, INF)  # SciPy's are wrong below
GAMMA = ((1e-3, 1e3), (1e-3, 1e3))  # both arguments; SciPy's are 0 from 1e-308 down


@dataclass(frozen=True, slots=True)
class Bound:
    """Errors in units in the last place, for arguments in the open interval `within`.

    Where the result is smaller than `least`, the unit is that of `least`: near zeros that no
    floating-point number is, an error relative to the result has no bound.
    """

    float32: float
    float64: float
    within: tuple[float, float] = (-INF, INF)
    second: tuple[float, float] = (-INF, INF)
    least: float = 0.0


def _primitive(name: str, **details: object) -> Bound:
    return Bound(*FUNCTIONS[name], **details)  # type: ignore[arg-type]


F, S = "nn.functional", "special"

ONE: dict[str, Bound] = {
    **{
        name: _primitive(name)
        for name in (
            "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
            "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh",
            "atanh", "sigmoid", "erf", "erfc", "erfinv",
        )
    },
    "sqrt": Bound(0.5, 0.5),
    "rsqrt": Bound(1.5, 1.5),  # the reciprocal of a rounded root, which is one step of a kernel
    "sinc": Bound(3, 3),
    "deg2rad": Bound(1, 1),
    "rad2deg": Bound(1, 1),
    "logit": Bound(3.5, 3.5, (0, 1)),
    "lgamma": _primitive("lgamma", within=POSITIVE),
    "digamma": _primitive("digamma", within=POSITIVE, least=0.5),
    "polygamma(1)": Bound(1, 10, POSITIVE),
    "polygamma(2)": Bound(1, 10, POSITIVE),
    "polygamma(5)": Bound(1, 64, POSITIVE),
    "mvlgamma(3)": Bound(4, 4, (1, INF), least=8.0),
    "i0": _primitive("i0"),
    f"{S}.i0e": _primitive("i0e"),
    f"{S}.i1": _primitive("i1"),
    f"{S}.i1e": _primitive("i1e"),
    f"{S}.erfcx": Bound(1, 4),
    f"{S}.ndtr": Bound(1, 3),
    f"{S}.log_ndtr": Bound(1, 4),
    f"{S}.ndtri": _primitive("ndtri", within=(0, 1)),
    f"{S}.entr": Bound(2, 2, POSITIVE),
    f"{S}.bessel_j0": Bound(1, 16, (-1e3, 1e3), least=1.0),
    f"{S}.bessel_j1": Bound(1, 16, (-1e3, 1e3), least=1.0),
    f"{S}.bessel_y0": Bound(1, 16, (0, 1e3), least=1.0),
    f"{S}.bessel_y1": Bound(1, 16, (0, 1e3), least=1.0),
    f"{S}.modified_bessel_k0": Bound(1, 12, NORMAL),
    f"{S}.modified_bessel_k1": Bound(1, 8, NORMAL),
    f"{S}.scaled_modified_bessel_k0": Bound(1, 12, NORMAL),
    f"{S}.scaled_modified_bessel_k1": Bound(1, 8, NORMAL),
    f"{S}.spherical_bessel_j0": Bound(2, 2),
    f"{S}.airy_ai": Bound(1, 2048, (0, 100)),
    f"{S}.airy_ai below 0": Bound(1, 16, (-10, 0), least=0.5),
    f"{F}.silu": Bound(2, 2, (-80, INF)),
    f"{F}.silu below -80": Bound(64, 400, (-INF, -80)),
    f"{F}.mish": Bound(5, 5, (-80, INF)),
    f"{F}.mish below -80": Bound(64, 400, (-INF, -80)),
    f"{F}.gelu": Bound(6, 3, (-3, INF)),
    f"{F}.gelu below -3": Bound(12, 40, (-INF, -3)),
    f"{F}.gelu(tanh)": Bound(16, 16, (-3, INF)),
    f"{F}.gelu(tanh) below -3": Bound(192, 2000, (-INF, -3)),
    f"{F}.softplus": Bound(2, 2, (-INF, 20)),
    f"{F}.logsigmoid": Bound(2, 2),
    f"{F}.elu": Bound(2, 2),
    f"{F}.selu": Bound(3, 3),
    f"{F}.softsign": Bound(1.5, 1.5),
    f"{F}.tanhshrink": Bound(10, 10),
}  # fmt: skip

TWO: dict[str, Bound] = {
    "pow": _primitive("pow"),
    "atan2": _primitive("atan2"),
    "fmod": _primitive("fmod"),
    "remainder": Bound(0.5, 0.5),
    "hypot": Bound(2, 2),
    "logaddexp": Bound(3, 3, least=1.0),
    "logaddexp2": Bound(3, 3, least=1.0),
    "xlogy": Bound(2, 2, second=POSITIVE),
    f"{S}.xlog1py": Bound(2, 2, second=(-1, INF)),
    f"{S}.zeta": Bound(1, 10, (1, 50), (0, 1e3)),
    f"{S}.gammainc": Bound(1, 256, *GAMMA, least=0.01),
    f"{S}.gammainc to 1e-290": Bound(1, 32768, *GAMMA, least=1e-290),
    f"{S}.gammaincc": Bound(1, 512, *GAMMA, least=0.01),
    f"{S}.gammaincc to 1e-290": Bound(1, 16384, *GAMMA, least=1e-290),
}

COMPLEX: dict[str, float] = {
    "abs": 3, "exp": 3, "exp2": 16, "expm1": 4, "log": 3, "log2": 3, "log10": 3, "log1p": 4,
    "sqrt": 4, "rsqrt": 8, "sin": 4, "cos": 4, "tan": 8, "asin": 8, "acos": 8, "atan": 8,
    "sinh": 4, "cosh": 4, "tanh": 8, "asinh": 8, "acosh": 8, "atanh": 8, "sigmoid": 8,
    "reciprocal": 4, "sinc": 4,
}  # fmt: skip
"""Name -> |error| / |exact result| in units of complex128's eps, for 1e-3 < |z| < 30."""

BOUNDS = {**ONE, **TWO}


# -- the page

PAGE = Path(__file__).parent / "accuracy.md"
NOTE = "<!-- Written by `python -m docs.build` from docs/bounds.py: change that instead. -->"
ABOUT = """\
# How accurate functions are

The largest errors, in units in the last place (ulp) of the exact result; 0.5 is correct
rounding.
They hold for every finite argument in the range that is given, also where arguments or results
are subnormal, on every processor: results have the same bits with AVX2 and AVX-512.
`tests/test_accuracy.py` measures each row against mpmath (`make long` with more arguments);
`tests/test_vecmath.py` measures the functions that all others are made of.

* Infinities, NaN and signed zeros give what C and PyTorch give; what differs is listed in
  `tests/test_accuracy.py`.
* **float16 and bfloat16** give float32's result, rounded once: a test compares all 65,536
  arguments. `mvlgamma`, being a sum of functions, rounds each; `gelu` is within 0.505 ulp of
  the exact result.
* **least**: where the result is smaller than this number, the error is in its ulp instead. Near
  zeros of a function that are no floating-point numbers, no error relative to the result has
  a bound.
* `lgamma`, `digamma` and `trigamma` at negative arguments: a few ulp of the largest term of the
  reflection formula.
* `airy_ai`, `gammainc`, `gammaincc` and the Bessel functions other than `i0`, `i1`, their
  scaled forms and `spherical_bessel_j0` are SciPy's.
* Orthogonal polynomials are calculated by their recurrences in float64, whose error grows with
  the degree. `softmax`, `logsumexp` and what else contains a sum are not listed.
* The bounds are of the compiled backend; the reference backend has NumPy's functions."""
OF_COMPLEX = """\
## Complex numbers

|error| / |exact result| in units of complex128's epsilon, for 0.001 < |z| < 30. complex64 is
calculated in complex128 and rounded once: 0.51 of its epsilon for every function."""


def page() -> str:
    """docs/accuracy.md."""
    head = ["function", "float32", "float64", "range", "least"]
    real = [_row(name, bound) for name, bound in BOUNDS.items()]
    complexes = [[f"`{name}`", f"{bound:g}"] for name, bound in COMPLEX.items()]
    parts = [NOTE, ABOUT, _table(head, real), OF_COMPLEX]
    return "\n\n".join([*parts, _table(["function", "complex128"], complexes)]) + "\n"


def _row(name: str, bound: Bound) -> list[str]:
    least = f"{bound.least:g}" if bound.least else ""
    return [f"`{name}`", f"{bound.float32:g}", f"{bound.float64:g}", _range(bound), least]


def _range(bound: Bound) -> str:
    names = (("x", bound.within), ("y", bound.second))
    limits = [_interval(name, *limit) for name, limit in names if limit != (-INF, INF)]
    return ", ".join(limits) or "all"


def _interval(name: str, low: float, high: float) -> str:
    left = "" if low == -INF else f"{low:g} < "
    right = "" if high == INF else f" < {high:g}"
    return f"{left}{name}{right}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])
