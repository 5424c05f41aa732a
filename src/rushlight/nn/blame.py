"""Where in a model something happened: the dotted path of a module, for messages.

Nothing here runs until an exception passes through a module, or somebody asks.
"""

from __future__ import annotations

import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.nn.module import Module

_MARK = "_rushlight_module"


def add_note(error: BaseException, module: Module) -> None:
    """Note in an exception that it came out of a module's forward.

    Called once at each level on the way out. The innermost module writes the note; every module
    around it only completes the path, so that the user reads one line such as
    `in blocks.3.mlp.up: Linear(in_features=8, out_features=32, bias=True)`.
    """
    found = getattr(error, _MARK, None)
    if found is None:
        _write(error, weakref.ref(module), "", module)
        return
    ref, path, old_note, outer = found
    inner = outer()
    name = None if inner is None else _path_inside(module, inner)
    if name:
        _write(error, weakref.ref(module), f"{name}.{path}" if path else name, ref(), old_note)


def _write(
    error: BaseException,
    outer: Any,
    path: str,
    innermost: Module | None,
    old_note: str | None = None,
) -> None:
    if innermost is None:
        return
    text = f"in {path}: {_summary(innermost)}" if path else f"in {_summary(innermost)}"
    notes = getattr(error, "__notes__", [])
    if old_note in notes:
        notes[notes.index(old_note)] = text
    else:
        error.add_note(text)
    setattr(error, _MARK, (weakref.ref(innermost), path, text, outer))


def _summary(module: Module) -> str:
    extra = module.extra_repr().replace("\n", ", ")
    return f"{module._get_name()}({extra})"


def _path_inside(outer: Module, inner: Module) -> str | None:
    for name, module in outer.named_modules():
        if module is inner:
            return name
    return None


def calling_modules(depth: int = 1) -> list[Module]:
    """The modules whose forward is running in this thread, outermost first."""
    from rushlight.nn.module import CALL_CODES  # module.py imports this file

    found: list[Module] = []
    frame = sys._getframe(depth)
    while frame is not None:
        if frame.f_code in CALL_CODES:
            found.append(frame.f_locals["self"])
        frame = frame.f_back
    return found[::-1]


def calling_path(depth: int = 1) -> str:
    """The dotted path, from the outermost running module, of the innermost: '' if none runs."""
    modules = calling_modules(depth + 1)
    parts = [
        _path_inside(outer, inner) or f"<{inner._get_name()}>"
        for outer, inner in zip(modules, modules[1:], strict=False)
        if inner is not outer
    ]
    return ".".join(parts)
