"""Which functions can be overridden, and what they are called."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any  # functions of any signature

from rushlight.overrides.dispatch import is_method, tensor_members
from rushlight.surface import NAMESPACES, is_factory
from rushlight.tensor import Tensor

Function = Callable[..., Any]
_MODULES = {"torch": "", "F": "nn.functional."}


@functools.cache
def _names() -> dict[Function, str]:
    """Every overridable function and method, by the name that a program has for it."""
    found: dict[Function, str] = {}
    for space, functions in NAMESPACES.items():
        prefix = _MODULES.get(space, f"{space}.")
        for name, function in functions.items():
            found.setdefault(function, f"torch.{prefix}{name}")
    for name, member in tensor_members().items():
        if is_method(name, member):
            is_property = isinstance(member, property)
            found.setdefault(member.__get__ if is_property else member, f"torch.Tensor.{name}")
    return found


def resolve_name(f: Function) -> str | None:
    """The name of an overridable function: `torch.add`, `torch.Tensor.add`."""
    return _names().get(f)


@functools.cache
def get_ignored_functions() -> set[Function]:
    """Public functions that make tensors, or that look at what is no tensor."""
    functions = NAMESPACES["torch"]
    made = {f for f in functions.values() if is_factory(inspect.unwrap(f))}
    return made | {functions["is_tensor"], functions["is_storage"], functions["tensor"]}


def get_overridable_functions() -> dict[Any, list[Function]]:
    """The overridable functions of each module, and of Tensor."""
    owners: dict[Any, list[Function]] = {}
    ignored = get_ignored_functions()
    for function, name in _names().items():
        if function not in ignored:
            owners.setdefault(_owner(name), []).append(function)
    return owners


def _owner(name: str) -> Any:
    owner = name.rpartition(".")[0]
    if owner == "torch.Tensor":
        return Tensor
    return importlib.import_module(owner.replace("torch", "rushlight", 1))


def get_testing_overrides() -> dict[Function, Function]:
    """For each overridable function one of its signature that returns -1."""
    return {
        function: _stand_in(function)
        for functions in get_overridable_functions().values()
        for function in functions
    }


def _stand_in(function: Function) -> Function:
    def constant(*args: Any, **kwargs: Any) -> int:
        return -1

    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a property's __get__
        return lambda self: -1
    constant.__signature__ = signature  # type: ignore[attr-defined]
    return constant


def is_tensor_method_or_property(func: Function) -> bool:
    """Whether a function is one of Tensor's own."""
    return (resolve_name(func) or "").startswith("torch.Tensor.")
