"""Which globals a file may name, and what they stand for here.

A pickle names classes and functions by module and name. By default only the names in this table
are honoured: none of them runs code from the file. A user may add to them (`add_safe_globals`).
"""

from __future__ import annotations

import _codecs
import collections
import contextlib
import dataclasses
import functools
import pickle
from _compat_pickle import IMPORT_MAPPING, NAME_MAPPING
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.serialization import rebuild
from rushlight.serialization.tensors import DTYPE_OF_STORAGE, public

# A class, a function, or a pair of one and the name that files have for it.
SafeGlobal = Callable[..., Any] | tuple[Callable[..., Any], str]

_added: dict[str, Any] = {}

# Modules whose functions reach out of the process: never loaded under weights_only, even if
# asked.
_BLOCKED = frozenset({"os", "sys", "posix", "nt", "subprocess", "shutil", "socket", "runpy"})

_UNSUPPORTED = frozenset(
    {"_rebuild_qtensor", "_rebuild_sparse_tensor", "_rebuild_nested_tensor"}
)


@dataclasses.dataclass(frozen=True, slots=True)
class StorageType:
    """What `torch.FloatStorage` in a file means: the dtype of the bytes."""

    dtype: str


def add_safe_globals(safe_globals: Iterable[SafeGlobal]) -> None:
    """Let `load(weights_only=True)` build objects of these classes and call these functions.

    An entry is a class or function, or `(object, "module.name as the file has it")`.
    """
    _added.update(map(_entry, safe_globals))


def get_safe_globals() -> list[SafeGlobal]:
    """What has been added to the default allow list."""
    return [obj if _dotted(obj) == name else (obj, name) for name, obj in _added.items()]


def clear_safe_globals() -> None:
    """Forget everything that was added to the default allow list."""
    _added.clear()


class safe_globals(contextlib.AbstractContextManager[None]):
    """`add_safe_globals` for the length of a `with` block."""

    def __init__(self, safe_globals: Iterable[SafeGlobal]) -> None:
        self._entries = list(safe_globals)

    def __enter__(self) -> None:
        self._before = dict(_added)
        add_safe_globals(self._entries)

    def __exit__(self, *_: object) -> None:
        _added.clear()
        _added.update(self._before)


def modern(module: str, name: str) -> tuple[str, str]:
    """The present place of a global: pickles of protocol 2 use Python 2's module names."""
    if (module, name) in NAME_MAPPING:
        module, name = NAME_MAPPING[module, name]
    module = IMPORT_MAPPING.get(module, module)
    if module == "numpy.core" or module.startswith("numpy.core."):
        module = "numpy._core" + module.removeprefix("numpy.core")
    return module, name


def safe_object(module: str, name: str) -> Any:
    """The allowed object behind a global, or an UnpicklingError that names it."""
    module, name = modern(module, name)
    full = f"{module}.{name}"
    if module.partition(".")[0] in _BLOCKED:
        raise pickle.UnpicklingError(f"the file names {full}, whose module is blocked")
    if full in _added:
        return _added[full]
    if full in default_names():
        return default_names()[full]
    ours = _ours_by_name(module, name)
    if ours is not None and any(ours is obj for obj in _added.values()):
        return ours
    raise pickle.UnpicklingError(_refusal(full, name))


def any_object(module: str, name: str, find: Callable[[str, str], Any]) -> Any:
    """The object behind a global, importing what it must: for `weights_only=False` alone.

    `find` is the unpickler's own way, for everything that is not PyTorch's.
    """
    full = ".".join(modern(module, name))
    if full in default_names():
        return default_names()[full]
    ours = _ours_by_name(module, name)
    return find(module, name) if ours is None else ours


@functools.cache
def default_names() -> dict[str, Any]:
    """The allow list: plain containers, and what a tensor is put together from."""
    torch = public()
    names: dict[str, Any] = {
        "collections.OrderedDict": collections.OrderedDict,
        "collections.Counter": collections.Counter,
        "builtins.set": set,
        "builtins.bytearray": bytearray,
        "builtins.complex": complex,
        "_codecs.encode": _codecs.encode,
        "torch.Size": torch.Size,
        "torch.device": torch.device,
        "torch.Tensor": torch.Tensor,
        "torch.nn.parameter.Parameter": torch.nn.Parameter,
        "torch.storage.UntypedStorage": StorageType("uint8"),
        "torch._tensor._rebuild_from_type_v2": rebuild.of_type,
    }
    for name, function in rebuild.FUNCTIONS.items():
        names[f"torch._utils.{name}"] = function
    for storage, dtype in DTYPE_OF_STORAGE.items():
        names[f"torch.{storage}"] = names[f"torch.cuda.{storage}"] = StorageType(dtype)
    for name in (*DTYPE_OF_STORAGE.values(), *rebuild.OTHER_DTYPES):
        if hasattr(torch, name):
            names[f"torch.{name}"] = getattr(torch, name)
    return names


def may_be_called(obj: Any) -> bool:
    """Whether a file may call this object: only what the tables hold."""
    return callable(obj) and (id(obj) in _default_ids() or is_added(obj))


def is_added(obj: Any) -> bool:
    return any(obj is entry for entry in _added.values())


@functools.cache
def _default_ids() -> frozenset[int]:
    return frozenset(map(id, default_names().values()))


def _entry(given: SafeGlobal) -> tuple[str, Any]:
    if isinstance(given, tuple):
        obj, full = given
        return ".".join(modern(*full.rsplit(".", 1))), obj
    return _dotted(given), given


def _dotted(obj: Any) -> str:
    module, _ = modern(obj.__module__, obj.__qualname__)
    return f"{module}.{obj.__qualname__}"


def _ours_by_name(module: str, name: str) -> Any:
    """Rushlight's namesake of something in PyTorch, or None.

    PyTorch's classes live deep (`torch.nn.modules.linear.Linear`); the public name is enough.
    """
    parts = module.split(".")
    if parts[0] != "torch" or name.startswith("_"):
        return None
    place: Any = public()
    found = getattr(place, name, None)
    for part in parts[1:]:
        place = getattr(place, part, None)
        if place is None:
            break
        found = getattr(place, name, found)
    return found


def _refusal(full: str, name: str) -> str:
    if name in _UNSUPPORTED or name in rebuild.OTHER_DTYPES:
        return f"the file holds a kind of tensor that is not supported here ({full})"
    return (
        f"the file names {full}, which is not an allowed global by default. If you trust it, "
        f"allow it with torch.serialization.add_safe_globals([{full}]) or the context manager "
        f"torch.serialization.safe_globals([{full}]); if you trust the whole file, load it "
        "with weights_only=False, which can run any code that the file holds"
    )
