"""Hold back an interrupt (SIGINT) until results are in place, so that no step is half done.

Python's handler is exchanged and not the signal blocked: another thread may receive it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # CPython has no stubs for it
import signal
from typing import Any

_NOT_HELD = object()
_came = False

# What `signal.signal` wraps: its conversions to enumerations would cost a tenth of a flush.
_set_handler = _signal.signal
_INTERRUPT = int(signal.SIGINT)


def _note(number: int, frame: Any) -> None:
    global _came
    _came = True


def hold() -> Any:  # hot
    """From here on an interrupt is only noted; what is returned is for `release`."""
    try:
        return _set_handler(_INTERRUPT, _note)
    except ValueError:
        return _NOT_HELD  # not the main thread: nothing interrupts it


def release(handler: Any) -> None:  # hot
    """Let interrupts through again, and the one that came meanwhile."""
    global _came
    if handler is _NOT_HELD:
        return
    if handler is None:  # one that Python does not know, which cannot be put back
        handler = signal.SIG_DFL
    _set_handler(_INTERRUPT, handler)
    if _came and handler is not _note:
        _came = False
        if callable(handler):
            handler(_INTERRUPT, None)


class held:
    """Interrupts wait within this context."""

    __slots__ = ("_handler",)

    def __enter__(self) -> None:
        self._handler = hold()

    def __exit__(self, *exc: object) -> None:
        release(self._handler)
