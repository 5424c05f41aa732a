"""`torch._inductor`: PyTorch's own compiler, which is not here; programs set its options."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight import errors
from rushlight._inductor import config
from rushlight.compiler import cudagraph_mark_step_begin

__all__ = [
    "aoti_compile_and_package", "aoti_load_package", "compile", "config",
    "cudagraph_mark_step_begin",
]  # fmt: skip


def compile(gm: Any, example_inputs: Any, options: Any = None) -> NoReturn:
    """Refuse: there are no graphs of PyTorch's to compile."""
    raise errors.not_there("_inductor.compile", "graphs of PyTorch's")


def aoti_compile_and_package(*_: Any, **__: Any) -> NoReturn:
    """Refuse: programs are compiled as they run and are not written to files."""
    raise errors.not_there("_inductor.aoti_compile_and_package", "compiled packages")


def aoti_load_package(*_: Any, **__: Any) -> NoReturn:
    """Refuse: a package holds machine code of PyTorch's compiler."""
    raise errors.not_there("_inductor.aoti_load_package", "compiled packages")
