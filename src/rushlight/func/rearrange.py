"""`rearrange`: dimensions named, merged and split by a pattern (`'b (h w) c -> b c h w'`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # tensors or sequences of them

from rushlight.ops.joining import stack

Group = tuple[str, ...]  # the names that one dimension is made of; () has size 1
ELLIPSIS = "..."


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Any:
    """The elements of a tensor in the dimensions that a pattern says.

    pattern:      names of dimensions, before and after `->`; `(a b)` is one dimension made of
                  two, `...` stands for any dimensions, `1` and `()` for one of size 1.
    axes_lengths: sizes of names that the shape alone does not tell.

    A sequence of tensors is stacked along a new first dimension. Raises ValueError for patterns
    that do not fit, RuntimeError for sizes that do not.

    >>> import rushlight as torch
    >>> torch.func.rearrange(torch.zeros(2, 12, 3), "b (h w) c -> b c h w", h=3).shape
    torch.Size([2, 3, 3, 4])
    """
    x = tensor if hasattr(tensor, "_storage") else stack(list(tensor))
    left, right = _sides(pattern)
    extra = x.ndim - (len(left) - 1 if (ELLIPSIS,) in left else len(left))
    if extra < 0 or (extra and (ELLIPSIS,) not in left):
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) must be equal to the number of "
            f"dimensions in the tensor ({x.ndim})"
        )
    between = tuple(f"{ELLIPSIS}{i}" for i in range(extra))
    left = [g for group in left for g in _spelled(group, between, is_apart=True)]
    right = [g for group in right for g in _spelled(group, between, is_apart=len(group) == 1)]
    _check_names(left, right, axes_lengths)
    sizes = _sizes(left, x._shape, axes_lengths)
    names = [name for group in left for name in group]
    order = [names.index(name) for group in right for name in group]
    apart = x.reshape([sizes[name] for name in names]).permute(order)
    return apart.reshape([math.prod(sizes[name] for name in group) for group in right])


def _sides(pattern: str) -> tuple[list[Group], list[Group]]:
    parts = pattern.split("->")
    if len(parts) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    left, right = (_groups(part) for part in parts)
    if any(ELLIPSIS in group and len(group) > 1 for group in left):
        raise ValueError(f"Ellipsis in parentheses on the left side is not allowed: {pattern}")
    if any(ELLIPSIS in group for group in right) and (ELLIPSIS,) not in left:
        raise ValueError(
            f"Ellipsis found in right side, but not left side of a pattern {pattern}"
        )
    return left, right


def _groups(text: str) -> list[Group]:
    """One side of a pattern: a group of names for each dimension."""
    found: list[Group] = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(" and inside is None:
            inside = []
        elif word == ")" and inside is not None:
            found.append(tuple(inside))
            inside = None
        else:
            names = _names(word)
            if inside is None:
                found.append(names)
            else:
                inside.extend(names)
    if inside is not None:
        raise ValueError(f"parentheses do not match in {text!r}")
    return found


def _names(word: str) -> Group:
    if word.isdecimal():
        if int(word) != 1:
            raise ValueError("rearrange only supports unnamed axes of size 1")
        return ()
    is_plain = word.isidentifier() and not word.startswith("_") and not word.endswith("_")
    if word != ELLIPSIS and not is_plain:
        raise ValueError(f"Invalid axis identifier: {word}")
    return (word,)


def _spelled(group: Group, between: Group, is_apart: bool) -> list[Group]:
    """A group with names for the dimensions that `...` stands for, apart or in one."""
    if ELLIPSIS not in group:
        return [group]
    if is_apart:
        return [(name,) for name in between]
    at = group.index(ELLIPSIS)
    return [(*group[:at], *between, *group[at + 1 :])]


def _check_names(left: Sequence[Group], right: Sequence[Group], lengths: Any) -> None:
    sides = [[name for group in side for name in group] for side in (left, right)]
    for names in sides:
        if len(set(names)) != len(names):
            raise ValueError(f"Indexing expression contains duplicate dimension in {names}")
    if different := set(sides[0]) ^ set(sides[1]):
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{different}"
        )
    if unknown := set(lengths) - set(sides[0]):
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _sizes(groups: Sequence[Group], shape: Sequence[int], lengths: Any) -> dict[str, int]:
    """The size of each name."""
    sizes: dict[str, int] = dict(lengths)
    for group, size in zip(groups, shape, strict=True):
        open_names = [name for name in group if name not in sizes]
        known = math.prod(sizes[name] for name in group if name in sizes)
        if len(open_names) > 1:
            raise RuntimeError(f"cannot infer the sizes of {open_names} at once")
        if open_names:
            sizes[open_names[0]] = size // known if known else 0
        if math.prod(sizes[name] for name in group) != size:
            raise RuntimeError(f"sizes of {group} do not multiply up to {size}")
    return sizes
