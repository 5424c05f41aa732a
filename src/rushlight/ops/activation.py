"""Activation functions, each with a stable form and a derivative of its own."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors, references or numbers

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.elementwise import (
    RECORDED,
    Accepts,
    is_floating,
    is_fractional,
    is_not_bool,
    masked,
    pointwise,
    the_tensor,
)
from rushlight.ops.fill_value import holds
from rushlight.ops.registry import Op, public, recorder
from rushlight.ops.transcendental import SIGMOID, SQRT_HALF, normal_density, normal_distribution


def activation_op(
    name: str,
    lower: Any,
    slope: Any = None,
    attrs: tuple[str, ...] = (),
    vjp: Any = None,
    accepts: Accepts = is_floating,
    of_complex: bool = False,
    half: Any = None,
) -> Op:
    """A pointwise op of floating numbers."""
    slopes = () if slope is None else (slope,)
    return pointwise(
        name,
        lower,
        *slopes,
        attrs=attrs,
        vjp=vjp,
        accepts=accepts,
        wanted="a floating dtype",
        of_complex=of_complex,
        half=half,
    )


def applied(op: Op, input: Any, inplace: bool, **attrs: Any) -> Any:
    """The op's result, stored in the input itself if asked for."""
    out = op(input, **attrs)
    if not inplace:
        return out
    return recorder.write(input, out, op.name + "_")


# -- relu and its relatives


RELU = pointwise(
    "relu",
    lambda k, x: k.max(x, 0),
    vjp=lambda g, out, x: RECORDED.where(RECORDED.le(out, 0), 0, g),
    accepts=is_not_bool,
    wanted="numbers (bool is not supported)",
    refuse=errors.wrong_dtype,
)
HARDTANH = pointwise(
    "hardtanh",
    lambda k, x, low, high: k.min(k.max(x, low), high),
    attrs=("low", "high"),
    vjp=lambda g, out, x, low, high: masked((x > low) & (x < high), g),
    accepts=is_not_bool,
    wanted="numbers",
    refuse=errors.wrong_dtype,
)
LEAKY_RELU = activation_op(
    "leaky_relu",
    lambda k, x, slope: k.select(x > 0, x, x * slope),
    lambda m, out, x, slope: m.select(x > 0, 1, x * 0 + slope),
    ("slope",),
)
THRESHOLD = activation_op(
    "threshold",
    lambda k, x, threshold, value: k.select(x <= threshold, k.const(value, x.dtype), x),
    attrs=("threshold", "value"),
    vjp=lambda g, out, x, threshold, value: RECORDED.where(x <= threshold, 0, g),
    accepts=is_not_bool,
)


