"""Hold back an interrupt (SIGINT) until results are in place, so that no step is half done.

Python's handler is exchanged and not the signal blocked: another thread may receive it.

Note: stopping. A program that writes to no memory but its own can be left between two kernels:
what was to be computed stays pending (`Trace.park`). That is done only where the handler is
Python's own, which raises KeyboardInterrupt: after another one the program would have to go on.
What other handlers raise is not held back; where nothing is written it leaves all pending too.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # CPython has no stubs for it
import signal
from typing import Any

_NOT_HELD = object()
came = False  # an interrupt, since it is held back
_may_stop = False

# What `signal.signal` wraps: its conversions to enumerations would cost a tenth of a flush.
_set_handler = _signal.signal
_INTERRUPT = int(signal.SIGINT)
_RAISES = signal.default_int_handler


class Stopped(BaseException):
    """A program was left between two kernels because of an interrupt."""


def _note(number: int, frame: Any) -> None:
    global came
    came = True


def hold() -> Any:  # hot
    """From here on an interrupt is only noted; what is returned is for `release`."""
    global _may_stop
    try:
        handler = _set_handler(_INTERRUPT, _note)
    except ValueError:
        return _NOT_HELD  # not the main thread: nothing interrupts it
    _may_stop = handler is _RAISES
    return handler


def finish() -> None:
    """What runs until `release` is run to its end."""
    global _may_stop
    _may_stop = False


def stop() -> None:
    """Raise Stopped if an interrupt came and a program may be left because of it."""
    if came and _may_stop:
        raise Stopped


def release(handler: Any) -> None:  # hot
    """Let interrupts through again, and the one that came meanwhile."""
    global came
    if handler is _NOT_HELD:
        return
    if handler is None:  # one that Python does not know, which cannot be put back
        handler = signal.SIG_DFL
    _set_handler(_INTERRUPT, handler)
    if came and handler is not _note:
        came = False
        if callable(handler):
            handler(_INTERRUPT, None)


class held:
    """Interrupts wait within this context, to its end."""

    __slots__ = ("_handler",)

    def __enter__(self) -> None:
        self._handler = hold()
        finish()

    def __exit__(self, *exc: object) -> None:
        release(self._handler)
