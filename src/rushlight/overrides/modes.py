"""Modes that see every call of a public function, and scopes in which nothing overrides."""

from __future__ import annotations

from typing import Any, Self  # functions of any signature

from rushlight import errors
from rushlight.overrides.dispatch import activate, scopes


class TorchFunctionMode:
    """A context in which `__torch_function__` is asked about every call of a public function.

    While a mode is asked it is not in force, so it may call the function itself.

    >>> import rushlight as torch
    >>> class Count(torch.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     _ = torch.ones(2) + 1
    >>> count.calls
    2
    """

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        raise errors.left_to_subclasses(self, "__torch_function__")

    def __enter__(self) -> Self:
        activate()
        scopes.modes = (*scopes.modes, self)
        return self

    def __exit__(self, *exc: object) -> None:
        scopes.modes = scopes.modes[:-1]

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """A new mode of this class."""
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class DisableTorchFunctionSubclass:
    """A context in which no class of an argument overrides; modes still do."""

    def __enter__(self) -> None:
        self.before = scopes.no_subclasses, scopes.no_modes
        self._disable()

    def _disable(self) -> None:
        scopes.no_subclasses = True

    def __exit__(self, *exc: object) -> None:
        scopes.no_subclasses, scopes.no_modes = self.before


class DisableTorchFunction(DisableTorchFunctionSubclass):
    """A context in which neither classes nor modes override."""

    def _disable(self) -> None:
        scopes.no_subclasses = scopes.no_modes = True
