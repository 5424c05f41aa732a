"""The error function and its complement."""

from __future__ import annotations

from rushlight.loops.vecmath.exponential import EXP_TAIL, LN2, LOG2_E, exp_normal, exp_parts
from rushlight.loops.vecmath.lanes import (
    Value,
    clamp_above,
    copysign,
    fma,
    nearest,
    polynomial,
    scale_down,
    select,
    two_product,
    two_sum,
)
from rushlight.loops.vecmath.logarithm import LN2_SHORT
from rushlight.loops.vecmath.registry import vector_function

# fmt: off
# erf(x) / x - 1 in x^2. Relative error of erf 2^-30.2 for |x| <= 0.95 (f32), and 2^-56.4 for
# |x| <= 0.85 (f64).
ERF_SMALL = {
    "f32": (0.12837916612625122, -0.37612631916999817, 0.11283671110868454,
            -0.026858067139983177, 0.005197726655751467, -0.0008105207816697657,
            8.212246029870585e-05),
    "f64": (0.1283791670955126, -0.37612638903183926, 0.11283791670962375,
            -0.02686617064654299, 0.0052239776408792675, -0.0008548328068698236,
            0.00012055379267710537, -1.4927028818330978e-05, 1.6489920933730808e-06,
            -1.674036032600169e-07, 1.8027752859377676e-08, -2.8208080627522536e-09,
            4.300726960893628e-10),
}
# log(erfc(x)) on 0.93 <= x <= 4; erf made of it has relative error 2^-26.7.
LOG_ERFC = (0.00017776766617316753, -1.1295297145843506, -0.6333169341087341,
            -0.10831307619810104, 0.02514076419174671, -0.0041791703552007675,
            0.00043613696470856667, -2.123997182934545e-05)
# (x + 4) exp(x^2) erfc(x) in (x - 4) / (x + 4) on 0 <= x <= 10.2. Relative error 2^-30.1.
ERFCX_SINGLE = (
    1.0959956645965576, -0.9765487313270569, 0.773208737373352, -0.5408529043197632,
    0.3308514952659607, -0.17402450740337372, 0.07637199759483337, -0.026295185089111328,
    0.006218946073204279, -0.00038779000169597566, -0.0007559818332083523,
)
# exp(a^2 / 2) times the normal distribution function of -a, as a quotient of polynomials in a
# on 0 <= a <= 14.5: relative error 2^-26.1. All terms are positive, so that sums lose little.
NORMAL_TOP = (
    0.5, 0.4382948577404022, 0.1832350641489029, 0.04063320532441139, 0.004116307012736797,
)
NORMAL_BOTTOM = (
    1.0, 1.6744747161865234, 1.2025028467178345, 0.46947044134140015, 0.10185878723859787,
    0.01031793188303709,
)
# (x + 4) exp(x^2) erfc(x) as above to 2^-19.4, and (exp(r) - 1 - r) / r^2 on |r| <= 0.3476, to
# 2^-23 of exp(r).
ERFCX_HALF = (
    1.0959967374801636, -0.9765355587005615, 0.7731084823608398, -0.5412247776985168,
    0.33196720480918884, -0.1706879734992981, 0.0743643194437027, -0.036109231412410736,
)
EXP_TAIL_HALF = (
    0.4999922215938568, 0.16667120158672333, 0.04189140722155571, 0.008312385529279709,
)
# (1 + 2x) exp(x^2) erfc(x) in (x - 4) / (x + 4) on 0 <= x <= 27.5. Relative error 2^-54.1.
ERFCX = (
    1.2329951186255526, -0.1396211168405625, 0.015379652102620031, 0.06809705425469174,
    -0.10103906603632437, 0.09373283499838737, -0.06633036581166794,
    0.037167515536818775, -0.016197734065628473, 0.005031969983899134,
    -0.0007577732229366094, -0.00019925672199903202, 0.00015062133088453866,
    -2.439916047948892e-05, -1.1220861290472286e-05, 5.709787469369543e-06,
    2.9124022964495507e-07, -8.259673467705421e-07, 7.824526888122752e-08,
    1.1132218398982356e-07, -2.0998046146944664e-08, -1.557072688430584e-08,
    3.240162173016967e-09, 2.0940721817662024e-09, -2.3926125422478884e-10,
    -1.668453916853213e-10,
)
# fmt: on
SQRT_HALF = 0.7071067811865476


