"""Convolutions of one to three dimensions, and their transposes."""

from __future__ import annotations

import math
from typing import Any

import rushlight as rl
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.lazy import LazyModule
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter, UninitializedParameter
from rushlight.nn.sizes import repeated
from rushlight.tensor import Tensor

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share: their options, their parameters, how they print."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding",
        "in_channels", "out_channels", "kernel_size",
    ]  # fmt: skip
    in_channels: int
    out_channels: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: Any
    dilation: tuple[int, ...]
    transposed: bool
    output_padding: tuple[int, ...]
    groups: int
    padding_mode: str
    weight: Tensor
    bias: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Any,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_options(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = _edge_padding(padding, kernel_size, dilation)
        where = {"device": device, "dtype": dtype}
        self.weight = Parameter(rl.empty(self._weight_shape(), **where))
        self.register_parameter(
            "bias", Parameter(rl.empty(out_channels, **where)) if bias else None
        )
        self.reset_parameters()

    def _weight_shape(self) -> tuple[int, ...]:
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        return (first, second // self.groups, *self.kernel_size)

    def reset_parameters(self) -> None:
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in:
                init.uniform_bias_(self.bias, fan_in)

    def extra_repr(self) -> str:
        n = len(self.kernel_size)
        parts = [
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        ]
        if self.padding != (0,) * n:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * n:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * n:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _check_options(
    in_channels: int,
    out_channels: int,
    stride: tuple[int, ...],
    padding: Any,
    groups: int,
    padding_mode: str,
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise ValueError(
                f"Invalid padding string {padding!r}, should be one of 'same', 'valid'"
            )
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(
            f"padding_mode must be one of {list(_PADDING_MODES)}, but got "
            f"padding_mode='{padding_mode}'"
        )


def _edge_padding(padding: Any, kernel: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """Padding before and after, from the last dimension to the first, as `F.pad` takes it."""
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pairs = [(total // 2, total - total // 2) for total in totals]
    elif padding == "valid":
        pairs = [(0, 0)] * len(kernel)
    else:
        return tuple(p for p in reversed(padding) for _ in range(2))
    return [end for pair in reversed(pairs) for end in pair]


class _Conv(_ConvNd):
    """A convolution; a subclass gives the number of dimensions and the function."""

    N: int
    FUNCTION: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, self.N),
            repeated(stride, self.N),
            padding if isinstance(padding, str) else repeated(padding, self.N),
            repeated(dilation, self.N),
            False,
            (0,) * self.N,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            edges = self._reversed_padding_repeated_twice
            input = F.pad(input, edges, mode=self.padding_mode)
            padding = (0,) * self.N
        return getattr(F, self.FUNCTION)(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolution over the last dimension of (N, C, L)."""

    N = 1
    FUNCTION = "conv1d"
    __init__ = _Conv.__init__  # each class its own: programs wrap one, not all


class Conv2d(_Conv):
    """Convolution over the last two dimensions of (N, C, H, W)."""

    N = 2
    FUNCTION = "conv2d"
    __init__ = _Conv.__init__  # each class its own: programs wrap one, not all


class Conv3d(_Conv):
    """Convolution over the last three dimensions of (N, C, D, H, W)."""

    N = 3
    FUNCTION = "conv3d"
    __init__ = _Conv.__init__  # each class its own: programs wrap one, not all


class _ConvTranspose(_ConvNd):
    """The transpose of a convolution: it spreads each input over a window of the output."""

    N: int
    FUNCTION: str

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f'Only "zeros" padding mode is supported for {type(self).__name__}'
            )
        super().__init__(
            in_channels,
            out_channels,
            repeated(kernel_size, self.N),
            repeated(stride, self.N),
            repeated(padding, self.N),
            repeated(dilation, self.N),
            True,
            repeated(output_padding, self.N),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: list[int] | None = None) -> Tensor:
        output_padding = self._output_padding(input, output_size)
        return getattr(F, self.FUNCTION)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            output_padding,
            self.groups,
            self.dilation,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that makes the output as large as asked for."""
        if output_size is None:
            return self.output_padding
        n = self.N
        spatial = input.dim() - n
        if len(output_size) == n + spatial:
            output_size = output_size[spatial:]
        if len(output_size) != n:
            raise ValueError(
                f"ConvTranspose{n}D: for {input.dim()}D input, output_size must have {n} or "
                f"{n + spatial} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(d + spatial) - 1) * self.stride[d]
            - 2 * self.padding[d]
            + self.dilation[d] * (self.kernel_size[d] - 1)
            + 1
            for d in range(n)
        ]
        largest = [
            size + stride - 1 for size, stride in zip(smallest, self.stride, strict=True)
        ]
        for size, low, high in zip(output_size, smallest, largest, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from "
                    f"{smallest} to {largest} (for an input of {input.size()[2:]})"
                )
        return tuple(size - low for size, low in zip(output_size, smallest, strict=True))


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d."""

    N = 1
    FUNCTION = "conv_transpose1d"
    __init__ = _ConvTranspose.__init__  # each class its own: programs wrap one, not all


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d."""

    N = 2
    FUNCTION = "conv_transpose2d"
    __init__ = _ConvTranspose.__init__  # each class its own: programs wrap one, not all


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d."""

    N = 3
    FUNCTION = "conv_transpose3d"
    __init__ = _ConvTranspose.__init__  # each class its own: programs wrap one, not all


class _LazyConv(LazyModule):
    """A convolution that learns `in_channels` from its first input."""

    def _become_lazy(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._channels_of(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        self.weight.materialize(self._weight_shape())
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _channels_of(self, input: Tensor) -> int:
        dims = self.N + 2
        if input.dim() not in (dims, dims - 1):
            raise RuntimeError(
                f"Expected {dims - 1}D (unbatched) or {dims}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return input.shape[1] if input.dim() == dims else input.shape[0]


class _LazyForward(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode,
            device, dtype,
        )  # fmt: skip
        self._become_lazy(out_channels, bias, device, dtype)


class _LazyTranspose(_LazyConv):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._become_lazy(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, Conv1d):
    """A Conv1d that learns `in_channels` from its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyForward, Conv2d):
    """A Conv2d that learns `in_channels` from its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyForward, Conv3d):
    """A Conv3d that learns `in_channels` from its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyTranspose, ConvTranspose1d):
    """A ConvTranspose1d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyTranspose, ConvTranspose2d):
    """A ConvTranspose2d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyTranspose, ConvTranspose3d):
    """A ConvTranspose3d that learns `in_channels` from its first input."""

    cls_to_become = ConvTranspose3d
