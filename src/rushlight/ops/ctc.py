"""Connectionist temporal classification (Graves et al., 2006): the loss of a sequence of class
scores against a shorter sequence of labels whose alignment is unknown.

Labels are interleaved with blanks. The probability of all alignments is a recurrence over time,
forwards for the loss and both ways for its gradient: calculated in NumPy between kernels, whole
batches at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.ops import batching
from rushlight.ops.cross_entropy import reduction_of
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import Op, TensorType, public

Array = Any
NEVER = -np.inf  # the logarithm of an impossible event's probability


# -- recurrences


def _interleaved(targets: Array, blank: int) -> Array:
    """Labels with a blank before, between and after: (N, 2 S + 1)."""
    out = np.full((targets.shape[0], 2 * targets.shape[1] + 1), blank, np.int64)
    out[:, 1::2] = targets
    return out


def _log_sum(*parts: Array) -> Array:
    top = np.maximum.reduce(parts)
    shift = np.where(np.isfinite(top), top, 0)
    with np.errstate(divide="ignore"):
        return np.log(sum(np.exp(p - shift) for p in parts)) + shift


def _shifted(x: Array, by: int) -> Array:
    """x moved along its last dimension; what comes in is impossible."""
    out = np.full_like(x, NEVER)
    if by < x.shape[-1]:
        out[:, by:] = x[:, : x.shape[-1] - by]
    return out


def _alphas(scores: Array, labels: Array, can_skip: Array) -> Array:
    """log P(first t + 1 scores, alignment at label s), (T, N, L). `scores` are already those of
    the labels.
    """
    alpha = np.full_like(scores, NEVER)
    alpha[0, :, :2] = scores[0, :, :2]
    for t in range(1, len(scores)):
        last = alpha[t - 1]
        skipped = np.where(can_skip, _shifted(last, 2), NEVER)
        alpha[t] = scores[t] + _log_sum(last, _shifted(last, 1), skipped)
    return alpha


def _skips(labels: Array, blank: int) -> Array:
    """Where the blank before a label may be left out: between different labels."""
    before = np.full_like(labels, blank)
    before[:, 2:] = labels[:, :-2]
    return (labels != blank) & (labels != before)


def _prepared(
    log_probs: Array, targets: Array, lengths: Array, blank: int
) -> tuple[Array, Array, Array]:
    """Scores of the interleaved labels (T, N, L), the labels, and where skips are allowed."""
    labels = _interleaved(np.where(targets < 0, blank, targets), blank)
    scores = np.take_along_axis(
        log_probs, np.broadcast_to(labels, (len(log_probs), *labels.shape)), 2
    )
    past = np.arange(labels.shape[1]) > 2 * lengths[:, None]
    return np.where(past, NEVER, scores), labels, _skips(labels, blank)


def _ends(alpha: Array, steps: Array, lengths: Array) -> Array:
    """log P(labels): the alignment ends at the last label or the blank after it."""
    rows = np.arange(alpha.shape[1])
    final = alpha[np.maximum(steps - 1, 0), rows]  # (N, L)
    last = final[rows, 2 * lengths]
    label = np.where(lengths > 0, final[rows, np.maximum(2 * lengths - 1, 0)], NEVER)
    found = _log_sum(last, label)
    return np.where(steps > 0, found, np.where(lengths == 0, 0.0, NEVER))


def ctc_losses(
    log_probs: Array, targets: Array, steps: Array, lengths: Array, blank: int
) -> Array:
    """-log P(labels) of each sequence."""
    scores, labels, can_skip = _prepared(log_probs, targets, lengths, blank)
    if not len(scores):
        return np.where(lengths == 0, 0.0, np.inf).astype(log_probs.dtype)
    return -_ends(_alphas(scores, labels, can_skip), steps, lengths)


def _reversed(x: Array, steps: Array, lengths: Array) -> Array:
    """Each sequence's own steps and labels in reverse order; beyond them anything."""
    count, width = len(x), x.shape[2]
    t = np.maximum(steps[None, :] - 1 - np.arange(count)[:, None], 0)  # (T, N)
    s = np.maximum(2 * lengths[:, None] - np.arange(width)[None, :], 0)  # (N, L)
    rows = np.arange(x.shape[1])
    return x[t[:, :, None], rows[None, :, None], s[None, :, :]]


