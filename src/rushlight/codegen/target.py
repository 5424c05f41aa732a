"""The machine that kernels are compiled for: found from the host, or named by RUSHLIGHT_CPU."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from functools import cache

from rushlight.codegen import llvm

_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi", "bmi2"})
_AMX = frozenset({"amx-tile", "amx-bf16", "avx512bf16"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}


@dataclass(frozen=True, slots=True)
class Target:
    """What code is made for; `kind` ('avx512', 'avx2', 'generic') guides tile sizes."""

    triple: str
    cpu: str
    features: str
    kind: str
    has_bf16: bool = False
    has_amx: bool = False

    @property
    def register_bytes(self) -> int:
        """Bytes in one vector register."""
        return {"avx512": 64, "avx2": 32}.get(self.kind, 16)

    @property
    def register_count(self) -> int:
        """Vector registers a kernel may use."""
        return 32 if self.kind == "avx512" or self.triple.startswith("aarch64") else 16


AARCH64 = Target("aarch64-unknown-linux-gnu", "generic", "+neon,+fp-armv8", "generic")
"""For object emission only: this process cannot run what is made for it (on another host)."""


def current_target() -> Target:
    """The target of this process: RUSHLIGHT_CPU if it is set, else the host."""
    return named_target(os.environ.get("RUSHLIGHT_CPU") or "host")


@cache
def named_target(name: str) -> Target:
    """The target called `name`: one of `target_names()`."""
    good = target_names()
    if name not in good:
        raise ValueError(
            f"RUSHLIGHT_CPU={name!r} is not known here: use one of {', '.join(good)}"
        )
    if name == "host":
        return _host_target()
    triple = llvm.host_triple()
    if name == "generic":
        return Target(triple, "generic", "", "generic")
    if name == "haswell":
        return Target(triple, "haswell", "", "avx2")
    return Target(triple, name, "-prefer-256-bit", "avx512")


@cache
def target_names() -> tuple[str, ...]:
    """The targets whose code this machine can run."""
    has = _host_features()
    names = ["host", "generic"]
    if has >= _AVX2:
        names.append("haswell")
    if has >= _AVX512:
        names.append("skylake-avx512")
    return tuple(names)


def _host_features() -> frozenset[str]:
    return frozenset(name for name, on in llvm.host_features().items() if on)


def _host_target() -> Target:
    has = _host_features()
    flags = [("+" if on else "-") + name for name, on in sorted(llvm.host_features().items())]
    kind = "avx512" if has >= _AVX512 else "avx2" if has >= _AVX2 else "generic"
    if kind == "avx512":
        # Several CPU models carry this tuning flag, which would halve the registers kernels
        # were tiled for.
        flags.append("-prefer-256-bit")
    return Target(
        triple=llvm.host_triple(),
        cpu=llvm.host_cpu(),
        features=",".join(flags),
        kind=kind,
        has_bf16=kind == "avx512" and "avx512bf16" in has,
        has_amx=kind == "avx512" and has >= _AMX and _may_use_tiles(),
    )


def _may_use_tiles() -> bool:
    """Ask Linux for the tile registers, which it gives to a process only on request."""
    if sys.platform != "linux" or not llvm.host_triple().startswith("x86_64"):
        return False
    arch_prctl, request, tile_data = 158, 0x1023, 18
    return bool(ctypes.CDLL(None).syscall(arch_prctl, request, tile_data) == 0)