@vector_function("erf", ulp=(1.25, 1.0))
def erf(x: Value) -> Value:
    """x times a polynomial near zero; beyond, 1 - erfc."""
    a, small = abs(x), _erf_small(x)
    if x.kind == "f32":
        limited = clamp_above(a, 4.0)
        large = 1.0 - exp_normal(polynomial(limited, LOG_ERFC))
        return copysign(select(a < 0.94, small, large), x)
    large = 1.0 - _erfc_positive(clamp_above(a, 6.0))
    return copysign(select(a < 0.84, small, large), x)


def _erf_small(x: Value) -> Value:
    return fma(x, polynomial(x * x, ERF_SMALL[x.kind]), x)


@vector_function("erfc", ulp=(3.75, 2.25))
def erfc(x: Value) -> Value:
    """exp(-x^2) times one polynomial, or 2 minus that; in float64 1 - erf up to 1/2."""
    a = abs(x)
    if x.kind == "f32":
        positive = _erfc_single(clamp_above(a, 10.2))
        return select(x < 0.0, 2.0 - positive, positive)
    positive = _erfc_positive(clamp_above(a, 27.5))
    out = select(x < 0.0, 2.0 - positive, positive)
    return select(a < 0.5, 1.0 - _erf_small(x), out)


@vector_function("erfc_half", ulp=(128.0, 2.25))
def erfc_half(x: Value) -> Value:
    """erfc in float32 to what results in half precision show: nothing lost is put back."""
    if x.kind != "f32":
        return erfc(x)
    a = clamp_above(abs(x), 10.2)
    inverse = 1.0 / (a + 4.0)
    scaled = polynomial((a - 4.0) * inverse, ERFCX_HALF) * inverse
    n, n_int = nearest(a * (a * -LOG2_E))
    r = fma(n, -sum(LN2["f32"]), -(a * a))
    excess = r * polynomial(r, (1.0, *EXP_TAIL_HALF))
    positive = scale_down(fma(scaled, excess, scaled), n_int)
    return select(x < 0.0, 2.0 - positive, positive)


@vector_function("normal_cdf", ulp=(7.0, 800.0))
def normal_cdf(x: Value) -> Value:
    """The normal distribution function, for float32: in float64 the quotient x / sqrt(2) is
    rounded, and the error grows with its square.
    """
    if x.kind != "f32":
        return 0.5 * erfc(x * -SQRT_HALF)
    a = clamp_above(abs(x), 14.5)
    scaled = polynomial(a, NORMAL_TOP) / polynomial(a, NORMAL_BOTTOM)
    excess, n = _exp_minus_product(a, a * 0.5)
    negative = scale_down(fma(scaled, excess, scaled), n)
    return select(x < 0.0, negative, 1.0 - negative)


def _erfc_single(x: Value) -> Value:
    """erfc for 0 <= x <= 10.2 in float32, with what the sum, the quotient and the square lose
    put back.
    """
    divisor = x + 4.0
    inverse = 1.0 / divisor
    lost = fma(-inverse, divisor, 1.0) - inverse * (x - (divisor - 4.0))
    at = fma(inverse * lost, -8.0, fma(inverse, -8.0, 1.0))
    scaled = polynomial(at, ERFCX_SINGLE) * fma(inverse, lost, inverse)
    excess, n = _exp_minus_product(x, x)
    return scale_down(fma(scaled, excess, scaled), n)


def _exp_minus_product(a: Value, b: Value) -> tuple[Value, Value]:
    """exp(-a b) = (1 + excess) * 2^n for 0 <= a b <= 106 in float32: the excess and n.

    n times the first part of ln 2 is exact, so that the product enters without being rounded.
    """
    high, low = LN2_SHORT[a.kind]
    n, n_int = nearest(a * b, -LOG2_E)
    r = fma(n, -low, fma(-a, b, n * -high))
    return r * polynomial(r, (1.0, *EXP_TAIL[a.kind])), n_int


def _erfc_positive(x: Value) -> Value:
    """erfc for 0 <= x <= 27.5, with what the square, the sum and the quotient lose put back."""
    top = polynomial((x - 4.0) / (x + 4.0), ERFCX)
    divisor, divisor_low = two_sum(x + x, x.like(1.0))
    inverse = 1.0 / divisor
    scaled = top * inverse
    lost = (fma(-scaled, divisor, top) - scaled * divisor_low) * inverse
    square, error = two_product(x, x)
    e = exp_parts(-square, -error)
    return scale_down(fma(e.high, scaled, fma(e.high, lost, e.low * scaled)), e.n)
