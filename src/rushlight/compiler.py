"""`torch.compile` and `torch.compiler`: what scripts call to have code compiled.

Recording compiles every step already, so there is nothing to opt into. Skipping a function's
Python body when its arguments match is not built yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # any function or module


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "rushlight",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """The function or module itself: its operations are recorded and compiled as they are.

    The options are accepted for compatibility and change nothing.

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if model is None:
        return compile
    if not callable(model):
        raise RuntimeError(
            f"compile: expected a function or module, got {type(model).__name__}"
        )
    return model


def is_compiling() -> bool:
    """False: code never runs in a special mode."""
    return False


def disable(function: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself; as a decorator too."""
    return function if function is not None else disable


def reset() -> None:
    """Compute what is pending; programs are kept, since they depend on nothing that can go
    stale.
    """
    from rushlight.trace import flush  # only when asked for

    flush()
