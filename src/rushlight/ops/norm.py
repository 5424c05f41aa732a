"""Normalisation layers, made of `normalised` (ops/statistics.py) with scales and shifts."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, refusals, views
from rushlight.argument_kinds import IntList, Ints
from rushlight.config import gradients_off
from rushlight.ops.creation import unrelated
from rushlight.ops.elementwise import CAST, WHERE, scaled
from rushlight.ops.registry import Op, public
from rushlight.ops.statistics import INVERSE_STD, NORMALISED


def _wide(x: Any) -> Any:
    """Half-precision data in float32, so that scale and shift are not rounded in between."""
    return CAST(x, dtype=dt.float32) if x.dtype in (dt.float16, dt.bfloat16) else x


def _statistics(input: Any, parameters: tuple[Any, ...], *made: Any) -> tuple[Any, ...]:
    """Statistics in the dtype of the layer's parameters; without any in the input's."""
    kind = next((p.dtype for p in parameters if p is not None), input.dtype)
    return tuple(m if m.dtype is kind else CAST(m, dtype=kind) for m in made)


def _affine(x: Any, weight: Any, bias: Any, kind: Any) -> Any:
    if weight is not None:
        x = x * weight
    if bias is not None:
        x = x + bias
    return x if x.dtype is kind else CAST(x, dtype=kind)


def _checked_shape(op: str, x: Any, normalized_shape: Any, *parameters: Any) -> tuple[int, ...]:
    sizes = (
        (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    )
    if not sizes:
        raise RuntimeError(
            f"{op}: Expected normalized_shape to be at least 1-dimensional, but got [] "
        )
    for parameter in parameters:
        if parameter is not None and tuple(parameter.shape) != sizes:
            raise RuntimeError(
                f"{op}: Expected weight and bias to be of same shape as normalized_shape, but "
                f"got {list(parameter.shape)} and normalized_shape = {list(sizes)}"
            )
    if tuple(x.shape[-len(sizes) :]) != sizes or x.ndim < len(sizes):
        raise RuntimeError(
            f"{op}: Given normalized_shape={list(sizes)}, expected input with shape "
            f"[*, {', '.join(map(str, sizes))}], but got input of size {list(x.shape)}"
        )
    return tuple(range(x.ndim - len(sizes), x.ndim))


def _check_floating(op: str, x: Any) -> None:
    if x.dtype.is_complex:
        raise errors.not_for_complex(op, x.dtype)
    if not x.dtype.is_floating_point:
        raise errors.not_implemented_for(op, x.dtype, "a floating dtype")


def _check_same(op: str, x: Any, *parameters: Any) -> None:
    """Parameters have the dtype of the input; beside half precision they may be float32."""
    for parameter in parameters:
        if parameter is not None and parameter.dtype is not x.dtype:
            break
    else:
        return
    kinds = {p.dtype for p in parameters if p is not None}
    if x.dtype not in (dt.float16, dt.bfloat16) or kinds != {dt.float32}:
        raise RuntimeError(
            f"{op}: mixed dtype: expected parameters of the input's dtype {x.dtype!r} (all of "
            f"them may be torch.float32 beside half precision), but got "
            f"{' and '.join(sorted(map(repr, kinds)))}"
        )


@public("torch", "F")
def layer_norm(
    input: Any,
    normalized_shape: Any,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enable: bool = True,
) -> Any:
    """Each row (the last dimensions, of `normalized_shape`) with mean 0 and variance 1,
    scaled.

    >>> torch.nn.functional.layer_norm(torch.tensor([[1.0, 3.0]]), (2,))
    tensor([[-1.0000,  1.0000]])
    """
    try:
        dims = _checked_shape("layer_norm", input, normalized_shape, weight, bias)
        _check_same("layer_norm", input, weight, bias)
        _check_floating("layer_norm", input)
        x = NORMALISED(_wide(input), dim=dims, eps=float(eps))
        return _affine(x, weight, bias, input.dtype)
    except Exception as error:
        given = (input, normalized_shape, weight, bias)
        return refusals.recovered(layer_norm, layer_norm, "layer_norm", given, {}, error)


def _inverse_rms(k: Any, x: Any, dims: tuple[int, ...], eps: float) -> Any:
    """In float64, where squares of float32 cannot overflow (complex types keep their own)."""
    x = x if x.dtype.is_complex else k.cast(x, dt.float64)
    total = k.reduce("sum", x * x, dims, True)
    square = total / k.cast(k.extent(float(_count(x.shape, dims))), x.dtype)
    return 1.0 / k.sqrt(square + eps)


INVERSE_RMS = Op(  # 1 / sqrt(mean(x^2) + eps), dims kept
    "inverse_rms",
    attrs=("dim", "eps"),
    type=lambda x, dim, eps: _rms_type(x, dim),
    lower=lambda k, x, dim, eps: k.cast(_inverse_rms(k, k.wide(x), dim, eps), x.dtype),
    vjp=lambda g, out, x, dim, eps: (  # x * out is of the order of 1, out alone may be tiny
        scaled(g * out, x * out) * (out / -_count(x.shape, dim))
    ),
)


def _rms_type(x: Any, dim: tuple[int, ...]) -> Any:
    from rushlight.ops.reduce import reduced_type  # shared with the reductions

    return reduced_type(x, dim, True, x.dtype)


def _count(shape: Any, dim: tuple[int, ...]) -> int:
    count = 1
    for d in dim:
        count *= shape[d]
    return max(count, 1)


@public("torch", "F")
def rms_norm(
    input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None
) -> Any:
    """Each row divided by the square root of its mean square, scaled.

    >>> torch.rms_norm(torch.tensor([[3.0, 4.0]]), (2,))
    tensor([[0.8485, 1.1314]])
    """
    try:
        dims = _checked_shape("rms_norm", input, normalized_shape, weight)
        if input.dtype.is_complex:
            return _complex_rms_norm(input, dims, weight, eps)
        _check_floating("rms_norm", input)
        x = _wide(input)
        if eps is None:
            eps = 2.0**-x.dtype.mantissa  # of what is computed in
        return _affine(x * INVERSE_RMS(x, dim=dims, eps=float(eps)), weight, None, input.dtype)
    except Exception as error:
        given = (input, normalized_shape, weight)
        return refusals.recovered(rms_norm, rms_norm, "rms_norm", given, {}, error)


def _complex_rms_norm(x: Any, dims: tuple[int, ...], weight: Any, eps: float | None) -> Any:
    """By the mean of the squares themselves, not of their sizes, as in PyTorch."""
    if eps is None:
        eps = 2.0 ** -x.dtype.to_real().mantissa
    made = x * ((x * x).mean(dims, keepdim=True) + eps).rsqrt()
    return made if weight is None else made * weight


@public("torch")
def native_layer_norm(
    input: Any, normalized_shape: IntList, weight: Any, bias: Any, eps: float
) -> tuple[Any, Any, Any]:
    """`layer_norm`, and without history the mean of each row and the inverse of its
    deviation.

    >>> torch.native_layer_norm(torch.tensor([[1.0, 3.0]]), (2,), None, None, 1e-5)
    (tensor([[-1.0000,  1.0000]]), tensor([[2.]]), tensor([[1.0000]]))
    """
    dims = _checked_shape("native_layer_norm", input, normalized_shape, weight, bias)
    x = _wide(input.detach())
    made = layer_norm(input, normalized_shape, weight, bias, eps)
    mean, inverse = x.mean(dims, keepdim=True), INVERSE_STD(x, dim=dims, eps=float(eps))
    return made, *_statistics(input, (weight, bias), mean, inverse)


def _of_channels(parameter: Any, ndim: int) -> Any:
    """A vector over channels, shaped to broadcast over (N, C, ...)."""
    if parameter is None or ndim < 2:
        return parameter
    return parameter.reshape(1, -1, *(1,) * (ndim - 2))


@public("torch")
def group_norm(
    input: Any,
    num_groups: int,
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-05,
    cudnn_enabled: bool = True,
) -> Any:
    """Each group of channels of each sample with mean 0 and variance 1, scaled by channel.

    >>> torch.group_norm(torch.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    if input.ndim < 2:
        raise RuntimeError(
            f"group_norm: Expected at least 2 dimensions for input tensor but received "
            f"{input.ndim}"
        )
    _check_same("group_norm", input, weight, bias)
    _check_floating("group_norm", input)
    channels = input.shape[1]
    if num_groups <= 0 or channels % num_groups:
        raise RuntimeError(
            "group_norm: Expected number of channels in input to be divisible by num_groups, "
            f"but got input of shape {list(input.shape)} and num_groups={num_groups}"
        )
    for parameter in (weight, bias):
        if parameter is not None and tuple(parameter.shape) != (channels,):
            raise RuntimeError(
                "group_norm: Expected weight and bias to be vectors of size equal to the "
                f"number of channels {channels}, but got shape {list(parameter.shape)}"
            )
    each = channels // num_groups
    grouped = _wide(input).reshape(
        input.shape[0], num_groups, each, views.numel(input.shape[2:])
    )
    x = NORMALISED(grouped, dim=(2, 3), eps=float(eps))
    # scaled while it is in groups: a group's mean has no affine place among all channels
    weight, bias = (
        None if p is None else p.reshape(1, num_groups, each, 1) for p in (weight, bias)
    )
    return _affine(x, weight, bias, input.dtype).reshape(input.shape)


@public("F", name="group_norm")
def _group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05
) -> Any:
    """`group_norm`; ValueError where each group is one number, which would always be 0."""
    if input.ndim >= 2 and num_groups > 0 and input.numel() == num_groups:
        raise ValueError(
            f"group_norm: Expected more than 1 value per channel when training, got input size "
            f"{list(input.shape)}"
        )
    return group_norm(input, num_groups, weight, bias, eps)


