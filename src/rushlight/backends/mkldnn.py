"""`torch.backends.mkldnn`: the switches of a library that is not used."""

from __future__ import annotations

import contextlib
from typing import Any, Self

from rushlight.backends.switches import set_switches, switched

enabled = True
deterministic = False
allow_tf32: bool | None = None
fp32_precision = "none"

VERBOSE_OFF = 0
VERBOSE_ON = 1
VERBOSE_ON_CREATION = 2


def is_available() -> bool:
    """Whether oneDNN can be used: kernels here are compiled, not taken from it."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:  # Any: the switches' values
    """Set switches; those left at None stay. Returns what all of them were."""
    given = {"enabled": _enabled, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    return tuple(set_switches(__name__, {**given, "fp32_precision": _fp32_precision}).values())


def flags(
    enabled: bool = False,
    deterministic: bool = False,
    allow_tf32: bool | None = True,
    fp32_precision: str = "none",
) -> contextlib.AbstractContextManager[None]:
    """Set switches inside a `with` block."""
    given = {"enabled": enabled, "deterministic": deterministic, "allow_tf32": allow_tf32}
    return switched(__name__, {**given, "fp32_precision": fp32_precision})


class verbose:
    """Ask oneDNN to print what it does inside a `with` block; it does nothing to print."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None
