"""`torch.nn.grad`: the gradients of convolutions as functions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # tensors, and numbers or tuples of them

from rushlight.autograd.grad_api import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.nn import functional

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip


def _gradient(name: str, by: str, known: Any, size: Any, grad_output: Any, how: Any) -> Any:
    """The gradient by one operand, of a size, where the other is known: a convolution is linear
    in each, so it is taken at zeros.
    """
    with enable_grad():
        zeros = grad_output.new_zeros(size).requires_grad_()
        pair = (zeros, known.detach()) if by == "input" else (known.detach(), zeros)
        out = getattr(functional, name)(*pair, None, *how)
    return grad(out, zeros, grad_output)[0]


def _by_input(name: str) -> Callable[..., Any]:
    def function(
        input_size: Any, weight: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        how = (stride, padding, dilation, groups)
        return _gradient(name, "input", weight, input_size, grad_output, how)

    function.__name__ = function.__qualname__ = f"{name}_input"
    function.__doc__ = f"The gradient of `{name}` by its input, of shape `input_size`."
    return function


def _by_weight(name: str) -> Callable[..., Any]:
    def function(
        input: Any, weight_size: Any, grad_output: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1,
    ) -> Any:  # fmt: skip
        how = (stride, padding, dilation, groups)
        return _gradient(name, "weight", input, weight_size, grad_output, how)

    function.__name__ = function.__qualname__ = f"{name}_weight"
    function.__doc__ = f"The gradient of `{name}` by its weight, of shape `weight_size`."
    return function


conv1d_input, conv1d_weight = _by_input("conv1d"), _by_weight("conv1d")
conv2d_input, conv2d_weight = _by_input("conv2d"), _by_weight("conv2d")
conv3d_input, conv3d_weight = _by_input("conv3d"), _by_weight("conv3d")