@public("torch")
def native_group_norm(
    input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Any, Any, Any]:
    """`group_norm`, the mean of each group and the inverse of its deviation, (N, groups).

    >>> torch.native_group_norm(torch.tensor([[[1.0], [3.0]]]), None, None, 1, 2, 1, 1, 1e-5)[0]
    tensor([[[-1.0000],
             [ 1.0000]]])
    """
    _check_floating("native_group_norm", input)
    rows = _wide(input).reshape(N, group, C // group * HxW)
    inverse = INVERSE_STD(rows, dim=(2,), eps=float(eps)).reshape(N, group)
    made = group_norm(input, group, weight, bias, eps)
    statistics = _statistics(input, (weight, bias), rows.mean(2), inverse)
    parameters = [p for p in (weight, bias) if p is not None]
    return made, *(unrelated(s, *parameters) for s in statistics)


def _update_running(running: Any, measured: Any, momentum: float) -> None:
    if running is not None:
        running.mul_(1 - momentum).add_(measured.to(running.dtype) * momentum)


@public("F")
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any:
    """Each channel normalised over the batch (training) or by the running statistics.

    In training the running statistics move towards those of the batch by `momentum`. Raises
    ValueError for a negative `eps`, and in training for an `eps` of zero.

    >>> torch.nn.functional.batch_norm(torch.tensor([[1.0], [3.0]]), None, None, training=True)
    tensor([[-1.0000],
            [ 1.0000]])
    """
    _check_floating("batch_norm", input)
    if eps < 0 or (training and eps == 0):
        least = "positive during training" if training else "non-negative"
        raise ValueError(f"batch_norm: eps must be {least}, but got {eps}")
    channels = input.shape[1] if input.ndim > 1 else 0
    for parameter in (running_mean, running_var, weight, bias):
        if parameter is not None and tuple(parameter.shape) != (channels,):
            raise RuntimeError(
                f"batch_norm: parameters should contain {channels} elements not "
                f"{list(parameter.shape)} (input {list(input.shape)})"
            )
    _check_same("batch_norm", input, weight, bias, running_mean, running_var)
    ndim = input.ndim
    scale, shift = _of_channels(weight, ndim), _of_channels(bias, ndim)
    x = _wide(input)
    if training:
        return _affine(_batch_normalised(x, running_mean, running_var, momentum, eps),
                       scale, shift, input.dtype)  # fmt: skip
    if running_mean is None or running_var is None:
        raise RuntimeError(
            "batch_norm: Expected running_mean and running_var to be defined when "
            "training=False"
        )
    mean, var = _of_channels(running_mean, ndim), _of_channels(running_var, ndim)
    inverse = (var + eps).rsqrt()
    return _affine((x - mean) * inverse, scale, shift, input.dtype)


def _batch_normalised(
    x: Any, running_mean: Any, running_var: Any, momentum: float, eps: float
) -> Any:
    _check_both_or_none(running_mean, running_var)
    dims = (0, *range(2, x.ndim))
    channels = x.shape[1] if x.ndim > 1 else 0
    count = x.numel() // channels if channels else 0
    if count == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size "
            f"{list(x.shape)}"
        )
    if count > 0 and running_mean is not None:
        with gradients_off():
            _update_running(running_mean, x.mean(dims), momentum)
            _update_running(running_var, x.var(dims), momentum)
    return NORMALISED(x, dim=dims, eps=float(eps))


