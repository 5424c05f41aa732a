"""Elementwise primitives as vectors: one row of LLVM text for each row of `ir/prims.py`.

Values are 16-lane vectors by dtype: half-precision kinds are <16 x float> holding rounded
numbers, bool is <16 x i1> (one byte in memory). Nothing here depends on the target, so every
target computes the same bits.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any  # constants of any kind

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.loops import text as kernel_text
from rushlight.loops.text import Text
from rushlight.loops.vecmath import symbol

SPLAT_TRUE = "splat (i1 true)"


def element(kind: dtype) -> str:
    """LLVM's type of one lane."""
    if kind is dt.bool_:
        return "i1"
    if kind.is_floating_point and not kind.is_float8:
        return "double" if kind is dt.float64 else "float"
    return f"i{kind.itemsize * 8}"


def vector(kind: dtype) -> str:
    return f"<16 x {element(kind)}>"


def mangled(kind: dtype) -> str:
    return {"double": "v16f64", "float": "v16f32"}.get(element(kind), f"v16{element(kind)}")


def literal(value: Any, kind: dtype) -> str:
    """A constant vector of this dtype."""
    if kind is dt.bool_:
        return f"splat (i1 {'true' if value else 'false'})"
    if not kind.is_floating_point or kind.is_float8:
        return f"splat ({element(kind)} {int(value)})"
    number = float(value)
    if kind is not dt.float64 and math.isfinite(number):
        number = struct.unpack("f", struct.pack("f", number))[0]
    bits = struct.unpack("<Q", struct.pack("<d", number))[0]
    return f"splat ({element(kind)} 0x{bits:016X})"


def emit(text: Text, name: str, kind: dtype, operands: list[str]) -> str:
    """One primitive on vectors of dtype `kind` (that of the value operands)."""
    return RULES[name](text, kind, *operands)


def load(text: Text, kind: dtype, place: str, mask: str | None) -> str:
    raw = kernel_text.load_vector(text, kind.name, place, mask)
    return _from_memory(text, kind, raw)


def load_reversed(text: Text, kind: dtype, place: str, mask: str | None) -> str:
    """16 consecutive elements, the last one first."""
    flipped = None if mask is None else text.reversed("i1", mask)
    raw = kernel_text.load_vector(text, kind.name, place, flipped)
    return text.reversed(element(kind), _from_memory(text, kind, raw))


def load_scattered(text: Text, kind: dtype, base: str, offsets: str, mask: str | None) -> str:
    raw = kernel_text.load_scattered(text, kind.name, base, offsets, mask)
    return _from_memory(text, kind, raw)


def load_one(text: Text, kind: dtype, place: str) -> str:
    """One element in every lane."""
    stored = kernel_text.stored_type(kind.name)
    one = text.let(f"load {stored}, ptr {place}, align {kind.itemsize}")
    raw = kernel_text.widen(text, kind.name, text.splat(stored, one))
    return _from_memory(text, kind, raw)


def load_number(text: Text, kind: dtype, place: str) -> str:
    """A run-time number (an 8-byte cell) in every lane."""
    if kind is dt.float64:
        return load_one(text, kind, place)
    cell = text.splat("i64", text.let(f"load i64, ptr {place}, align 8"))
    return text.let(f"icmp ne <16 x i64> {cell}, zeroinitializer") if kind is dt.bool_ else cell


def _from_memory(text: Text, kind: dtype, raw: str) -> str:
    if kind is dt.bool_:
        return text.let(f"icmp ne <16 x i8> {raw}, zeroinitializer")
    return raw


def to_memory(text: Text, kind: dtype, value: str) -> str:
    """A value as `text.store_vector` takes it."""
    return text.let(f"zext <16 x i1> {value} to <16 x i8>") if kind is dt.bool_ else value


def store(text: Text, kind: dtype, value: str, place: str, mask: str | None) -> None:
    kernel_text.store_vector(text, kind.name, to_memory(text, kind, value), place, mask)


def store_scattered(
    text: Text, kind: dtype, value: str, base: str, offsets: str, mask: str | None
) -> None:
    made = to_memory(text, kind, value)
    kernel_text.store_scattered(text, kind.name, made, base, offsets, mask)


