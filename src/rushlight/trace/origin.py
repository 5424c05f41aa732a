"""Where a recorded step came from: the user's line and the module path. Only read on a
miss.
"""

from __future__ import annotations

import os
import sys
from typing import Any  # frames hold anything

_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def of_caller() -> tuple[str, str]:
    """("file.py:12", "model.blocks.3.mlp") of the innermost frame outside this package."""
    frame = sys._getframe(1)
    where = ""
    modules: list[Any] = []
    depth = 0
    while frame is not None and depth < 200:
        code = frame.f_code
        if code.co_filename.startswith(_HOME):
            if code.co_name == "_call_impl" or code.co_name == "__call__":
                owner = frame.f_locals.get("self")
                if hasattr(owner, "_modules"):
                    modules.append(owner)
        elif not where:
            where = f"{code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
        depth += 1
    return where, _module_path(modules)


def _module_path(innermost_first: list[Any]) -> str:
    """The dotted path from the outermost module being called to the innermost."""
    if not innermost_first:
        return ""
    chain: list[Any] = []
    for module in reversed(innermost_first):
        if not chain or chain[-1] is not module:
            chain.append(module)
    names = [type(chain[0]).__name__]
    for parent, child in zip(chain, chain[1:], strict=False):
        names.append(_name_in(parent, child))
    return ".".join(names)


def _name_in(parent: Any, child: Any) -> str:
    for name, module in parent._modules.items():  # usually it is one of these
        if module is child:
            return str(name)
    for name, module in parent.named_modules():
        if module is child:
            return name or type(child).__name__
    return type(child).__name__
