"""Anomaly detection: NaNs of the forward and of the backward pass raise, and say which line
recorded the op that made them.
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
    """Gradients that are NaN, and losses that are before `backward()`, raise a RuntimeError
    inside: it names the operation that made the first NaN, the user's line and the module.

    >>> import rushlight as torch
    >>> x = torch.tensor([-1.0], requires_grad=True)
    >>> with torch.autograd.detect_anomaly():
    ...     try:
    ...         x.log().sum().backward()
    ...     except RuntimeError as error:
    ...         print("log made it" in str(error))
    True
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


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`set_detect_anomaly` as a plain function."""
    set_detect_anomaly(mode, check_nan)
