"""Sine, cosine and tangent, and the reduction of their arguments by multiples of pi/2."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight.loops.vecmath.lanes import (
    LANES,
    Code,
    Value,
    fast_two_sum,
    fma,
    literal,
    nearest,
    polynomial,
    rarely,
    select,
    two_product,
    two_sum,
)
from rushlight.loops.vecmath.registry import text_definition, vector_function
from rushlight.loops.vecmath.rounding import rounded

TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
PI = (3.141592653589793, 1.2246467991473532e-16)
INVERSE_PI = 0.3183098861837907
HUGE = 2.0**30

# Degree 3 for float32 computed in float64, degree 6 and 5 for float64; all on |r| <= 0.787.
# fmt: off
# (sin(r) / r - 1) / r^2 in r^2. Relative error of sin 2^-37.5 and 2^-57.9.
SIN = {
    "f32": (-0.16666666640577268, 0.008333329279607546, -0.00019839304183695582,
            2.7180446482775213e-06),
    "f64": (-0.16666666666666666, 0.008333333333333099, -0.00019841269841054608,
            2.75573191279518e-06, -2.5052085642124423e-08, 1.6056210020479747e-10,
            -7.483111248231807e-13),
}
# (cos(r) - 1 + r^2 / 2) / r^4 in r^2. Relative error of cos 2^-42.9 and 2^-63.9.
COS = {
    "f32": (0.041666666619084795, -0.001388888346579074, 2.47994512394916e-05,
            -2.720502507263501e-07),
    "f64": (0.041666666666666595, -0.0013888888888873325, 2.4801587288982235e-05,
            -2.755731420903707e-07, 2.0875704033108944e-09, -1.135866577019803e-11),
}
# (sin(r) / r - 1) / r^2 in r^2 on |r| <= 1.5716. Relative error of sin 2^-35.3.
SIN_HALF_TURN = (
    -0.1666666662594088, 0.008333331099497297, -0.0001984086698489435, 2.7525319947355275e-06,
    -2.388774698001959e-08,
)
# fmt: on


@dataclass(frozen=True, slots=True)
class Angle:
    """x = quarter * pi/2 + r + low, in float64; `fit` names the polynomials that suffice."""

    r: Value
    low: Value
    quarter: Value
    fit: str


def reduce(x: Value) -> Angle:
    """Exact to well below the last place of r for every finite x."""
    fit, x = x.kind, x.convert("f64")
    n, quarter = nearest(x, TWO_OVER_PI)
    first = fma(n, -HALF_PI[0], x)
    if fit == "f32":
        usual = (fma(n, -HALF_PI[1], first), x.like(0.0), quarter)
    else:
        product, error = two_product(n, n.like(HALF_PI[1]))
        r, lost = two_sum(first, -product)
        low = lost - fma(n, HALF_PI[2], error)
        usual = (*fast_two_sum(r, low), quarter)
    r, low, quarter = rarely(abs(x) >= HUGE, lambda: _reduce_huge(x), usual)
    return Angle(r, low, quarter, fit)


def sin_of(angle: Angle) -> Value:
    """sin(r + low)."""
    r, square = angle.r, angle.r * angle.r
    cube, tail = square * r, polynomial(square, SIN[angle.fit])
    if angle.fit == "f32":
        return fma(cube, tail, r)
    return r + fma(cube, tail, fma(square * -0.5, angle.low, angle.low))


def cos_of(angle: Angle) -> Value:
    """cos(r + low)."""
    r, square = angle.r, angle.r * angle.r
    tail = polynomial(square, COS[angle.fit])
    if angle.fit == "f32":
        return fma(square, fma(square, tail, -0.5), 1.0)
    half = 0.5 * square
    most = 1.0 - half
    lost = (1.0 - most) - half
    return most + (lost + fma(square * square, tail, -(r * angle.low)))


def _finish(x: Value, out: Value, *, keep_tiny: bool) -> Value:
    """NaN for infinities, and tiny arguments (with their sign of zero) for themselves."""
    out = out.convert(x.kind)
    a = abs(x)
    if keep_tiny:
        out = select(a < 2.0 ** (-13 if x.kind == "f32" else -27), x, out)
    return select(a.equals(float("inf")), float("nan"), out)


def _by_quarter(angle: Angle, shift: int) -> Value:
    """sin of the angle plus `shift` quarters of a turn."""
    quarter = angle.quarter + shift
    odd = (quarter & 1).differs(0)
    value = select(odd, cos_of(angle), sin_of(angle))
    sign = (quarter & 2) << 62
    return (value.bits() ^ sign).as_float()


@vector_function("sin", ulp=(0.51, 1.0))
def sin(x: Value) -> Value:
    if x.kind == "f32":
        return _by_half_turn(x, 0)
    return _finish(x, _by_quarter(reduce(x), 0), keep_tiny=True)


@vector_function("cos", ulp=(0.51, 1.0))
def cos(x: Value) -> Value:
    if x.kind == "f32":
        return _by_half_turn(x, 1)
    return _finish(x, _by_quarter(reduce(x), 1), keep_tiny=False)


def _by_half_turn(x: Value, shift: int) -> Value:
    """sin(x + shift * pi/2) of float32, made in float64: up to sign the sine of r, which x is
    beyond the nearest multiple of pi (for a cosine, x before an odd multiple of pi/2). A longer
    polynomial for a half turn is less work than two, of which one is chosen, for a quarter.
    """
    wide = x.convert("f64")
    if shift:
        n, n_int = nearest(fma(wide, INVERSE_PI, -0.5))
        n = n + 0.5
        r = fma(n, PI[1], fma(n, PI[0], -wide))
    else:
        n, n_int = nearest(wide, INVERSE_PI)
        r = fma(n, -PI[1], fma(n, -PI[0], wide))
    sine = r * polynomial(r * r, (1.0, *SIN_HALF_TURN))
    usual = (sine.bits() ^ (n_int << 63)).as_float().convert("f32")

    def huge() -> tuple[Value]:
        out = _finish(x, _by_quarter(Angle(*_reduce_huge(wide), "f32"), shift), keep_tiny=False)
        return (out,)

    return rarely(abs(x) >= HUGE, huge, (usual,))[0]


@vector_function("tan", ulp=(0.55, 2.25))
def tan(x: Value) -> Value:
    """sin / cos, or -cos / sin after an odd number of quarter turns."""
    angle = reduce(x)
    sine, cosine = sin_of(angle), cos_of(angle)
    odd = (angle.quarter & 1).differs(0)
    out = select(odd, -cosine, sine) / select(odd, sine, cosine)
    return _finish(x, out, keep_tiny=True)


def sin_half_turns(x: Value) -> Value:
    """sin(pi x) up to sign, float64."""
    return _by_quarter(_half_turns(x), 0)


def cos_half_turns(x: Value) -> Value:
    """cos(pi x), with the sign that goes with sin_half_turns, float64."""
    return _by_quarter(_half_turns(x), 1)


def _half_turns(x: Value) -> Angle:
    """pi x less a whole multiple of pi; exact, since x less the nearest half is."""
    rest = x - rounded(x, "roundeven")
    n, quarter = nearest(rest + rest)
    rest = fma(n, -0.5, rest)
    r, error = two_product(rest, rest.like(PI[0]))
    return Angle(r, fma(rest, PI[1], error), quarter, "f64")


# Bits of 2/pi after 64 zeros, most significant first.
# fmt: off
_BITS_OF_TWO_OVER_PI = (
    0x0, 0xA2F9836E4E441529, 0xFC2757D1F534DDC0, 0xDB6295993C439041, 0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0, 0x06492EEA09D1921C, 0xFE1DEB1CB129A73E, 0xE88235F52EBB4484,
    0xE99C7026B45F7E41, 0x3991D639835339F4, 0x9C845F8BBDF9283B, 0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F, 0x6D367ECF27CB09B7, 0x4F463F669E5FEA2D, 0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA, 0x6BFB5FB11F8D5D08, 0x56033046FC7B6BAB, 0xF0CFBC209AF4361D,
)
# fmt: on
_HUGE_RESULT = f"{{ <{LANES} x double>, <{LANES} x double>, <{LANES} x i64> }}"
_REDUCE_HUGE = "rl_reduce_huge"
_HALF_PI_TEXT = [literal("f64", part) for part in HALF_PI]


def _reduce_huge(x: Value) -> tuple[Value, Value, Value]:
    code: Code = x.code
    code.needs.add(_REDUCE_HUGE)
    result = code.name()
    vector = f"<{LANES} x double>"
    code.lines.append(f"  {result} = call {_HUGE_RESULT} @{_REDUCE_HUGE}({vector} {x.ref})")

    def part(kind: str, index: int) -> Value:
        return code.emit(kind, f"extractvalue {_HUGE_RESULT} {result}, {index}")

    return part("f64", 0), part("f64", 1), part("i64", 2)


def _huge_text() -> str:
    """Payne and Hanek's reduction, lane by lane, for |x| >= 2^30 (other lanes give anything).

    x = m 2^e with m of 53 bits. Bits of 2/pi of weight 4 or more after the product with 2^e
    only add whole turns, so 192 bits from there on give x * 2/pi modulo 4 with 137 bits below
    the point; a double comes no closer than about 2^-62 to a multiple of pi/2.
    """
    count = len(_BITS_OF_TWO_OVER_PI)
    words = ", ".join(f"i64 {w}" for w in _BITS_OF_TWO_OVER_PI)
    double, whole = f"<{LANES} x double>", f"<{LANES} x i64>"
    return f"""\
