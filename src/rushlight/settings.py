"""Modules of another compiler's settings: they take any, and none changes what is computed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any  # a setting may be anything


class Settings(ModuleType):
    """A module whose names can be set, read back and set for a while.

    Programs tune PyTorch's compilers by these names. There is nothing here that they could
    tune; a name that nobody set and that has no default is missing, as any name would be.
    """

    @contextlib.contextmanager
    def patch(self, changes: Any = None, value: Any = None, **named: Any) -> Iterator[None]:
        """Settings that hold inside a `with` block or a decorated function:
        `patch("name", value)`, `patch({"name": value})` or `patch(name=value)`.
        """
        wanted = {changes: value} if isinstance(changes, str) else dict(changes or {}, **named)
        before = {name: vars(self)[name] for name in wanted if name in vars(self)}
        vars(self).update(wanted)
        try:
            yield
        finally:
            for name in wanted:
                del vars(self)[name]
            vars(self).update(before)


class SettingGroup:
    """Settings under one name: `config.triton.cudagraphs = False`."""


def accept_settings(module_name: str) -> None:
    """Make a module of defaults one of settings."""
    sys.modules[module_name].__class__ = Settings
