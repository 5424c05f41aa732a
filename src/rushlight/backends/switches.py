"""A set of switches as PyTorch has them: module attributes, `set_flags` and `flags`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

# Any, below: switches hold booleans, numbers, strings or None.


def set_switches(module: str, given: dict[str, Any]) -> dict[str, Any]:
    """Set a module's attributes where a value is given; return what they were."""
    namespace = sys.modules[module].__dict__
    before = {name: namespace[name] for name in given}
    namespace.update({name: value for name, value in given.items() if value is not None})
    return before


@contextlib.contextmanager
def switched(module: str, given: dict[str, Any]) -> Iterator[None]:
    """Set a module's attributes inside a `with` block and restore them after it."""
    before = set_switches(module, given)
    try:
        yield
    finally:
        sys.modules[module].__dict__.update(before)