def _check_both_or_none(running_mean: Any, running_var: Any) -> None:
    if (running_mean is None) is not (running_var is None):
        raise ValueError(
            "running_mean and running_var must either both be None or neither be None"
        )


@public("torch", out=True)
def native_batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
    momentum: float, eps: float,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """`batch_norm`, and without history the mean of each channel and the inverse of its
    deviation (in evaluation both are empty).

    >>> x = torch.tensor([[1.0], [3.0]])
    >>> torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    (tensor([[-1.0000],
            [ 1.0000]]), tensor([2.]), tensor([1.0000]))
    """
    made = batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    x = _wide(input.detach())
    dims = (0, *range(2, x.ndim))
    if training:
        mean, inverse = x.mean(dims), INVERSE_STD(x, dim=dims, eps=float(eps)).reshape(-1)
    else:
        mean, inverse = x.new_zeros(0), x.new_zeros(0)
    parameters = (weight, bias, running_mean, running_var)
    return made, *_statistics(input, parameters, mean, inverse)


@public("F")
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-05,
) -> Any:
    """Each channel of each sample with mean 0 and variance 1, scaled by channel.

    >>> torch.nn.functional.instance_norm(torch.tensor([[[1.0, 3.0]]]))
    tensor([[[-1.0000,  1.0000]]])
    """
    _check_both_or_none(running_mean, running_var)
    ndim = input.ndim
    scale, shift = _of_channels(weight, ndim), _of_channels(bias, ndim)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    dims = tuple(range(2, ndim))
    count = 1
    for d in dims:
        count *= input.shape[d]
    if count == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size "
            f"{list(input.shape)}"
        )
    _check_floating("instance_norm", input)
    _check_same("instance_norm", input, weight, bias)
    x = _wide(input)
    if running_mean is not None:
        with gradients_off():
            _update_running(running_mean, x.mean(dims).mean(0), momentum)
            _update_running(running_var, x.var(dims).mean(0), momentum)
    return _affine(NORMALISED(x, dim=dims, eps=float(eps)), scale, shift, input.dtype)


