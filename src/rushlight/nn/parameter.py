"""Tensors that a module owns: parameters, which are trained, and buffers, which are kept."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor, disabled_torch_function


class _ParameterMeta(type(Tensor)):
    """Lets a tensor subclass that was marked as a parameter count as an instance of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if type.__instancecheck__(cls, instance):
            return True
        if cls is not Parameter and cls is not Buffer:
            return False
        mark = "_is_param" if cls is Parameter else "_is_buffer"
        return isinstance(instance, Tensor) and getattr(instance, mark, False) is True


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that registers itself as trainable when it is assigned to a module.

    >>> import rushlight as torch
    >>> Parameter(torch.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = rl.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        return _marked(data.detach(), data, "_is_param").requires_grad_(requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.detach().clone(), self.requires_grad)
        memo[id(self)] = result
        return result

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        hooks: OrderedDict[int, Any] = OrderedDict()
        state = copy.copy(getattr(self, "__dict__", None)) or None
        return _rebuild_parameter, (self.detach(), self.requires_grad, hooks, state)


class Buffer(Tensor, metaclass=_ParameterMeta):
    """A tensor that a module keeps in its state without training it.

    A buffer that is not persistent stays out of `state_dict`.
    """

    __torch_function__ = disabled_torch_function

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = rl.empty(0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


class _Uninitialized:
    """What a parameter or buffer can do before its shape is known: very little."""

    cls_to_become: type[Tensor]

    def materialize(
        self, shape: tuple[int, ...], device: Any = None, dtype: Any = None
    ) -> None:
        """Give the tensor its shape, turning it into an ordinary one in place."""
        device = self.data.device if device is None else device
        dtype = self.data.dtype if dtype is None else dtype
        self.data = rl.empty(shape, device=device, dtype=dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "The shape of an uninitialized parameter or buffer is not known yet. Run the "
            "module's forward once on an example input, which initializes its lazy layers."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError("Memory of an uninitialized parameter or buffer cannot be shared.")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: int) -> tuple[Any, ...]:
        return type(self), (self.requires_grad, self.data.device, self.data.dtype)


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter of a lazy layer: it gets its shape at the first forward."""

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = rl.empty(0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) in memo:
            return memo[id(self)]
        result = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        memo[id(self)] = result
        return result


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer of a lazy layer: it gets its shape at the first forward."""

    cls_to_become = Tensor
    __torch_function__ = disabled_torch_function

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        data = rl.empty(0, device=device, dtype=dtype)
        buffer = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def is_lazy(tensor: Any) -> bool:
    """Is this a parameter or buffer whose shape is not known yet?"""
    return isinstance(tensor, _Uninitialized)


def _marked(tensor: Tensor, source: Tensor, mark: str) -> Tensor:
    """A tensor of a user's subclass, marked so that it counts as a parameter."""
    if type(tensor) is not type(source):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(source).__name__} requires "
            f"that detach() returns an instance of the same type, but it returned "
            f"{type(tensor).__name__}."
        )
    setattr(tensor, mark, True)
    return tensor


def _rebuild_parameter(
    data: Tensor, requires_grad: bool, hooks: OrderedDict[int, Any], state: Any = None
) -> Parameter:
    parameter = Parameter(data, requires_grad)
    if state:
        for name, value in state.items():
            setattr(parameter, name, value)
    return parameter
