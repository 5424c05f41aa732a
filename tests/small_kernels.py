"""Small kernels, and ways to run them, for the tests of the layers below the loop writers."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

from rushlight.codegen.module import Kernels
from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.runtime.buffers import Buffer, wrap_array
from rushlight.runtime.program import Program

SOURCES = str(Path(__file__).resolve().parents[1] / "src")


def add_kernel(amount: int) -> KernelSource:
    """For each chunk i: out[i] += amount, with i64 elements."""
    name = f"add_{amount}"
    text = f"""
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %out = load ptr, ptr %args
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %at = getelementptr i64, ptr %out, i64 %i
  %old = load i64, ptr %at
  %new = add i64 %old, {amount}
  store i64 %new, ptr %at
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %out.done
out.done:
  ret void
}}
"""
    return KernelSource(name, text)


CUBE = """
define <16 x float> @cube(<16 x float> %x) alwaysinline {
  %square = fmul <16 x float> %x, %x
  %cube = call <16 x float> @llvm.fma.v16f32(
    <16 x float> %square, <16 x float> %x, <16 x float> splat (float 0.125))
  %half = call <16 x float> @halve(<16 x float> %cube)
  ret <16 x float> %half
}
"""
HALVE = """
define <16 x float> @halve(<16 x float> %x) alwaysinline {
  %half = fmul <16 x float> %x, splat (float 0.5)
  ret <16 x float> %half
}
"""


def resolve(name: str) -> tuple[str, tuple[str, ...]]:
    return {"cube": (CUBE, ("halve", "llvm.fma.v16f32")), "halve": (HALVE, ())}[name]


def cube_kernel(number: int) -> KernelSource:
    """out = cube(x) + number, 16 elements a chunk; the table gives each chunk's place."""
    name = f"cube_{number}"
    text = f"""
define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{
entry:
  %x = load ptr, ptr %args
  %out.at = getelementptr i64, ptr %args, i64 1
  %out = load ptr, ptr %out.at
  %table.at = getelementptr i64, ptr %args, i64 2
  %table = load ptr, ptr %table.at
  br label %loop
loop:
  %i = phi i64 [%begin, %entry], [%next, %loop]
  %where = getelementptr i64, ptr %table, i64 %i
  %place = load i64, ptr %where
  %from = getelementptr float, ptr %x, i64 %place
  %to = getelementptr float, ptr %out, i64 %place
  %v = load <16 x float>, ptr %from, align 4
  %c = call <16 x float> @cube(<16 x float> %v)
  store <16 x float> %c, ptr %scratch, align 64
  %kept = load <16 x float>, ptr %scratch, align 64
  %r = fadd <16 x float> %kept, splat (float {float(number)})
  store <16 x float> %r, ptr %to, align 4
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return KernelSource(name, text, frozenset({"cube", "llvm.fma.v16f32"}))


def build(kernels: Kernels, items: list, buffer_count: int) -> Program:
    launches = [item for item in items if isinstance(item, Launch)]
    entries = kernels.addresses([launch.source for launch in launches])
    return Program(items, entries, buffer_count)


def run_on(program: Program, *memory: Buffer) -> None:
    table = program.new_table()
    table[:] = [buffer.address for buffer in memory]
    program.run(table)


def run_cube(kernels: Kernels, chunks: int = 37) -> np.ndarray:
    x = np.linspace(-2, 2, 16 * chunks, dtype=np.float32)
    memory, out = wrap_array(x), Buffer(4 * 16 * chunks)
    places = np.arange(chunks, dtype=np.int64)[::-1] * 16
    launch = Launch(
        cube_kernel(3),
        chunks,
        (BufferRef(0), BufferRef(1)),
        tables=(places.copy(),),
        scratch=64,
    )
    run_on(build(kernels, [launch], 2), memory, out)
    return out.as_numpy(np.float32, (16 * chunks,)).copy()


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a new process."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": f"{SOURCES}:{Path(__file__).parent}", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
