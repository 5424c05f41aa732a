"""Warnings at the user's line: what is likely a mistake, and what PyTorch calls deprecated."""

from __future__ import annotations

import os
import sys
import warnings

_HOME = os.path.dirname(os.path.abspath(__file__)) + os.sep


def warn_caller(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the innermost line outside this package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HOME):
        frame = frame.f_back
        level += 1
    warnings.warn(text, category, stacklevel=level)


def warn_deprecated(name: str, instead: str, category: type[Warning] = UserWarning) -> None:
    """A warning that PyTorch has another function for this."""
    warn_caller(f"{name} is deprecated: use {instead} instead.", category)
