"""Affine maps of the last dimension."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.lazy import LazyModule
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.tensor import Tensor


class Identity(Module):
    """Returns its input; takes and ignores any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """`y = x @ weight.T + bias`, with `weight` of shape (out_features, in_features)."""

    __constants__ = ["in_features", "out_features"]
    in_features: int
    out_features: int
    weight: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(rl.empty((out_features, in_features), **where))
        self.register_parameter(
            "bias", Parameter(rl.empty(out_features, **where)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.uniform_bias_(self.bias, self.in_features)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear inside attention: only its type differs."""


class LazyLinear(LazyModule, Linear):
    """A Linear that learns `in_features` from its first input."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        where = {"device": device, "dtype": dtype}
        super().__init__(0, 0, False, **where)
        self.weight = UninitializedParameter(**where)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(**where)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_features != 0:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        if not self.has_uninitialized_params():
            return
        with rl.no_grad():
            self.in_features = input.shape[-1]
            self.weight.materialize((self.out_features, self.in_features))
            if self.bias is not None:
                self.bias.materialize((self.out_features,))
            self.reset_parameters()


class Bilinear(Module):
    """`y[k] = x1 @ weight[k] @ x2 + bias[k]`."""

    __constants__ = ["in1_features", "in2_features", "out_features"]

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if in1_features <= 0:
            raise ValueError(f"in1_features must be > 0, but got {in1_features}")
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(rl.empty((out_features, in1_features, in2_features), **where))
        self.register_parameter(
            "bias", Parameter(rl.empty(out_features, **where)) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.weight.size(1))
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )
