"""LLVM text for kernels: dtypes, fresh names, argument slots and the affine indices kept in
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight import float8

LANES = 16
"""Logical lanes of every explicit vector, on every target."""

_BACKWARDS = "<" + ", ".join(f"i32 {lane}" for lane in reversed(range(LANES))) + ">"
IOTA = "<" + ", ".join(f"i64 {lane}" for lane in range(LANES)) + ">"

_STORED = {
    "float32": "float", "float64": "double", "float16": "half", "bfloat16": "i16", "bool": "i8",
    "int8": "i8", "uint8": "i8", "int16": "i16", "int32": "i32", "int64": "i64",
    "uint16": "i16", "uint32": "i32", "uint64": "i64", **dict.fromkeys(float8.NAMES, "i8"),
}  # fmt: skip
_BYTES = {"float": 4, "double": 8, "half": 2, "i8": 1, "i16": 2, "i32": 4, "i64": 8}
_MANGLED = {"float": "f32", "double": "f64", "half": "f16"}


def stored_type(dtype: str) -> str:
    """LLVM's type of one element in memory."""
    return _STORED[dtype]


def accumulator_dtype(dtype: str) -> str:
    """What sums of products of `dtype` are kept in, and what a loaded value is widened to."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


def item_bytes(dtype: str) -> int:
    return _BYTES[_STORED[dtype]]


def is_float(dtype: str) -> bool:
    return accumulator_dtype(dtype) in ("float32", "float64")


def vector(dtype: str, lanes: int = LANES) -> str:
    """LLVM's type of a loaded vector: half-precision kinds are widened to float."""
    return f"<{lanes} x {_STORED[accumulator_dtype(dtype)]}>"


@dataclass(slots=True)
class Text:
    """Lines of one function under construction, with a generator of fresh names."""

    lines: list[str] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    count: int = 0

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def let(self, expression: str) -> str:
        """Name the value of one instruction."""
        name = self.name()
        self.line(f"{name} = {expression}")
        return name

    def call(self, returns: str, function: str, arguments: str) -> str:
        self.needs.add(function)
        return self.let(f"call {returns} @{function}({arguments})")

    def run(self, function: str, arguments: str) -> None:
        self.needs.add(function)
        self.line(f"call void @{function}({arguments})")

    def fetch(self, place: str, *, writes: bool = False) -> None:
        """Ask for a cache line before it is needed; any address may be named."""
        self.run("llvm.prefetch.p0", f"ptr {place}, i32 {int(writes)}, i32 3, i32 1")

    def function(self, head: str) -> str:
        """The whole function, under the `define` line but for its attributes and brace."""
        return head + " nounwind {\nentry:\n" + "\n".join(self.lines) + "\n}\n"

    def slot(self, number: int, kind: str = "i64") -> str:
        """Load one slot of the argument block."""
        place = self.let(f"getelementptr i64, ptr %args, i64 {number}")
        return self.let(f"load {kind}, ptr {place}, align 8")

    def place(self, kind: str, base: str, offset: str) -> str:
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {offset}")

    def splat(self, kind: str, value: str) -> str:
        first = self.let(f"insertelement <16 x {kind}> poison, {kind} {value}, i32 0")
        return self.let(
            f"shufflevector <16 x {kind}> {first}, <16 x {kind}> poison, <16 x i32> "
            f"zeroinitializer"
        )

    def reversed(self, kind: str, value: str) -> str:
        return self.let(
            f"shufflevector <16 x {kind}> {value}, <16 x {kind}> poison, "
            f"<16 x i32> {_BACKWARDS}"
        )

    def smallest(self, a: str, b: str) -> str:
        less = self.let(f"icmp slt i64 {a}, {b}")
        return self.let(f"select i1 {less}, i64 {a}, i64 {b}")


