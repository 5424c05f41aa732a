"""Custom Functions inside `vmap`: their own rule, or what `forward` does to one sample."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple  # forward takes and returns anything

from rushlight import tree
from rushlight.ops import batching
from rushlight.tensor import Tensor


class VmapInfo(NamedTuple):
    """What `Function.vmap` is told about the batch."""

    batch_size: int
    randomness: str


def apply_rule(function: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a Function's own `vmap` with whole batches, outside of the innermost one."""
    leaves, structure = tree.flatten(tuple(args))
    with batching.outside() as batch:
        dims = [0 if _is_in(x, batch.level) else None for x in leaves]
        if all(d is None for d in dims):
            return function.apply(*args, **kwargs)
        given = [
            x if d is None else batching.leave(x, batch.level, 0)
            for x, d in zip(leaves, dims, strict=True)
        ]
        made = function.vmap(
            VmapInfo(batch.size, batch.randomness),
            tree.unflatten(list(dims), structure),
            *tree.unflatten(given, structure),
            **kwargs,
        )
    if not isinstance(made, tuple) or len(made) != 2:
        raise RuntimeError(
            f"Expected the vmap staticmethod of {function.__name__} to have two returns, an "
            f"output and out_dims with pytree structure compatible with the output. Got a "
            f"{type(made)} instead"
        )
    return _entered(function, *made, batch)


def _is_in(x: Any, level: tuple[int, int]) -> bool:
    return isinstance(x, Tensor) and level in batching.levels_of(x)


def _entered(function: Any, output: Any, out_dims: Any, batch: batching.Batch) -> Any:
    leaves, structure = tree.flatten(output)
    dims = tree.spread_prefix(out_dims, structure)
    if dims is None:
        raise ValueError(
            f"{function.__name__}.vmap returned out_dims={out_dims}, which does not have the "
            f"structure of its output"
        )
    entered = [
        x if d is None else batching.enter(x, batch.number, d % x.ndim)
        for x, d in zip(leaves, dims, strict=True)
    ]
    return tree.unflatten(entered, structure)


def check_supports(function: Any, has_setup: bool, has_rule: bool) -> None:
    """Raise for a Function that says nothing about batches."""
    if not has_setup:
        raise RuntimeError(
            f"In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, "
            f"jacrev, ...), it must override the setup_context staticmethod: "
            f"{function.__name__} does not."
        )
    if has_rule and function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both "
            f"generate_vmap_rule=True and an overridden vmap staticmethod. Remove one of them."
        )
    if not has_rule and not function.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it does not have vmap support. "
            f"Please override and implement the vmap staticmethod or set "
            f"generate_vmap_rule=True."
        )
