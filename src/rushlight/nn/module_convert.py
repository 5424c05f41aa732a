"""Converting a module's tensors: to another dtype, another device, other memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.__future__ import get_overwrite_module_params_on_conversion
from rushlight.nn.parameter import Parameter, is_lazy
from rushlight.nn.registry import owned
from rushlight.tensor import Tensor


class Convertible:
    """The part of a module that converts its parameters, gradients and buffers in place."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        """Replace every tensor here and below by `fn` of it; parameters keep their identity."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        for name, parameter in self._parameters.items():
            if parameter is not None:
                _convert_parameter(self, name, parameter, fn)
        for name, buffer in self._buffers.items():
            if is_lazy(buffer):
                buffer.data = fn(buffer.data)
            elif buffer is not None:
                owned(self, "_buffers")[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Convert: `to(device)`, `to(dtype)`, `to(tensor)`, and both together.

        A dtype concerns floating-point and complex tensors only.
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None and not (dtype.is_floating_point or dtype.is_complex):
            raise TypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={dtype}"
            )

        def convert(tensor: Tensor) -> Tensor:
            wanted = dtype if tensor.is_floating_point() or tensor.is_complex() else None
            extra: dict[str, Any] = {}
            if memory_format is not None and not is_lazy(tensor) and tensor.dim() in (4, 5):
                extra["memory_format"] = memory_format
            if wanted is None and device is None and not extra:
                return tensor
            if tensor.is_meta and device is not None and device.type != "meta":
                raise _nothing_to_move()
            return tensor.to(
                device=tensor.device if device is None else device,
                dtype=tensor.dtype if wanted is None else wanted,
                non_blocking=non_blocking,
                **extra,
            )

        return self._apply(convert)

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying the values."""
        return self._apply(lambda t: rl.empty_like(t, device=device), recurse=recurse)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.type(dst_type))

    def float(self) -> Any:
        """Convert floating-point tensors to float32."""
        return self._apply(lambda t: t.float() if t.is_floating_point() else t)

    def double(self) -> Any:
        """Convert floating-point tensors to float64."""
        return self._apply(lambda t: t.double() if t.is_floating_point() else t)

    def half(self) -> Any:
        """Convert floating-point tensors to float16."""
        return self._apply(lambda t: t.half() if t.is_floating_point() else t)

    def bfloat16(self) -> Any:
        """Convert floating-point tensors to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if t.is_floating_point() else t)

    def cpu(self) -> Any:
        """Move to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: Any = None) -> Any:
        """Move to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def share_memory(self) -> Any:
        """Move to memory that other processes can map."""
        return self._apply(lambda t: t.share_memory_())


def _convert_parameter(
    module: Any, name: str, parameter: Any, fn: Callable[[Tensor], Tensor]
) -> None:
    if is_lazy(parameter):
        parameter.data = fn(parameter.data)
        return
    with rl.no_grad():
        converted = fn(parameter)
    grad = parameter.grad
    if converted is not parameter:
        parameter = _replace_data(module, name, parameter, converted)
    if grad is None:
        return
    with rl.no_grad():
        new_grad = fn(grad)
    if new_grad is not grad:
        parameter.grad = None
        parameter.grad = new_grad.requires_grad_(grad.requires_grad)


def _replace_data(module: Any, name: str, parameter: Any, converted: Tensor) -> Any:
    """Give a parameter new data; across devices, or where a program asked for that, a new
    parameter takes its place.
    """
    is_kept = not get_overwrite_module_params_on_conversion()
    if is_kept and parameter.device.type == converted.device.type:
        grad, parameter.grad = parameter.grad, None
        parameter.data = converted
        if grad is not None and grad.dtype == parameter.dtype:
            parameter.grad = grad
        return parameter
    new = Parameter(converted, parameter.requires_grad)
    owned(module, "_parameters")[name] = new
    return new


def _parse_to(*args: Any, **kwargs: Any) -> tuple[Any, Any, bool, Any]:
    """The device, dtype, non_blocking and memory format of a call of `to`."""
    unknown = set(kwargs) - {
        "device",
        "dtype",
        "tensor",
        "other",
        "non_blocking",
        "copy",
        "memory_format",
    }
    if unknown:
        raise TypeError(f"to() received an invalid combination of arguments: {sorted(unknown)}")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    other = kwargs.get("tensor", kwargs.get("other"))
    non_blocking = kwargs.get("non_blocking", False)
    for value in args:
        if isinstance(value, Tensor):
            other = value
        elif isinstance(value, rl.dtype):
            dtype = value
        elif isinstance(value, bool):
            non_blocking = value
        elif isinstance(value, (str, int, rl.device)):
            device = value
        elif value is not None:
            raise TypeError(
                "to() received an invalid combination of arguments - got "
                f"({', '.join(type(a).__name__ for a in args)})"
            )
    if other is not None:
        device, dtype = other.device, other.dtype
    device = rl.device(device) if device is not None else None
    return device, dtype, non_blocking, kwargs.get("memory_format")


def _nothing_to_move() -> NotImplementedError:
    return NotImplementedError(
        "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() "
        "instead of torch.nn.Module.to() when moving module from meta to a different device."
    )
