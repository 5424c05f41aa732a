"""The exponential of a number that is at most about zero, which is all that a softmax needs.

Leaving out overflow and subnormal results makes it two thirds of the general function, and
nothing in it is ever slow: what would be below the smallest normal number, at least 1e-38 of
its row's largest weight, is zero. Coefficients are minimax for relative error on half of log 2
either side of zero: 2.6e-9 for float32, 1.8e-17 for float64.
"""

from __future__ import annotations

from rushlight.loops.writer import LANES, Writer

_FLOAT32 = (
    "0x1.0000000000000p+0", "0x1.0000000000000p+0", "0x1.0000020000000p-1",
    "0x1.5553c00000000p-3", "0x1.55515e0000000p-5", "0x1.1290520000000p-7",
    "0x1.709ba80000000p-10",
)  # fmt: skip
_FLOAT64 = (
    "0x1.0000000000000p+0", "0x1.0000000000003p+0", "0x1.0000000000005p-1",
    "0x1.5555555554825p-3", "0x1.55555555520ecp-5", "0x1.111111137a2eep-7",
    "0x1.6c16c17f35d13p-10", "0x1.a019f624eff4cp-13", "0x1.a019a68fad467p-16",
    "0x1.71f610a70586cp-19", "0x1.28a29f4edfeeap-22", "0x1.8ad02d886ca50p-26",
)  # fmt: skip


def emit_weight(w: Writer, x: str) -> str:
    """exp(x) for x up to 80; 0 where it is not a normal number; NaN of NaN.

    Adding 1.5 * 2^(bits of the mantissa) leaves round(x / log 2) in the low bits, ready to be
    shifted into the exponent.
    """
    double = w.arithmetic.size == 8
    coefficients, word, mantissa = (_FLOAT64, "i64", 52) if double else (_FLOAT32, "i32", 23)
    per_unit, unit = (
        ("0x1.71547652b82fep+0", "0x1.62e42fefa39efp-1")
        if double
        else ("0x1.715476p+0", "0x1.62e43p-1")
    )
    vector, words = w.arithmetic.vector, f"<{LANES} x {word}>"
    shift = w.number(1.5 * 2.0**mantissa)
    shifted = w.fma(x, w.number(float.fromhex(per_unit)), shift)
    count = w.binary("fsub", shifted, shift)
    rest = w.fma(count, w.number(-float.fromhex(unit)), x)
    if double:  # one rounding of log 2 would cost a quarter of x in units in the last place
        rest = w.fma(count, w.number(-float.fromhex("0x1.abc9e3b39803fp-56")), rest)
    power = w.number(float.fromhex(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        power = w.fma(power, rest, w.number(float.fromhex(coefficient)))
    steps = w.let(f"bitcast {vector} {shifted} to {words}")
    raised = w.let(f"shl {words} {steps}, splat ({word} {mantissa})")
    bits = w.let(f"bitcast {vector} {power} to {words}")
    scaled = w.let(f"bitcast {words} {w.let(f'add {words} {bits}, {raised}')} to {vector}")
    vanishes = w.compare("olt", x, w.number(-708.25 if double else -87.25))
    return w.choose(vanishes, "zeroinitializer", scaled)
