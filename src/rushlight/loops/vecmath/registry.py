"""The table of vector functions, and their LLVM definitions by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from rushlight.loops.vecmath.lanes import ELEMENTS, LANES, Code, Value, vector_type

Body = Callable[..., Value]

KINDS = {"float32": "f32", "float64": "f64", "f32": "f32", "f64": "f64"}
ATTRIBUTES = "nounwind willreturn memory(none)"


@dataclass(frozen=True, slots=True)
class VectorFunction:
    """A function on sixteen lanes, and the body that writes it for either kind."""

    name: str
    arity: int
    body: Body


FUNCTIONS: dict[str, tuple[float, float]] = {}
"""Function name -> largest error in units in the last place, for float32 and float64."""

_BODIES: dict[str, VectorFunction] = {}
_TEXTS: dict[str, tuple[str, frozenset[str]]] = {}


def vector_function(
    name: str, *, ulp: tuple[float, float], arity: int = 1
) -> Callable[[Body], Body]:
    """Enter the decorated body in the table under `name` with its error bounds."""

    def enter(body: Body) -> Body:
        FUNCTIONS[name] = ulp
        _BODIES[name] = VectorFunction(name, arity, body)
        return body

    return enter


def text_definition(name: str, text: str, needs: frozenset[str] = frozenset()) -> None:
    """Enter an internal function that is written as LLVM text."""
    _TEXTS[name] = (text, needs)


def arity(function: str) -> int:
    """How many arguments `function` takes."""
    return _BODIES[function].arity


def symbol(function: str, dtype: str) -> str:
    """The LLVM name of a function: `symbol("exp", "float32")` is `rl_exp_f32`."""
    if function not in _BODIES:
        raise KeyError(
            f"no vector function {function!r}; there are {', '.join(sorted(_BODIES))}"
        )
    return f"rl_{function}_{KINDS[dtype]}"


def call(function: str, *args: Value) -> Value:
    """A call of another function of the table, on the kind of the arguments."""
    kind = args[0].kind
    return args[0].code.call(symbol(function, kind), kind, *args)


@cache
def definition(name: str) -> tuple[str, frozenset[str]]:
    """The LLVM text that defines `name`, and the functions and intrinsics it calls."""
    if name in _TEXTS:
        return _TEXTS[name]
    function, _, kind = name.removeprefix("rl_").rpartition("_")
    if not name.startswith("rl_") or function not in _BODIES or kind not in ("f32", "f64"):
        raise KeyError(f"no definition of {name!r} in the vector mathematics")
    return _write(name, _BODIES[function], kind)


def _write(name: str, function: VectorFunction, kind: str) -> tuple[str, frozenset[str]]:
    code = Code()
    args = [Value(code, kind, f"%a{i}") for i in range(function.arity)]
    out = function.body(*args)
    assert out.kind == kind, f"{name} returns {out.kind}"
    vector = vector_type(kind)
    listed = ", ".join(f"{vector} {a.ref}" for a in args)
    body = "\n".join(code.lines)
    text = (
        f"define internal {vector} @{name}({listed}) {ATTRIBUTES} {{\n"
        f"entry:\n{body}\n  ret {vector} {out.ref}\n}}\n"
    )
    return text, frozenset(code.needs)


_ARGUMENTS = {
    "fma": 3,
    "copysign": 2,
    "minnum": 2,
    "maxnum": 2,
    "minimum": 2,
    "maximum": 2,
    "smin": 2,
    "smax": 2,
    "umin": 2,
    "umax": 2,
}


_SCALAR = {
    "llvm.umax.i64": "declare i64 @llvm.umax.i64(i64, i64)",
    "llvm.umin.i64": "declare i64 @llvm.umin.i64(i64, i64)",
    "llvm.fshl.i64": "declare i64 @llvm.fshl.i64(i64, i64, i64)",
    "llvm.ctlz.i64": "declare i64 @llvm.ctlz.i64(i64, i1)",
    "llvm.fma.f64": "declare double @llvm.fma.f64(double, double, double)",
}


def declaration(name: str) -> str:
    """The LLVM declaration of an intrinsic on sixteen lanes, for example `llvm.fma.v16f32`."""
    head, _, suffix = name.rpartition(".")
    if name in _SCALAR:
        return _SCALAR[name]
    kind = suffix.removeprefix(f"v{LANES}")
    if not head.startswith("llvm.") or kind not in ELEMENTS or kind == suffix:
        raise KeyError(f"no declaration of {name!r} in the vector mathematics")
    vector = vector_type(kind)
    if head.startswith("llvm.vector.reduce."):
        return _reduction(name, head, kind)
    count = _ARGUMENTS.get(head.removeprefix("llvm."), 1)
    return f"declare {vector} @{name}({', '.join([vector] * count)})"


def _reduction(name: str, head: str, kind: str) -> str:
    element, vector = ELEMENTS[kind], vector_type(kind)
    start = f"{element}, " if head.endswith((".fadd", ".fmul")) else ""
    return f"declare {element} @{name}({start}{vector})"