def store_one(text: Text, kind: dtype, value: str, place: str) -> None:
    """Lane 0 as one element."""
    raw = kernel_text.narrow(text, kind.name, to_memory(text, kind, value))
    stored = kernel_text.stored_type(kind.name)
    one = text.let(f"extractelement <16 x {stored}> {raw}, i32 0")
    text.line(f"store {stored} {one}, ptr {place}, align {kind.itemsize}")


# -- casts


def cast(text: Text, value: str, have: dtype, want: dtype) -> str:
    """PyTorch's conversion (see `interpret.cast_array`)."""
    if have is want:
        return value
    if want is dt.bool_:
        compare = "fcmp une" if have.is_floating_point else "icmp ne"
        return text.let(f"{compare} {vector(have)} {value}, zeroinitializer")
    if want.is_floating_point:
        return round_half(text, _to_float(text, value, have, want), want)
    if have.is_floating_point:
        return _float_to_int(text, value, have, want)
    return _resize(text, value, have, want)


def _to_float(text: Text, value: str, have: dtype, want: dtype) -> str:
    source, target = vector(have), vector(want)
    if source == target:
        return value
    if have.is_floating_point:
        return text.let(
            f"{'fpext' if want is dt.float64 else 'fptrunc'} {source} {value} to {target}"
        )
    unsigned = not have.is_signed
    return text.let(f"{'uitofp' if unsigned else 'sitofp'} {source} {value} to {target}")


def round_half(text: Text, value: str, kind: dtype) -> str:
    """Round float lanes to the values a half-precision dtype has."""
    if kind not in (dt.float16, dt.bfloat16):
        return value
    return kernel_text.widen(text, kind.name, kernel_text.narrow(text, kind.name, value))


def _float_to_int(text: Text, value: str, have: dtype, want: dtype) -> str:
    kind = vector(have)
    size = _call(text, have, "llvm.fabs", value)
    inside = text.let(f"fcmp olt {kind} {size}, {literal(2.0**63, have)}")
    safe = text.let(f"select <16 x i1> {inside}, {kind} {value}, {kind} zeroinitializer")
    whole = text.let(f"fptosi {kind} {safe} to <16 x i64>")
    lowest = f"<16 x i64> splat (i64 {-(2**63)})"
    found = text.let(f"select <16 x i1> {inside}, <16 x i64> {whole}, {lowest}")
    if want is dt.uint64:
        found = _upper_half(text, value, have, found)
    return _resize(text, found, dt.int64, want)


def _upper_half(text: Text, value: str, have: dtype, low: str) -> str:
    """64-bit integers of floats: those of 2^63 to 2^64 too, which have no sign."""
    kind = vector(have)
    above = text.let(f"fcmp oge {kind} {value}, {literal(2.0**63, have)}")
    below = text.let(f"fcmp olt {kind} {value}, {literal(2.0**64, have)}")
    inside = text.let(f"and <16 x i1> {above}, {below}")
    rest = text.let(f"fsub {kind} {value}, {literal(2.0**63, have)}")
    safe = text.let(f"select <16 x i1> {inside}, {kind} {rest}, {kind} zeroinitializer")
    whole = text.let(f"fptosi {kind} {safe} to <16 x i64>")
    high = text.let(f"xor <16 x i64> {whole}, splat (i64 {-(2**63)})")
    return text.let(f"select <16 x i1> {inside}, <16 x i64> {high}, <16 x i64> {low}")


def _resize(text: Text, value: str, have: dtype, want: dtype) -> str:
    source, target = vector(have), vector(want)
    if source == target:
        return value
    if have is not dt.bool_ and have.itemsize > want.itemsize:
        return text.let(f"trunc {source} {value} to {target}")
    unsigned = not have.is_signed
    return text.let(f"{'zext' if unsigned else 'sext'} {source} {value} to {target}")


# -- rules

Rule = Callable[..., str]


def _call(text: Text, kind: dtype, intrinsic: str, *operands: str) -> str:
    v = vector(kind)
    return text.call(v, f"{intrinsic}.{mangled(kind)}", ", ".join(f"{v} {o}" for o in operands))


def _intrinsic(name: str) -> Rule:
    """A floating intrinsic; integers are unchanged."""

    def rule(text: Text, kind: dtype, x: str) -> str:
        return _call(text, kind, name, x) if kind.is_floating_point else x

    return rule


