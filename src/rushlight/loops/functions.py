"""Vector functions on integers that kernels call: random bits and powers, and the resolver of
all names.
"""

from __future__ import annotations

from rushlight.loops import vecmath

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85


def _splat(value: int) -> str:
    signed = value - 2**64 if value >= 2**63 else value
    return f"splat (i64 {signed})"


def _philox() -> str:
    """Philox4x32-10 (Salmon et al., SC 2011) with counter (low, high, 0, 0) and the seed as
    key; words 0 and 1 of the result as one 64-bit number a lane.
    """
    v = "<16 x i64>"
    lines = [f"define internal {v} @rl_philox({v} %counter, {v} %seed) {{"]
    low = _splat(0xFFFFFFFF)
    lines += [
        f"  %a0 = and {v} %counter, {low}",
        f"  %b0 = lshr {v} %counter, {_splat(32)}",
        f"  %k0 = and {v} %seed, {low}",
        f"  %h0 = lshr {v} %seed, {_splat(32)}",
    ]
    c = "zeroinitializer"
    d = "zeroinitializer"
    for i in range(10):
        n = i + 1
        lines += [
            f"  %p{n} = mul {v} %a{i}, {_splat(_M0)}",
            f"  %q{n} = mul {v} {c}, {_splat(_M1)}",
            f"  %qh{n} = lshr {v} %q{n}, {_splat(32)}",
            f"  %x{n} = xor {v} %qh{n}, %b{i}",
            f"  %a{n} = xor {v} %x{n}, %k{i}",
            f"  %b{n} = and {v} %q{n}, {low}",
            f"  %ph{n} = lshr {v} %p{n}, {_splat(32)}",
            f"  %y{n} = xor {v} %ph{n}, {d}",
            f"  %c{n} = xor {v} %y{n}, %h{i}",
            f"  %d{n} = and {v} %p{n}, {low}",
            f"  %kk{n} = add {v} %k{i}, {_splat(_W0)}",
            f"  %k{n} = and {v} %kk{n}, {low}",
            f"  %hh{n} = add {v} %h{i}, {_splat(_W1)}",
            f"  %h{n} = and {v} %hh{n}, {low}",
        ]
        c, d = f"%c{n}", f"%d{n}"
    lines += [
        f"  %top = shl {v} %b10, {_splat(32)}",
        f"  %bits = or {v} %a10, %top",
        f"  ret {v} %bits",
        "}",
    ]
    return "\n".join(lines) + "\n"


_IPOW = """define internal <16 x i64> @rl_ipow(<16 x i64> %base, <16 x i64> %exponent) {
entry:
  %negative = icmp slt <16 x i64> %exponent, zeroinitializer
  %positive = select <16 x i1> %negative, <16 x i64> zeroinitializer, <16 x i64> %exponent
  br label %step
step:
  %power = phi <16 x i64> [%base, %entry], [%square, %step]
  %left = phi <16 x i64> [%positive, %entry], [%rest, %step]
  %total = phi <16 x i64> [splat (i64 1), %entry], [%next, %step]
  %low = and <16 x i64> %left, splat (i64 1)
  %odd = icmp ne <16 x i64> %low, zeroinitializer
  %more = mul <16 x i64> %total, %power
  %next = select <16 x i1> %odd, <16 x i64> %more, <16 x i64> %total
  %square = mul <16 x i64> %power, %power
  %rest = lshr <16 x i64> %left, splat (i64 1)
  %any = icmp ne <16 x i64> %rest, zeroinitializer
  %bits = bitcast <16 x i1> %any to i16
  %again = icmp ne i16 %bits, 0
  br i1 %again, label %step, label %done
done:
  %parity = and <16 x i64> %exponent, splat (i64 1)
  %is_odd = icmp ne <16 x i64> %parity, zeroinitializer
  %sign = select <16 x i1> %is_odd, <16 x i64> splat (i64 -1), <16 x i64> splat (i64 1)
  %one = icmp eq <16 x i64> %base, splat (i64 1)
  %minus = icmp eq <16 x i64> %base, splat (i64 -1)
  %w = select <16 x i1> %minus, <16 x i64> %sign, <16 x i64> zeroinitializer
  %u = select <16 x i1> %one, <16 x i64> splat (i64 1), <16 x i64> %w
  %out = select <16 x i1> %negative, <16 x i64> %u, <16 x i64> %next
  ret <16 x i64> %out
}
"""

_OWN = {"rl_philox": _philox, "rl_ipow": lambda: _IPOW}
_SHAPES = {
    "llvm.masked.load": "{v} @{name}(ptr, i32 immarg, <16 x i1>, {v})",
    "llvm.masked.store": "void @{name}({v}, ptr, i32 immarg, <16 x i1>)",
    "llvm.masked.gather": "{v} @{name}(<16 x ptr>, i32 immarg, <16 x i1>, {v})",
    "llvm.masked.scatter": "void @{name}({v}, <16 x ptr>, i32 immarg, <16 x i1>)",
    "llvm.vector.reduce.or": "i1 @{name}(<16 x i1>)",
    "llvm.fma": "{v} @{name}({v}, {v}, {v})",
    "llvm.copysign": "{v} @{name}({v}, {v})",
}


def resolve(name: str) -> tuple[str, frozenset[str]]:
    """The text of a function that kernels call, and what it calls in turn."""
    if name in _OWN:
        return _OWN[name](), frozenset()  # type: ignore[no-untyped-call]
    if name.startswith("llvm."):
        return _declaration(name), frozenset()
    return vecmath.definition(name)


def _declaration(name: str) -> str:
    stem, _, suffix = name.removesuffix(".p0").removesuffix(".v16p0").rpartition(".v16")
    elements = {"f32": "float", "f64": "double", "f16": "half"}
    v = f"<16 x {elements.get(suffix, suffix)}>"
    shape = _SHAPES.get(stem, "{v} @{name}({v})")
    if not stem:
        return vecmath.declaration(name)
    return f"declare {shape.format(name=name, v=v)}\n"
