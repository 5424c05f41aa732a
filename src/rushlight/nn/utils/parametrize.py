"""Parametrisations: a parameter that is computed from others whenever it is read.

Registering one on `module.weight` moves the tensor to `module.parametrizations.weight.original`
and gives the module a class of its own, in which `weight` is a property that computes it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rushlight as rl
from rushlight.nn.container import ModuleDict, ModuleList
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.registry import without_mirrors
from rushlight.tensor import Tensor

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_cache: dict[tuple[int, str], Tensor | None] = {}
_cache_depth = 0


@contextmanager
def cached() -> Iterator[None]:
    """Within this context each parametrised tensor is computed once."""
    global _cache_depth
    _cache_depth += 1
    try:
        yield
    finally:
        _cache_depth -= 1
        if not _cache_depth:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrisations of one tensor, applied in order to what it is computed from."""

    original: Tensor
    unsafe: bool

    def __init__(
        self, modules: Sequence[Module], original: Tensor, unsafe: bool = False
    ) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        start = self._start_from(original)
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        if self.is_tensor:
            self._keep_one(original, start)
        else:
            self._keep_many(original, start)
        if not unsafe:
            _check_result(self(), shape, dtype)

    def _start_from(self, original: Tensor) -> Any:
        """What the parametrisations must be given to come out at the original value."""
        value: Any = original
        with rl.no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    try:
                        value = module.right_inverse(value)
                    except NotImplementedError:
                        pass
        if not isinstance(value, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple). "
                f"Got {type(value).__name__}"
            )
        return value

    def _keep_one(self, original: Tensor, start: Tensor) -> None:
        if start.dtype != original.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\n"
                f"right_inverse(original).dtype: {start.dtype}"
            )
        if start is not original:
            with rl.no_grad():
                original.data = start
        _register(self, "original", original)

    def _keep_many(self, original: Tensor, start: Any) -> None:
        for i, value in enumerate(start):
            if not isinstance(value, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors. Got "
                    f"element {i} of the sequence with type {type(value).__name__}."
                )
            if isinstance(original, Parameter):
                value = Parameter(value, original.requires_grad)
            else:
                value.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", value)

    def _originals(self) -> list[Tensor]:
        if self.is_tensor:
            return [self.original]
        return [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`."""
        with rl.no_grad():
            result: Any = value
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(
                        f"parametrization {type(module).__name__} does not implement "
                        "right_inverse."
                    )
                result = module.right_inverse(result)
            parts = [result] if self.is_tensor else list(result)
            if len(parts) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return {self.ntensors} tensors. Got {len(parts)}."
                )
            for own, part in zip(self._originals(), parts, strict=True):
                if own.dtype != part.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {part.dtype} while "
                        f"`original` has dtype {own.dtype}"
                    )
                own.data = part

    def forward(self) -> Tensor:
        first, *rest = self
        value = first(*self._originals())
        for module in rest:
            value = module(value)
        return value


def _register(owner: Module, name: str, tensor: Tensor) -> None:
    if isinstance(tensor, Parameter):
        owner.register_parameter(name, tensor)
    else:
        owner.register_buffer(name, tensor)


def _check_result(value: Any, shape: Any, dtype: Any) -> None:
    if not isinstance(value, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(value).__name__}.")
    if value.dtype != dtype:
        raise ValueError(
            "Registering a parametrization may not change the dtype of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized dtype: {dtype}\n"
            f"parametrized dtype: {value.dtype}"
        )
    if value.shape != shape:
        raise ValueError(
            "Registering a parametrization may not change the shape of the tensor, unless "
            f"`unsafe` flag is enabled.\nunparametrized shape: {shape}\n"
            f"parametrized shape: {value.shape}"
        )


# ---- the module's own class


def _give_own_class(module: Module) -> None:
    kind = type(module)

    def __getstate__(self: Module) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict()."
        )

    def __deepcopy__(self: Module, memo: dict[int, Any]) -> Module:
        if id(self) in memo:
            return memo[id(self)]
        replica = self.__new__(type(self))
        memo[id(self)] = replica
        replica.__setstate__(copy.deepcopy(without_mirrors(self), memo))
        return replica

    members = {"__getstate__": __getstate__, "__deepcopy__": __deepcopy__}
    module.__class__ = type(f"Parametrized{kind.__name__}", (kind,), members)


def _computed(name: str) -> property:
    """The property through which a parametrised tensor is read and set."""

    def compute(self: Module) -> Tensor:
        entry = self.parametrizations[name]
        if not _cache_depth:
            return entry()
        key = (id(self), name)
        tensor = _cache.get(key)
        if tensor is None:
            tensor = _cache[key] = entry()
        return tensor

    def assign(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(compute, assign)


# ---- registering and removing


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by a module from now on; several act in order.

    Unless `unsafe`, the result must keep shape and dtype.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _register_another(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        entry = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _computed(tensor_name))
        module.parametrizations[tensor_name] = entry
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _register_another(
    module: Module, tensor_name: str, parametrization: Module, unsafe: bool
) -> None:
    present = getattr(module, tensor_name)
    if not unsafe:
        _check_result(parametrization(present), present.shape, present.dtype)
        if hasattr(parametrization, "right_inverse"):
            try:
                start = parametrization.right_inverse(present)
            except NotImplementedError:
                start = None
            if start is not None and not isinstance(start, Tensor):
                raise ValueError(
                    "parametrization.right_inverse must return a tensor. Got: "
                    f"{type(start).__name__}"
                )
    entry = module.parametrizations[tensor_name]
    entry.append(parametrization)
    entry.unsafe |= unsafe
    if hasattr(parametrization, "right_inverse"):
        try:
            entry.right_inverse(present)
        except (NotImplementedError, RuntimeError):
            pass


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Is the module, or one tensor of it, parametrised?"""
    entries = getattr(module, "parametrizations", None)
    if not isinstance(entries, ModuleDict):
        return False
    return len(entries) > 0 if tensor_name is None else tensor_name in entries


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor an ordinary one again, with its present value or with its original."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    entry = module.parametrizations[tensor_name]
    if leave_parametrized:
        with rl.no_grad():
            value = getattr(module, tensor_name).detach().clone()
        tensor = _with_value(entry, value)
    elif entry.is_tensor:
        tensor = entry.original
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register(module, tensor_name, tensor)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def _with_value(entry: ParametrizationList, value: Tensor) -> Tensor:
    """The original tensor with a value, or a new one if there were several originals."""
    if entry.is_tensor:
        with rl.no_grad():
            entry.original.data = value
        return entry.original
    first = entry.original0
    if isinstance(first, Parameter):
        return Parameter(value, first.requires_grad)
    return value.requires_grad_(first.requires_grad)


def type_before_parametrizations(module: Module) -> type:
    """The class the module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give one module the parametrisations of another, and its parameters."""
    if is_parametrized(from_module):
        entries = from_module.parametrizations
        names = list(entries) if tensor_name is None else [tensor_name]
        for name in names:
            _transfer(from_module, to_module, name)
    return to_module


def _transfer(source: Module, target: Module, name: str) -> None:
    if not hasattr(target, name):
        setattr(target, name, Parameter(getattr(source, name).detach().clone()))
    for parametrization in source.parametrizations[name]:
        register_parametrization(target, name, parametrization)
    theirs, ours = source.parametrizations[name], target.parametrizations[name]
    for key, value in theirs._parameters.items():
        setattr(ours, key, Parameter(value.detach().clone(), value.requires_grad))
