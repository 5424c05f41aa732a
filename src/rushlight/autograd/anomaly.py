"""Anomaly detection: NaN gradients raise where they appear, and say which line recorded the
op.
"""

from __future__ import annotations

from rushlight.config import scopes


class set_detect_anomaly:
    """Set anomaly detection at once; as a context manager, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.before = scopes.anomaly
        scopes.anomaly = bool(mode) and check_nan

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        scopes.anomaly = self.before


class detect_anomaly:
    """Gradients that are NaN raise inside, naming the operation and the user's line.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     y = x.sqrt() * x
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.check_nan = check_nan

    def __enter__(self) -> None:
        self.before = scopes.anomaly
        scopes.anomaly = self.check_nan

    def __exit__(self, *exc: object) -> None:
        scopes.anomaly = self.before


def is_anomaly_enabled() -> bool:
    return scopes.anomaly
