"""Pooling: a window's largest value, mean or norm."""

from __future__ import annotations

from typing import Any

from rushlight.nn import functional as F
from rushlight.nn.module import Module
from rushlight.nn.sizes import repeated
from rushlight.tensor import Tensor


class _MaxPool(Module):
    """The largest value of each window; a subclass gives the function."""

    __constants__ = [
        "kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode",
    ]  # fmt: skip
    FUNCTION: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.FUNCTION)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest value of each window of the last dimension."""

    FUNCTION = "max_pool1d"


class MaxPool2d(_MaxPool):
    """The largest value of each window of the last two dimensions."""

    FUNCTION = "max_pool2d"


class MaxPool3d(_MaxPool):
    """The largest value of each window of the last three dimensions."""

    FUNCTION = "max_pool3d"


class _MaxUnpool(Module):
    """Puts each value where max pooling found it, and zeros elsewhere."""

    N: int
    FUNCTION: str

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, self.N)
        self.stride = repeated(kernel_size if stride is None else stride, self.N)
        self.padding = repeated(padding, self.N)

    def forward(
        self, input: Tensor, indices: Tensor, output_size: list[int] | None = None
    ) -> Tensor:
        return getattr(F, self.FUNCTION)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """The partial inverse of MaxPool1d."""

    N = 1
    FUNCTION = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """The partial inverse of MaxPool2d."""

    N = 2
    FUNCTION = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """The partial inverse of MaxPool3d."""

    N = 3
    FUNCTION = "max_unpool3d"


class AvgPool1d(Module):
    """The mean of each window of the last dimension."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = repeated(kernel_size, 1)
        self.stride = repeated(kernel_size if stride is None else stride, 1)
        self.padding = repeated(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    """The mean of each window, over its size or a given divisor."""

    __constants__ = [
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad",
        "divisor_override",
    ]  # fmt: skip
    FUNCTION: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.FUNCTION)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window of the last two dimensions."""

    FUNCTION = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of each window of the last three dimensions."""

    FUNCTION = "avg_pool3d"


class _AdaptiveAvgPool(Module):
    """Means over windows chosen so that the output has a given size."""

    __constants__ = ["output_size"]
    FUNCTION: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.FUNCTION)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over the last dimension, to a given size."""

    FUNCTION = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over the last two dimensions, to a given size."""

    FUNCTION = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over the last three dimensions, to a given size."""

    FUNCTION = "adaptive_avg_pool3d"


class _AdaptiveMaxPool(Module):
    """Largest values over windows chosen so that the output has a given size."""

    __constants__ = ["output_size", "return_indices"]
    FUNCTION: str

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.FUNCTION)(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Largest values over the last dimension, to a given size."""

    FUNCTION = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Largest values over the last two dimensions, to a given size."""

    FUNCTION = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Largest values over the last three dimensions, to a given size."""

    FUNCTION = "adaptive_max_pool3d"


class _FractionalMaxPool(Module):
    """Largest values over windows of random places (Graham, 2014)."""

    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    N: int
    FUNCTION: str

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if _not_positive(kernel_size):
            raise ValueError(f"kernel_size must greater than zero, but got {kernel_size}")
        self.kernel_size = repeated(kernel_size, self.N)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else repeated(output_size, self.N)
        self.output_ratio = None if output_ratio is None else repeated(output_ratio, self.N)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.FUNCTION)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


def _not_positive(kernel_size: Any) -> bool:
    return any(k <= 0 for k in repeated(kernel_size, 1))


class FractionalMaxPool2d(_FractionalMaxPool):
    """Fractional max pooling over the last two dimensions."""

    N = 2
    FUNCTION = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Fractional max pooling over the last three dimensions."""

    N = 3
    FUNCTION = "fractional_max_pool3d"


class _LPPool(Module):
    """The norm of each window."""

    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]
    FUNCTION: str

    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.FUNCTION)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}, ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The norm of each window of the last dimension."""

    FUNCTION = "lp_pool1d"


class LPPool2d(_LPPool):
    """The norm of each window of the last two dimensions."""

    FUNCTION = "lp_pool2d"


class LPPool3d(_LPPool):
    """The norm of each window of the last three dimensions."""

    FUNCTION = "lp_pool3d"