@dataclass(frozen=True, slots=True)
class IndexSlots:
    """Where one index (composite position to element offset) lies in the argument block."""

    table: int
    stride: int

    def load(self, text: Text) -> LoadedIndex:
        table = text.slot(self.table, "ptr")
        return LoadedIndex(table, text.slot(self.stride), text.slot(self.stride + 1))


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """offset(i) = i * stride + table[i * step]: a stride where one will do, else a table,
    without a branch.
    """

    table: str
    stride: str
    step: str

    def offset(self, text: Text, position: str) -> str:
        linear = text.let(f"mul i64 {position}, {self.stride}")
        entry = text.let(f"mul i64 {position}, {self.step}")
        place = text.place("i64", self.table, entry)
        return text.let(f"add i64 {linear}, {text.let(f'load i64, ptr {place}, align 8')}")

    def offsets(self, text: Text, first: str, last: str) -> str:
        """Offsets of 16 positions from `first`; those past `last` repeat it. Tables are padded
        to match.
        """
        at = text.let(f"add <16 x i64> {text.splat('i64', first)}, {IOTA}")
        end = text.splat("i64", last)
        inside = text.let(f"icmp slt <16 x i64> {at}, {end}")
        at = text.let(f"select <16 x i1> {inside}, <16 x i64> {at}, <16 x i64> {end}")
        linear = text.let(f"mul <16 x i64> {at}, {text.splat('i64', self.stride)}")
        entry = text.let(f"mul i64 {first}, {self.step}")
        place = text.place("i64", self.table, entry)
        listed = text.let(f"load <16 x i64>, ptr {place}, align 8")
        return text.let(f"add <16 x i64> {linear}, {listed}")


def load_vector(text: Text, dtype: str, place: str, mask: str | None = None) -> str:
    """Load 16 consecutive elements and widen; lanes outside `mask` are zero and never
    touched.
    """
    kind = _STORED[dtype]
    size = _BYTES[kind]
    if mask is None:
        raw = text.let(f"load <16 x {kind}>, ptr {place}, align {size}")
    else:
        raw = text.call(
            f"<16 x {kind}>", f"llvm.masked.load.v16{_mangled(kind)}.p0",
            f"ptr {place}, i32 {size}, <16 x i1> {mask}, <16 x {kind}> zeroinitializer",
        )  # fmt: skip
    return widen(text, dtype, raw)


def load_scattered(
    text: Text, dtype: str, base: str, offsets: str, mask: str | None = None
) -> str:
    """Load 16 elements at `base` plus a vector of offsets, and widen."""
    kind = _STORED[dtype]
    places = text.let(f"getelementptr {kind}, ptr {base}, <16 x i64> {offsets}")
    raw = text.call(
        f"<16 x {kind}>", f"llvm.masked.gather.v16{_mangled(kind)}.v16p0",
        f"<16 x ptr> {places}, i32 {_BYTES[kind]}, <16 x i1> {mask or 'splat (i1 true)'}, "
        f"<16 x {kind}> zeroinitializer",
    )  # fmt: skip
    return widen(text, dtype, raw)


def store_vector(
    text: Text, dtype: str, value: str, place: str, mask: str | None = None
) -> None:
    """Narrow and store 16 consecutive elements."""
    kind, raw = _STORED[dtype], narrow(text, dtype, value)
    if mask is None:
        text.line(f"store <16 x {kind}> {raw}, ptr {place}, align {_BYTES[kind]}")
    else:
        text.run(
            f"llvm.masked.store.v16{_mangled(kind)}.p0",
            f"<16 x {kind}> {raw}, ptr {place}, i32 {_BYTES[kind]}, <16 x i1> {mask}",
        )


def store_scattered(
    text: Text, dtype: str, value: str, base: str, offsets: str, mask: str | None = None
) -> None:
    """Narrow and store 16 elements at `base` plus a vector of offsets."""
    kind, raw = _STORED[dtype], narrow(text, dtype, value)
    places = text.let(f"getelementptr {kind}, ptr {base}, <16 x i64> {offsets}")
    text.run(
        f"llvm.masked.scatter.v16{_mangled(kind)}.v16p0",
        f"<16 x {kind}> {raw}, <16 x ptr> {places}, i32 {_BYTES[kind]}, "
        f"<16 x i1> {mask or 'splat (i1 true)'}",
    )


def widen(text: Text, dtype: str, raw: str) -> str:
    """A loaded vector as arithmetic sees it: half-precision kinds become float, exactly."""
    if dtype == "float16":
        return text.let(f"fpext <16 x half> {raw} to <16 x float>")
    if dtype == "bfloat16":
        wide = text.let(f"zext <16 x i16> {raw} to <16 x i32>")
        high = text.let(f"shl <16 x i32> {wide}, splat (i32 16)")
        return text.let(f"bitcast <16 x i32> {high} to <16 x float>")
    return raw


