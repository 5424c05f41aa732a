"""What can be hooked to one module, and under which conditions."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from rushlight.nn import hooks as H
from rushlight.nn.hooks import RemovableHandle

_TABLES = (
    "_backward_pre_hooks",
    "_backward_hooks",
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


class Hookable:
    """The part of a module that registers hooks.

    `_hooked` is the one thing a call looks at: it goes up when a hook of a call is registered,
    and down when a call finds all of them removed.
    """

    _is_full_backward_hook: bool | None
    _hooked: bool

    def _init_hooks(self, keep: bool = False) -> None:
        state = self.__dict__
        for name in _TABLES:
            if not keep or name not in state:
                state[name] = OrderedDict()
        if not keep or "_is_full_backward_hook" not in state:
            state["_is_full_backward_hook"] = None
        state["_hooked"] = bool(
            state["_forward_hooks"]
            or state["_forward_pre_hooks"]
            or state["_backward_hooks"]
            or state["_backward_pre_hooks"]
        )

    def _hook_call(
        self, table: str, hook: Callable[..., Any], prepend: bool, **flags: bool
    ) -> RemovableHandle:
        """Enter a hook of calls; `flags` names further tables that mark it."""
        marks = [self.__dict__[name] for name in flags]
        handle = RemovableHandle(self.__dict__[table], extra_dict=marks)
        H.insert_hook(self.__dict__[table], handle, hook, prepend)
        for (_, wanted), mark in zip(flags.items(), marks, strict=True):
            if wanted:
                mark[handle.id] = True
        self.__dict__["_hooked"] = True
        return handle

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns replaces the arguments."""
        return self._hook_call(
            "_forward_pre_hooks", hook, prepend, _forward_pre_hooks_with_kwargs=with_kwargs
        )

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; what it returns is the output."""
        return self._hook_call(
            "_forward_hooks",
            hook,
            prepend,
            _forward_hooks_with_kwargs=with_kwargs,
            _forward_hooks_always_called=always_call,
        )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_output)` before the gradient passes through the module."""
        return self._hook_call("_backward_pre_hooks", hook, prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when both gradients are known."""
        self._set_backward_kind(full=True)
        return self._hook_call("_backward_hooks", hook, prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """The older form of `register_full_backward_hook`."""
        self._set_backward_kind(full=False)
        return self._hook_call("_backward_hooks", hook, False)

    def _set_backward_kind(self, full: bool) -> None:
        if self._is_full_backward_hook is (not full):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )
        self._is_full_backward_hook = full

    def _get_backward_hooks(self) -> tuple[list[Any], list[Any]]:
        """The full backward hooks, and those of the older kind."""
        full = list(H.global_backward.values()) if H.global_backward_is_full else []
        legacy = list(H.global_backward.values()) if H.global_backward_is_full is False else []
        own = list(self.__dict__["_backward_hooks"].values())
        if self._is_full_backward_hook is False:
            return full, legacy + own
        return full + own, legacy

    def _get_backward_pre_hooks(self) -> list[Any]:
        own = self.__dict__["_backward_pre_hooks"]
        return [*H.global_backward_pre.values(), *own.values()]

    # ---- state

    def _hook_state(self, table: str, hook: Any) -> RemovableHandle:
        handle = RemovableHandle(self.__dict__[table])
        self.__dict__[table][handle.id] = hook
        return handle

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` collects this module."""
        return self._hook_state("_state_dict_pre_hooks", hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, local_metadata)`, which works in place."""
        handle = self._hook_state("_state_dict_hooks", hook)
        _POST_HOOK_IDS.add(handle.id)
        return handle

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        if getattr(hook, "_from_public_api", False):
            raise RuntimeError(
                "Cannot register the same function as the state dict post hook that was "
                "previously registered via register_state_dict_post_hook"
            )
        return self._hook_state("_state_dict_hooks", hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, ...)` before this module's state is read."""
        return self._hook_state("_load_state_dict_pre_hooks", _PreLoadHook(hook, self))

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        wrapped = _PreLoadHook(hook, self if with_module else None)
        return self._hook_state("_load_state_dict_pre_hooks", wrapped)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` after `load_state_dict`."""
        return self._hook_state("_load_state_dict_post_hooks", hook)


_POST_HOOK_IDS: set[int] = set()


def must_work_in_place(key: int) -> bool:
    """Was this state_dict hook registered by the public method, which takes no result?"""
    return key in _POST_HOOK_IDS


class _PreLoadHook:
    """A hook before loading, with the module it belongs to held weakly."""

    def __init__(self, hook: Callable[..., Any], module: Any) -> None:
        import weakref  # only hooks of this rare kind need it

        self.hook = hook
        self.module = None if module is None else weakref.ref(module)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.module is None:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"hook": self.hook, "module": None if self.module is None else self.module()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["hook"], state["module"])  # type: ignore[misc]