@public("F")
def relu(input: Any, inplace: bool = False) -> Any:
    """max(x, 0).

    >>> import rushlight as torch
    >>> torch.nn.functional.relu(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return applied(RELU, input, inplace)


@public("torch", "Tensor", name="relu", inplace=True)
def _relu(input: Any) -> Any:
    """max(x, 0)."""
    return RELU(input)


public("F", name="relu_")(lambda input: applied(RELU, input, True))


@public("F")
def hardtanh(
    input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False
) -> Any:
    """x clamped to [min_val, max_val]; no gradient at the bounds.

    >>> torch.nn.functional.hardtanh(torch.tensor([-3.0, 0.5, 2.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    kind = the_tensor("hardtanh", input).dtype
    if not kind.is_signed and kind is not dt.bool_ and min_val <= -1:
        raise RuntimeError(
            "hardtanh: cannot do hardtanh on an unsigned type with negative limits"
        )
    _check_whole("hardtanh", kind, min_val, max_val)
    return applied(HARDTANH, input, inplace, low=min_val, high=max_val)


public("F", name="hardtanh_")(
    lambda input, min_val=-1.0, max_val=1.0: hardtanh(input, min_val, max_val, True)
)


@public("F")
def relu6(input: Any, inplace: bool = False) -> Any:
    """min(max(x, 0), 6).

    >>> torch.nn.functional.relu6(torch.tensor([-1.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """
    return applied(HARDTANH, input, inplace, low=0.0, high=6.0)


@public("F")
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """x where positive, negative_slope * x elsewhere.

    >>> torch.nn.functional.leaky_relu(torch.tensor([-1.0, 2.0]), 0.1)
    tensor([-0.1000,  2.0000])
    """
    return applied(LEAKY_RELU, input, inplace, slope=float(negative_slope))


public("F", name="leaky_relu_")(
    lambda input, negative_slope=0.01: leaky_relu(input, negative_slope, True)
)


@public("F")
def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """x where it is above the threshold, value elsewhere.

    >>> torch.nn.functional.threshold(torch.tensor([0.5, 2.0]), 1.0, -1.0)
    tensor([-1.,  2.])
    """
    _check_whole("threshold", the_tensor("threshold", input).dtype, threshold, value)
    return applied(THRESHOLD, input, inplace, threshold=threshold, value=value)


def _check_whole(op: str, kind: dt.dtype, *numbers: float) -> None:
    """Raise for a number that a tensor of integers cannot be compared with or hold."""
    for number in numbers:
        if kind.is_integral and not holds(kind, number):
            raise errors.value_overflows(op, number, kind)


@public("torch", name="threshold", inplace=True, out=True)
def _threshold(input: Any, threshold: float, value: float) -> Any:
    """x where it is above the threshold, value elsewhere."""
    _check_whole("threshold", input.dtype, threshold, value)
    return THRESHOLD(input, threshold=threshold, value=value)


public("F", name="threshold_")(
    lambda input, threshold, value: applied(
        THRESHOLD, input, True, threshold=threshold, value=value
    )
)

PRELU = pointwise(
    "prelu",
    lambda k, x, w: k.select(x > 0, x, x * w),
    lambda m, out, x, w: m.select(x > 0, 1, w),
    lambda m, out, x, w: m.select(x > 0, 0, x),
    accepts=is_floating,
    wanted="a floating dtype",
)


@public("torch", "Tensor", "F")
def prelu(input: Any, weight: Any) -> Any:
    """x where positive, weight * x elsewhere; one weight, or one for each channel (dim 1).

    >>> torch.prelu(torch.tensor([[-1.0, -1.0]]), torch.tensor([0.25, 0.5]))
    tensor([[-0.2500, -0.5000]])
    """
    if input.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype!r} and {weight.dtype!r}"
        )
    count = weight.numel()
    if weight.ndim > 1:
        raise RuntimeError(
            f"prelu: weight must be 0-d or 1-d, but has {weight.ndim} dimensions"
        )
    if weight.ndim == 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if (input.ndim == 0 or (count != 1 and count != channels)) and count != 1:
            raise RuntimeError(
                "prelu: Mismatch of parameter numbers and input channel size. Found parameter "
                f"numbers = {count} and channel size = {channels}."
            )
        shape = (
            (1, count, *(1,) * (input.ndim - 2)) if input.ndim > 1 else (count,) * input.ndim
        )
        weight = weight.reshape(shape)
    return PRELU(input, weight)


@public("F")
def rrelu(
    input: Any,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Any:
    """leaky_relu whose slope is drawn from [lower, upper] in training, and their mean
    otherwise.

    >>> torch.nn.functional.rrelu(torch.tensor([-1.0, 2.0]), 0.2, 0.4)
    tensor([-0.3000,  2.0000])
    """
    if lower > upper:
        raise RuntimeError("rrelu: Lower bound should be less than or equal to the upper bound")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    from rushlight.ops import random  # a later family

    noise = (
        random.rand(tuple(the_tensor("rrelu", input).shape), dtype=input.dtype)
        * (upper - lower)
        + lower
    )
    out = PRELU(input, noise)
    return recorder.write(input, out, "rrelu_") if inplace else out


@public("F", "torch")
def rrelu_(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Any:
    """In-place form of `rrelu`."""
    return rrelu(input, lower, upper, training, True)


# -- exponential linear units


def _elu_lower(k: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return k.select(x > 0, x * scale, k.expm1(x * input_scale) * (alpha * scale))


def _elu_slope(m: Any, out: Any, x: Any, alpha: float, scale: float, input_scale: float) -> Any:
    return m.select(x > 0, scale, m.exp(x * input_scale) * (alpha * scale * input_scale))


ELU = activation_op("elu", _elu_lower, _elu_slope, ("alpha", "scale", "input_scale"))
SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946


@public("F")
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, alpha * (exp(x) - 1) elsewhere.

    >>> torch.nn.functional.elu(torch.tensor([-1.0, 2.0]))
    tensor([-0.6321,  2.0000])
    """
    return applied(ELU, input, inplace, alpha=float(alpha), scale=1.0, input_scale=1.0)


public("F", name="elu_")(lambda input, alpha=1.0: elu(input, alpha, True))


def selu(input: Any, inplace: bool = False) -> Any:
    """scale * elu(x, alpha) with the constants of self-normalising networks.

    >>> torch.selu(torch.tensor([-1.0, 1.0]))
    tensor([-1.1113,  1.0507])
    """
    return applied(ELU, input, inplace, alpha=SELU_ALPHA, scale=SELU_SCALE, input_scale=1.0)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """x where positive, alpha * (exp(x / alpha) - 1) elsewhere.

    >>> torch.celu(torch.tensor([-1.0, 1.0]), alpha=0.5)
    tensor([-0.4323,  1.0000])
    """
    if alpha == 0:
        raise RuntimeError("celu: ZeroDivisionError: alpha cannot be 0 for CELU")
    attrs = {"alpha": float(alpha), "scale": 1.0, "input_scale": 1 / alpha}
    return applied(ELU, input, inplace, **attrs)


for _function in (selu, celu):
    public("torch", "F")(_function)
for _place in ("torch", "F"):
    public(_place, name="selu_")(lambda input: selu(input, True))
    public(_place, name="celu_")(lambda input, alpha=1.0: celu(input, alpha, True))


# -- gelu, silu, mish


def _gelu_lower(k: Any, x: Any) -> Any:
    """In float64 with what the quotient x / sqrt(2) loses; float32 is for speed."""
    if x.dtype is dt.float64:
        return x * normal_distribution(k, x)
    return x * k.normal_cdf(x)


GELU = activation_op(
    "gelu",
    _gelu_lower,
    lambda m, out, x: m.normal_cdf(x) + x * normal_density(m, x),
    half=lambda k, x: x * (k.erfc_half(x * -SQRT_HALF) * 0.5),
)
_BEND = 2 * math.sqrt(
    2 / math.pi
)  # 0.5 * (1 + tanh(z)) is sigmoid(2 * z), without cancellation


def _gelu_tanh_lower(k: Any, x: Any) -> Any:
    return x * k.sigmoid(x * (x * x * (0.044715 * _BEND) + _BEND))


def _gelu_tanh_slope(m: Any, out: Any, x: Any) -> Any:
    s = m.sigmoid(x * (x * x * (0.044715 * _BEND) + _BEND))
    return s + s * (1 - s) * x * (x * x * (3 * 0.044715 * _BEND) + _BEND)


GELU_TANH = activation_op("gelu_tanh", _gelu_tanh_lower, _gelu_tanh_slope)


@public("F", out=True)
def gelu(input: Any, *, approximate: str = "none") -> Any:
    """x times the normal distribution function of x, or its approximation by tanh.

    >>> torch.nn.functional.gelu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.1587,  0.0000,  0.8413])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("gelu: approximate argument must be either none or tanh.")
    return (GELU if approximate == "none" else GELU_TANH)(input)


def _silu_slope(m: Any, out: Any, x: Any) -> Any:
    s = m.sigmoid(x)
    return s * (x * (1 - s) + 1)


SILU = activation_op(
    "silu",
    lambda k, x: x * k.sigmoid(x),
    _silu_slope,
    accepts=is_fractional,
    of_complex=True,
)


@public("F")
def silu(input: Any, inplace: bool = False) -> Any:
    """x * sigmoid(x), also called swish.

    >>> torch.nn.functional.silu(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.2689,  0.0000,  0.7311])
    """
    return applied(SILU, input, inplace)


def _tanh_of_softplus(m: Any, x: Any) -> Any:
    """tanh(log(1 + n)) for n = e**x, as a quotient of polynomials; 1 to the last bit above
    20.
    """
    n = m.exp(m.min(x, 20))
    top = n * (n + 2)
    return top / (top + 2)


def _mish_slope(m: Any, out: Any, x: Any) -> Any:
    w = _tanh_of_softplus(m, x)
    return w + x * m.sigmoid(x) * (1 - w * w)


MISH = activation_op("mish", lambda k, x: x * _tanh_of_softplus(k, x), _mish_slope)


@public("F")
def mish(input: Any, inplace: bool = False) -> Any:
    """x * tanh(softplus(x)).

    >>> torch.nn.functional.mish(torch.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.3034,  0.0000,  0.8651])
    """
    return applied(MISH, input, inplace)


# -- soft and hard forms


def _softplus_lower(k: Any, x: Any, beta: float, threshold: float) -> Any:
    z = x * beta
    smooth = (k.max(z, 0) + k.log1p(k.exp(-k.abs(z)))) / beta
    return k.select(z > threshold, x, smooth)


def _softplus_slope(m: Any, out: Any, x: Any, beta: float, threshold: float) -> Any:
    z = x * beta
    return m.select(z > threshold, 1, m.sigmoid(z))


SOFTPLUS = activation_op("softplus", _softplus_lower, _softplus_slope, ("beta", "threshold"))


@public("F", out=True)
def softplus(input: Any, beta: float = 1, threshold: float = 20) -> Any:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold.

    >>> torch.nn.functional.softplus(torch.tensor([-1.0, 0.0, 30.0]))
    tensor([ 0.3133,  0.6931, 30.0000])
    """
    return SOFTPLUS(input, beta=float(beta), threshold=float(threshold))


LOGSIGMOID = activation_op(
    "log_sigmoid",
    lambda k, x: k.min(x, 0) - k.log1p(k.exp(-k.abs(x))),
    lambda m, out, x: m.sigmoid(-x),
)


@public("F", out=True)
def logsigmoid(input: Any) -> Any:
    """log(sigmoid(x)), finite for every finite x.

    >>> torch.nn.functional.logsigmoid(torch.tensor([-200.0, 0.0]))
    tensor([-200.0000,   -0.6931])
    """
    return LOGSIGMOID(input)


def _softsign_slope(m: Any, out: Any, x: Any) -> Any:
    whole = m.abs(x) + 1
    return 1 / (whole * whole)


SOFTSIGN = pointwise(
    "softsign",
    lambda k, x: x / (k.abs(x) + 1),
    _softsign_slope,
    to="float",
    accepts=is_not_bool,
)


@public("F")
def softsign(input: Any) -> Any:
    """x / (1 + |x|).

    >>> torch.nn.functional.softsign(torch.tensor([-1.0, 3.0]))
    tensor([-0.5000,  0.7500])
    """
    if the_tensor("softsign", input).dtype.is_complex:  # not holomorphic
        return input / (input.abs() + 1)
    return SOFTSIGN(input)


HARDSIGMOID = activation_op(
    "hardsigmoid",
    lambda k, x: k.min(k.max(x + 3, 0), 6) / 6,
    vjp=lambda g, out, x: masked((x > -3) & (x < 3), g * (1 / 6)),
)
HARDSWISH = activation_op(
    "hardswish",
    lambda k, x: x * k.min(k.max(x + 3, 0), 6) / 6,
    lambda m, out, x: m.select(x <= -3, 0, m.select(x < 3, x / 3 + 0.5, 1)),
)


@public("F")
def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """clamp(x + 3, 0, 6) / 6.

    >>> torch.nn.functional.hardsigmoid(torch.tensor([-4.0, 0.0, 1.5]))
    tensor([0.0000, 0.5000, 0.7500])
    """
    return applied(HARDSIGMOID, input, inplace)


@public("F")
def hardswish(input: Any, inplace: bool = False) -> Any:
    """x * clamp(x + 3, 0, 6) / 6.

    >>> torch.nn.functional.hardswish(torch.tensor([-4.0, 0.0, 1.5]))
    tensor([-0.0000, 0.0000, 1.1250])
    """
    return applied(HARDSWISH, input, inplace)


@public("F")
def glu(input: Any, dim: int = -1) -> Any:
    """The first half of `input` along `dim` times the sigmoid of the second.

    >>> torch.nn.functional.glu(torch.tensor([2.0, 4.0, 0.0, 1.0]))
    tensor([1.0000, 2.9242])
    """
    if the_tensor("glu", input).ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = views.dim_index("glu", dim, input.ndim)
    size = input.shape[axis]
    if size % 2:
        raise RuntimeError(
            f"glu: Halving dimension must be even, but dimension {axis} is size {size}"
        )
    first, second = input.narrow(axis, 0, size // 2), input.narrow(axis, size // 2, size // 2)
    return first * SIGMOID(second)
