"""Modules that PyTorch has and this house has not: `from torch.optim.adamw import AdamW` finds
a class that is in another file here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType


def add_places(package: str, places: Mapping[str, Iterable[str]], source: str = "") -> None:
    """For each place a module `package.place`, with the public classes and functions that those
    files define: files of the package `source`, or of the same one.
    """
    owner = sys.modules[package]
    for place, files in places.items():
        room = ModuleType(f"{package}.{place}", "PyTorch's place for what is here too.")
        room.__spec__ = ModuleSpec(room.__name__, None)
        for file in files:
            defined = sys.modules[f"{source or package}.{file}"]
            for name, value in vars(defined).items():
                if getattr(value, "__module__", "") == defined.__name__ and callable(value):
                    setattr(room, name, value)
        sys.modules[room.__name__] = room
        setattr(owner, place, room)
