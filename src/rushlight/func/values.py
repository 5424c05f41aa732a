"""`functionalize` and `debug_unwrap`: what little is left of them where every recorded program
is functional and transforms wrap no tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any  # functions of anything

_REMOVE = ("mutations", "mutations_and_views")


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """`func` itself: in-place writes are recorded as new values in any case, and what was
    written to is changed when the function is done.

    Raises RuntimeError for a `remove` other than 'mutations' or 'mutations_and_views'.
    """
    if remove not in _REMOVE:
        raise RuntimeError(
            f"functionalize(f, remove={remove!r}): expected one of {', '.join(_REMOVE)}"
        )

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return inner


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """The elements of a tensor inside a transform, without derivatives. For looking at them.

    >>> import rushlight as torch
    >>> torch.func.grad(lambda x: torch.func.debug_unwrap(x).sum() + x.sum())(torch.ones(2))
    tensor([1., 1.])
    """
    return tensor.detach()
