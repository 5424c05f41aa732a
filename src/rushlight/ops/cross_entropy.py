"""Losses over classes: nll_loss and cross_entropy."""

from __future__ import annotations

import math
from typing import Any  # operands are tensors

from rushlight import config, errors
from rushlight import dtypes as dt
from rushlight.advice import warn_caller
from rushlight.ops.bounds import check_known
from rushlight.ops.contract import linear
from rushlight.ops.elementwise import CAST, WHERE
from rushlight.ops.pick import PICK, pick_lower, picked_gradient, safe_target
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public
from rushlight.views import View


def weight_lower(k: Any, weight: Any, target: Any, ignore_index: int) -> Any:
    safe, is_ignored = safe_target(k, target, ignore_index)
    view = View(target.shape, (0,) * len(target.shape), 0)
    return k.select(
        is_ignored, 0, k.gather(weight, view, [(safe, 1, weight.shape[0])], "target")
    )


CLASS_WEIGHT = Op(  # the weight of each target's class; 0 where ignored
    "class_weight",
    attrs=("ignore_index",),
    type=lambda weight, target, ignore_index: TensorType(target.shape, weight.dtype),
    lower=weight_lower,
    vjp=NOT_DIFFERENTIABLE,
)


def count_lower(k: Any, target: Any, ignore_index: int, dtype: dt.dtype) -> Any:
    is_counted = k.cast(k.cast(target, dt.int64).differs(ignore_index), dt.int64)
    return k.cast(k.reduce("sum", is_counted, range(len(target.shape))), dtype)


COUNT = Op(  # how many targets are not ignored
    "count_classes",
    attrs=("ignore_index", "dtype"),
    type=lambda target, ignore_index, dtype: TensorType((), dtype),
    lower=count_lower,
    vjp=NOT_DIFFERENTIABLE,
)


def mean_lower(k: Any, logs: Any, target: Any, dim: int, ignore_index: int) -> Any:
    found = k.wide(pick_lower(k, logs, target, dim, ignore_index))
    total = k.reduce("sum", -found, range(len(target.shape)))
    return k.cast(total / count_lower(k, target, ignore_index, total.dtype), logs.dtype)


def _mean_vjp(g: Any, out: Any, logs: Any, target: Any, dim: int, ignore_index: int) -> Any:
    g = -g / COUNT(target, ignore_index=ignore_index, dtype=g.dtype)
    g = g.expand(target.shape)
    return picked_gradient(g, target, dim, logs.shape[dim], ignore_index), None


NLL_MEAN = Op(  # minus the mean of the target's class over all targets but the ignored
    "nll_loss",
    attrs=("dim", "ignore_index"),
    type=lambda logs, target, dim, ignore_index: TensorType((), logs.dtype),
    lower=mean_lower,
    vjp=_mean_vjp,
)


def reduction_of(reduction: str, size_average: Any, reduce: Any) -> str:
    """The reduction by name, or as the old pair of flags said it."""
    if size_average is not None or reduce is not None:
        size_average = True if size_average is None else size_average
        reduce = True if reduce is None else reduce
        named = ("mean" if size_average else "sum") if reduce else "none"
        warn_caller(f"size_average and reduce are deprecated: use reduction='{named}' instead.")
        return named
    if reduction == "elementwise_mean":
        warn_caller("reduction='elementwise_mean' is deprecated: use 'mean' instead.")
        return "mean"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _check_target(op: str, x: Any, target: Any, dim: int, ignore_index: int) -> None:
    if target.dtype is not dt.int64 and (target.dtype is not dt.uint8 or x.ndim > 2):
        wanted = "torch.int64" if x.ndim > 2 else "torch.int64 or torch.uint8"
        raise errors.other_dtype_than(op, "target", wanted, target.dtype)
    if tuple(x.shape[:dim]) + tuple(x.shape[dim + 1 :]) != tuple(target.shape):
        if target.ndim and x.ndim > 1 and x.shape[0] != target.shape[0]:
            raise ValueError(
                f"{op}: Expected input batch_size ({x.shape[0]}) to match target batch_size "
                f"({target.shape[0]})."
            )
        raise RuntimeError(
            f"{op}: Expected target of size {list(x.shape[:dim] + x.shape[dim + 1 :])} for "
            f"input of size {list(x.shape)}, got {list(target.shape)}"
        )
    check_known(op, "target", target, x.shape[dim], ignored=ignore_index)


def _check_same_dtype(op: str, input: Any, weight: Any) -> None:
    if weight is not None and weight.dtype is not input.dtype:
        raise errors.mixed_dtypes(op, input.dtype, weight.dtype)


def _check_weight(op: str, weight: Any, classes: int) -> None:
    if weight is not None and (weight.ndim != 1 or weight.shape[0] != classes):
        raise RuntimeError(
            f"{op}: weight tensor should be defined either for all {classes} classes or no "
            f"classes but got weight tensor of shape: {list(weight.shape)}"
        )


