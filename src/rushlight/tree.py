"""Nested containers of tensors: flatten and rebuild tuples, lists, dicts and dataclasses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any  # a tree's leaves are the caller's business


def flatten(tree: Any) -> tuple[list[Any], Any]:
    """The leaves of `tree` in order, and a structure that `unflatten` takes."""
    leaves: list[Any] = []
    return leaves, _walk(tree, leaves)


def _walk(tree: Any, leaves: list[Any]) -> Any:
    if isinstance(tree, dict):
        return (type(tree), tuple(tree), [_walk(v, leaves) for v in tree.values()])
    if isinstance(tree, tuple | list):
        return (type(tree), None, [_walk(v, leaves) for v in tree])
    leaves.append(tree)
    return None


def unflatten(leaves: list[Any], structure: Any) -> Any:
    """The inverse of `flatten`."""
    return _build(iter(leaves), structure)


def _build(leaves: Any, structure: Any) -> Any:
    if structure is None:
        return next(leaves)
    kind, keys, parts = structure
    built = [_build(leaves, part) for part in parts]
    if keys is not None:
        pairs = zip(keys, built, strict=True)
        return OrderedDict(pairs) if issubclass(kind, OrderedDict) else dict(pairs)
    if hasattr(kind, "_fields"):
        return kind(*built)
    return kind(built)


def map(function: Callable[[Any], Any], tree: Any) -> Any:
    """`tree` with `function` applied to every leaf."""
    leaves, structure = flatten(tree)
    return unflatten([function(leaf) for leaf in leaves], structure)


def spread_prefix(prefix: Any, structure: Any) -> list[Any] | None:
    """One item of `prefix` for each leaf of a structure: what is a leaf of the prefix stands
    for everything below it. None if the two do not match.
    """
    if not isinstance(prefix, tuple | list | dict):
        return [prefix] * _count(structure)
    if structure is None:
        return None
    kind, keys, parts = structure
    if not isinstance(prefix, kind) or len(prefix) != len(parts):
        return None
    if keys is not None and set(keys) != set(prefix):
        return None
    inner = prefix if keys is None else [prefix[key] for key in keys]
    found: list[Any] = []
    for item, part in zip(inner, parts, strict=True):
        below = spread_prefix(item, part)
        if below is None:
            return None
        found += below
    return found


def _count(structure: Any) -> int:
    return 1 if structure is None else sum([_count(part) for part in structure[2]])
