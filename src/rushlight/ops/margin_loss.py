"""Losses that ask for a margin: between vectors that belong together and others, between the
scores of classes.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ops.activation import logsigmoid, softplus
from rushlight.ops.bounds import check_known, index_check
from rushlight.ops.cross_entropy import reduction_of
from rushlight.ops.distance import pairwise_distance
from rushlight.ops.elementwise import check_tensors
from rushlight.ops.loss import reduced
from rushlight.ops.ranges import ARANGE
from rushlight.ops.registry import OPS, public


@public("F")
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 - cos where target is 1, max(0, cos - margin) where it is -1.

    >>> x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    >>> torch.cosine_embedding_loss(x, y, torch.ones(1))
    tensor([0.4000])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if target.ndim not in (0, 1):
        raise RuntimeError(
            f"0D or 1D target tensor expected, multi-target not supported: got {target.shape}"
        )
    if target.ndim == 1 and (input1.ndim != 2 or input2.ndim != 2):
        raise RuntimeError(
            f"1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    if target.ndim == 0 and (input1.ndim != 1 or input2.ndim != 1):
        raise RuntimeError(
            f"0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1.shape)} and {list(input2.shape)}."
        )
    tiny = 1e-12  # PyTorch's guard, inside the root
    dot = (input1 * input2).sum(-1)
    squares = (input1.square().sum(-1) + tiny) * (input2.square().sum(-1) + tiny)
    cosine = dot / squares.sqrt()
    near = OPS["where"](target == 1, 1 - cosine, 0)
    far = OPS["where"](target == -1, (cosine - margin).clamp(min=0), 0)
    return reduced(near + far, reduction)


@public("F")
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """input where target is 1, max(0, margin - input) where it is -1 (for other targets both,
    as PyTorch adds them).

    >>> x = torch.tensor([0.5, 0.25])
    >>> torch.nn.functional.hinge_embedding_loss(x, torch.tensor([1.0, -1.0]))
    tensor(0.6250)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    check_tensors("hinge_embedding_loss", input=input, target=target)
    far = OPS["where"](target == 1, 0, (margin - input).clamp(min=0))
    near = OPS["where"](target == -1, 0, input)
    return reduced(far + near, reduction)


@public("F")
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, -target (input1 - input2) + margin).

    >>> one = torch.tensor([1.0])
    >>> torch.nn.functional.margin_ranking_loss(one, 2 * one, one)
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if not input1.ndim == input2.ndim == target.ndim:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: "
            f"input1: {input1.shape}, input2: {input2.shape}, target: {target.shape} "
        )
    return reduced((-target * (input1 - input2) + margin).clamp(min=0), reduction)


@public("F")
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """log(1 + exp(-target * input)), without overflow.

    >>> torch.nn.functional.soft_margin_loss(torch.tensor([0.0]), torch.tensor([1.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    check_tensors("soft_margin_loss", input=input, target=target)
    return reduced(softplus(-target * input), reduction)


@public("F")
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, |anchor - positive| - |anchor - negative| + margin) in the p-norm.

    >>> x = torch.tensor([[0.0, 0.0]])
    >>> torch.triplet_margin_loss(x, x + 1, x + 2)
    tensor([0.])
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    reduction = reduction_of(reduction, size_average, reduce)

    def distance(a: Any, b: Any) -> Any:
        return pairwise_distance(a, b, p, eps)

    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


@public("F")
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Any = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """`triplet_margin_loss` with a distance of the caller's."""
    reduction = reduction_of(reduction, None, None)
    distance = distance_function or pairwise_distance
    return _triplet(anchor, positive, negative, distance, margin, swap, reduction)


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    distance: Any,
    margin: float,
    swap: bool,
    how: str,
) -> Any:
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number "
            f"of dimensions, but got: anchor {anchor.ndim}D, positive {positive.ndim}D, and "
            f"negative {negative.ndim}D inputs"
        )
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = OPS["minimum"](far, distance(positive, negative))
    return reduced((near - far + margin).clamp(min=0), how)


# -- classes with margins