def _class_loss(
    logs: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float
) -> Any:
    """-log of the target's class, weighted, smoothed and reduced; `logs` has classes in dim."""
    dim = 1 if logs.ndim > 1 else 0
    if weight is not None and weight.requires_grad and config.scopes.grad_enabled:
        raise errors.operand_requires_grad("nll_loss", "weight")
    if reduction == "mean" and weight is None and not smoothing:
        return NLL_MEAN(logs, target, dim=dim, ignore_index=ignore_index)
    loss = -PICK(logs, target, dim=dim, ignore_index=ignore_index)
    factor = None
    if weight is not None:
        factor = CLASS_WEIGHT(weight, target, ignore_index=ignore_index)
        loss = loss * factor
    if smoothing > 0:
        loss = _smoothed(loss, logs, target, weight, ignore_index, smoothing, dim)
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if factor is not None:
        return loss.sum() / factor.sum()
    return loss.sum() / COUNT(target, ignore_index=ignore_index, dtype=loss.dtype)


def _smoothed(
    loss: Any,
    logs: Any,
    target: Any,
    weight: Any,
    ignore_index: int,
    smoothing: float,
    dim: int,
) -> Any:
    classes = logs.shape[dim]
    if weight is not None:
        logs = logs * weight.reshape([-1 if i == dim else 1 for i in range(logs.ndim)])
    even = WHERE(target.long() == ignore_index, 0, -logs.sum(dim))
    return loss * (1 - smoothing) + even * (smoothing / max(classes, 1))


@public("F")
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    """-input at the target's class; the mean is weighted by the classes' weights.

    >>> scores = torch.tensor([[-0.5, -1.0]])
    >>> torch.nn.functional.nll_loss(scores, torch.tensor([1]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if input.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if not input.dtype.is_floating_point:
        raise errors.not_implemented_for("nll_loss", input.dtype, "a floating dtype")
    dim = 1 if input.ndim > 1 else 0
    _check_target("nll_loss", input, target, dim, ignore_index)
    _check_weight("nll_loss", weight, input.shape[dim])
    _check_same_dtype("nll_loss", input, weight)
    return _class_loss(input, target, weight, ignore_index, reduction, 0.0)


@public("F")
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: Any = None,
    ignore_index: int = -100,
    reduce: Any = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """-log softmax(input) at the target's class, or averaged over the target's probabilities.

    >>> import rushlight as torch
    >>> torch.nn.functional.cross_entropy(torch.zeros(1, 4), torch.tensor([2]))
    tensor(1.3863)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}"
        )
    if not input.dtype.is_floating_point:
        raise errors.not_implemented_for("log_softmax", input.dtype, "a floating dtype")
    dim = 1 if input.ndim > 1 else 0
    if input.ndim == 0:
        raise RuntimeError("cross_entropy: Dimension out of range: the input has no dimensions")
    _check_weight("cross_entropy", weight, input.shape[dim])
    is_half = input.dtype in (dt.float16, dt.bfloat16)
    kind = input.dtype
    logs = (CAST(input, dtype=dt.float32) if is_half else input).log_softmax(dim)
    if target.dtype.is_floating_point:
        if ignore_index >= 0:
            raise RuntimeError(
                f"cross_entropy: ignore_index ({ignore_index}) is not supported for a target "
                f"of probabilities"
            )
        for factor in (target, weight):
            kind = kind if factor is None else dt.promote_types(kind, factor.dtype)
        loss = _probability_loss(logs, target, weight, reduction, label_smoothing, dim)
    else:
        _check_target("cross_entropy", input, target, dim, ignore_index)
        _check_same_dtype("cross_entropy", input, weight)
        loss = _class_loss(logs, target, weight, ignore_index, reduction, label_smoothing)
    return CAST(loss, dtype=kind) if is_half else loss


def _probability_loss(
    logs: Any, target: Any, weight: Any, reduction: str, smoothing: float, dim: int
) -> Any:
    if tuple(target.shape) != tuple(logs.shape):
        raise RuntimeError(
            "cross_entropy: Expected floating point target with class probabilities to have "
            f"the input's shape {list(logs.shape)}, got {list(target.shape)}"
        )
    if smoothing > 0:
        target = target * (1 - smoothing) + smoothing / max(logs.shape[dim], 1)
    product = logs * target
    if weight is not None:
        product = product * weight.reshape([-1 if i == dim else 1 for i in range(logs.ndim)])
    loss = -product.sum(dim)
    if reduction == "none":
        return loss
    total = loss.sum()
    return total if reduction == "sum" else total / loss.numel()


@public("F")
def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """`cross_entropy` of `linear(input, linear_weight, linear_bias)`.

    linear_weight: (C, features), or (C, d1, ..., features) for a loss of several dimensions.
    options: how PyTorch cuts the logits into chunks; accepted, and without effect.

    >>> x, weight = torch.ones(1, 2), torch.eye(2)
    >>> torch.nn.functional.linear_cross_entropy(x, weight, torch.tensor([1]))
    tensor(0.6931)
    """
    if linear_weight.ndim < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.ndim}"
        )
    if input.shape[-1] != linear_weight.shape[-1]:
        raise RuntimeError(
            f"expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.shape[-1]} and {linear_weight.shape[-1]}, respectively"
        )
    *classes, features = linear_weight.shape
    bias = None if linear_bias is None else linear_bias.reshape(-1)
    logits = linear(input, linear_weight.reshape(math.prod(classes), features), bias)
    if len(classes) > 1:
        logits = logits.unflatten(-1, classes)
    return cross_entropy(
        logits,
        target,
        weight,
        ignore_index=-100 if ignore_index is None else ignore_index,
        reduction=reduction,
        label_smoothing=label_smoothing,
    )