def ctc_gradients(
    log_probs: Array, targets: Array, steps: Array, lengths: Array, g: Array, blank: int
) -> Array:
    """The gradient by scores that were normalised over the classes, which PyTorch defines as
    exp(score) - P(class at t | labels): it includes the normalisation's own.
    """
    if not log_probs.size:
        return np.zeros_like(log_probs)
    scores, labels, can_skip = _prepared(log_probs, targets, lengths, blank)
    alpha = _alphas(scores, labels, can_skip)
    total = _ends(alpha, steps, lengths)  # (N,)
    past = np.arange(labels.shape[1]) > 2 * lengths[:, None]
    back = np.where(past, NEVER, _reversed(scores, steps, lengths))
    mirrored = _reversed(labels[None], np.ones_like(steps), lengths)[0]
    beta = _reversed(_alphas(back, mirrored, _skips(mirrored, blank)), steps, lengths)
    with np.errstate(invalid="ignore", over="ignore"):
        shares = np.exp(alpha + beta - scores - total[:, None])  # P(s at t | labels)
        shares = np.where(past | np.isneginf(scores), 0, shares)
    made = np.exp(log_probs)
    t, n, s = np.indices(shares.shape)
    np.subtract.at(made, (t, n, np.broadcast_to(labels, shares.shape)), shares)
    total, g = total.reshape(-1, 1), g.reshape(-1, 1)
    made = np.where(np.isneginf(total), np.nan, made * g)
    made = np.where(g == 0, 0, made)
    is_over = np.arange(len(made))[:, None] >= steps
    return np.where(is_over[:, :, None], 0, made).astype(log_probs.dtype)


# -- the op


def _ctc_lower(
    k: Any, log_probs: Any, targets: Any, steps: Any, lengths: Any, blank: int
) -> Any:
    output = ((log_probs.shape[1],), log_probs.dtype)
    return k.host(ctc_losses, [output], log_probs, targets, steps, lengths, blank=blank)[0]


def _gradient_lower(
    k: Any, log_probs: Any, targets: Any, steps: Any, lengths: Any, g: Any, blank: int
) -> Any:
    output = (log_probs.shape, log_probs.dtype)
    return k.host(ctc_gradients, [output], log_probs, targets, steps, lengths, g, blank=blank)[
        0
    ]


def _gradient_vjp(
    h: Any, out: Any, x: Any, targets: Any, steps: Any, lengths: Any, g: Any, blank: int
) -> Any:
    """Linear in g, which forward mode needs; by the scores it is not differentiable."""
    shares = CTC_GRADIENT(x, targets, steps, lengths, g * 0 + 1, blank=blank)
    return None, None, None, None, (h * shares).sum((0, 2))


CTC = Op(  # log probabilities (T, N, C), labels (N, S), how many steps and labels are used
    "ctc_loss",
    attrs=("blank",),
    type=lambda x, targets, steps, lengths, blank: TensorType((x.shape[1],), x.dtype),
    lower=_ctc_lower,
    vjp=lambda g, out, x, targets, steps, lengths, blank: (
        CTC_GRADIENT(x, targets, steps, lengths, g, blank=blank), None, None, None
    ),
)  # fmt: skip
CTC_GRADIENT = Op(
    "ctc_loss_gradient",
    attrs=("blank",),
    type=lambda x, targets, steps, lengths, g, blank: TensorType(x.shape, x.dtype),
    lower=_gradient_lower,
    vjp=_gradient_vjp,
)


# -- the loss


