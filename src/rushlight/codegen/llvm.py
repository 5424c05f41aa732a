"""LLVM, through llvmlite, which no other file imports: text to objects, objects to addresses.

Floating point is strict: no fast-math flag is ever set, and LLVM fuses a multiply and an add
only where the text says `llvm.fma`. Addresses stay valid for the life of the process.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import llvmlite
from llvmlite import binding

from rushlight import forks

if TYPE_CHECKING:
    from rushlight.codegen.target import Target

PASSES = ("always_inliner", "sroa", "instruction_combine", "simplify_cfg")
"""The passes run before code generation."""

RECIPE = ("hide_counters 1", *PASSES, "codegen 2")
"""All that is done to a text; part of the key of a cached object."""

lock = threading.RLock()
"""Held for every call into LLVM (llvmlite would serialise them anyway), and across a fork, so
that a child never starts with a half-made module.
"""
_numbers = itertools.count()


class CompileError(RuntimeError):
    """LLVM refused a module's text: an error in a loop writer, never in a user's program."""


def version() -> str:
    """llvmlite's version and LLVM's: part of the key of a cached object."""
    return (
        f"llvmlite {llvmlite.__version__} llvm {'.'.join(map(str, binding.llvm_version_info))}"
    )


@cache
def host_triple() -> str:
    return str(binding.get_process_triple())


@cache
def host_cpu() -> str:
    return str(binding.get_host_cpu_name())


@cache
def host_features() -> dict[str, bool]:
    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:  # LLVM cannot ask this kind of CPU
        return {}


def compile_object(text: str, target: Target) -> bytes:
    """Compile one module's text to an object file for `target`, which need not be the host."""
    with lock:
        machine = _target_machine(target)
        module = _parse(text, target)
        _optimise(module, machine)
        return bytes(machine.emit_object(module))


def assembly(text: str, target: Target) -> str:
    """The assembly that `compile_object` would make, for people."""
    with lock:
        machine = _target_machine(target)
        module = _parse(text, target)
        _optimise(module, machine)
        return str(machine.emit_assembly(module))


def load_object(image: bytes, names: Sequence[str], target: Target) -> dict[str, int]:
    """Link an object into this process and give the address of each function in `names`."""
    with lock:
        library = binding.JITLibraryBuilder().add_object_img(image).add_current_process()
        for name in names:
            library.export_symbol(name)
        try:
            tracker = library.link(_linker(target), f"rushlight.{next(_numbers)}")
        except RuntimeError as error:
            raise CompileError(f"cannot link a compiled module: {error}") from None
        _trackers.append(tracker)
        return {name: tracker[name] for name in names}


_trackers: list[binding.ResourceTracker] = []  # dropping one would unmap its code


def hide_counters(text: str) -> str:
    """Pass every i64 phi through `llvm.expect`, which keeps loop strength reduction away.

    That pass tries many ways to form each address of a loop. On contractions it took 40 % of
    all compile time, on attention 15 %, for code that is no faster and 15 % longer. LLVM has no
    switch for it but a global one, which would also change what Numba compiles in the same
    process.
    """
    lines: list[str] = []
    waiting: list[str] = []  # what follows the phis of this block
    for line in text.splitlines():
        if " = phi " in line:
            name, found, rest = line.partition(" = phi i64 ")
            name = name.strip()
            if found and name[1:2].isalpha():
                line = f"  {name}.phi = phi i64 {rest}"
                waiting.append(f"  {name} = call i64 @llvm.expect.i64(i64 {name}.phi, i64 0)")
        elif (
            waiting and line.strip() and line.lstrip()[0] not in ";["
        ):  # a phi may go on with [
            lines += waiting
            waiting = []
        lines.append(line)
    return "\n".join(lines)


@cache
def _linker(target: Target) -> binding.LLJIT:
    # JITLink takes half the time of RuntimeDyld here (1.3 ms against 2.6 ms for 80 kernels).
    return binding.create_lljit_compiler(_target_machine(target), use_jit_link=True)


@cache
def _initialise(everything: bool) -> None:
    if everything:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
    else:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()


@cache
def _target_machine(target: Target) -> binding.TargetMachine:
    own = target.triple == host_triple()
    _initialise(not own)
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=2,
        jit=own,
        reloc="default" if own else "pic",
        codemodel="jitdefault" if own else "default",
    )


def _parse(text: str, target: Target) -> binding.ModuleRef:
    _target_machine(target)
    try:
        module = binding.parse_assembly(hide_counters(text))
    except RuntimeError as error:
        raise CompileError(f"LLVM cannot read a kernel: {error}") from None
    module.triple = target.triple
    module.data_layout = str(_target_machine(target).target_data)
    return module


def _optimise(module: binding.ModuleRef, machine: binding.TargetMachine) -> None:
    # The text comes vectorised and unrolled from the loop writers, so what is left is inlining
    # and tidying: the standard pipeline takes as long as code generation and gives nearly the
    # same code.
    options = binding.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    options.loop_interleaving = False
    builder = binding.create_pass_builder(machine, options)
    manager = binding.create_new_module_pass_manager()
    for name in PASSES:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


forks.hold("kernels", lock)
