"""What the registries say: families of operations, and the public functions of each.

A family is a module of `rushlight.ops`. A function belongs to the module that declares it; one
that a constructor of `ops/elementwise.py` made, to the first module that names it.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import rushlight  # binds every family
from rushlight.ops import FAMILIES
from rushlight.ops.registry import OPS, PUBLIC, Op, Public

PREFIXES = {
    "torch": "torch.",
    "Tensor": "Tensor.",
    "F": "nn.functional.",
    "linalg": "linalg.",
    "special": "special.",
    "fft": "fft.",
}
MAKERS = "elementwise"  # the family whose constructors make functions for others


@dataclass(frozen=True, slots=True)
class Family:
    """One page: a module, what it makes public and what it records."""

    name: str
    about: str
    functions: tuple[Function, ...]
    ops: tuple[Op, ...]

    @property
    def title(self) -> str:
        return self.about.split("\n\n")[0].replace("\n", " ").rstrip(".")


@dataclass(frozen=True, slots=True)
class Function:
    """All public functions of one name in one family: where bound, and the text of each."""

    name: str
    entries: tuple[Public, ...]

    @property
    def plain(self) -> Callable[..., Any]:
        """The function below autocast, of the entry that has an example if one has."""
        return min(self.entries, key=lambda e: ">>>" not in (e.function.__doc__ or "")).function

    @property
    def text(self) -> str:
        return inspect.getdoc(self.plain) or ""

    @property
    def meaning(self) -> str:
        """The docstring without its examples."""
        return "\n\n".join(p for p in self.text.split("\n\n") if not p.startswith(">>>"))

    @property
    def example(self) -> str:
        """The docstring's examples, or nothing."""
        return "\n\n".join(p for p in self.text.split("\n\n") if p.startswith(">>>"))

    @property
    def made_of(self) -> Op | None:
        """The op that a constructor of elementwise functions made this one of."""
        if self.plain.__module__ != f"rushlight.ops.{MAKERS}":
            return None
        cells = self.plain.__closure__ or ()
        return next((c.cell_contents for c in cells if isinstance(c.cell_contents, Op)), None)

    def forms(self) -> Iterator[str]:
        """Every way to call it: signatures first, then what differs in the name alone."""
        for entry in self.entries:
            arguments = signature(entry.function)
            for place in entry.places:
                given = as_method(arguments) if place == "Tensor" else arguments
                if entry.out and place != "Tensor":
                    given = with_out(given)
                yield f"{PREFIXES[place]}{self.name}({', '.join(given)})"

    def others(self) -> Iterator[str]:
        """In-place forms and aliases, by name."""
        for entry in self.entries:
            for name in (self.name, *entry.aliases):
                for place in entry.places:
                    if name != self.name:
                        yield PREFIXES[place] + name
                    if entry.inplace and place in ("torch", "Tensor", "F"):
                        yield f"{PREFIXES[place]}{name}_"


def signature(function: Callable[..., Any]) -> list[str]:
    """Arguments with their defaults; annotations of `Any` say nothing, so none is shown."""
    found: list[str] = []
    is_named = False
    for each in inspect.signature(function).parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_named:
            is_named = True
            found.append("*")
        is_named |= each.kind is each.VAR_POSITIONAL
        found.append(str(each.replace(annotation=each.empty)))
    return found


def as_method(arguments: list[str]) -> list[str]:
    """Without the tensor itself."""
    return arguments[1:] if arguments and not arguments[0].startswith("*") else arguments


def with_out(arguments: list[str]) -> list[str]:
    has_named = any(a.startswith("*") and not a.startswith("**") for a in arguments)
    return [*arguments, *([] if has_named else ["*"]), "out=None"]


def families() -> list[Family]:
    """Every family that has public functions, in order of declaration."""
    modules = {name: importlib.import_module(f"rushlight.ops.{name}") for name in FAMILIES}
    functions: dict[str, dict[str, list[Public]]] = {name: {} for name in FAMILIES}
    for entry in PUBLIC:
        if entry.name.startswith("_") and not entry.name.startswith("__"):
            continue  # PyTorch's own, for tools
        owner = _owner_of(entry, modules)
        functions[owner].setdefault(entry.name, []).append(entry)
    ops = _ops_of(modules)
    return [
        Family(
            name,
            inspect.getdoc(module) or "",
            tuple(Function(n, tuple(e)) for n, e in functions[name].items()),
            ops[name],
        )
        for name, module in modules.items()
        if functions[name]
    ]


def _owner_of(entry: Public, modules: dict[str, Any]) -> str:
    declared = entry.function.__module__.rpartition(".")[2]
    if declared != MAKERS:
        return declared
    named = (n for n, m in modules.items() if any(v is entry.called for v in vars(m).values()))
    return next(named, MAKERS)


def _ops_of(modules: dict[str, Any]) -> dict[str, tuple[Op, ...]]:
    """The ops that each module names first, in order of declaration."""
    seen: set[str] = set()
    found = {}
    for name, module in modules.items():
        own = {v.name for v in vars(module).values() if isinstance(v, Op)} - seen
        seen |= own
        found[name] = tuple(op for op in OPS.values() if op.name in own)
    return found


assert rushlight  # imported for what it registers
