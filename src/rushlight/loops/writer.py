"""Writes the text of one LLVM function: fresh names, loops that carry values, loads and stores
of every dtype.

All vectors have `LANES` logical lanes whatever the dtype and the machine; LLVM splits them into
registers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

LANES = 16

STORAGE = {
    "float32": "float",
    "float64": "double",
    "float16": "half",
    "bfloat16": "i16",
    "bool": "i8",
}
BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "bool": 1}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """The type a kernel computes in: float64 for float64, float32 for the others."""

    scalar: str
    suffix: str
    size: int

    @property
    def vector(self) -> str:
        return f"<{LANES} x {self.scalar}>"

    @property
    def fma(self) -> str:
        return f"llvm.fma.v{LANES}{self.suffix}"

    @property
    def log(self) -> str:
        return f"rl_log_{self.suffix}"

    @property
    def masked_load(self) -> str:
        return f"llvm.masked.load.v{LANES}{self.suffix}.p0"

    @property
    def masked_store(self) -> str:
        return f"llvm.masked.store.v{LANES}{self.suffix}.p0"


def arithmetic_of(dtype: str) -> Arithmetic:
    """The arithmetic that values stored as `dtype` are computed in."""
    return (
        Arithmetic("double", "f64", 8) if dtype == "float64" else Arithmetic("float", "f32", 4)
    )


@dataclass(frozen=True, slots=True)
class Routine:
    """An internal function's parameters as `kind name, ...`; kind `number` is the arithmetic's
    scalar.
    """

    parameters: str

    def typed(self, arithmetic: Arithmetic) -> list[tuple[str, str]]:
        """(LLVM type, name) of each parameter."""
        pairs = [parameter.split() for parameter in self.parameters.split(",")]
        return [(arithmetic.scalar if kind == "number" else kind, name) for kind, name in pairs]

    def write(self, name: str, body: Writer) -> str:
        """The text of a function of this shape, called `name`, whose lines are in `body`.

        It does work worth a call and its vectors are written out: kept out of line and away
        from the auto-vectoriser (`optsize`), a kernel compiles in a third of the time.
        """
        listed = ", ".join(f"{kind} %{x}" for kind, x in self.typed(body.arithmetic))
        return body.function(f"define internal void @{name}({listed}) noinline optsize")


@dataclass(slots=True)
class Loop:
    """A loop being written: its index, the carried values as seen at its head, and what they
    become next.
    """

    index: str
    values: list[str]
    next: list[str] = field(default_factory=list)


class Writer:
    """Collects the lines of one function."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self.arithmetic = arithmetic
        self.lines: list[str] = []
        self._serial = 0

    def fresh(self) -> int:
        self._serial += 1
        return self._serial

    def let(self, expression: str) -> str:
        """Name the result of an instruction."""
        name = f"%v{self.fresh()}"
        self.lines.append(f"  {name} = {expression}")
        return name

    def do(self, instruction: str) -> None:
        self.lines.append(f"  {instruction}")

    def function(self, header: str) -> str:
        """The finished text: `header` (all before the brace) around the collected lines."""
        return "\n".join([header + " {", "entry:", *self.lines, "  ret void", "}", ""])

    def call(self, name: str, routine: Routine, **values: str | int) -> None:
        """Call an internal function; every parameter is given by name."""
        typed = routine.typed(self.arithmetic)
        assert values.keys() == {x for _, x in typed}, (name, values.keys())
        self.do(f"call void @{name}(" + ", ".join(f"{t} {values[x]}" for t, x in typed) + ")")

    # Control flow.

    @contextmanager
    def loop(
        self,
        stop: str,
        *,
        start: str = "0",
        step: int | str = 1,
        carried: Sequence[tuple[str, str]] = (),
    ) -> Iterator[Loop]:
        """`for index in range(start, stop, step)`; `carried` lists (type, first value), and the
        body fills `next`.

        After the loop, `index` and `values` name what they were when the test failed.
        """
        n = self.fresh()
        self.do(f"br label %before{n}")
        self.lines.append(f"before{n}:")
        self.do(f"br label %head{n}")
        self.lines.append(f"head{n}:")
        here = Loop(f"%i{n}", [f"%c{n}_{k}" for k in range(len(carried))])
        self.do(f"%i{n} = phi i64 [{start}, %before{n}], [%n{n}, %latch{n}]")
        place = len(self.lines)
        self.do(f"%t{n} = icmp slt i64 %i{n}, {stop}")
        self.do(f"br i1 %t{n}, label %body{n}, label %done{n}")
        self.lines.append(f"body{n}:")
        yield here
        assert len(here.next) == len(carried), (
            "a loop's body must say what every carried value becomes"
        )
        self.do(f"br label %latch{n}")
        self.lines.append(f"latch{n}:")
        self.do(f"%n{n} = add i64 %i{n}, {step}")
        self.do(f"br label %head{n}")
        self.lines.append(f"done{n}:")
        self.lines[place:place] = [
            f"  {name} = phi {kind} [{first}, %before{n}], [{after}, %latch{n}]"
            for name, (kind, first), after in zip(here.values, carried, here.next, strict=True)
        ]

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        n = self.fresh()
        self.do(f"br i1 {condition}, label %then{n}, label %after{n}")
        self.lines.append(f"then{n}:")
        yield
        self.do(f"br label %after{n}")
        self.lines.append(f"after{n}:")

    # Integers (i64).

    def add(self, a: str, b: str | int) -> str:
        return self.let(f"add i64 {a}, {b}")

    def sub(self, a: str, b: str | int) -> str:
        return self.let(f"sub i64 {a}, {b}")

    def mul(self, a: str, b: str | int) -> str:
        return self.let(f"mul i64 {a}, {b}")

    def div(self, a: str, b: str | int) -> str:
        return self.let(f"udiv i64 {a}, {b}")

    def rem(self, a: str, b: str | int) -> str:
        return self.let(f"urem i64 {a}, {b}")

    def test(self, predicate: str, a: str, b: str | int) -> str:
        return self.let(f"icmp {predicate} i64 {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.let(f"and i1 {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.let(f"or i1 {a}, {b}")

    def negate(self, a: str) -> str:
        return self.let(f"xor i1 {a}, true")

    def least(self, a: str, b: str | int) -> str:
        return self.let(f"select i1 {self.test('slt', a, b)}, i64 {a}, i64 {b}")

    def most(self, a: str, b: str | int) -> str:
        return self.let(f"select i1 {self.test('sgt', a, b)}, i64 {a}, i64 {b}")

    def round_up(self, a: str, multiple: int) -> str:
        """`a` rounded up to a power of two `multiple`."""
        return self.let(f"and i64 {self.add(a, multiple - 1)}, {-multiple}")

    def dot(self, *pairs: tuple[str, str | int]) -> str:
        """The sum of products of the pairs: an element offset from indices and strides."""
        total = self.mul(*pairs[0])
        for a, b in pairs[1:]:
            total = self.add(total, self.mul(a, b))
        return total

    # Memory.

    def at(self, base: str, index: str, kind: str | None = None) -> str:
        """The address of element `index` from `base`, for elements of `kind` (default: the
        arithmetic's scalar).
        """
        return self.let(
            f"getelementptr {kind or self.arithmetic.scalar}, ptr {base}, i64 {index}"
        )

    def load(self, address: str) -> str:
        """A vector from aligned scratch."""
        return self.let(f"load {self.arithmetic.vector}, ptr {address}, align 64")

    def store(self, value: str, address: str) -> None:
        """A vector to aligned scratch."""
        self.do(f"store {self.arithmetic.vector} {value}, ptr {address}, align 64")

    def load_one(self, address: str) -> str:
        """A single element of scratch."""
        return self.let(
            f"load {self.arithmetic.scalar}, ptr {address}, align {self.arithmetic.size}"
        )

    def store_one(self, value: str, address: str) -> None:
        """A single element to scratch."""
        real = self.arithmetic
        self.do(f"store {real.scalar} {value}, ptr {address}, align {real.size}")

    def first_lanes(self, count: str) -> str:
        """A mask of the first `count` lanes (all of them from 16 on)."""
        lanes = "<" + ", ".join(f"i64 {lane}" for lane in range(LANES)) + ">"
        return self.let(f"icmp sgt <{LANES} x i64> {self.splat(count, 'i64')}, {lanes}")

    def load_lanes(self, address: str, lanes: str) -> str:
        """The masked lanes of a vector in any memory; zero in the others."""
        real = self.arithmetic
        mask = f"i32 {real.size}, <{LANES} x i1> {lanes}"
        return self.let(
            f"call {real.vector} @{real.masked_load}(ptr {address}, {mask}, "
            f"{real.vector} zeroinitializer)"
        )

    def store_lanes(self, value: str, address: str, lanes: str) -> None:
        """The masked lanes of a vector to any memory."""
        real = self.arithmetic
        mask = f"i32 {real.size}, <{LANES} x i1> {lanes}"
        self.do(f"call void @{real.masked_store}({real.vector} {value}, ptr {address}, {mask})")

    def load_as(self, dtype: str, address: str, lanes: int) -> str:
        """`lanes` contiguous values stored as `dtype`, converted to the arithmetic; a bool
        becomes 0 or -inf.
        """
        kind, real = _wide(STORAGE[dtype], lanes), _wide(self.arithmetic.scalar, lanes)
        raw = self.let(f"load {kind}, ptr {address}, align {BYTES[dtype]}")
        if dtype == "bool":
            allowed = self.let(
                f"icmp ne {kind} {raw}, zeroinitializer"
                if lanes > 1
                else f"icmp ne i8 {raw}, 0"
            )
            scalar, bits = self.arithmetic.scalar, _wide("i1", lanes)
            nothing = f"{real} {_value(scalar, '0.0', lanes)}"
            blocked = f"{real} {_value(scalar, _hexadecimal(-math.inf), lanes)}"
            return self.let(f"select {bits} {allowed}, {nothing}, {blocked}")
        if dtype == "bfloat16":
            word = _wide("i32", lanes)
            wide = self.let(f"zext {kind} {raw} to {word}")
            high = self.let(f"shl {word} {wide}, {_value('i32', '16', lanes)}")
            return self.let(f"bitcast {word} {high} to {real}")
        return self.let(f"fpext {kind} {raw} to {real}") if kind != real else raw

    def store_as(self, dtype: str, value: str, address: str, lanes: int) -> None:
        """Store `lanes` values as `dtype`, rounding half types to nearest even."""
        kind, real = _wide(STORAGE[dtype], lanes), _wide(self.arithmetic.scalar, lanes)
        if dtype == "bfloat16":
            value = self._rounded_to_bfloat16(value, lanes)
        elif kind != real:
            value = self.let(f"fptrunc {real} {value} to {kind}")
        self.do(f"store {kind} {value}, ptr {address}, align {BYTES[dtype]}")

    def _rounded_to_bfloat16(self, value: str, lanes: int) -> str:
        real, word = _wide("float", lanes), _wide("i32", lanes)
        bits = self.let(f"bitcast {real} {value} to {word}")
        high = self.let(f"lshr {word} {bits}, {_value('i32', '16', lanes)}")
        odd = self.let(f"and {word} {high}, {_value('i32', '1', lanes)}")
        bias = self.let(f"add {word} {odd}, {_value('i32', '32767', lanes)}")
        near = self.let(f"add {word} {bits}, {bias}")
        near = self.let(f"lshr {word} {near}, {_value('i32', '16', lanes)}")
        quiet = self.let(f"or {word} {high}, {_value('i32', '64', lanes)}")
        bad = self.let(f"fcmp uno {real} {value}, {value}")
        kept = self.let(f"select {_wide('i1', lanes)} {bad}, {word} {quiet}, {word} {near}")
        return self.let(f"trunc {word} {kept} to {_wide('i16', lanes)}")

    # Vectors.

    def splat(self, value: str, kind: str | None = None) -> str:
        kind = kind or self.arithmetic.scalar
        vector = f"<{LANES} x {kind}>"
        first = self.let(f"insertelement {vector} poison, {kind} {value}, i64 0")
        return self.let(
            f"shufflevector {vector} {first}, {vector} poison, <{LANES} x i32> zeroinitializer"
        )

    def number(self, value: float) -> str:
        """A constant in every lane, as an operand."""
        return f"splat ({self.arithmetic.scalar} {_hexadecimal(value)})"

    def one(self, value: float) -> str:
        """A constant, as an operand of a scalar instruction."""
        return _hexadecimal(value)

    def binary(self, instruction: str, a: str, b: str) -> str:
        return self.let(f"{instruction} {self.arithmetic.vector} {a}, {b}")

    def fma(self, a: str, b: str, c: str) -> str:
        vector = self.arithmetic.vector
        return self.let(
            f"call {vector} @{self.arithmetic.fma}({vector} {a}, {vector} {b}, {vector} {c})"
        )

    def compare(self, predicate: str, a: str, b: str) -> str:
        return self.let(f"fcmp {predicate} {self.arithmetic.vector} {a}, {b}")

    def choose(self, which: str, a: str, b: str) -> str:
        """In each lane `a` where `which` holds, else `b`."""
        vector = self.arithmetic.vector
        return self.let(f"select <{LANES} x i1> {which}, {vector} {a}, {vector} {b}")

    def mathematics(self, function: str, a: str) -> str:
        vector = self.arithmetic.vector
        return self.let(f"call {vector} @{function}({vector} {a})")

    def greatest(self, a: str, b: str) -> str:
        """The larger in each lane; `b` where they cannot be compared."""
        return self.choose(self.compare("ogt", a, b), a, b)

    def sum_in_halves(self, a: str) -> str:
        """The sum of all lanes: lane i with lane i + 8, then with i + 4, i + 2, i + 1."""
        vector, half = self.arithmetic.vector, LANES // 2
        while half:
            mask = _indices([(lane + half) % LANES for lane in range(LANES)])
            moved = self.let(f"shufflevector {vector} {a}, {vector} poison, {mask}")
            a, half = self.binary("fadd", a, moved), half // 2
        return self.let(f"extractelement {vector} {a}, i64 0")

    def transpose(self, rows: Sequence[str]) -> list[str]:
        """Sixteen vectors as a matrix, transposed: four rounds that interleave row i with row i
        + 8.

        A round rotates the eight bits (row, lane) of every element's place by one, so four of
        them swap the two.
        """
        assert len(rows) == LANES
        half, vector = LANES // 2, self.arithmetic.vector
        low = [lane // 2 + LANES * (lane % 2) for lane in range(LANES)]
        masks = [_indices(low), _indices([lane + half for lane in low])]
        now = list(rows)
        for _ in range(4):
            pairs = [(now[i // 2], now[i // 2 + half], masks[i % 2]) for i in range(LANES)]
            now = [
                self.let(f"shufflevector {vector} {a}, {vector} {b}, {mask}")
                for a, b, mask in pairs
            ]
        return now


def _indices(lanes: Sequence[int]) -> str:
    return f"<{len(lanes)} x i32> <" + ", ".join(f"i32 {lane}" for lane in lanes) + ">"


def _wide(kind: str, lanes: int) -> str:
    return f"<{lanes} x {kind}>" if lanes > 1 else kind


def _value(kind: str, literal: str, lanes: int) -> str:
    return f"splat ({kind} {literal})" if lanes > 1 else literal


def _hexadecimal(value: float) -> str:
    """A floating-point constant: LLVM writes those of every size as the bits of a float64."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
