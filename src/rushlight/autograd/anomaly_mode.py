"""Anomaly detection: NaNs of the forward and of the backward pass raise, and say which line
recorded the op that made them.
"""

from __future__ import annotations

from rushlight.config import scopes


class _Scope:
    """Anomaly detection as it is set, until the end of a `with` block."""

    def _set(self, is_on: bool, check_nan: bool) -> None:
        self.before = scopes.anomaly_mode, scopes.anomaly
        scopes.anomaly_mode, scopes.anomaly = is_on, is_on and check_nan

    def __exit__(self, *exc: object) -> None:
        scopes.anomaly_mode, scopes.anomaly = self.before


class set_detect_anomaly(_Scope):
    """Set anomaly detection at once; as a context manager, until its end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._set(bool(mode), check_nan)

    def __enter__(self) -> None:
        pass


class detect_anomaly(_Scope):
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
        self._set(True, self.check_nan)


def is_anomaly_enabled() -> bool:
    """Whether anomaly detection is on, with or without the search for NaNs."""
    return scopes.anomaly_mode


def is_anomaly_check_nan_enabled() -> bool:
    """Whether NaNs are searched for; errors of a backward name the forward line anyway."""
    return scopes.anomaly or not scopes.anomaly_mode


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """`set_detect_anomaly` as a plain function."""
    set_detect_anomaly(mode, check_nan)
