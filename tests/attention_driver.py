"""Runs attention launches without the runtime: compile the text, point it at NumPy arrays, call
it.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache

import llvmlite.binding as llvm
import numpy as np

from rushlight.loops.attention import (
    AttentionShape,
    Mask,
    plan_attention_backward,
    plan_attention_forward,
)
from rushlight.loops.entry import Strided
from rushlight.loops.kernel import BufferRef, Launch

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
CPU = {"avx512": ("skylake-avx512", "-prefer-256-bit"), "avx2": ("haswell", "")}


def host_has_avx512() -> bool:
    return bool(llvm.get_host_cpu_features().get("avx512f"))


TARGET = "avx512" if host_has_avx512() else "avx2"


def _log_text(bits: int) -> str:
    """A logarithm for tests, from the mathematics library."""
    v = "<16 x float>" if bits == 32 else "<16 x double>"
    return (
        f"define internal {v} @rl_log_f{bits}({v} %x) alwaysinline {{\n"
        f"  %y = call {v} @llvm.log.v16f{bits}({v} %x)\n  ret {v} %y\n}}\n"
    )


def _module_text(launch: Launch) -> str:
    text, bits = launch.source.text, 64 if "llvm.fma.v16f64" in launch.source.needs else 32
    v = "<16 x float>" if bits == 32 else "<16 x double>"
    text += _log_text(bits) if f"rl_log_f{bits}" in launch.source.needs else ""
    text += f"declare {v} @llvm.fma.v16f{bits}({v}, {v}, {v})\n"
    return text + f"declare {v} @llvm.log.v16f{bits}({v})\n"


_TEXTS: dict[str, str] = {}


@cache
def _compiled(name: str, target: str):
    cpu, features = CPU[target]
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=3, jit=True
    )
    module = llvm.parse_assembly(_TEXTS[name])
    module.verify()
    builder = llvm.create_pass_builder(
        machine, llvm.create_pipeline_tuning_options(speed_level=2)
    )
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(
        None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
    )
    return function(engine.get_function_address(name)), engine


def compiled(launch: Launch, target: str):
    """The compiled entry of a launch's kernel; equal names must mean equal text."""
    text = _module_text(launch)
    assert _TEXTS.setdefault(launch.source.name, text) == text
    return _compiled(launch.source.name, target)


def aligned(size: int, fill: float = np.nan) -> np.ndarray:
    """Scratch of `size` bytes that starts on a cache line and is full of poison."""
    raw = np.full(size // 4 + 32, fill, np.float32)
    return raw[-(raw.ctypes.data // 4) % 16 :]


def prepare(launch: Launch, arrays: list[np.ndarray], target: str):
    """A call of the launch over [begin, end) on these arrays."""
    entry = compiled(launch, target)[0]
    addresses = [arrays[p.buffer].ctypes.data + p.offset for p in launch.pointers]
    block = np.array([*addresses, *launch.ints], dtype=np.int64)
    scratch = aligned(launch.scratch)
    return lambda begin, end: entry(block.ctypes.data, begin, end, scratch.ctypes.data)


def run(
    launches: list[Launch],
    arrays: list[np.ndarray],
    target: str = TARGET,
    cut: int | None = None,
) -> None:
    """Run launches; `cut` splits chunks into ranges of that length, done last range first."""
    for launch in launches:
        call = prepare(launch, arrays, target)
        step = cut or max(launch.chunks, 1)
        for begin in reversed(range(0, launch.chunks, step)):
            call(begin, min(begin + step, launch.chunks))


class Problem:
    """Arrays of one attention problem, in numbered buffers, and its plans."""

    def __init__(
        self, q, k, v, dtype: str, *, mask=None, causal=False, scale=None, target=TARGET
    ) -> None:
        (b, h, t, d), (_, hk, s, dv) = q.shape, v.shape
        self.shape = AttentionShape(b, h, hk, t, s, d, dv)
        self.dtype, self.target = dtype, target
        self.scale = 1 / math.sqrt(d) if scale is None else scale
        self.arrays: list[np.ndarray] = []
        self.out = np.full((b, t, h, dv), 77).astype(q.dtype).transpose(0, 2, 1, 3)
        self.lse = np.full((b, h, t), np.nan, np.float64 if dtype == "float64" else np.float32)
        self.dq, self.dk, self.dv = (np.zeros_like(x) for x in (q, k, v))
        common = {
            "shape": self.shape,
            "dtype": dtype,
            "causal": causal,
            "scale": self.scale,
            "target": target,
        }
        if mask is not None:
            kind = "bool" if mask.dtype == bool else dtype
            common["mask"] = Mask(self._strided(np.broadcast_to(mask, (b, h, t, s))), kind)
        common |= {
            name: self._strided(x)
            for name, x in (("q", q), ("k", k), ("v", v), ("out", self.out))
        }
        common["lse"] = self._strided(self.lse[..., None]).place
        self.common = common
        self.forward_plan = plan_attention_forward(**common)

    def _strided(self, array: np.ndarray) -> Strided:
        self.arrays.append(array)
        return Strided(
            BufferRef(len(self.arrays) - 1), tuple(n // array.itemsize for n in array.strides)
        )

    def forward(self, cut: int | None = None):
        run(self.forward_plan, self.arrays, self.target, cut)
        return self.out, self.lse

    def backward(self, dout: np.ndarray, cut: int | None = None):
        run(self.backward_plan(dout), self.arrays, self.target, cut)
        return self.dq, self.dk, self.dv

    def backward_plan(self, dout: np.ndarray) -> list[Launch]:
        places = {"dout": dout, "dq": self.dq, "dk": self.dk, "dv": self.dv}
        return plan_attention_backward(
            **self.common, **{n: self._strided(x) for n, x in places.items()}
        )
