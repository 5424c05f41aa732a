"""`torch.backends.opt_einsum`: the order of contractions is chosen without that library."""

from __future__ import annotations

import contextlib
from typing import Any

from rushlight.backends.switches import set_switches, switched

enabled = False
strategy: str | None = None


def is_available() -> bool:
    """Whether the library is used: it is not."""
    return False


def get_opt_einsum() -> Any:  # Any: a module, where there is one
    """The library, or None."""
    return None


def set_flags(_enabled: bool | None = None, _strategy: str | None = None) -> tuple[Any, Any]:
    """Set switches; those left at None stay. Returns what both of them were."""
    before = set_switches(__name__, {"enabled": _enabled, "strategy": _strategy})
    return before["enabled"], before["strategy"]


def flags(
    enabled: bool | None = None, strategy: str | None = None
) -> contextlib.AbstractContextManager[None]:
    """Set switches inside a `with` block."""
    return switched(__name__, {"enabled": enabled, "strategy": strategy})