def _mathematics(name: str) -> Rule:
    def rule(text: Text, kind: dtype, *operands: str) -> str:
        v = vector(kind)
        return text.call(v, symbol(name, kind.name), ", ".join(f"{v} {o}" for o in operands))

    return rule


def _arithmetic(floating: str, integral: str) -> Rule:
    def rule(text: Text, kind: dtype, a: str, b: str) -> str:
        name = floating if kind.is_floating_point else integral
        return text.let(f"{name} {vector(kind)} {a}, {b}")

    return rule


def _compare(floating: str, signed: str, unsigned: str) -> Rule:
    def rule(text: Text, kind: dtype, a: str, b: str) -> str:
        if kind.is_floating_point:
            return text.let(f"fcmp {floating} {vector(kind)} {a}, {b}")
        test = unsigned if not kind.is_signed else signed
        return text.let(f"icmp {test} {vector(kind)} {a}, {b}")

    return rule


def select(text: Text, kind: dtype, mask: str, a: str, b: str) -> str:
    v = vector(kind)
    return text.let(f"select <16 x i1> {mask}, {v} {a}, {v} {b}")


def _neg(text: Text, kind: dtype, x: str) -> str:
    if kind.is_floating_point:
        return text.let(f"fneg {vector(kind)} {x}")
    return text.let(f"sub {vector(kind)} zeroinitializer, {x}")


def _abs(text: Text, kind: dtype, x: str) -> str:
    if kind.is_floating_point:
        return _call(text, kind, "llvm.fabs", x)
    if not kind.is_signed:
        return x
    negative = text.let(f"icmp slt {vector(kind)} {x}, zeroinitializer")
    return select(text, kind, negative, _neg(text, kind, x), x)


def _rsqrt(text: Text, kind: dtype, x: str) -> str:
    root = _call(text, kind, "llvm.sqrt", x)
    return text.let(f"fdiv {vector(kind)} {literal(1.0, kind)}, {root}")


def _bits(text: Text, kind: dtype, x: str) -> str:
    return text.let(f"bitcast {vector(kind)} {x} to <16 x i{8 * kind.itemsize}>")


def _not(text: Text, kind: dtype, x: str) -> str:
    return text.let(
        f"xor {vector(kind)} {x}, {literal(-1 if kind is not dt.bool_ else 1, kind)}"
    )


def _extreme(greater: bool) -> Rule:
    """max or min; a NaN operand is the result."""

    def rule(text: Text, kind: dtype, a: str, b: str) -> str:
        if not kind.is_floating_point:
            test = _compare("", "sgt", "ugt") if greater else _compare("", "slt", "ult")
            return select(text, kind, test(text, kind, a, b), a, b)
        test_name = "ugt" if greater else "ult"
        first = text.let(f"fcmp {test_name} {vector(kind)} {a}, {b}")
        chosen = select(text, kind, first, a, b)
        if b.startswith("splat"):
            return chosen
        is_nan = text.let(f"fcmp uno {vector(kind)} {b}, zeroinitializer")
        return select(text, kind, is_nan, b, chosen)

    return rule


def _safe_divisor(text: Text, kind: dtype, b: str) -> tuple[str, str | None]:
    """b with 0 and -1 replaced by 1 (both trap or overflow), and where it is -1."""
    v = vector(kind)
    zero = text.let(f"icmp eq {v} {b}, zeroinitializer")
    if kind.is_unsigned:
        return select(text, kind, zero, literal(1, kind), b), None
    minus = text.let(f"icmp eq {v} {b}, {literal(-1, kind)}")
    either = text.let(f"or <16 x i1> {zero}, {minus}")
    return select(text, kind, either, literal(1, kind), b), minus


def _int_divide(text: Text, kind: dtype, a: str, b: str) -> tuple[str, str]:
    """Quotient and remainder rounded towards zero."""
    v = vector(kind)
    safe, minus = _safe_divisor(text, kind, b)
    letter = "u" if kind.is_unsigned else "s"
    quotient = text.let(f"{letter}div {v} {a}, {safe}")
    rest = text.let(f"{letter}rem {v} {a}, {safe}")
    if minus is not None:
        quotient = select(text, kind, minus, _neg(text, kind, a), quotient)
        rest = select(text, kind, minus, "zeroinitializer", rest)
    return quotient, rest


