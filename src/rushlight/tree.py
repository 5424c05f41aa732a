"""Nested containers of tensors: tuples, lists, dicts and what is registered, taken apart.

A structure is `(kind, context, structures of the parts)`, None for a leaf. The context is what
besides its parts rebuilds a container: a dict's keys.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any  # a tree's leaves are the caller's business

from rushlight.layout import Size


@dataclass(frozen=True, slots=True)
class Container:
    """How a class gives its parts and a context, and is rebuilt from both."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Iterable[Any], Any], Any]


def _rebuilt_defaultdict(parts: Iterable[Any], context: Any) -> Any:
    factory, keys = context
    return defaultdict(factory, zip(keys, parts, strict=True))


def _sequence(kind: type) -> Container:
    return Container(lambda items: (items, None), lambda parts, _: kind(parts))


def _mapping(kind: type) -> Container:
    return Container(
        lambda d: (d.values(), tuple(d)),
        lambda parts, keys: kind(zip(keys, parts, strict=True)),
    )


CONTAINERS: dict[type, Container] = {
    **{kind: _sequence(kind) for kind in (tuple, list, Size)},
    **{kind: _mapping(kind) for kind in (dict, OrderedDict)},
    defaultdict: Container(
        lambda d: (d.values(), (d.default_factory, tuple(d))), _rebuilt_defaultdict
    ),
    deque: Container(lambda d: (d, d.maxlen), lambda parts, length: deque(parts, length)),
}
"""Classes whose instances have parts; users register more."""


def is_container(kind: type) -> bool:
    """Whether trees of exactly this class have parts."""
    return kind in CONTAINERS or (issubclass(kind, tuple) and hasattr(kind, "_fields"))


def taken_apart(tree: Any) -> tuple[type, Any, list[Any]] | None:
    """A container's class, context and parts; None for a leaf.

    An instance of a class that only derives from a container is one of that kind.
    """
    kind = type(tree)
    if kind in CONTAINERS:
        parts, context = CONTAINERS[kind].flatten(tree)
        return kind, context, list(parts)
    if isinstance(tree, dict):
        return kind, tuple(tree), list(tree.values())
    if isinstance(tree, tuple | list):
        return kind, None, list(tree)
    return None


def flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Any]:
    """The leaves of `tree` in order, and a structure that `unflatten` takes.

    is_leaf: what besides everything that is no container is not to be taken apart.
    """
    leaves: list[Any] = []
    return leaves, _walk(tree, leaves, is_leaf)


def _walk(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> Any:
    found = None if is_leaf is not None and is_leaf(tree) else taken_apart(tree)
    if found is None:
        leaves.append(tree)
        return None
    kind, context, parts = found
    return (kind, context, [_walk(part, leaves, is_leaf) for part in parts])


def unflatten(leaves: list[Any], structure: Any) -> Any:
    """The inverse of `flatten`."""
    return _build(iter(leaves), structure)


def _build(leaves: Any, structure: Any) -> Any:
    if structure is None:
        return next(leaves)
    kind, context, parts = structure
    return put_together(kind, context, [_build(leaves, part) for part in parts])


def put_together(kind: type, context: Any, parts: list[Any]) -> Any:
    """The inverse of `taken_apart`."""
    if kind in CONTAINERS:
        return CONTAINERS[kind].unflatten(parts, context)
    if context is not None:
        pairs = zip(context, parts, strict=True)
        return OrderedDict(pairs) if issubclass(kind, OrderedDict) else dict(pairs)
    if hasattr(kind, "_fields"):
        return kind(*parts)
    return kind(parts)


def map(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to every leaf."""
    leaves, structure = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], structure)


def spread_prefix(prefix: Any, structure: Any) -> list[Any] | None:
    """One item of `prefix` for each leaf of a structure: what is a leaf of the prefix stands
    for everything below it. None if the two do not match.
    """
    found = taken_apart(prefix)
    if found is None:
        return [prefix] * _count(structure)
    if structure is None:
        return None
    kind, context, parts = structure
    given, given_context, items = found
    if not issubclass(given, kind) or len(items) != len(parts):
        return None
    if issubclass(given, dict):
        by_key = put_together(kind, context, parts)
        if set(by_key) != set(prefix):
            return None
        items = [prefix[key] for key in by_key]
    elif given_context != context:
        return None
    return _spread_all(items, parts)


def _spread_all(items: list[Any], parts: list[Any]) -> list[Any] | None:
    spread: list[Any] = []
    for item, part in zip(items, parts, strict=True):
        below = spread_prefix(item, part)
        if below is None:
            return None
        spread += below
    return spread


def _count(structure: Any) -> int:
    return 1 if structure is None else sum([_count(part) for part in structure[2]])