@public("F")
def local_response_norm(
    input: Any, size: int, alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0
) -> Any:
    """Divided by a power of the mean square over `size` neighbouring channels (in float64,
    where squares of float32 cannot overflow).

    >>> torch.nn.functional.local_response_norm(torch.ones(1, 2, 1), 2, alpha=1.0)
    tensor([[[0.7378],
             [0.5946]]])
    """
    if input.ndim < 3:
        raise ValueError(
            f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)"
        )
    if input.numel() == 0:
        return input
    from rushlight.ops.pool import window_sum  # pooling is a later family

    wide = CAST(input, dtype=dt.float64) if input.dtype.is_floating_point else input
    square = (wide * wide).reshape(input.shape[0], 1, input.shape[1], -1)
    total = window_sum(square, (size, 1), (size // 2, (size - 1) // 2))
    total = total.reshape(input.shape)
    mean = total // size if input.dtype.is_integral else total / size
    made = wide / (mean * alpha + k).pow(beta)
    return CAST(made, dtype=input.dtype) if input.dtype.is_floating_point else made


@public("F", out=True)
def normalize(input: Any, p: Any = 2.0, dim: Ints | None = 1, eps: float = 1e-12) -> Any:
    """Divided by its p-norm along `dim`, which is taken to be at least `eps`.

    >>> torch.nn.functional.normalize(torch.tensor([[3.0, 4.0]]))
    tensor([[0.6000, 0.8000]])
    """
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


@public("torch", "Tensor", inplace=True, out=True)
def renorm(input: Any, p: Any, dim: int, maxnorm: float) -> Any:
    """Parts along `dim` whose p-norm exceeds `maxnorm`, scaled down to it.

    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if isinstance(p, complex):
        raise RuntimeError(f"renorm: p must be real-valued, got {p}")
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p = {p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got shape {list(input.shape)}"
        )
    at = views.dim_index("renorm", dim, input.ndim)
    x = _wide(input)
    size = x.norm(p, [d for d in range(x.ndim) if d != at], keepdim=True)
    factor = WHERE(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
    return CAST(x * factor, dtype=input.dtype)
