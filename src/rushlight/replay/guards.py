"""The Python state that a call read, and whether it is still the same.

Note: what counts as read. Every Python function that ran (the library's own aside) may have
read the globals it names, its closure, and whatever can be reached from its arguments: the
attributes of objects, the items of lists and dictionaries, the tensors in modules and
optimizers. All of that is noted when the function is entered. A call may only be repeated if
none of it changed while the call ran, and only as long as it stays the same.
"""

from __future__ import annotations

import enum
import functools
import sys
import types
import weakref
from collections.abc import Iterable, Mapping
from typing import Any  # any object of the user's

from rushlight.optim.optimizer import Optimizer
from rushlight.random.generator import Generator
from rushlight.tensor import Tensor
from rushlight.trace.value import Storage

_MISSING = object()
# What cannot change, or is compared where it is kept.
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, type, range, slice, enum.Enum,
    types.ModuleType, types.BuiltinFunctionType, types.CodeType, weakref.ref, Generator,
)  # fmt: skip
_COMPARED = frozenset((bool, int, float, complex, str, bytes))
_OURS = "rushlight"
_MOST = 20_000  # objects: comparing more takes longer than Python does
_FOUNDATIONS = sys.stdlib_module_names | {"numpy"}


def is_ours(module: object) -> bool:
    """Whether a module's name is of this library."""
    return isinstance(module, str) and (module == _OURS or module.startswith(_OURS + "."))


def is_users(module: object) -> bool:
    """Whether a module's name is neither of this library nor of what it stands on."""
    if not isinstance(module, str) or is_ours(module):
        return False
    return module == "__main__" or module.partition(".")[0] not in _FOUNDATIONS


class Guards:
    """What was read, as found; `hold` says whether it is all still so."""

    def __init__(self) -> None:
        self.opaque = ""  # what was reached that cannot be watched
        self.tensors: dict[int, Tensor] = {}
        self.storages: list[tuple[Tensor, Storage]] = []
        self.optimizers: dict[int, Optimizer] = {}
        self._seen: dict[int, object] = {}  # keeps what has been visited, so ids stay its own
        self._items: list[tuple[Mapping[Any, Any], Any, object]] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._sizes: list[tuple[Any, int]] = []
        self._lists: list[tuple[list[Any], list[Any]]] = []
        self._sets: list[tuple[Any, frozenset[Any]]] = []
        self._cells: list[tuple[types.CellType, object]] = []

    # -- noting

    def note_function(self, function: types.FunctionType) -> None:
        """A function's defaults, closure, and the globals that its code names."""
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        if is_ours(function.__module__):
            return
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:
                continue  # not set yet
            self._cells.append((cell, content))
            self.note(content)
        self.note(function.__defaults__)
        self.note(function.__kwdefaults__)
        self._note_globals(function.__globals__, function.__code__)

    def _note_globals(self, names: dict[str, Any], code: types.CodeType) -> None:
        for name in code.co_names:
            if name not in names:
                continue
            found = names[name]
            self._items.append((names, name, found))
            self.note(found)
            if isinstance(found, types.ModuleType) and is_users(found.__name__):
                self._note_names(vars(found), code.co_names)
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                self._note_globals(names, part)

    def _note_names(self, table: Mapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            if name in table:
                self._items.append((table, name, table[name]))
                self.note(table[name])

    def note(self, found: Any) -> None:
        """An object, and what can be reached from it."""
        if isinstance(found, _PLAIN) or id(found) in self._seen:
            return
        if len(self._seen) >= _MOST:
            self.opaque = self.opaque or f"more than {_MOST} Python objects"
            return
        if isinstance(found, types.FunctionType):
            self.note_function(found)
            return
        self._seen[id(found)] = found
        if isinstance(found, Tensor):
            if found._storage.value.buffer is None:
                return  # made by the call itself
            self.tensors[id(found)] = found
            self.storages.append((found, found._storage))
        elif isinstance(found, tuple):
            for item in found:
                self.note(item)
        elif isinstance(found, list):
            self._lists.append((found, list(found)))
            for item in found:
                self.note(item)
        elif isinstance(found, dict):
            self._note_dict(found)
        elif isinstance(found, set | frozenset):
            self._sets.append((found, frozenset(found)))
        elif isinstance(found, Optimizer):
            self._note_optimizer(found)
        elif isinstance(found, types.MethodType):
            self.note(found.__self__)
            self.note(found.__func__)
        elif isinstance(found, functools.partial):
            for part in (found.func, found.args, found.keywords):
                self.note(part)
        else:
            self._note_instance(found)

    def _note_instance(self, found: Any) -> None:
        kind = type(found)
        attributes = getattr(found, "__dict__", None)
        for base in kind.__mro__:
            if is_users(base.__module__):
                plain = [k for k, v in vars(base).items() if type(v) in _COMPARED]
                self._note_names(vars(base), plain)
        if isinstance(attributes, dict):
            self._note_dict(attributes)
        elif not is_ours(kind.__module__):
            self.opaque = self.opaque or f"an object of {kind.__module__}.{kind.__qualname__}"

    def _note_dict(self, found: dict[Any, Any]) -> None:
        if any(isinstance(value, Tensor) for value in found.values()):
            self._items += [(found, key, value) for key, value in found.items()]
            self._sizes.append((found, len(found)))
        else:
            self._dicts.append((found, dict(found)))
        for value in found.values():
            self.note(value)

    def _note_optimizer(self, found: Optimizer) -> None:
        """Parameters and state, without the numbers that every step reads anew."""
        self.optimizers[id(found)] = found
        self._lists.append((found.param_groups, list(found.param_groups)))
        for group in found.param_groups:
            self.note(group["params"])
            self._items.append((group, "params", group["params"]))
        for state in found.state.values():
            for name, value in state.items():
                if name not in found.NUMBERS:
                    self._items.append((state, name, value))
                    self.note(value)

    def note_options(self, optimizer: Optimizer) -> None:
        """The numbers of an optimizer too: somebody else than its step may have read them."""
        for group in optimizer.param_groups:
            self._note_dict(group)

    # -- looking again

    def hold(self) -> bool:  # hot
        """Whether everything noted is as it was."""
        try:
            return (
                all(now == then for now, then in self._dicts)
                and all(now == then for now, then in self._sets)
                and all(len(now) == size for now, size in self._sizes)
                and all(
                    _is_same(names.get(k, _MISSING), then) for names, k, then in self._items
                )
                and all(_is_same(cell.cell_contents, then) for cell, then in self._cells)
                and all(_are_same(now, then) for now, then in self._lists)
                and all(tensor._storage is storage for tensor, storage in self.storages)
            )
        except Exception:  # a comparison of the user's that cannot be made
            return False


def _is_same(now: object, then: object) -> bool:
    return now is then or (
        type(now) is type(then) and type(now) in _COMPARED and bool(now == then)
    )


def _are_same(now: list[Any], then: list[Any]) -> bool:
    return len(now) == len(then) and all(map(_is_same, now, then))
