"""Saving a module's state as a flat dictionary, and loading it back.

A key is the dotted path of a parameter or persistent buffer. The dictionary carries, beside the
tensors, the version of every module's layout, so that older files can be brought up to date.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Iterator, Mapping
from typing import Any

import rushlight as rl
from rushlight.nn.module_hooks import must_work_in_place
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.nn.registry import owned
from rushlight.tensor import Tensor

EXTRA_STATE = "_extra_state"


class IncompatibleKeys(namedtuple("IncompatibleKeys", ["missing_keys", "unexpected_keys"])):
    """What `load_state_dict` could not match."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_{super().__repr__()}"  # PyTorch's class is `_IncompatibleKeys`

    __str__ = __repr__


class Savable:
    """The part of a module that is saved and loaded."""

    _version: int

    def get_extra_state(self) -> Any:
        """State besides tensors; a module that defines this defines `set_extra_state` too."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take back what `get_extra_state` gave."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called."
        )

    # ---- saving

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by dotted name, detached unless `keep_vars`."""
        for name, value in zip(("destination", "prefix", "keep_vars"), args, strict=False):
            if name == "destination":
                destination = value if destination is None else destination
            elif name == "prefix":
                prefix = value if prefix == "" else prefix
            else:
                keep_vars = value if keep_vars is False else keep_vars
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        local_metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = local_metadata
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        return self._run_state_dict_hooks(destination, prefix, local_metadata)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        for name, tensor in self._own_state():
            if tensor is not None:
                destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if _has_extra_state(type(self), "get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _run_state_dict_hooks(self, destination: Any, prefix: str, metadata: Any) -> Any:
        for key, hook in self._state_dict_hooks.items():
            result = hook(self, destination, prefix, metadata)
            if must_work_in_place(key):
                if result is not None:
                    raise RuntimeError("state_dict post-hook must return None")
            elif result is not None:
                destination = result
        return destination

    def _own_state(self) -> Iterator[tuple[str, Tensor | None]]:
        """This module's parameters and persistent buffers, without those below."""
        kept = (
            (name, buffer)
            for name, buffer in self._buffers.items()
            if name not in self._non_persistent_buffers_set
        )
        return itertools.chain(self._parameters.items(), kept)

    # ---- loading

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a saved state into this module and those below.

        With `strict`, keys must match exactly. With `assign`, the given tensors take the places
        of the module's own instead of being copied into them.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        missing: list[str] = []
        unexpected: list[str] = []
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        state = OrderedDict(state_dict)
        if metadata is not None:
            state._metadata = metadata  # type: ignore[attr-defined]
        _Loading(state, metadata, assign, missing, unexpected, errors).load(self, state, "")
        if strict:
            errors[:0] = _key_errors(missing, unexpected)
        if errors:
            lines = "\n\t".join(errors)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{lines}"
            )
        return IncompatibleKeys(missing, unexpected)

    def _load_from_state_dict(
        self,
        state_dict: Any,
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Load this module's own entries; modules with an older layout translate it here."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(
                state_dict,
                prefix,
                local_metadata,
                strict,
                missing_keys,
                unexpected_keys,
                error_msgs,
            )
        assign = local_metadata.get("assign_to_params_buffers", False)
        for name, tensor in list(self._own_state()):
            if tensor is None:
                continue
            key = prefix + name
            if key not in state_dict:
                if strict:
                    missing_keys.append(key)
                continue
            problem = _load_tensor(self, name, tensor, key, state_dict[key], assign)
            if problem is not None:
                error_msgs.append(problem)
        self._load_extra_state(state_dict, prefix, strict, missing_keys, unexpected_keys)
        if strict:
            unexpected_keys.extend(self._unexpected(state_dict, prefix))

    def _load_extra_state(
        self, state_dict: Any, prefix: str, strict: bool, missing: list[str], extra: list[str]
    ) -> None:
        key = prefix + EXTRA_STATE
        if _has_extra_state(type(self), "set_extra_state"):
            if key in state_dict:
                self.set_extra_state(state_dict[key])
            elif strict:
                missing.append(key)
        elif strict and key in state_dict:
            extra.append(key)

    def _unexpected(self, state_dict: Any, prefix: str) -> list[str]:
        own = {name for name, tensor in self._own_state() if tensor is not None}
        found = []
        for key in state_dict:
            if not key.startswith(prefix) or key == prefix + EXTRA_STATE:
                continue
            first, dot, _ = key[len(prefix) :].partition(".")
            if first not in (self._modules if dot else own):
                found.append(key)
        return found


class _Loading:
    """One run of `load_state_dict` over a tree of modules."""

    def __init__(
        self,
        state: Any,
        metadata: Any,
        assign: bool,
        missing: list[str],
        unexpected: list[str],
        errors: list[str],
    ) -> None:
        self.metadata, self.assign = metadata, assign
        self.missing, self.unexpected, self.errors = missing, unexpected, errors

    def load(self, module: Any, state: Any, prefix: str) -> None:
        local = {} if self.metadata is None else self.metadata.get(prefix[:-1], {})
        if self.assign:
            local["assign_to_params_buffers"] = True
        module._load_from_state_dict(
            state, prefix, local, True, self.missing, self.unexpected, self.errors
        )
        for name, child in module._modules.items():
            if child is not None:
                below = f"{prefix}{name}."
                part = OrderedDict((k, v) for k, v in state.items() if k.startswith(below))
                self.load(child, part, below)
        keys = IncompatibleKeys(self.missing, self.unexpected)
        for hook in module._load_state_dict_post_hooks.values():
            if hook(module, keys) is not None:
                raise RuntimeError(
                    "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                    "expected to return new values, if incompatible_keys need to be modified, "
                    "it should be done inplace."
                )


def _has_extra_state(kind: type, method: str) -> bool:
    return getattr(kind, method) is not getattr(Savable, method)


def _key_errors(missing: list[str], unexpected: list[str]) -> list[str]:
    """One line for the unexpected keys and one for the missing, where there are any."""
    lines = []
    for what, keys in (("Missing", missing), ("Unexpected", unexpected)):
        if keys:
            names = ", ".join(f'"{key}"' for key in keys)
            lines.append(f"{what} key(s) in state_dict: {names}. ")
    return lines


def _load_tensor(
    module: Any, name: str, own: Tensor, key: str, given: Any, assign: bool
) -> str | None:
    """Copy or assign one entry; an explanation if that is not possible."""
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
            f"object from checkpoint but received {type(given)}"
        )
    lazy = is_lazy(own)
    if not lazy and own.ndim == 0 and given.ndim == 1 and len(given) == 1:
        given = given[0]  # files from before 0-d tensors existed
    if not lazy and not is_lazy(given) and own.shape != given.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from "
            f"checkpoint, the shape in current model is {own.shape}."
        )
    try:
        with rl.no_grad():
            if assign:
                _assign(module, name, own, given)
            else:
                own.copy_(given)
    except Exception as error:
        return (
            f'While copying the parameter named "{key}", whose dimensions in the model are '
            f"{own.size()} and whose dimensions in the checkpoint are {given.size()}, an "
            f"exception occurred : {error.args}."
        )
    return None


def _assign(module: Any, name: str, own: Tensor, given: Tensor) -> None:
    if not isinstance(own, Parameter):
        owned(module, "_buffers")[name] = given
        return
    if not isinstance(given, Parameter):
        given = Parameter(given, requires_grad=own.requires_grad)
    else:
        given.requires_grad_(own.requires_grad)
    owned(module, "_parameters")[name] = given
