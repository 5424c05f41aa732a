"""Forward mode through `autograd.Function`: tangents of its results are what its `jvp` says.

Note: what `forward` computes on the way has tangents too, in the levels outside the innermost:
`jvp` may read it, and its result has derivatives in those levels.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any  # functions take and return anything

from rushlight import errors
from rushlight.autograd.tangents import Level, below, is_smooth, zeros_like
from rushlight.config import scopes
from rushlight.ops.registry import OPS
from rushlight.trace.trace import hooks

Given = list[tuple[Level, list[Any]]]  # by level, the outermost first: tangents of arguments


def given_to(args: Sequence[Any]) -> Given:
    """The tangents of a function's arguments."""
    found = []
    for level in scopes.levels:
        if any(level.holds(a) for a in args):
            with below(level):
                found.append((level, [level.tangent(a) for a in args]))
    return found


@contextlib.contextmanager
def outside(given: Given) -> Iterator[None]:
    """Only levels outside the innermost of those that the arguments have tangents in."""
    if not given:
        yield
        return
    with below(given[-1][0]):
        yield


def with_own_values(
    outputs: Sequence[Any], args: Sequence[Any], dirty: Sequence[Any]
) -> Sequence[Any]:
    """The results as tensors that share no value with an argument, so that tangents of both may
    differ; an argument that was written to has a value of its own.
    """
    values = {id(a._storage.value) for a in args if isinstance(a, hooks.tensor_class)}

    def own(x: Any) -> Any:
        if not isinstance(x, hooks.tensor_class) or any(x is d for d in dirty):
            return x
        is_own = x._view is None and id(x._storage.value) not in values
        return x if is_own else OPS["clone"](x)

    return tuple(own(x) for x in outputs)


def hand_out(
    cls: Any, ctx: Any, args: Sequence[Any], outputs: Sequence[Any], given: Given
) -> None:
    """Ask the function's `jvp` for the tangents of its results, level by level."""
    for level, tangents in given:
        with below(level):
            if ctx.materialize_grads:
                tangents = [_or_zeros(t, a) for t, a in zip(tangents, args, strict=True)]
            found = cls.jvp(ctx, *tangents)
            found = tuple(found) if isinstance(found, tuple | list) else (found,)
            if len(found) != len(outputs):
                raise RuntimeError(
                    "Function's jvp returned an invalid number of forward gradients (expected "
                    f"{len(outputs)} but got {len(found)})"
                )
            for out, tangent in zip(outputs, found, strict=True):
                if tangent is not None:
                    _set(level, out, tangent)


def _or_zeros(tangent: Any, argument: Any) -> Any:
    if tangent is not None or not isinstance(argument, hooks.tensor_class):
        return tangent
    if not is_smooth(argument):
        return None
    return zeros_like(argument)


def _set(level: Level, out: Any, tangent: Any) -> None:
    if tangent._shape != out._shape:
        raise errors.tangent_of_another_shape(out._shape, tangent._shape)
    level.set_tangent(out, tangent)
