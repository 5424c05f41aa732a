"""no_grad, enable_grad, set_grad_enabled and inference_mode: context managers and
decorators.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any  # decorates any function

from rushlight import errors, views
from rushlight.config import scopes


class Decorating:
    """A context manager that may also be put around functions and generators."""

    def __enter__(self) -> Any:
        raise errors.left_to_subclasses(self, "__enter__")

    def __exit__(self, *exc: object) -> None:
        raise errors.left_to_subclasses(self, "__exit__")

    def clone(self) -> Any:
        """One more of the kind, for one call of a decorated function."""
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            return _around_making(self, function)
        if inspect.isgeneratorfunction(function):
            return _wrap_generator(self.clone, function)

        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inner


def _around_making(mode: Decorating, cls: type[Any]) -> type[Any]:
    """A class whose objects are made under the mode; its methods are as they were."""
    warnings.warn(
        f"Decorating the class {cls.__name__} applies {type(mode).__name__} to its making "
        f"only. Use it as a context manager, or decorate `__init__`, to say so.",
        FutureWarning,
        stacklevel=4,
    )
    cls.__init__ = mode(cls.__init__)
    return cls


def _wrap_generator(
    clone: Callable[[], Any], function: Callable[..., Any]
) -> Callable[..., Any]:
    """The mode holds while the generator runs and not while its consumer does."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)

        def resume(step: Callable[..., Any], *given: Any) -> Any:
            with clone():
                return step(*given)

        try:
            item = resume(generator.send, None)
            while True:
                try:
                    sent = yield item
                except GeneratorExit:
                    resume(generator.close)
                    raise
                except BaseException as thrown:  # the consumer's, who gets what comes of it
                    item = resume(generator.throw, thrown)
                else:
                    item = resume(generator.send, sent)
        except StopIteration as stop:
            return stop.value

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
        scopes.grad_enabled = self.previous[-1]  # no call, in which a signal may be handled
        del self.previous[-1]

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

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Any:
        mode = object.__new__(cls)
        if orig_func is None:
            return mode
        _Mode.__init__(mode, cls.on)
        return mode(orig_func)

    on = False

    def __init__(self, orig_func: Callable[..., Any] | None = None) -> None:
        super().__init__(self.on)


class enable_grad(no_grad):
    """Operations inside record gradient history, also within `no_grad`."""

    on = True


class set_grad_enabled(_Mode):
    """Set gradient recording at once; as a context manager, until its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__(views.flag("set_grad_enabled", "enabled", mode))
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


def _switch_inference(is_on: bool) -> None:
    from rushlight.trace import inference  # traces come after the modes

    inference.switch(is_on)


class inference_mode(_Mode):
    """`no_grad` whose results can never require grad afterwards."""

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        made = object.__new__(cls)
        if callable(mode):
            cls.__init__(made)
            return made(mode)
        return made

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode)
        self.mode = mode
        self.outer: list[bool] = []

    def __enter__(self) -> None:
        super().__enter__()
        self.outer.append(scopes.inference)
        _switch_inference(self.mode)

    def __exit__(self, *exc: object) -> None:
        super().__exit__()
        _switch_inference(self.outer.pop())

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)


class set_multithreading_enabled(contextlib.AbstractContextManager[None]):
    """Accepted for programs that use it: a backward pass runs in the thread that asked."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode

    def __exit__(self, *_: object) -> None:
        return None

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)


class enforce_grad_layout_policy(Decorating):
    """Accepted for programs that use it: a first gradient lies in memory row by row."""

    def __init__(self, enable: bool = True) -> None:
        self.mode = enable

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None

    def clone(self) -> enforce_grad_layout_policy:
        return enforce_grad_layout_policy(self.mode)


def is_grad_enabled() -> bool:
    return scopes.grad_enabled


def is_inference_mode_enabled() -> bool:
    return scopes.inference
