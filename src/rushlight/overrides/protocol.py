"""What a function of a program's own needs to be overridable too, and the default handler."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any  # functions of any signature

from rushlight.overrides.dispatch import handle, overloaded, scopes
from rushlight.overrides.modes import DisableTorchFunctionSubclass
from rushlight.tensor import Tensor

Function = Callable[..., Any]


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments is to be handed to `handle_torch_function`."""
    if scopes.modes and not scopes.no_modes:
        return True
    return not scopes.no_subclasses and bool(overloaded(relevant_args))


def has_torch_function_unary(argument: Any) -> bool:
    """`has_torch_function` of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """`has_torch_function` of arguments given one by one."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Function, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Hand a call to the mode in force, or to the first class that has an implementation."""
    return handle(public_api, public_api, overloaded(relevant_args), args, kwargs)


def wrap_torch_function(dispatcher: Function) -> Callable[[Function], Function]:
    """Make a function overridable; `dispatcher` gives its relevant arguments."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def inner(*args: Any, **kwargs: Any) -> Any:
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(inner, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return inner

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether an object is a tensor or has `__torch_function__`."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


@functools.cache
def get_default_nowrap_functions() -> set[Function]:
    """Functions whose results keep their class when a subclass of Tensor calls them."""
    members = ("_base", "grad", "_grad")
    return {vars(Tensor)[name].__get__ for name in members} | {Tensor.backward}


def default_handler(cls: type, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
    """What `Tensor.__torch_function__` does: the function, with results of the subclass."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    outer = scopes.running
    if outer is not None and outer == func:  # no function of ours asks while it is disabled
        raise TypeError(f"{func!r} is of another library and takes no tensor of rushlight")
    scopes.running = func
    try:
        with DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
    finally:
        scopes.running = outer
    return result if func in get_default_nowrap_functions() else converted(result, cls)


def converted(result: Any, cls: Any) -> Any:
    """Tensors of a result as tensors of a subclass, in tuples and lists too."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor):
        return result if isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, tuple | list):
        parts = [converted(part, cls) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result