def widen_one(text: Text, dtype: str, raw: str) -> str:
    """`widen` for one element."""
    if dtype == "float16":
        return text.let(f"fpext half {raw} to float")
    if dtype == "bfloat16":
        high = text.let(f"shl i32 {text.let(f'zext i16 {raw} to i32')}, 16")
        return text.let(f"bitcast i32 {high} to float")
    return raw


def narrow(text: Text, dtype: str, value: str) -> str:
    """The reverse of `widen`, rounding to nearest even."""
    if dtype == "float16":
        return text.let(f"fptrunc <16 x float> {value} to <16 x half>")
    if dtype != "bfloat16":
        return value
    # In integers, because the hardware's conversion flushes subnormal numbers and AVX2 has
    # none.
    bits = text.let(f"bitcast <16 x float> {value} to <16 x i32>")
    top = text.let(f"lshr <16 x i32> {bits}, splat (i32 16)")
    odd = text.let(f"and <16 x i32> {top}, splat (i32 1)")
    half = text.let(f"add <16 x i32> {odd}, splat (i32 32767)")
    rounded = text.let(
        f"lshr <16 x i32> {text.let(f'add <16 x i32> {bits}, {half}')}, splat (i32 16)"
    )
    quiet = text.let(f"or <16 x i32> {top}, splat (i32 64)")
    is_nan = text.let(f"fcmp uno <16 x float> {value}, zeroinitializer")
    chosen = text.let(f"select <16 x i1> {is_nan}, <16 x i32> {quiet}, <16 x i32> {rounded}")
    return text.let(f"trunc <16 x i32> {chosen} to <16 x i16>")


def _is_unsigned(dtype: str) -> bool:
    return dtype == "bool" or dtype.startswith("uint")


def convert(text: Text, value: str, source: str, target: str) -> str:
    """A value of dtype `source` as the accumulator kind of `target`."""
    have, want = vector(source), vector(target)
    if have == want:
        return value
    if is_float(source) and is_float(target):
        return text.let(
            f"{'fpext' if want == vector('float64') else 'fptrunc'} {have} {value} to {want}"
        )
    if not is_float(source) and is_float(target):
        return text.let(
            f"{'uitofp' if _is_unsigned(source) else 'sitofp'} {have} {value} to {want}"
        )
    if is_float(source):
        raise ValueError(f"an epilogue must turn {source} into {target} itself")
    if item_bytes(source) > item_bytes(target):
        return text.let(f"trunc {have} {value} to {want}")
    return text.let(f"{'zext' if _is_unsigned(source) else 'sext'} {have} {value} to {want}")


def transpose(text: Text, v: str, rows: list[str]) -> list[str]:
    """Columns of a square of 16 vectors of type `v`, in four rounds of exchanges: two turn
    blocks of four within registers' quarters, the others move quarters.
    """

    def mix(a: str, b: str, order: list[int]) -> str:
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        return text.let(f"shufflevector {v} {a}, {v} {b}, <16 x i32> <{lanes}>")

    def quarters(order: tuple[int, ...]) -> list[int]:
        return [4 * q + lane for q in range(4) for lane in order]

    low, high = quarters((0, 16, 1, 17)), quarters((2, 18, 3, 19))
    low2, high2 = quarters((0, 1, 16, 17)), quarters((2, 3, 18, 19))
    turned: list[list[str]] = []  # [four rows][j]: quarter q holds column 4 q + j
    for four in range(0, LANES, 4):
        a, b, c, d = rows[four : four + 4]
        ab = [mix(a, b, low), mix(a, b, high)]
        cd = [mix(c, d, low), mix(c, d, high)]
        turned.append(
            [mix(x, y, o) for x, y in zip(ab, cd, strict=True) for o in (low2, high2)]
        )
    even = [*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]
    odd = [lane + 4 for lane in even]
    columns = [""] * LANES
    for j in range(4):
        a, b, c, d = (turned[four][j] for four in range(4))
        ab = [mix(a, b, even), mix(a, b, odd)]  # quarters 0 2 0 2, and 1 3 1 3
        cd = [mix(c, d, even), mix(c, d, odd)]
        for parity in range(2):
            columns[4 * parity + j] = mix(ab[parity], cd[parity], even)
            columns[4 * (parity + 2) + j] = mix(ab[parity], cd[parity], odd)
    return columns


def _mangled(kind: str) -> str:
    return _MANGLED.get(kind, kind)
