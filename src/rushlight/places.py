"""Modules that PyTorch has and this house has not: `from torch.optim.adamw import AdamW` finds
a class that lives elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from types import ModuleType


def add_places(package: str, places: Mapping[str, Iterable[str]]) -> None:
    """Make a module `package.place` for each place, which holds those names of the package."""
    owner = sys.modules[package]
    for place, names in places.items():
        room = ModuleType(f"{package}.{place}", f"PyTorch's place for {', '.join(names)}.")
        for name in names:
            setattr(room, name, getattr(owner, name))
        sys.modules[room.__name__] = room
        setattr(owner, place, room)
