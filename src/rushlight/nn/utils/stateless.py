"""Calling a module with other tensors in the places of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.registry import owned
from rushlight.tensor import Tensor

__all__ = ["functional_call"]

_ABSENT = object()  # what an attribute was that the module does not have


def functional_call(
    module: Module,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """The module's output if its parameters and buffers were the given ones.

    Tensors that the module holds under several names are replaced everywhere, unless
    `tie_weights` is False. A name that the module does not have is an attribute of it for the
    time of the call. With `strict`, the names must be exactly the module's.
    """
    given = _merged(parameters_and_buffers)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, given, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def _merged(parameters_and_buffers: Any) -> dict[str, Tensor]:
    if isinstance(parameters_and_buffers, Mapping):
        return dict(parameters_and_buffers)
    if not isinstance(parameters_and_buffers, (tuple, list)):
        raise ValueError(
            "Expected parameters_and_buffers to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameters_and_buffers)}"
        )
    merged: dict[str, Tensor] = {}
    for part in parameters_and_buffers:
        if repeated := merged.keys() & part.keys():
            raise ValueError(
                f"{sorted(repeated)} appeared in multiple dictionaries; behavior of functional "
                "call is ambiguous"
            )
        merged.update(part)
    return merged


@contextmanager
def _replaced(
    module: Module, given: dict[str, Tensor], tie_weights: bool, strict: bool
) -> Iterator[None]:
    """The module with its tensors exchanged for the time of a `with` block."""
    own = _own_tensors(module)
    if strict:
        _check_names(module, own, given)
    if tie_weights:
        given = _with_ties(own, given)
    places = [(name, *_place(module, name)) for name in given]
    before = [(table, key, table[key]) for _, table, key in places if table is not None]
    plain = [(name, _find_plain(module, name)) for name, table, _ in places if table is None]
    try:
        for name, table, key in places:
            if table is None:
                owner, attribute, _ = _find_plain(module, name)
                setattr(owner, attribute, given[name])
            else:
                table[key] = given[name]
        yield
    finally:
        for table, key, value in before:
            table[key] = value
        for _, (owner, attribute, value) in plain:
            if value is _ABSENT:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, value)


def _own_tensors(module: Module) -> dict[str, Tensor]:
    named = [
        *module.named_parameters(remove_duplicate=False),
        *module.named_buffers(remove_duplicate=False),
    ]
    return dict(named)


def _check_names(module: Module, own: dict[str, Tensor], given: dict[str, Tensor]) -> None:
    lines = []
    for what, names in (
        ("Unexpected key(s): ", given.keys() - own.keys()),
        ("Missing key(s): ", own.keys() - given.keys()),
    ):
        if names:
            lines.append(what + ", ".join(sorted(names)) + ".")
    if lines:
        text = "\n\t".join(lines)
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t{text}")


def _with_ties(own: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each given tensor also under the other names of the one it replaces."""
    groups: dict[int, list[str]] = {}
    for name, tensor in own.items():
        groups.setdefault(id(tensor), []).append(name)
    result = dict(given)
    for names in groups.values():
        chosen = {name: given[name] for name in names if name in given}
        if len({id(tensor) for tensor in chosen.values()}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(chosen)}, which are "
                "tied. Consider using tie_weights=False"
            )
        for tensor in chosen.values():
            result.update(dict.fromkeys(names, tensor))
    return result


def _place(module: Module, name: str) -> tuple[Any, str]:
    """The table that holds a name, or None if it is no parameter or buffer."""
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    for table in ("_parameters", "_buffers"):
        if key in owner.__dict__[table]:
            return owned(owner, table), key
    return None, key


def _find_plain(module: Module, name: str) -> tuple[Module, str, Any]:
    path, _, key = name.rpartition(".")
    owner = module.get_submodule(path)
    value = getattr(owner, key, _ABSENT)
    if value is not _ABSENT and not isinstance(value, Tensor):
        raise TypeError(f"attribute `{name}`: {value} is not a Tensor")
    return owner, key, value
