"""Losses that compare predictions with targets element by element.

All are composites: the step that contains them is compiled as one. `reduction` is 'mean', 'sum'
or 'none'; the old `size_average` and `reduce` are still taken.
"""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.advice import warn_caller
from rushlight.config import gradients_off
from rushlight.ops import batching
from rushlight.ops.activation import logsigmoid
from rushlight.ops.cross_entropy import reduction_of
from rushlight.ops.elementwise import check_tensors, pointwise, scaled
from rushlight.ops.registry import OPS, public


def reduced(losses: Any, reduction: str) -> Any:
    if reduction == "mean":
        return losses.mean()
    return losses.sum() if reduction == "sum" else losses


def _paired(name: str, input: Any, target: Any) -> None:
    """Warn, as PyTorch does, of sizes that only agree by broadcasting."""
    if input.shape != target.shape:
        warn_caller(
            f"{name}: Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}). This will likely lead to incorrect results due to broadcasting. "
            f"Please ensure they have the same size."
        )
        views.broadcast_shapes(name, input.shape, target.shape)


def _floating(name: str, input: Any, target: Any) -> tuple[Any, Any]:
    """Both as numbers that can be subtracted; raises where they are no real floating ones."""
    kind = dt.promote_types(input.dtype, target.dtype)
    if kind.is_complex:
        raise errors.not_for_complex(name, kind)
    if not kind.is_floating_point:
        raise errors.not_implemented_for(name, kind, "a floating dtype")
    if input.dtype is dt.bool_ or target.dtype is dt.bool_:
        return input.to(kind), target.to(kind)
    return input, target


def _weighted(losses: Any, weight: Any, reduction: str) -> Any:
    if weight is None:
        return reduced(losses, reduction)
    losses = losses * weight
    if reduction == "mean":
        return losses.sum() / weight.expand(losses.shape).sum()
    return reduced(losses, reduction)


@public("F")
def mse_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """(input - target) squared.

    >>> torch.nn.functional.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _floating("mse_loss", input, target)
    _paired("mse_loss", input, target)
    return _weighted((input - target).square(), weight, reduction)


@public("F")
def l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Any = None,
) -> Any:
    """|input - target|.

    >>> torch.nn.functional.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    _paired("l1_loss", input, target)
    return _weighted((input - target).abs(), weight, reduction)


@public("F")
def smooth_l1_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Any:
    """d^2 / (2 beta) where d = |input - target| < beta, d - beta / 2 beyond.

    >>> torch.nn.functional.smooth_l1_loss(torch.tensor([0.5]), torch.tensor([0.0]))
    tensor(0.1250)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    input, target = _floating("smooth_l1_loss", input, target)
    _paired("smooth_l1_loss", input, target)
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    distance = (input - target).abs()
    if beta == 0:
        return reduced(distance, reduction)
    near = distance.square() * (0.5 / beta)
    return reduced(OPS["where"](distance < beta, near, distance - 0.5 * beta), reduction)


@public("F")
def huber_loss(
    input: Any,
    target: Any,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Any = None,
) -> Any:
    """d^2 / 2 where d = |input - target| <= delta, delta (d - delta / 2) beyond.

    >>> torch.nn.functional.huber_loss(torch.tensor([0.5, 3.0]), torch.tensor([0.0, 0.0]))
    tensor(1.3125)
    """
    reduction = reduction_of(reduction, None, None)
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    input, target = _floating("huber_loss", input, target)
    _paired("huber_loss", input, target)
    distance = (input - target).abs()
    far = (distance - 0.5 * delta) * delta
    losses = OPS["where"](distance <= delta, distance.square() * 0.5, far)
    return _weighted(losses, weight, reduction)


@public("F")
def binary_cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """-(t log p + (1 - t) log(1 - p)), the logarithms no less than -100 as in PyTorch.

    input, target: probabilities in [0, 1], of one floating-point dtype: others raise
    RuntimeError.

    >>> p = torch.tensor([0.5])
    >>> torch.nn.functional.binary_cross_entropy(p, torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(
            f"Using a target size ({target.shape}) that is different to the input size "
            f"({input.shape}) is deprecated. Please ensure they have the same size."
        )
    _check_probabilities("binary_cross_entropy", input, target)
    losses = BINARY_CROSS_ENTROPY(input, target)
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction)


def _check_probabilities(op: str, input: Any, target: Any) -> None:
    if not input.dtype.is_floating_point:
        raise errors.not_implemented_for(op, input.dtype, "floating-point probabilities")
    if target.dtype is not input.dtype:
        raise RuntimeError(
            f"{op}: Found target of dtype {target.dtype!r} but expected {input.dtype!r}, the "
            f"dtype of input"
        )


def _outside(k: Any, x: Any) -> Any:
    """1 where x is no probability; NaN is none."""
    return k.cast((x >= 0.0) & (x <= 1.0), dt.bool_).equals(False)


def _bce_lower(k: Any, p: Any, t: Any) -> Any:
    if 0 not in p.shape:
        p = k.checked(p, k.cast(_outside(k, p), dt.int64), 1, "probability")
        t = k.checked(t, k.cast(_outside(k, t), dt.int64), 1, "target probability")
    log_p = k.max(k.log(p), k.const(-100.0, p.dtype))
    log_q = k.max(k.log1p(-p), k.const(-100.0, p.dtype))
    return (t - 1) * log_q - t * log_p


