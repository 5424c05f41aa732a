"""What transforms take and give: chosen arguments, trees of tensors, and what is wrong with
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # arguments of any function

from rushlight import tree
from rushlight.tensor import Tensor


def check_argnums(argnums: Any, count: int) -> None:
    """Raise unless `argnums` names one or several different ones of `count` arguments."""
    if not isinstance(argnums, int | tuple):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    chosen = argnums if isinstance(argnums, tuple) else (argnums,)
    if not chosen:
        raise RuntimeError("argnums must be non-empty")
    for argnum in chosen:
        if not isinstance(argnum, int):
            raise RuntimeError(f"argnum must be int, got: {type(argnum)}")
        if not -count <= argnum < count:
            raise RuntimeError(f"Got argnum={argnum}, but only {count} positional inputs")
    if len({argnum % count for argnum in chosen}) != len(chosen):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")


def chosen(args: Sequence[Any], argnums: Any) -> Any:
    """The arguments that `argnums` names: one, or a tuple of them."""
    check_argnums(argnums, len(args))
    return tuple(args[i] for i in argnums) if isinstance(argnums, tuple) else args[argnums]


def replaced(args: Sequence[Any], argnums: Any, new: Any) -> tuple[Any, ...]:
    """`args` with `new` in the places that `argnums` names."""
    made = list(args)
    pairs = zip(argnums, new, strict=True) if isinstance(argnums, tuple) else [(argnums, new)]
    for i, x in pairs:
        made[i] = x
    return tuple(made)


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of a function that returns both, (output, None) of another."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    check_tensors(tree.flatten(result[1])[0], "Expected tensors, got unsupported type")
    return result


def check_tensors(leaves: Sequence[Any], words: str) -> None:
    """Raise for the first leaf that is no tensor: `words` and its type."""
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{words} {type(leaf)}")


def output_leaves(name: str, output: Any) -> tuple[list[Any], Any]:
    """The tensors that a function returned, and their structure."""
    leaves, structure = tree.flatten(output)
    if not leaves or output is None:
        raise RuntimeError(
            f"{name}: Expected f to be a function that has non-empty output (got output = "
            f"{leaves})"
        )
    check_tensors(
        leaves, f"{name}: expected f(*primals) to return only tensors, got unsupported type"
    )
    return leaves, structure
