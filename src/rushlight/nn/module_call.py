"""A module's call when hooks stand around its forward."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from rushlight.nn import hooks as H
from rushlight.nn.blame import add_note

if TYPE_CHECKING:
    from rushlight.nn.module import Module


def call_with_hooks(self: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a module's forward with all its hooks; lower its flag when none is left."""
    if self._hooked and not _has_hooks(self):
        self._hooked = False
    called: set[int] = set()
    try:
        return _run(self, args, kwargs, called)
    except Exception as error:
        add_note(error, self)
        _run_always_called(self, args, kwargs, called)
        raise


def _has_hooks(module: Module) -> bool:
    return bool(
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    )


def _run(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
) -> Any:
    full, legacy = module._get_backward_hooks()
    before = module._get_backward_pre_hooks()
    args, kwargs = _run_pre_hooks(module, args, kwargs)
    gates = H.BackwardGates(module, full, before) if full or before else None
    if gates is not None:
        args = gates.enter(args)
    result = module.forward(*args, **kwargs)
    result = _run_forward_hooks(module, args, kwargs, result, called)
    if gates is not None:
        result = gates.leave(result)
    if legacy:
        H.call_legacy_backward_hooks(module, legacy, result)
    return result


def _run_pre_hooks(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    hooks = [*H.global_forward_pre.items(), *module._forward_pre_hooks.items()]
    for key, hook in hooks:
        if key in module._forward_pre_hooks_with_kwargs:
            result = hook(module, args, kwargs)
            if result is not None:
                args, kwargs = _args_and_kwargs(result)
        else:
            result = hook(module, args)
            if result is not None:
                args = result if isinstance(result, tuple) else (result,)
    return args, kwargs


def _args_and_kwargs(result: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(
        f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got "
        f"{result}."
    )


def _run_forward_hooks(
    module: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    result: Any,
    called: set[int],
) -> Any:
    hooks = [*H.global_forward.items(), *module._forward_hooks.items()]
    for key, hook in hooks:
        called.add(key)
        changed = _call_forward_hook(module, key, hook, args, kwargs, result)
        result = result if changed is None else changed
    return result


def _call_forward_hook(
    module: Module, key: int, hook: Any, args: Any, kwargs: Any, result: Any
) -> Any:
    with_kwargs = (
        key in module._forward_hooks_with_kwargs or key in H.global_forward_with_kwargs
    )
    return hook(module, args, kwargs, result) if with_kwargs else hook(module, args, result)


def _run_always_called(
    module: Module, args: tuple[Any, ...], kwargs: dict[str, Any], called: set[int]
) -> None:
    """After an error, call the hooks that asked to be called in any case."""
    hooks = [
        (key, hook)
        for table, always in (
            (H.global_forward, H.global_forward_always),
            (module._forward_hooks, module._forward_hooks_always_called),
        )
        for key, hook in table.items()
        if key in always and key not in called
    ]
    for key, hook in hooks:
        try:
            _call_forward_hook(module, key, hook, args, kwargs, None)
        except Exception as error:
            warnings.warn(
                f"forward hook with ``always_call=True`` raised an exception that was "
                f"silenced as another error was raised in forward: {error}",
                stacklevel=2,
            )