@public("F")
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """sum over classes j != y of max(0, margin - x_y + x_j)^p, over the number of classes.

    >>> x = torch.tensor([[0.5, 1.0]])
    >>> torch.nn.functional.multi_margin_loss(x, torch.tensor([1]))
    tensor(0.2500)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    rows = _rows_of_classes("multi_margin_loss", input)
    if target.ndim > 1 or target.numel() != rows.shape[0]:
        raise RuntimeError(
            f"multi_margin_loss: inconsistent target size: {list(target.shape)} for input of "
            f"size: {list(input.shape)}"
        )
    if target.dtype is not dt.int64:
        raise errors.other_dtype_than(
            "multi_margin_loss", "target", "torch.int64", target.dtype
        )
    count = rows.shape[1]
    _check_class_weight("multi_margin_loss", weight, rows)
    check_known("multi_margin_loss", "target", target, count)
    classes = CLASSES(target.reshape(-1, 1), size=count)
    own = rows.gather(1, classes)
    short = (margin - own + rows).clamp(min=0)
    if p == 2:
        short = short.square()
    if weight is not None:
        short = short * weight[classes]
    index = ARANGE(0, 1, length=count, dtype=classes.dtype)
    losses = OPS["where"](index == classes, 0, short).sum(1) / count
    if input.ndim < 2 and target.ndim == 0:
        losses = losses.reshape(())
    return reduced(losses, reduction)


def _check_class_weight(name: str, weight: Any, rows: Any) -> None:
    if weight is None:
        return
    if weight.numel() != rows.shape[1]:
        raise RuntimeError(
            f"{name}: inconsistent weight size, expected {rows.shape[1]} but got "
            f"{list(weight.shape)}"
        )
    if weight.dtype is not rows.dtype:
        raise errors.other_dtype_than(name, "weight", rows.dtype, weight.dtype)


CLASSES = index_check("multi_margin_loss", "target")
LISTED = index_check("multilabel_margin_loss", "target")


def _rows_of_classes(name: str, scores: Any) -> Any:
    """Scores (N, C); those of a single sample, or of a single class, as one row."""
    rows = scores if scores.ndim == 2 else scores.reshape(1, -1)
    if scores.ndim > 2 or not rows.shape[1]:
        raise RuntimeError(
            f"{name}(): expected a non-empty vector or matrix (whose first size may be 0), but "
            f"got an input of shape {tuple(scores.shape)}"
        )
    if not scores.dtype.is_floating_point:
        raise errors.not_implemented_for(name, scores.dtype, "a floating dtype")
    return rows


@public("F")
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Margins between every target class (listed up to the first -1) and every other class.

    >>> x = torch.tensor([[0.5, 1.0]])
    >>> torch.nn.functional.multilabel_margin_loss(x, torch.tensor([[1, -1]]))
    tensor(0.2500)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    rows = _rows_of_classes("multilabel_margin_loss", input)
    if input.shape != target.shape:
        raise RuntimeError(
            f"multilabel_margin_loss: inconsistent target size: {list(target.shape)} for input "
            f"of size: {list(input.shape)}"
        )
    if target.dtype is not dt.int64:
        raise errors.other_dtype_than(
            "multilabel_margin_loss", "target", "torch.int64", target.dtype
        )
    lists, count = target.reshape(rows.shape), rows.shape[1]
    check_known("multilabel_margin_loss", "target", target, count, ignored=-1)
    is_end = lists == -1
    ended = is_end.cumsum(1) > 0
    listed = OPS["where"](ended, 0, LISTED(OPS["where"](is_end, 0, lists), size=count))
    hits = (~ended).to(rows.dtype)
    is_target = hits.new_zeros(hits.shape).scatter_add(1, listed, hits) > 0
    own = rows.gather(1, listed)
    short = (1 - own.unsqueeze(2) + rows.unsqueeze(1)).clamp(min=0)
    keep = (~ended).unsqueeze(2) & ~is_target.unsqueeze(1)
    losses = OPS["where"](keep, short, 0).sum((1, 2)) / count
    return reduced(losses.reshape(()) if input.ndim < 2 else losses, reduction)


@public("F")
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Binary cross-entropy with logits, averaged over the classes of each row.

    >>> x = torch.tensor([[0.0, 0.0]])
    >>> torch.nn.functional.multilabel_soft_margin_loss(x, torch.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    losses = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        losses = losses * weight
    return reduced(losses.mean(-1), reduction)
