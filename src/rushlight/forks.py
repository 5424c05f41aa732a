"""Locks that a fork holds, so that no child begins in the middle of what another thread does.

The child has only the thread that forked. A lock that another one held would never be released
there, and what it guarded (a list half changed, a module half imported) would stay so.
"""

from __future__ import annotations

import os
from typing import Any

# Whoever holds one may take those after it: a fork takes them in the same order.
ORDER = ("recording", "kernels", "streams", "memory")

_Lock = Any  # threading.RLock is a function until Python 3.13
_held: dict[str, _Lock] = {}
_taken: list[_Lock] = []  # by the thread that forks


def hold(name: str, lock: _Lock) -> None:
    """Have every fork from now on wait for a re-entrant lock, and hold it."""
    if name not in ORDER:
        raise ValueError(f"{name} has no place in the order of locks: {ORDER}")
    _held[name] = lock


def _acquire() -> None:
    for name in ORDER:  # one may be added while another is waited for
        if name in _held:
            _held[name].acquire()
            _taken.append(_held[name])


def _release() -> None:
    while _taken:
        _taken.pop().release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_acquire, after_in_parent=_release, after_in_child=_release)
