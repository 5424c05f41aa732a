"""Sixteen lanes as Python values: arithmetic on a `Value` writes LLVM text.

A function of vector mathematics is written once, as ordinary Python arithmetic on values whose
kind (`f32` or `f64`) decides the constants. Every operation becomes one LLVM instruction, in
the order written, so that rounding is what the source says: nothing here contracts,
reassociates or assumes that there are no NaNs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

LANES = 16
ELEMENTS = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "i1": "i1"}
INTEGERS = {"f32": "i32", "f64": "i64"}
MANTISSA_BITS = {"f32": 23, "f64": 52}
EXPONENT_BIAS = {"f32": 127, "f64": 1023}


def vector_type(kind: str) -> str:
    """The LLVM type of sixteen lanes of `kind`."""
    return f"<{LANES} x {ELEMENTS[kind]}>"


class Code:
    """The instructions of one LLVM function in the making, and the functions they call."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.needs: set[str] = set()
        self.block = "entry"
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"%v{self._count}"

    def emit(self, kind: str, text: str) -> Value:
        """Append `text` as the instruction that makes a new value."""
        ref = self.name()
        self.lines.append(f"  {ref} = {text}")
        return Value(self, kind, ref)

    def call(self, function: str, kind: str, *args: Value) -> Value:
        """Call `function`, an intrinsic or a definition of this package, on whole vectors."""
        self.needs.add(function)
        listed = ", ".join(f"{vector_type(a.kind)} {a.ref}" for a in args)
        return self.emit(kind, f"call {vector_type(kind)} @{function}({listed})")

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def any(self, mask: Value) -> str:
        """The name of a scalar i1: whether the mask holds in some lane."""
        reduction = f"llvm.vector.reduce.or.v{LANES}i1"
        self.needs.add(reduction)
        ref = self.name()
        self.lines.append(f"  {ref} = call i1 @{reduction}({vector_type('i1')} {mask.ref})")
        return ref

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.lines.append(f"  br i1 {condition}, label %{yes}, label %{no}")

    def phi(self, kind: str, *incoming: tuple[Value, str]) -> Value:
        """A value that depends on the block it is reached from."""
        listed = ", ".join(f"[ {value.ref}, %{block} ]" for value, block in incoming)
        return self.emit(kind, f"phi {vector_type(kind)} {listed}")

    def phi_open(self, kind: str) -> Value:
        """A phi at the head of a loop whose incoming values `phi_close` will give."""
        return self.emit(kind, "phi")

    def phi_close(self, head: Value, *incoming: tuple[Value, str]) -> None:
        listed = ", ".join(f"[ {value.ref}, %{block} ]" for value, block in incoming)
        place = self.lines.index(f"  {head.ref} = phi")
        self.lines[place] += f" {vector_type(head.kind)} {listed}"

    def constant(self, kind: str, number: float) -> Value:
        """The same number in every lane; a float is rounded to `kind`."""
        element = ELEMENTS[kind]
        return Value(self, kind, f"splat ({element} {literal(kind, number)})")


def literal(kind: str, number: float) -> str:
    """LLVM's spelling of a constant: floats by the bits of a double."""
    if kind == "f32":
        number = struct.unpack("f", struct.pack("f", number))[0]
    if kind in INTEGERS:
        return f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"
    if kind == "i1":
        return "true" if number else "false"
    return str(number)