@rl_two_over_pi = internal unnamed_addr constant [{count} x i64] [{words}]

define internal {_HUGE_RESULT} @{_REDUCE_HUGE}({double} %x) \
noinline nounwind willreturn memory(none) {{
entry:
  br label %lane
lane:
  %i = phi i32 [ 0, %entry ], [ %next, %lane ]
  %rs = phi {double} [ zeroinitializer, %entry ], [ %rs.next, %lane ]
  %lows = phi {double} [ zeroinitializer, %entry ], [ %lows.next, %lane ]
  %ns = phi {whole} [ zeroinitializer, %entry ], [ %ns.next, %lane ]
  %xi = extractelement {double} %x, i32 %i
  %bits = bitcast double %xi to i64
  %negative = icmp slt i64 %bits, 0
  %m.low = and i64 %bits, {(1 << 52) - 1}
  %m = or i64 %m.low, {1 << 52}
  %biased = lshr i64 %bits, 52
  %biased.11 = and i64 %biased, 2047
  %e.low = call i64 @llvm.umax.i64(i64 %biased.11, i64 1053)
  %e = call i64 @llvm.umin.i64(i64 %e.low, i64 2046)
  %offset = sub i64 %e, 1013
  %word = lshr i64 %offset, 6
  %a0 = getelementptr [{count} x i64], ptr @rl_two_over_pi, i64 0, i64 %word
  %a1 = getelementptr i64, ptr %a0, i64 1
  %a2 = getelementptr i64, ptr %a0, i64 2
  %a3 = getelementptr i64, ptr %a0, i64 3
  %w0 = load i64, ptr %a0, align 8
  %w1 = load i64, ptr %a1, align 8
  %w2 = load i64, ptr %a2, align 8
  %w3 = load i64, ptr %a3, align 8
  %f2 = call i64 @llvm.fshl.i64(i64 %w0, i64 %w1, i64 %offset)
  %f1 = call i64 @llvm.fshl.i64(i64 %w1, i64 %w2, i64 %offset)
  %f0 = call i64 @llvm.fshl.i64(i64 %w2, i64 %w3, i64 %offset)
  %m.wide = zext i64 %m to i128
  %f0.wide = zext i64 %f0 to i128
  %f1.wide = zext i64 %f1 to i128
  %p0 = mul i128 %m.wide, %f0.wide
  %p1 = mul i128 %m.wide, %f1.wide
  %p0.high = lshr i128 %p0, 64
  %middle = add i128 %p1, %p0.high
  %middle.high = lshr i128 %middle, 64
  %carry = trunc i128 %middle.high to i64
  %top = mul i64 %m, %f2
  %q2 = add i64 %top, %carry
  %q1 = trunc i128 %middle to i64
  %q0 = trunc i128 %p0 to i64
  %rounded = add i64 %q2, {1 << 61}
  %n = lshr i64 %rounded, 62
  %t2 = call i64 @llvm.fshl.i64(i64 %q2, i64 %q1, i64 2)
  %t1 = call i64 @llvm.fshl.i64(i64 %q1, i64 %q0, i64 2)
  %t0 = shl i64 %q0, 2
  %flip = ashr i64 %t2, 63
  %b2 = xor i64 %t2, %flip
  %b1 = xor i64 %t1, %flip
  %b0 = xor i64 %t0, %flip
  %zeros = call i64 @llvm.ctlz.i64(i64 %b2, i1 false)
  %s1 = call i64 @llvm.fshl.i64(i64 %b2, i64 %b1, i64 %zeros)
  %s0 = call i64 @llvm.fshl.i64(i64 %b1, i64 %b0, i64 %zeros)
  %high.int = lshr i64 %s1, 11
  %rest.top = and i64 %s1, 2047
  %rest.shifted = shl i64 %rest.top, 42
  %rest.bottom = lshr i64 %s0, 22
  %rest.int = or i64 %rest.shifted, %rest.bottom
  %high.float = sitofp i64 %high.int to double
  %rest.float = sitofp i64 %rest.int to double
  %power.biased = sub i64 970, %zeros
  %power.bits = shl i64 %power.biased, 52
  %power = bitcast i64 %power.bits to double
  %high = fmul double %high.float, %power
  %rest.scaled = fmul double %rest.float, {literal("f64", 2.0**-53)}
  %rest = fmul double %rest.scaled, %power
  %r0 = fmul double %high, {_HALF_PI_TEXT[0]}
  %r0.minus = fneg double %r0
  %lost = call double @llvm.fma.f64(double %high, double {_HALF_PI_TEXT[0]}, double %r0.minus)
  %mid = call double @llvm.fma.f64(double %high, double {_HALF_PI_TEXT[1]}, double %lost)
  %low0 = call double @llvm.fma.f64(double %rest, double {_HALF_PI_TEXT[0]}, double %mid)
  %r = fadd double %r0, %low0
  %back = fsub double %r, %r0
  %low = fsub double %low0, %back
  %fraction.negative = icmp slt i64 %t2, 0
  %minus = xor i1 %fraction.negative, %negative
  %r.minus = fneg double %r
  %low.minus = fneg double %low
  %n.minus = sub i64 0, %n
  %r.signed = select i1 %minus, double %r.minus, double %r
  %low.signed = select i1 %minus, double %low.minus, double %low
  %n.signed = select i1 %negative, i64 %n.minus, i64 %n
  %rs.next = insertelement {double} %rs, double %r.signed, i32 %i
  %lows.next = insertelement {double} %lows, double %low.signed, i32 %i
  %ns.next = insertelement {whole} %ns, i64 %n.signed, i32 %i
  %next = add i32 %i, 1
  %more = icmp ult i32 %next, {LANES}
  br i1 %more, label %lane, label %done
done:
  %out0 = insertvalue {_HUGE_RESULT} poison, {double} %rs.next, 0
  %out1 = insertvalue {_HUGE_RESULT} %out0, {double} %lows.next, 1
  %out2 = insertvalue {_HUGE_RESULT} %out1, {whole} %ns.next, 2
  ret {_HUGE_RESULT} %out2
}}
"""


text_definition(
    _REDUCE_HUGE,
    _huge_text(),
    frozenset(
        {"llvm.umax.i64", "llvm.umin.i64", "llvm.fshl.i64", "llvm.ctlz.i64", "llvm.fma.f64"}
    ),
)
