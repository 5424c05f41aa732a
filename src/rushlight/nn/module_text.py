"""How a module prints, and which attributes it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.nn.module import Module


def module_text(module: Module) -> str:
    """A module's name with its own facts and, indented, its submodules."""
    extra = module.extra_repr()
    lines = extra.split("\n") if extra else []
    children = [
        f"({name}): {indented(repr(child), 2)}" for name, child in module._modules.items()
    ]
    name = module._get_name()
    if len(lines) == 1 and not children:
        return f"{name}({lines[0]})"
    return with_body(name, lines + children)


def with_body(name: str, lines: list[str]) -> str:
    """`name(...)` around indented lines."""
    body = "".join(f"\n  {line}" for line in lines)
    return f"{name}({body}\n)" if lines else f"{name}()"


def indented(text: str, width: int) -> str:
    """The text with every line but the first moved right."""
    return text.replace("\n", "\n" + " " * width)


def attribute_names(module: Module) -> list[str]:
    """The names `dir` lists: without those that cannot be written after a dot."""
    tables = (module._parameters, module._modules, module._buffers)
    keys = {*dir(type(module)), *module.__dict__, *(key for table in tables for key in table)}
    return sorted(key for key in keys if not key[0].isdigit())
