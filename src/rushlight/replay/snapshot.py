"""Python objects as they were found, and whether they are still so.

Looking again is most of what a repeated call costs, so everything of one kind is compared at
once, by functions that loop in C.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sized
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter, is_, itemgetter
from types import CellType
from typing import Any  # any object of the user's

from rushlight.tensor import Tensor

_COMPARED = frozenset((bool, int, float, complex, str, bytes))
_content = attrgetter("cell_contents")
_looks = attrgetter("_storage", "_node", "_view", "_shape", "__class__")
_type = attrgetter("_storage.value.type")
_has_hooks = attrgetter("has_hooks")


_Getter = Callable[[Mapping[Any, Any]], tuple[Any, ...]]


@dataclass(slots=True)
class _Names:
    """Some names of one table, and what they stood for."""

    table: Mapping[Any, Any]
    names: list[Any] = field(default_factory=list)
    values: list[object] = field(default_factory=list)


class Snapshot:
    """Containers, names and tensors: noted one by one, as they are then; compared together."""

    def __init__(self) -> None:
        self._empty: list[Sized] = []
        self._sized: list[Sized] = []
        self._sizes: list[int] = []
        self._dicts: list[dict[Any, Any]] = []
        self._keys: list[object] = []
        self._values: list[object] = []
        self._lists: list[list[Any]] = []
        self._items: list[object] = []
        self._sets: list[tuple[Collection[Any], frozenset[object]]] = []
        self._cells: list[CellType] = []
        self._contents: list[object] = []
        self._names: dict[int, _Names] = {}
        self._absent: list[tuple[Mapping[Any, Any], Any]] = []
        self._tensors: list[Tensor] = []
        self._nodes: list[Any] = []
        self._looks: list[object] = []
        self._types: list[object] = []
        self._getters: list[tuple[_Getter, Mapping[Any, Any]]] = []
        self._found: list[object] = []

    # -- noting

    def add_dict(self, found: dict[Any, Any]) -> None:
        """Its keys in their order, and which objects they stand for."""
        self.add_size(found)
        if found:  # else the size says all
            self._dicts.append(found)
        self._keys += found
        self._values += dict.values(found)

    def add_list(self, found: list[Any]) -> None:
        """Which objects it holds."""
        self.add_size(found)
        self._lists.append(found)
        self._items += found

    def add_set(self, found: Collection[Any]) -> None:
        """Its elements and their types."""
        self.add_size(found)
        if found:
            self._sets.append((found, _typed(found)))

    def add_size(self, found: Sized) -> None:
        """How many elements it holds."""
        if len(found):
            self._sized.append(found)
            self._sizes.append(len(found))
        else:
            self._empty.append(found)

    def add_empty(self, found: Sized) -> None:
        """That it holds nothing, whatever it holds now."""
        self._empty.append(found)

    def add_name(self, table: Mapping[Any, Any], name: Any) -> None:
        """What one name stands for, or that it is absent."""
        if name in table:
            names = self._names.setdefault(id(table), _Names(table))
            names.names.append(name)
            names.values.append(table[name])
        else:
            self._absent.append((table, name))

    def add_cell(self, cell: CellType) -> None:
        """The content of a closure's variable."""
        self._cells.append(cell)
        self._contents.append(cell.cell_contents)

    def add_tensor(self, tensor: Tensor) -> None:
        """All that a call may depend on of a tensor but its elements."""
        self._tensors.append(tensor)
        self._looks += _looks(tensor)
        self._types.append(_type(tensor))
        if tensor._node is not None:
            self._nodes.append(tensor._node)

    def close(self) -> None:
        """Put what was noted in the order in which it is compared."""
        # a getter of one name would not give a tuple
        self._getters = [
            (itemgetter(t.names[0], *t.names), t.table) for t in self._names.values()
        ]
        named = chain.from_iterable((t.values[0], *t.values) for t in self._names.values())
        self._found = [*self._values, *self._items, *named, *self._contents]

    # -- comparing

    def holds(self) -> bool:  # hot
        """Whether everything is as it was. A tensor with hooks never is: those are to run."""
        try:
            return (
                not any(self._empty)
                and list(map(len, self._sized)) == self._sizes
                and list(chain.from_iterable(self._dicts)) == self._keys
                and _are_same(self._objects(), self._found)
                and all(map(is_, self._tensor_looks(), self._looks))
                and not any(map(_has_hooks, self._nodes))
                and self._have_same_types()
                and all(_typed(now) == then for now, then in self._sets)
                and not any(name in names for names, name in self._absent)
            )
        except Exception:  # a name that is gone, a comparison of the user's that fails
            return False

    def _objects(self) -> list[object]:
        return list(
            chain(
                chain.from_iterable(map(dict.values, self._dicts)),
                chain.from_iterable(self._lists),
                chain.from_iterable(get(names) for get, names in self._getters),
                map(_content, self._cells),
            )
        )

    def _tensor_looks(self) -> list[object]:
        return list(chain.from_iterable(map(_looks, self._tensors)))

    def _have_same_types(self) -> bool:
        now = list(map(_type, self._tensors))
        if now != self._types:
            return False
        self._types = now  # which is found equal at once the next time
        return True


def _typed(found: Iterable[object]) -> frozenset[object]:
    """The elements of a set with their types: 1, 1.0 and True are equal."""
    return frozenset((type(item), item) for item in found)


def _are_same(now: list[object], then: list[object]) -> bool:
    if len(now) != len(then):
        return False
    return all(map(is_, now, then)) or all(map(_is_same, now, then))


def _is_same(now: object, then: object) -> bool:
    if now is then:
        return True
    if type(now) is not type(then) or type(now) not in _COMPARED:
        return False
    return bool(now == then) and repr(now) == repr(then)