@dataclass(frozen=True, slots=True, eq=False)
class Value:
    """Sixteen lanes in LLVM text. Comparisons are ordered (false on NaN) and give kind `i1`."""

    code: Code
    kind: str
    ref: str

    @property
    def is_float(self) -> bool:
        return self.kind in INTEGERS

    def like(self, number: float) -> Value:
        """`number` in every lane, in this value's kind."""
        return self.code.constant(self.kind, number)

    def _operand(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.like(other)

    def _binary(self, name: str, other: Value | float, *, swap: bool = False) -> Value:
        a, b = self, self._operand(other)
        assert a.kind == b.kind, f"{name}: {a.kind} and {b.kind}"
        if swap:
            a, b = b, a
        return self.code.emit(self.kind, f"{name} {vector_type(a.kind)} {a.ref}, {b.ref}")

    def _arithmetic(self, name: str, other: Value | float, swap: bool = False) -> Value:
        return self._binary(f"f{name}" if self.is_float else name, other, swap=swap)

    def __add__(self, other: Value | float) -> Value:
        return self._arithmetic("add", other)

    def __radd__(self, other: float) -> Value:
        return self._arithmetic("add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: float) -> Value:
        return self._arithmetic("sub", other, swap=True)

    def __mul__(self, other: Value | float) -> Value:
        return self._arithmetic("mul", other)

    def __rmul__(self, other: float) -> Value:
        return self._arithmetic("mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._arithmetic("div", other)

    def __rtruediv__(self, other: float) -> Value:
        return self._arithmetic("div", other, swap=True)

    def __neg__(self) -> Value:
        return self.code.emit(self.kind, f"fneg {vector_type(self.kind)} {self.ref}")

    def __and__(self, other: Value | int) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | int) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | int) -> Value:
        return self._binary("xor", other)

    def __invert__(self) -> Value:
        return self._binary("xor", 1 if self.kind == "i1" else -1)

    def __lshift__(self, bits: Value | int) -> Value:
        return self._binary("shl", bits)

    def __rshift__(self, bits: Value | int) -> Value:
        """Arithmetic shift: the sign is repeated."""
        return self._binary("ashr", bits)

    def logical_shift(self, bits: Value | int) -> Value:
        return self._binary("lshr", bits)

    def _compare(self, ordered: str, signed: str, other: Value | float) -> Value:
        b = self._operand(other)
        name = f"fcmp {ordered}" if self.is_float else f"icmp {signed}"
        return self.code.emit("i1", f"{name} {vector_type(self.kind)} {self.ref}, {b.ref}")

    def __lt__(self, other: Value | float) -> Value:
        return self._compare("olt", "slt", other)

    def __le__(self, other: Value | float) -> Value:
        return self._compare("ole", "sle", other)

    def __gt__(self, other: Value | float) -> Value:
        return self._compare("ogt", "sgt", other)

    def __ge__(self, other: Value | float) -> Value:
        return self._compare("oge", "sge", other)

    def equals(self, other: Value | float) -> Value:
        return self._compare("oeq", "eq", other)

    def differs(self, other: Value | float) -> Value:
        """Not equal; true on NaN."""
        return self._compare("une", "ne", other)

    def is_nan(self) -> Value:
        return self._compare("uno", "", self)

    def __abs__(self) -> Value:
        intrinsic = f"llvm.fabs.v{LANES}{self.kind}"
        return self.code.call(intrinsic, self.kind, self)

    def sqrt(self) -> Value:
        return self.code.call(f"llvm.sqrt.v{LANES}{self.kind}", self.kind, self)

    def bits(self) -> Value:
        """The float's bits as an integer of the same width."""
        return self._cast("bitcast", INTEGERS[self.kind])

    def as_float(self) -> Value:
        """The integer's bits as a float of the same width."""
        return self._cast("bitcast", "f32" if self.kind == "i32" else "f64")

    def convert(self, kind: str) -> Value:
        """The same number in another kind: integers are signed, floats correctly rounded."""
        if kind == self.kind:
            return self
        steps = {
            ("f32", "f64"): "fpext",
            ("f64", "f32"): "fptrunc",
            ("i32", "i64"): "sext",
            ("i64", "i32"): "trunc",
        }
        name = steps.get((self.kind, kind)) or ("fptosi" if self.is_float else "sitofp")
        return self._cast(name, kind)

    def _cast(self, name: str, kind: str) -> Value:
        text = f"{name} {vector_type(self.kind)} {self.ref} to {vector_type(kind)}"
        return self.code.emit(kind, text)


def fma(a: Value, b: Value | float, c: Value | float) -> Value:
    """a * b + c with one rounding."""
    factor, addend = a._operand(b), a._operand(c)
    return a.code.call(f"llvm.fma.v{LANES}{a.kind}", a.kind, a, factor, addend)


def select(mask: Value, yes: Value | float, no: Value | float) -> Value:
    """`yes` where the mask holds, else `no`; at least one of the two is a Value."""
    if not isinstance(yes, Value):
        assert isinstance(no, Value)
        yes = no.like(yes)
    other = yes._operand(no)
    kind = vector_type(yes.kind)
    text = f"select {vector_type('i1')} {mask.ref}, {kind} {yes.ref}, {kind} {other.ref}"
    return yes.code.emit(yes.kind, text)


def polynomial(x: Value, coefficients: Sequence[float]) -> Value:
    """Horner's rule by fma; the constant term comes first."""
    total = x.like(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = fma(total, x, coefficient)
    return total


def copysign(magnitude: Value | float, sign: Value) -> Value:
    value = sign._operand(magnitude)
    return sign.code.call(f"llvm.copysign.v{LANES}{sign.kind}", sign.kind, value, sign)


def clamp_below(x: Value, low: float) -> Value:
    """max(x, low), and NaN stays NaN."""
    return select(x < low, low, x)


def clamp_above(x: Value, high: float) -> Value:
    """min(x, high), and NaN stays NaN."""
    return select(x > high, high, x)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error, whatever the magnitudes."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def fast_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """a + b and its rounding error, for |a| >= |b| or a = 0."""
    total = a + b
    return total, b - (total - a)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """a * b and its rounding error, barring underflow."""
    product = a * b
    return product, fma(a, b, -product)


def nearest(x: Value, factor: float | None = None) -> tuple[Value, Value]:
    """The integer nearest x (times the factor), as a float and as an integer; it must be less
    than 2^21 (f32) or 2^50 (f64).

    Adding 1.5 * 2^mantissa leaves the integer in the low bits: two operations on every target,
    where a rounding instruction is missing from the oldest ones.
    """
    magic = 1.5 * 2.0 ** MANTISSA_BITS[x.kind]
    shifted = x + magic if factor is None else fma(x, factor, magic)
    return shifted - magic, shifted.bits() - shifted.like(magic).bits()


def power_of_two(n: Value) -> Value:
    """2^n as a float for an integer vector n within the normal exponents."""
    kind = "f32" if n.kind == "i32" else "f64"
    return ((n + EXPONENT_BIAS[kind]) << MANTISSA_BITS[kind]).as_float()


def scale(x: Value, n: Value) -> Value:
    """x * 2^n in two steps, so that results that are subnormal or overflow come out right."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def scale_down(x: Value, n: Value) -> Value:
    """The same for n <= 0: half the work, since one of the steps can be a constant."""
    step = 64 if x.kind == "f32" else 512
    return x * power_of_two(n + step) * 2.0**-step


def rarely(
    mask: Value, body: Callable[[], tuple[Value, ...]], usual: tuple[Value, ...]
) -> tuple[Value, ...]:
    """`body()` where the mask holds, else `usual`; the body runs only if some lane needs it."""
    code = mask.code
    name = code.name()[1:]
    before = code.block
    code.branch(code.any(mask), f"rare.{name}", f"usual.{name}")
    code.label(f"rare.{name}")
    mixed = [select(mask, yes, no) for yes, no in zip(body(), usual, strict=True)]
    after = code.block
    code.lines.append(f"  br label %usual.{name}")
    code.label(f"usual.{name}")
    pairs = zip(usual, mixed, strict=True)
    return tuple(code.phi(a.kind, (a, before), (b, after)) for a, b in pairs)
