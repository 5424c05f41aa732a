"""A compiled function: its calls are watched, and then done again without their Python."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any  # any function or module

from rushlight import config, tree
from rushlight.devices import device
from rushlight.dtypes import dtype
from rushlight.replay.call import RememberedCall, Stale
from rushlight.replay.capture import Capture, Refused, watching
from rushlight.tensor import Tensor
from rushlight.trace import flush
from rushlight.trace.trace import local

_COMPARED = (bool, int, str, bytes, type(None), dtype, device)
_MOST_TRIES = 8  # calls with equal arguments that are watched before giving up on them
_MOST_KINDS = 64  # kinds of arguments that are remembered
_MOST_WASTED = 16  # calls of one function that are watched in vain: watching is slow


class Compiled:
    """A function whose body is skipped when a call would only repeat the last.

    Note: when a call is repeated. It must have computed everything in one program, with no look
    at elements, no effect outside tensors, gradients, optimizers and random generators, and no
    call of anything that may answer differently the next time (`print`, clocks, NumPy ...). It
    is repeated while its arguments have the same types and shapes and equal numbers, and
    while the Python objects that it reads are as they were (`replay/guards.py`). Otherwise the
    body runs, as if the function were not compiled; `reason` says why.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.reason = "it has not been called often enough"
        self.skipped = 0  # calls without Python
        self.made = 0  # calls that ran the function
        self._calls: dict[Any, RememberedCall] = {}
        self._tries: dict[Any, int] = {}
        self._wasted = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # hot
        leaves: list[Any] = []
        key: tuple[Any, ...] = config.in_force()
        try:
            if args or kwargs:
                leaves, structure = tree.flatten((args, kwargs))
                kinds = [_kind_of_argument(leaf) for leaf in leaves]
                if None in kinds:
                    self.reason = "an argument is an object that may change"
                    return self._make(args, kwargs)
                key = (_kind_of(structure), *kinds, _aliases(leaves), *key)
            call = self._calls.get(key)
        except TypeError:  # an argument that has no hash
            self.reason = "an argument cannot be compared with the last one"
            return self._make(args, kwargs)
        if call is not None and not local.trace.packing:  # whose hooks are the user's code
            try:
                result = call(leaves)
            except Stale as stale:
                self.reason = str(stale)
                del self._calls[key]
            else:
                self.skipped += 1
                return result
        return self._watch(key, leaves, args, kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<compiled {self.function!r}: {self.skipped} calls skipped, {self.made} made>"

    def _make(self, args: Any, kwargs: Any) -> Any:
        self.made += 1
        return self.function(*args, **kwargs)

    def _watch(self, key: Any, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """Make a call in Python and, if it may be one to repeat, look on."""
        tries = self._tries.get(key, 0)
        is_full = tries == 0 and len(self._tries) >= _MOST_KINDS
        if is_full or tries > _MOST_TRIES or self._wasted >= _MOST_WASTED:
            return self._make(args, kwargs)
        self._tries[key] = tries + 1
        if tries == 0 or not _can_watch(leaves):
            return self._make(args, kwargs)
        flush()
        capture = Capture()
        capture.note(self.function)
        with watching(capture):
            result = self._make(args, kwargs)
            flush()
        try:
            if any(f.is_new for f in capture.flushes):
                raise Refused("it was not yet steady")
            self._calls[key] = RememberedCall(capture, leaves, result)
            self.reason = ""
        except Refused as refused:
            self.reason = str(refused)
            self._wasted += 1
        return result


def _kind_of(structure: Any) -> Any:
    """A tree's structure as something that can be a key."""
    if structure is None:
        return None
    kind, keys, parts = structure
    return (kind, keys, *map(_kind_of, parts))


def _kind_of_argument(leaf: Any) -> Any:
    """What a call may depend on of an argument, a tensor's elements aside; None: of more."""
    if isinstance(leaf, Tensor):
        if leaf.__dict__:
            return None
        return (
            type(leaf), leaf.dtype, leaf._shape, leaf._strides, leaf._view and leaf._view[3:],
            leaf._node is None, leaf._grad is None,
        )  # fmt: skip
    if isinstance(leaf, float | complex):
        return (type(leaf), repr(leaf))  # 0.0 and -0.0 are equal
    return (type(leaf), leaf) if isinstance(leaf, _COMPARED) else None


def _aliases(leaves: list[Any]) -> tuple[int, ...]:
    """Which tensors among the arguments begin at the same place: for each, the first there."""
    memory = [(id(t._storage), t._offset) for t in leaves if isinstance(t, Tensor)]
    return tuple(map(memory.index, memory))


def _can_watch(leaves: list[Any]) -> bool:
    if sys.getprofile() is not None or local.trace.watchers or local.trace.packing:
        return False
    if threading.current_thread() is not threading.main_thread():
        return False
    return not any(isinstance(leaf, Tensor) and leaf._node is not None for leaf in leaves)
