"""LLVM, through llvmlite, which no other file imports: text to objects, objects to addresses.

Floating point is strict: no fast-math flag is ever set, and LLVM fuses a multiply and an add
only where the text says `llvm.fma`. Addresses stay valid for the life of the process.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import llvmlite
import llvmlite.binding as binding

if TYPE_CHECKING:
    from rushlight.codegen.target import Target

PASSES = ("always_inliner", "sroa", "instruction_combine", "simplify_cfg", "codegen2")
"""The passes run before code generation; part of the key of a cached object."""

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
        module = binding.parse_assembly(text)
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
    for name in PASSES[:-1]:
        getattr(manager, f"add_{name}_pass")()
    manager.run(module, builder)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
    )
