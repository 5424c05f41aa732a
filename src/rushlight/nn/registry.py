"""The table in which a module keeps its parameters, buffers or submodules.

Note: registry and mirror. What a module registers is kept in three tables, as in PyTorch. A
plain table makes every `self.weight` a failed attribute look-up followed by `__getattr__`: 0.43
us on the reference machine, as much as recording half an operation. So a Registry also writes
each entry into its module's `__dict__` (0.03 us to read), and takes it out when it goes. The
table is the truth: `state_dict`, iteration and pickles read only the table, and
`Module.__getattr__` still answers from it where a mirror is missing.
"""

from __future__ import annotations

import weakref
from typing import Any

TABLES = ("_parameters", "_buffers", "_modules")
_MISSING = object()


class Registry(dict):
    """A dictionary that shows its entries as attributes of the module that owns it."""

    __slots__ = ("owner",)

    def __init__(self, owner: Any, entries: Any = ()) -> None:
        super().__init__(entries)
        self.owner = weakref.ref(owner)
        for key, value in self.items():
            self._show(key, value)

    def _show(self, key: str, value: Any) -> None:
        owner = self.owner()
        if owner is not None and key.isidentifier():
            owner.__dict__[key] = value

    def _hide(self, key: str) -> None:
        owner = self.owner()
        if owner is not None:
            owner.__dict__.pop(key, None)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        self._show(key, value)

    def __delitem__(self, key: str) -> None:
        super().__delitem__(key)
        self._hide(key)

    def pop(self, key: str, default: Any = _MISSING) -> Any:
        if key not in self and default is not _MISSING:
            return default
        value = super().pop(key)
        self._hide(key)
        return value

    def popitem(self) -> tuple[str, Any]:
        key, value = super().popitem()
        self._hide(key)
        return key, value

    def clear(self) -> None:
        for key in self:
            self._hide(key)
        super().clear()

    def update(self, *args: Any, **kwargs: Any) -> None:
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> Registry:
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return dict, (dict(self),)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        import copy  # only copies need it

        result = {key: copy.deepcopy(value, memo) for key, value in self.items()}
        memo[id(self)] = result
        return result


def owned(module: Any, table: str) -> Registry:
    """A module's table, made its own first if it came from a pickle or a shallow copy."""
    found = module.__dict__.get(table)
    if type(found) is Registry and found.owner() is module:
        return found
    if found is None:
        raise AttributeError(
            f"cannot assign to {type(module).__name__} before Module.__init__() call"
        )
    module.__dict__[table] = registry = Registry(module, found)
    return registry


def without_mirrors(module: Any) -> dict[str, Any]:
    """The module's `__dict__` as PyTorch would have it: plain tables, no mirrored entries."""
    state = dict(module.__dict__)
    for table in TABLES:
        entries = state.get(table)
        if entries is None:
            continue
        for key, value in entries.items():
            if key in state and state[key] is value:
                del state[key]
        state[table] = dict(entries)
    return state
