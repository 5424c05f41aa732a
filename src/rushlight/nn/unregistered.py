"""Modules kept in a plain list, tuple or dict, which `parameters()` does not know."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any  # attributes of the user's

from rushlight.advice import warn_caller

if TYPE_CHECKING:
    from rushlight.nn.module import Module

_looked_at: weakref.WeakSet[Module] = weakref.WeakSet()


def announce_unregistered(root: Module) -> None:
    """Warn, once for each root, of modules below it that would silently not be trained.

    Frozen ones (a teacher that is hidden on purpose) are passed over, and so are those that are
    registered elsewhere too.
    """
    if root in _looked_at:
        return
    _looked_at.add(root)
    registered = set(root.modules())
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if name.startswith("_") or not isinstance(value, list | tuple | dict):
                continue
            found = [m for m in _modules_in(value) if m not in registered]
            count = sum(p.requires_grad for m in found for _, p in m.named_parameters())
            if count:
                place = ".".join(filter(None, (type(root).__name__, path, name)))
                proper = "ModuleDict" if isinstance(value, dict) else "ModuleList"
                warn_caller(
                    f"{place} is a plain {type(value).__name__} of modules: {count} parameters "
                    f"in it are not among parameters(), so no optimizer will train them. Use "
                    f"nn.{proper}."
                )


def _modules_in(value: Any) -> Iterator[Module]:
    from rushlight.nn.module import Module  # which announces

    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, Module):
            yield item
        elif isinstance(item, list | tuple | dict):
            yield from _modules_in(item)