def _truncdiv(text: Text, kind: dtype, a: str, b: str) -> str:
    if kind.is_floating_point:
        return _call(text, kind, "llvm.trunc", text.let(f"fdiv {vector(kind)} {a}, {b}"))
    return _int_divide(text, kind, a, b)[0]


def _crosses(text: Text, kind: dtype, rest: str, b: str) -> str:
    """Where a remainder is not zero and its sign differs from the divisor's."""
    v = vector(kind)
    compare, below = (
        ("fcmp une", "fcmp olt") if kind.is_floating_point else ("icmp ne", "icmp slt")
    )
    some = text.let(f"{compare} {v} {rest}, zeroinitializer")
    low = text.let(f"{below} {v} {rest}, zeroinitializer")
    low_b = text.let(f"{below} {v} {b}, zeroinitializer")
    differ = text.let(f"xor <16 x i1> {low}, {low_b}")
    return text.let(f"and <16 x i1> {some}, {differ}")


def _floordiv(text: Text, kind: dtype, a: str, b: str) -> str:
    v = vector(kind)
    if kind.is_floating_point:
        return _float_floordiv(text, kind, a, b)
    quotient, rest = _int_divide(text, kind, a, b)
    if kind.is_unsigned:
        return quotient
    less = text.let(f"sub {v} {quotient}, {literal(1, kind)}")
    return select(text, kind, _crosses(text, kind, rest, b), less, quotient)


def _float_floordiv(text: Text, kind: dtype, a: str, b: str) -> str:
    """floor(a / b) from the exact remainder, as Python and NumPy define it."""
    v = vector(kind)
    rest = _mathematics("fmod")(text, kind, a, b)
    quotient = text.let(f"fdiv {v} {text.let(f'fsub {v} {a}, {rest}')}, {b}")
    less = text.let(f"fsub {v} {quotient}, {literal(1.0, kind)}")
    quotient = select(text, kind, _crosses(text, kind, rest, b), less, quotient)
    low = _call(text, kind, "llvm.floor", quotient)
    up = text.let(f"fadd {v} {low}, {literal(1.0, kind)}")
    near = text.let(
        f"fcmp ogt {v} {text.let(f'fsub {v} {quotient}, {low}')}, {literal(0.5, kind)}"
    )
    whole = select(text, kind, near, up, low)
    plain = text.let(f"fdiv {v} {a}, {b}")
    zero = _call(text, kind, "llvm.copysign", "zeroinitializer", plain)
    is_zero = text.let(f"fcmp oeq {v} {quotient}, zeroinitializer")
    whole = select(text, kind, is_zero, zero, whole)
    by_zero = text.let(f"fcmp oeq {v} {b}, zeroinitializer")
    return select(text, kind, by_zero, plain, whole)


def _remainder(text: Text, kind: dtype, a: str, b: str) -> str:
    v = vector(kind)
    if kind.is_floating_point:
        rest = _mathematics("fmod")(text, kind, a, b)
        more = text.let(f"fadd {v} {rest}, {b}")
        return select(text, kind, _crosses(text, kind, rest, b), more, rest)
    rest = _int_divide(text, kind, a, b)[1]
    if kind.is_unsigned:
        return rest
    more = text.let(f"add {v} {rest}, {b}")
    return select(text, kind, _crosses(text, kind, rest, b), more, rest)


def _fmod(text: Text, kind: dtype, a: str, b: str) -> str:
    if kind.is_floating_point:
        return _mathematics("fmod")(text, kind, a, b)
    return _int_divide(text, kind, a, b)[1]


def _ipow(text: Text, kind: dtype, a: str, b: str) -> str:
    """Integer power through 64 bits (wrapping is the same after truncation)."""
    wide_a, wide_b = _resize(text, a, kind, dt.int64), _resize(text, b, kind, dt.int64)
    found = text.call("<16 x i64>", "rl_ipow", f"<16 x i64> {wide_a}, <16 x i64> {wide_b}")
    return _resize(text, found, dt.int64, kind)


