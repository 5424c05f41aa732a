"""The Python state that a call read, and whether it is still the same.

Note: what counts as read. Every Python function that ran (the library's own aside) may have
read the globals it names, its closure, and whatever can be reached from its arguments: the
attributes of objects, the items of lists and dictionaries, the tensors in modules and
optimizers. All of that is noted when the function is entered. A call may only be repeated if
none of it changed while the call ran, and only as long as it stays the same.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any  # any object of the user's

from rushlight.optim.optimizer import Optimizer
from rushlight.optim.step_hooks import AFTER_STEPS, BEFORE_STEPS
from rushlight.random.generator import Generator
from rushlight.replay.snapshot import Snapshot
from rushlight.tensor import Tensor

# What cannot change, or is compared where it is kept.
_PLAIN = (
    type(None), bool, int, float, complex, str, bytes, range, slice, types.ModuleType,
    types.BuiltinFunctionType, types.CodeType, Generator,
)  # fmt: skip
_OURS = "rushlight"
_MOST = 20_000  # objects: comparing more takes longer than Python does
_OF_GLOBALS = frozenset(  # instructions that read or write a global
    name for name in dis.opmap if name.endswith(("_GLOBAL", "_GLOBALS", "_NAME"))
) - {"IMPORT_NAME"}
# Attributes of classes that are looked into when they run, if at all.
_OF_CLASSES = (types.FunctionType, property, staticmethod, classmethod, type)
# Modules whose functions only look at their arguments.
HARMLESS_MODULES = frozenset(
    (
        "math",
        "itertools",
        "functools",
        "_functools",
        "operator",
        "_operator",
        "collections",
        "_collections",
        "typing",
        "dataclasses",
        "enum",
        "contextlib",
        "abc",
    )
)
_CONTAINERS = (list, tuple, dict, set, frozenset)  # of which users' own kinds may hold more
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
    """What was read, and whether it is all still as it was found."""

    def __init__(self) -> None:
        self.opaque = ""  # what was reached that cannot be watched
        self.tensors: dict[int, Tensor] = {}
        self.optimizers: dict[int, Optimizer] = {}
        self._seen: dict[int, object] = {}  # keeps what has been visited, so ids stay its own
        self._classes: set[type] = set()
        self._snapshot = Snapshot()
        self.hold = self._snapshot.holds  # once `end` has been called

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
            self._snapshot.add_cell(cell)
            self.note(content)
        self.note(function.__defaults__)
        self.note(function.__kwdefaults__)
        self.note(function.__dict__)
        self._note_globals(function.__globals__, function.__code__)

    def _note_globals(self, names: dict[str, Any], code: types.CodeType) -> None:
        steps = list(dis.get_instructions(code))
        if any(step.opname == "IMPORT_NAME" for step in steps):
            self.opaque = self.opaque or "a module that it imports"
        # `co_names` has attributes as well: a method may be called as a global is
        for name in dict.fromkeys(s.argval for s in steps if s.opname in _OF_GLOBALS):
            if name not in names:
                continue
            found = names[name]
            self._snapshot.add_name(names, name)
            self.note(found)
            if isinstance(found, types.ModuleType):
                self._note_module(found, code.co_names)
        for part in code.co_consts:
            if isinstance(part, types.CodeType):
                self._note_globals(names, part)

    def _note_module(self, module: types.ModuleType, names: Sequence[str]) -> None:
        """What code may read of a module of the user's; others must be known to be harmless."""
        if is_ours(module.__name__) or module.__name__ in HARMLESS_MODULES:
            return
        if not is_users(module.__name__) or not hasattr(module, "__file__"):
            self.opaque = self.opaque or f"the module {module.__name__}"
        elif id(module) not in self._seen:
            self._seen[id(module)] = module
            self._note_names(vars(module), names)
            for part in vars(module).values():
                if isinstance(part, types.ModuleType) and is_users(part.__name__):
                    self._note_module(part, names)

    def _note_class(self, kind: type) -> None:
        """The attributes of a class of the user's and of its bases."""
        for base in kind.__mro__:
            if is_users(base.__module__) and base not in self._classes:
                self._classes.add(base)
                if "__slots__" in vars(base):
                    self.opaque = self.opaque or f"slots of {base.__qualname__}"
                attributes = vars(base)
                for name, value in attributes.items():
                    self._snapshot.add_name(attributes, name)
                    if not name.startswith("__") and not isinstance(value, _OF_CLASSES):
                        self.note(value)
                self._snapshot.add_size(attributes)

    def _note_names(self, table: Mapping[str, Any], names: Iterable[str]) -> None:
        for name in names:
            if name in table:
                self._snapshot.add_name(table, name)
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
        if isinstance(found, _CONTAINERS) and is_users(type(found).__module__):
            self.opaque = self.opaque or f"an object of {type(found).__qualname__}"
        if isinstance(found, Tensor):
            if found._storage.value.buffer is None:
                return  # made by the call itself
            self.tensors[id(found)] = found
            self._snapshot.add_tensor(found)
            self._note_dict(found.__dict__)
        elif isinstance(found, tuple):
            for item in found:
                self.note(item)
        elif isinstance(found, type):
            self._note_class(found)
        elif isinstance(found, weakref.ref):
            self.note(found())
        elif isinstance(found, list):
            self._snapshot.add_list(found)
            for item in found:
                self.note(item)
        elif isinstance(found, dict):
            self._note_dict(found)
        elif isinstance(found, set | frozenset):
            self._snapshot.add_set(found)
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
        self._note_class(kind)
        if isinstance(attributes, dict):
            self._note_dict(attributes)
        elif not is_ours(kind.__module__):
            self.opaque = self.opaque or f"an object of {kind.__module__}.{kind.__qualname__}"

    def _note_dict(self, found: dict[Any, Any]) -> None:
        self._snapshot.add_dict(found)
        for value in found.values():
            self.note(value)

    def _note_optimizer(self, found: Optimizer) -> None:
        """Parameters and state, without the numbers that every step reads anew."""
        self.optimizers[id(found)] = found
        own = vars(found)
        for name in ("param_groups", "state", "defaults", "step"):
            self._snapshot.add_name(own, name)
        tables = [table for name, table in own.items() if name.endswith("_hooks")]
        for table in (*tables, BEFORE_STEPS, AFTER_STEPS):
            self._snapshot.add_empty(table)  # hooks are code to run
        self._snapshot.add_size(found.state)
        self._snapshot.add_list(found.param_groups)
        for group in found.param_groups:
            self.note(group["params"])
            self._snapshot.add_name(group, "params")
        for param, state in found.state.items():
            self._snapshot.add_name(found.state, param)
            self._snapshot.add_size(state)
            for name, value in state.items():
                if name not in found.NUMBERS:
                    self._snapshot.add_name(state, name)
                    self.note(value)

    def note_options(self, optimizer: Optimizer) -> None:
        """The numbers of an optimizer too: somebody else than its step may have read them."""
        for group in optimizer.param_groups:
            self._note_dict(group)

    def has_seen(self, found: object) -> bool:
        """Whether an object is one of those noted (tensors aside)."""
        return id(found) in self._seen and not isinstance(found, Tensor)

    def end(self) -> None:
        """Everything has been noted: from now on `hold` says whether it is as it was."""
        self._snapshot.close()