def _bce_vjp(g: Any, out: Any, p: Any, t: Any) -> Any:
    slope = (p - t) / ((1 - p) * p).clamp(min=1e-12)
    logs = (1 - p).log().clamp(min=-100) - p.log().clamp(min=-100)
    return scaled(g, slope), scaled(g, logs)


BINARY_CROSS_ENTROPY = pointwise("binary_cross_entropy", _bce_lower, vjp=_bce_vjp)


@public("F")
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """Binary cross-entropy of sigmoid(input), in a form that never overflows.

    target: floating-point numbers; integers and bools raise RuntimeError.
    pos_weight: a factor for the loss of positive targets, broadcast.

    >>> x = torch.tensor([0.0])
    >>> torch.nn.functional.binary_cross_entropy_with_logits(x, torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input.shape != target.shape:
        raise ValueError(
            f"Target size ({target.shape}) must be the same as input size ({input.shape})"
        )
    if not (target.dtype.is_floating_point or target.dtype.is_complex):
        raise errors.wrong_dtype(
            "binary_cross_entropy_with_logits", target.dtype, "floating-point targets"
        )
    log_p = logsigmoid(input)
    if pos_weight is None:
        losses = (1 - target) * input - log_p
    else:
        scale = (pos_weight - 1) * target + 1
        losses = (1 - target) * input - scale * log_p
    if weight is not None:
        losses = losses * weight
    return reduced(losses, reduction)


@public("F")
def kl_div(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Any:
    """target * (log target - input), with `input` a log-probability.

    reduction: 'batchmean' divides the sum by the first size, which is the divergence's
    definition; 'mean' divides by the number of elements.

    >>> p = torch.tensor([0.5, 0.5])
    >>> torch.nn.functional.kl_div(p.log(), torch.tensor([0.25, 0.75]), reduction="sum")
    tensor(0.1308)
    """
    check_tensors("kl_div", input=input, target=target)
    for x in (input, target):
        if not x.dtype.is_floating_point:
            kind = "Complex" if x.dtype.is_complex else "Integral"
            raise RuntimeError(f"kl_div: {kind} inputs not supported, got {x.dtype!r}")
    if reduction == "batchmean":
        total = kl_div(input, target, reduction="sum", log_target=log_target)
        return total / input.shape[0] if input.ndim else total
    if reduction == "mean" and size_average is None and reduce is None:
        warn_caller(
            "reduction: 'mean' divides the total loss by both the batch size and the support "
            "size.'batchmean' divides only by the batch size, and aligns with the KL div math "
            "definition.'mean' will be changed to behave the same as 'batchmean' in the next "
            "major release."
        )
    reduction = reduction_of(reduction, size_average, reduce)
    if log_target:
        return reduced(target.exp() * (target - input), reduction)
    return reduced(target.xlogy(target) - target * input, reduction)


@public("F")
def poisson_nll_loss(
    input: Any,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """exp(input) - target * input, or input - target * log(input + eps); `full` adds Stirling's
    approximation of log(target!) where target > 1.

    >>> torch.nn.functional.poisson_nll_loss(torch.tensor([0.0]), torch.tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    check_tensors("poisson_nll_loss", input=input, target=target)
    if log_input:
        losses = input.exp() - target * input
    else:
        losses = input - target * (input + eps).log()
    if full:
        safe = OPS["where"](target > 1, target, 1)
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        losses = losses + OPS["where"](target > 1, stirling, 0)
    return reduced(losses, reduction)


def _variance_lower(k: Any, var: Any) -> Any:
    if 0 in var.shape:
        return var
    return k.checked(var, k.cast(var < 0.0, dt.int64), 1, "variance")


VARIANCE = pointwise(  # itself; the flush fails where it is negative
    "gaussian_nll_loss",
    _variance_lower,
    vjp=lambda g, out, var: g,
    jvp=lambda tangents, out, var: tangents[0],
)


@public("F")
def gaussian_nll_loss(
    input: Any,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Any:
    """(log var + (input - target)^2 / var) / 2, with var no less than eps.

    >>> one = torch.ones(1)
    >>> torch.nn.functional.gaussian_nll_loss(one, 3 * one, 2 * one)
    tensor(1.3466)
    """
    if not hasattr(var, "_storage"):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = var * OPS["full"](shape=tuple(input.shape), value=1.0, dtype=input.dtype)
    elif (
        var._storage.value.buffer is not None
        and not var.is_meta
        and bool((batching.whole(var) < 0).any())
    ):
        raise ValueError("var has negative entry/entries")
    var = VARIANCE(var)
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif not (input.shape[:-1] == var.shape[:-1] and var.shape[-1] == 1) and not _spreads(
            var.shape, input.shape
        ):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(reduction + " is not valid")
    held = var.clone()
    with gradients_off():
        held.clamp_(min=eps)
    losses = 0.5 * (held.log() + (input - target).square() / held)
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses, reduction)


def _spreads(small: Any, large: Any) -> bool:
    return len(small) == len(large) and all(a in (1, b) for a, b in zip(small, large))
