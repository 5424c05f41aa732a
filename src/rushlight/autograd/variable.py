"""`torch.autograd.Variable`: the name that tensors with gradients had once."""

from __future__ import annotations

from typing import Any  # makes tensors of anything

from rushlight.tensor import Tensor

__all__ = ["Variable", "VariableMeta"]


class VariableMeta(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, other: Any) -> bool:
        return isinstance(other, Tensor)


class Variable(metaclass=VariableMeta):
    """`Variable(x, requires_grad=True)` is a tensor on the memory of x, without history."""

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: Any = 0) -> Any:
        made = Tensor() if data is None else data.detach()
        return made.requires_grad_(requires_grad)
