"""Module: the tree of layers that a model is.

A module holds parameters, buffers and other modules, calls its `forward` with the hooks around
it, and can be walked, converted, saved and printed. Saving and loading are in `module_state`,
the registration of hooks in `module_hooks`, the tables in `registry`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import rushlight as rl
from rushlight.nn import hooks as H
from rushlight.nn.blame import add_note
from rushlight.nn.module_call import call_with_hooks
from rushlight.nn.module_convert import Convertible
from rushlight.nn.module_hooks import Hookable
from rushlight.nn.module_state import Savable
from rushlight.nn.module_text import attribute_names, module_text
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.nn.registry import TABLES, Registry, owned, without_mirrors
from rushlight.nn.unregistered import announce_unregistered
from rushlight.tensor import Tensor


class Module(Convertible, Savable, Hookable):
    """Base of all layers and models.

    >>> from rushlight import nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = nn.Linear(4, 2)
    ...     def forward(self, x):
    ...         return self.layer(x).relu()
    """

    dump_patches: bool = False
    _version: int = 1
    call_super_init: bool = False
    training: bool
    _hooked: bool = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            self._refuse_arguments(args, kwargs)
        state = self.__dict__
        state["training"] = True
        for table in TABLES:
            state[table] = Registry(self)
        state["_non_persistent_buffers_set"] = set()
        self._init_hooks()
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    def _refuse_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self.call_super_init:
            return
        name = f"{type(self).__name__}.__init__()"
        if kwargs:
            raise TypeError(f"{name} got an unexpected keyword argument '{next(iter(kwargs))}'")
        raise TypeError(f"{name} takes 1 positional argument but {len(args) + 1} were given")

    def forward(self, *input: Any) -> Any:
        """Compute the module's output. Every subclass says how."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    # ---- calling

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # hot
        if self._hooked:
            return call_with_hooks(self, args, kwargs)
        try:
            return self.forward(*args, **kwargs)
        except Exception as error:
            add_note(error, self)
            raise

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_with_hooks(self, args, kwargs)

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Check the arguments of `rushlight.compile`: calls are compiled as they are."""
        rl.compile(self, *args, **kwargs)

    # ---- registration

    def register_buffer(
        self, name: str, tensor: Tensor | None, persistent: bool = True
    ) -> None:
        """Keep a tensor in the module's state without training it."""
        self._check_ready("buffer")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{type_text(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        for hook in H.global_buffer_registration.values():
            output = hook(self, name, tensor)
            tensor = tensor if output is None else output
        owned(self, "_buffers")[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Enter a parameter under a name, or reserve the name with None."""
        self._check_ready("parameter")
        self._check_name("parameter", name, self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{type_text(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must "
                f"be created explicitly. To express '{name}' as a function of another Tensor, "
                "compute the value in the forward() method."
            )
        if param is not None:
            for hook in H.global_parameter_registration.values():
                output = hook(self, name, param)
                param = param if output is None else output
        owned(self, "_parameters")[name] = param

    def add_module(self, name: str, module: Module | None) -> None:
        """Enter a submodule under a name."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type_text(module)} is not a Module subclass")
        self._check_ready("module")
        self._check_name("module", name, self._modules)
        owned(self, "_modules")[name] = _with_module_hooks(self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def _check_ready(self, kind: str) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")

    def _check_name(self, kind: str, name: Any, table: dict[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type_text(name)}")
        if "." in name:
            got = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{got}')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    # ---- attributes

    def __getattr__(self, name: str) -> Any:
        state = self.__dict__
        for table in TABLES:
            entries = state.get(table)
            if entries is not None and name in entries:
                return entries[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            self._check_ready("parameters")
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            self._check_ready("module")
            self._forget(name, "_modules")
            owned(self, "_modules")[name] = _with_module_hooks(self, name, value)
        elif isinstance(value, Tensor):
            self._set_tensor(name, value)
        else:
            self._set_plain(name, value)

    def _set_tensor(self, name: str, value: Tensor) -> None:
        """Assign a tensor that is not a parameter: to a buffer, or as a plain attribute."""
        state = self.__dict__
        is_new = isinstance(value, Buffer)
        if not is_new and name not in state.get("_buffers", ()):
            self._set_plain(name, value)
            return
        self._check_ready("buffer")
        if name not in self._buffers:
            self._forget(name, "_buffers")
            self.register_buffer(name, value, getattr(value, "persistent", True))
            return
        for hook in H.global_buffer_registration.values():
            output = hook(self, name, value)
            value = value if output is None else output
        owned(self, "_buffers")[name] = value

    def _set_plain(self, name: str, value: Any) -> None:
        state = self.__dict__
        for table, expected in _EXPECTED:
            if name in state.get(table, ()):
                if value is not None:
                    raise TypeError(
                        f"cannot assign '{type_text(value)}' as {expected[0]} '{name}' "
                        f"({expected[1]} or None expected)"
                    )
                owned(self, table)[name] = None
                return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, except_in: str) -> None:
        """Take a name out of every place but one, before it is registered there."""
        state = self.__dict__
        for table in TABLES:
            if table != except_in and name in state[table]:
                del owned(self, table)[name]
        if name not in state[except_in]:
            state.pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            if name in self.__dict__.get(table, ()):
                del owned(self, table)[name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return attribute_names(self)

    # ---- copies

    def __getstate__(self) -> dict[str, Any]:
        state = without_mirrors(self)
        state.pop("_compiled_call_impl", None)
        state.pop("_hooked", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self._init_hooks(keep=True)
        for table in TABLES:
            if table in self.__dict__:
                owned(self, table)

    # ---- walking the tree

    def _named_members(
        self,
        get_members_fn: Callable[[Module], Any],
        prefix: str = "",
        recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Any] = set()
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in owners:
            for name, member in get_members_fn(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once.

        Modules in a plain list or dict are not registered, so theirs are not among them: a
        warning names the attribute.
        """
        announce_unregistered(self)
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their dotted names."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def children(self) -> Iterator[Module]:
        """The submodules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The submodules directly below with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their dotted names."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                path = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, path, remove_duplicate)

    def get_submodule(self, target: str) -> Module:
        """The submodule at a dotted path; the empty path is this module."""
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path; with strict, only in place of another."""
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        parameter = getattr(module, name)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a dotted path."""
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(module, name)

    def apply(self, fn: Callable[[Module], None]) -> Module:
        """Call `fn` with every module below and then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes

    def train(self, mode: bool = True) -> Module:
        """Set training mode here and below: dropout and batch statistics depend on it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Module:
        """Set inference mode here and below."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Say for every parameter whether it collects gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters, or fill them with zero."""
        for parameter in self.parameters():
            clear_gradient(parameter, set_to_none)

    # ---- text

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What to print between the parentheses, besides the submodules."""
        return ""

    def __repr__(self) -> str:
        return module_text(self)


def clear_gradient(parameter: Tensor, set_to_none: bool) -> None:
    """Drop a tensor's gradient, or fill it with zero."""
    if parameter.grad is None:
        return
    if set_to_none:
        parameter.grad = None
        return
    if parameter.grad.grad_fn is not None:
        parameter.grad.detach_()
    else:
        parameter.grad.requires_grad_(False)
    parameter.grad.zero_()


def _with_module_hooks(owner: Module, name: str, module: Module | None) -> Module | None:
    for hook in H.global_module_registration.values():
        output = hook(owner, name, module)
        module = module if output is None else output
    return module


def type_text(value: Any) -> str:
    """A value's type as messages name it."""
    kind = type(value)
    if kind.__module__ == "builtins":
        return kind.__name__
    return f"{kind.__module__}.{kind.__qualname__}"


_EXPECTED = (
    ("_parameters", ("parameter", "torch.nn.Parameter")),
    ("_modules", ("child module", "torch.nn.Module")),
    ("_buffers", ("buffer", "torch.nn.Buffer, torch.Tensor")),
)


# ---- hooks of all modules
# Whether any exist is no business of the common call: they exchange `Module.__call__` itself.

_plain_call = Module.__call__


def _watched_call(self: Module, *args: Any, **kwargs: Any) -> Any:
    if not H.has_global_call_hooks():
        Module.__call__ = _plain_call  # type: ignore[method-assign]
        return self(*args, **kwargs)
    return call_with_hooks(self, args, kwargs)


def _watch_calls() -> None:
    Module.__call__ = _watched_call  # type: ignore[method-assign]


H.watch.on_register = _watch_calls

CALL_CODES = frozenset({_plain_call.__code__, call_with_hooks.__code__})