@public("F")
@batching.by_sample
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """-log P(targets) under scores (T, N, C) that are normalised over the C classes.

    targets: labels (N, S), or those of all sequences in one vector. input_lengths,
    target_lengths: how many steps and labels of each sequence count.
    reduction: 'mean' divides each loss by its number of labels first.
    zero_infinity: losses of sequences too short for their labels are zero, with zero gradients.

    >>> import rushlight as torch
    >>> scores = torch.zeros(2, 1, 2).log_softmax(-1)
    >>> torch.nn.functional.ctc_loss(scores, torch.tensor([[1]]), [2], [1]).exp()
    tensor(1.3333)
    """
    if log_probs.dtype not in (dt.float32, dt.float64):
        raise errors.not_implemented_for("ctc_loss", log_probs.dtype, "float32 or float64")
    reduction = reduction_of(reduction, None, None)
    is_batched = log_probs.ndim == 3
    scores = log_probs if is_batched else log_probs.unsqueeze(1)
    steps, lengths = _lengths(input_lengths), _lengths(target_lengths)
    _check(scores, steps, lengths, blank)
    labels = _padded(targets if is_batched else targets.reshape(1, -1), lengths)
    labels = _within(labels, lengths, scores.shape[2])
    from rushlight.arrays import tensor_of_array  # tensors come after ops

    counts = [tensor_of_array(np.array(n, np.int64), dt.int64) for n in (steps, lengths)]
    losses = CTC(scores, tensor_of_array(labels, dt.int64), *counts, blank=int(blank))
    if zero_infinity:
        losses = WHERE(losses == np.inf, 0, losses)
    if reduction == "mean":
        return (losses / counts[1].clamp(min=1).to(losses.dtype)).mean()
    if reduction == "sum":
        return losses.sum()
    return losses if is_batched else losses.reshape(())


def _lengths(given: Any) -> list[int]:
    if hasattr(given, "tolist"):
        if not given.dtype.is_integral or given.dtype is dt.bool_:
            raise RuntimeError(f"ctc_loss(): lengths must be integral, got {given.dtype!r}")
        given = given.tolist()
    numbers = list(given) if isinstance(given, Sequence) else [given]
    if not all(isinstance(n, int | np.integer) for n in numbers):
        raise TypeError(f"ctc_loss(): lengths must be integers, got {given!r}")
    return [int(n) for n in numbers]


def _check(scores: Any, steps: list[int], lengths: list[int], blank: int) -> None:
    longest, batch, classes = scores.shape
    for name, given in (("input_lengths", steps), ("target_lengths", lengths)):
        if len(given) != batch:
            raise RuntimeError(
                f"ctc_loss: {name} must be of size batch_size {batch}, got {len(given)}"
            )
        if min(given, default=0) < 0:
            raise RuntimeError(f"ctc_loss: Expected {name} to be at least 0, got {min(given)}")
    if max(steps, default=0) > longest:
        raise RuntimeError(
            f"ctc_loss: Expected input_lengths to have value at most {longest}, but got value "
            f"{max(steps)}"
        )
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range, got {blank} of {classes}")


def _within(labels: Array, lengths: list[int], classes: int) -> Array:
    """Labels that are classes, with zeros behind the length of each row, whatever was there."""
    is_read = np.arange(labels.shape[1]) < np.array(lengths, np.int64).reshape(-1, 1)
    wrong = np.argwhere(is_read & ((labels < 0) | (labels >= classes)))
    if len(wrong):
        place = tuple(int(i) for i in wrong[0])
        found = ("target", int(labels[place]), classes, place)
        raise errors.index_out_of_range("ctc_loss", "", "", found)
    return np.where(is_read, labels, 0)


def _padded(targets: Any, lengths: list[int]) -> Array:
    """Labels as rows (N, longest)."""
    values = np.asarray(targets.detach()._numbers()).astype(np.int64)
    longest = max(lengths, default=0)
    if targets.ndim == 2:
        if targets.shape[0] != len(lengths) or targets.shape[1] < longest:
            raise RuntimeError(
                f"ctc_loss: Expected targets of {len(lengths)} rows of at least {longest} "
                f"labels, but got shape {list(targets.shape)}"
            )
        return values[:, :longest]
    if values.size != sum(lengths):
        raise RuntimeError(
            f"ctc_loss: Expected targets to have size {sum(lengths)} at dimension 0, but got "
            f"{values.size}"
        )
    out = np.zeros((len(lengths), longest), np.int64)
    start = 0
    for row, length in zip(out, lengths, strict=True):
        row[:length] = values[start : start + length]
        start += length
    return out
