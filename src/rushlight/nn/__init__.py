"""Layers, models and losses.

In come tensors; a Module holds parameters, calls its forward, and gives tensors back. What
gradients and kernels are is no business of this room: it only calls tensor operations and
`nn.functional`. It must never compute outside of them, nor depend on a tensor's values.
"""

from rushlight.nn import functional, init
from rushlight.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from rushlight.nn.container import (
    Container,
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from rushlight.nn.linear import Bilinear, Identity, LazyLinear, Linear
from rushlight.nn.module import Module
from rushlight.nn.parameter import (
    Buffer,
    Parameter,
    UninitializedBuffer,
    UninitializedParameter,
)
