"""`torch._logging`: what PyTorch's compilers would say; there is nobody here to say it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any  # what would be said


def set_logs(**settings: Any) -> None:
    """Accepted: no part of PyTorch's compilers is here. `rushlight.explain` shows kernels."""


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """A logger of the standard library's for one kind of message."""
    return logging.getLogger(f"{module_qname}.__{artifact_name}")


def trace_structured(
    name: str, metadata_fn: Callable[[], Any] = dict, *args: Any, **options: Any
) -> None:
    """Accepted and not written: no structured log is open."""


def _init_logs(log_file_name: str | None = None) -> None:
    """Nothing to start."""
