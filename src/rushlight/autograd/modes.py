"""no_grad, enable_grad, set_grad_enabled and inference_mode: context managers and
decorators.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any  # decorates any function

from rushlight.config import scopes


class Decorating:
    """A context manager that may also be put around functions and generators."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exc: object) -> None:
        raise NotImplementedError

    def clone(self) -> Any:
        """One more of the kind, for one call of a decorated function."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            raise TypeError(f"{type(self).__name__} decorates functions, not classes")
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self.clone, function)

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inner


def _wrap_generator(
    clone: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The mode holds while the generator runs and not while its consumer does."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        sent = None
        while True:
            with clone():
                try:
                    item = generator.send(sent)
                except StopIteration as stop:
                    return stop.value
            sent = yield item

    return inner


class _Mode(Decorating):
    """Sets gradient recording on entry and restores it on exit."""

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled
        self.previous: list[bool] = []

    def __enter__(self) -> None:
        self.previous.append(scopes.grad_enabled)
        scopes.grad_enabled = self.enabled

    def __exit__(self, *exc: object) -> None:
        scopes.grad_enabled = self.previous.pop()

    def clone(self) -> Any:
        return type(self)()  # type: ignore[call-arg]


class no_grad(_Mode):
    """Operations inside record no gradient history.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        mode = object.__new__(cls)
        if function is None:
            return mode
        _Mode.__init__(mode, cls.on)
        return mode(function)

    on = False

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        super().__init__(self.on)


class enable_grad(no_grad):
    """Operations inside record gradient history, also within `no_grad`."""

    on = True


class set_grad_enabled(_Mode):
    """Set gradient recording at once; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(mode)
        self.before = scopes.grad_enabled
        scopes.grad_enabled = mode

    def __enter__(self) -> None:
        self.previous.append(self.before)
        scopes.grad_enabled = self.enabled

    def clone(self) -> set_grad_enabled:
        return set_grad_enabled(self.enabled)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        scopes.grad_enabled = self.before
        return super().__call__(function)


class inference_mode(_Mode):
    """`no_grad` whose results can never require grad afterwards."""

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        made = object.__new__(cls)
        if callable(mode):
            cls.__init__(made)
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode if mode else scopes.grad_enabled)
        self.mode = mode
        self.outer: list[bool] = []

    def __enter__(self) -> None:
        super().__enter__()
        self.outer.append(scopes.inference)
        scopes.inference = self.mode

    def __exit__(self, *exc: object) -> None:
        super().__exit__()
        scopes.inference = self.outer.pop()

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)


class set_multithreading_enabled(contextlib.AbstractContextManager[None]):
    """Accepted for programs that use it: a backward pass runs in the thread that asked."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __exit__(self, *_: object) -> None:
        return None


def is_grad_enabled() -> bool:
    return scopes.grad_enabled


def is_inference_mode_enabled() -> bool:
    return scopes.inference
