"""`torch.backends.cudnn`: the switches of a library that is not used.

Every result here is deterministic, whatever they say.
"""

from __future__ import annotations

import contextlib
from typing import Any

from rushlight.backends.switches import set_switches, switched

enabled = True
benchmark = False
benchmark_limit: int | None = None
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """Whether cuDNN can be used: it cannot."""
    return False


def version() -> int | None:
    """The version of cuDNN: there is none."""
    return None


def is_acceptable(tensor: Any) -> bool:  # Any: a tensor of the core
    """Whether cuDNN takes this tensor: it does not."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Set switches; those left at None stay. Returns what all of them were."""
    given = _named(_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    return tuple(set_switches(__name__, {**given, "fp32_precision": _fp32_precision}).values())


def flags(
    enabled: bool = False,
    benchmark: bool = False,
    benchmark_limit: int | None = 10,
    deterministic: bool = False,
    allow_tf32: bool = True,
    fp32_precision: str = "none",
) -> contextlib.AbstractContextManager[None]:
    """Set switches inside a `with` block."""
    given = _named(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    return switched(__name__, {**given, "fp32_precision": fp32_precision})


def _named(
    enabled: Any, benchmark: Any, limit: Any, deterministic: Any, tf32: Any
) -> dict[str, Any]:
    return {
        "enabled": enabled,
        "benchmark": benchmark,
        "benchmark_limit": limit,
        "deterministic": deterministic,
        "allow_tf32": tf32,
    }