def _shift(instruction: str) -> Rule:
    def rule(text: Text, kind: dtype, a: str, b: str) -> str:
        v = vector(kind)
        bits = kind.itemsize * 8
        inside = text.let(f"icmp ult {v} {b}, {literal(bits, kind)}")
        amount = select(text, kind, inside, b, "zeroinitializer")
        arithmetic = instruction == "lshr" and not kind.is_unsigned
        name = "ashr" if arithmetic else instruction
        moved = text.let(f"{name} {v} {a}, {amount}")
        beyond = "zeroinitializer"
        if arithmetic:
            beyond = text.let(f"ashr {v} {a}, {literal(bits - 1, kind)}")
        return select(text, kind, inside, moved, beyond)

    return rule


def _copysign(text: Text, kind: dtype, a: str, b: str) -> str:
    return _call(text, kind, "llvm.copysign", a, b)


def _nextafter(text: Text, kind: dtype, a: str, b: str) -> str:
    """The neighbour of a towards b, by stepping its bits."""
    v = vector(kind)
    whole = dt.int64 if kind is dt.float64 else dt.int32
    w = vector(whole)
    bits = text.let(f"bitcast {v} {a} to {w}")
    up = text.let(f"fcmp olt {v} {a}, {b}")
    positive = text.let(f"icmp sgt {w} {bits}, {literal(-1, whole)}")
    away = text.let(f"icmp eq <16 x i1> {up}, {positive}")
    step = select(text, whole, away, literal(1, whole), literal(-1, whole))
    moved = text.let(f"bitcast {w} {text.let(f'add {w} {bits}, {step}')} to {v}")
    smallest = text.let(f"bitcast {w} {literal(1, whole)} to {v}")
    from_zero = _copysign(text, kind, smallest, b)
    is_zero = text.let(f"fcmp oeq {v} {a}, zeroinitializer")
    moved = select(text, kind, is_zero, from_zero, moved)
    same = text.let(f"fcmp oeq {v} {a}, {b}")
    moved = select(text, kind, same, b, moved)
    is_nan = text.let(f"fcmp uno {v} {a}, {b}")
    return select(text, kind, is_nan, text.let(f"fadd {v} {a}, {b}"), moved)


def _select_rule(text: Text, kind: dtype, mask: str, a: str, b: str) -> str:
    return select(text, kind, mask, a, b)


RULES: dict[str, Rule] = {
    "neg": _neg,
    "abs": _abs,
    "sqrt": _intrinsic("llvm.sqrt"),
    "rsqrt": _rsqrt,
    "floor": _intrinsic("llvm.floor"),
    "ceil": _intrinsic("llvm.ceil"),
    "round": _intrinsic("llvm.roundeven"),
    "trunc": _intrinsic("llvm.trunc"),
    "not": _not,
    "add": _arithmetic("fadd", "add"),
    "sub": _arithmetic("fsub", "sub"),
    "mul": _arithmetic("fmul", "mul"),
    "div": _arithmetic("fdiv", "sdiv"),
    "truncdiv": _truncdiv,
    "floordiv": _floordiv,
    "remainder": _remainder,
    "fmod": _fmod,
    "ipow": _ipow,
    "min": _extreme(greater=False),
    "max": _extreme(greater=True),
    "copysign": _copysign,
    "nextafter": _nextafter,
    "and": _arithmetic("and", "and"),
    "or": _arithmetic("or", "or"),
    "xor": _arithmetic("xor", "xor"),
    "shl": _shift("shl"),
    "shr": _shift("lshr"),
    "lt": _compare("olt", "slt", "ult"),
    "le": _compare("ole", "sle", "ule"),
    "gt": _compare("ogt", "sgt", "ugt"),
    "ge": _compare("oge", "sge", "uge"),
    "eq": _compare("oeq", "eq", "eq"),
    "ne": _compare("une", "ne", "ne"),
    "select": _select_rule,
    "bits": _bits,
}
for _name in (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin",
    "acos",
    "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "erfc_half",
    "erfinv", "normal_cdf",
    "lgamma",
    "digamma", "sigmoid", "pow", "atan2", "ndtri", "i0", "i1", "i0e", "i1e",
):  # fmt: skip
    RULES[_name] = _mathematics(_name)
