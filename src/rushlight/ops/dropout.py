"""Dropout: elements or whole channels set to zero at random, the rest scaled up."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.advice import warn_caller
from rushlight.ops.elementwise import WHERE, the_tensor
from rushlight.ops.registry import public


def _uniform(shape: tuple[int, ...], x: Any) -> Any:
    from rushlight.ops import random  # a later family

    kind = x.dtype if x.dtype.is_floating_point else dt.float32
    return random.rand(shape, dtype=dt.float64 if kind is dt.float64 else dt.float32)


def _check(op: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{op}: dropout probability has to be between 0 and 1, but got {p}")


def _dropped(op: str, x: Any, p: float, shape: tuple[int, ...], is_in_place: bool) -> Any:
    """x / (1 - p) where a random number of `shape` is at least p, zero elsewhere."""
    if p == 0 or x.numel() == 0:
        return the_tensor(op, x)
    if p == 1:
        out = x * 0
    else:
        out = WHERE(_uniform(shape, x) >= p, x * (1.0 / (1.0 - p)), 0)
    if is_in_place:
        from rushlight.ops.registry import recorder  # the write path only

        return recorder.write(x, out, op + "_")
    return out


@public("torch", "F")
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Each element is zero with probability p, otherwise divided by 1 - p (when training).

    >>> torch.nn.functional.dropout(torch.ones(3), 0.5, training=False)
    tensor([1., 1., 1.])
    """
    _check("dropout", p)
    the_tensor("dropout", input)
    if training is not True:
        views.flag("dropout", "train", training)
        return input
    return _dropped("dropout", input, p, tuple(input.shape), inplace)


def of_channels(op: str, x: Any, p: float, training: bool, inplace: bool) -> Any:
    _check(op, p)
    if not training:
        return the_tensor(op, x)
    shape = (*x.shape[:2], *(1 for _ in x.shape[2:]))
    return _dropped(op, x, p, shape, inplace)


def _check_channels(op: str, x: Any, dimensions: tuple[int, ...]) -> None:
    if x.ndim not in dimensions:
        wanted = " or ".join(f"{n}-D" for n in dimensions)
        warn_caller(f"{op}: a {x.ndim}-D input is deprecated; expected {wanted}")


def _with_batch(op: str, x: Any, ndim: int, p: float, training: bool, inplace: bool) -> Any:
    """Channel dropout of (N, C, ...) or, without a batch, of (C, ...)."""
    if x.ndim == ndim - 1:
        return of_channels(op, x.unsqueeze(0), p, training, inplace).squeeze(0)
    return of_channels(op, x, p, training, inplace)


@public("F")
def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels are zero with probability p.

    >>> torch.nn.functional.dropout1d(torch.ones(1, 2, 3), 1.0)
    tensor([[[0., 0., 0.],
             [0., 0., 0.]]])
    """
    if input.ndim not in (2, 3):
        raise RuntimeError(
            f"dropout1d: Expected 2D or 3D input, but received a {input.ndim}D input."
        )
    return _with_batch("dropout1d", input, 3, p, training, inplace)


@public("F")
def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels are zero with probability p.

    >>> torch.nn.functional.dropout2d(torch.ones(1, 1, 2, 2), 1.0)
    tensor([[[[0., 0.],
              [0., 0.]]]])
    """
    _check_channels("dropout2d", input, (3, 4))
    if input.ndim == 3:
        warn_caller("dropout2d: a 3-D input is taken as (N, C, L); use dropout1d for that")
    return of_channels("dropout2d", input, p, training, inplace)


@public("F")
def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Whole channels are zero with probability p.

    >>> torch.nn.functional.dropout3d(torch.ones(1, 1, 1, 2, 2), 1.0)
    tensor([[[[[0., 0.],
               [0., 0.]]]]])
    """
    _check_channels("dropout3d", input, (4, 5))
    return of_channels("dropout3d", input, p, training, inplace)


_ALPHA = -1.7580993408473766  # the value SELU tends to far below zero


def _alpha_dropped(op: str, x: Any, p: float, shape: tuple[int, ...]) -> Any:
    if p == 0 or x.numel() == 0:
        return the_tensor(op, x)
    if p == 1:
        return x * 0
    scale = ((1 - p) * (1 + p * _ALPHA**2)) ** -0.5
    kept = WHERE(_uniform(shape, x) >= p, x, _ALPHA)
    return kept * scale - scale * p * _ALPHA


def _alpha(
    op: str, x: Any, p: float, shape: tuple[int, ...], training: bool, inplace: bool
) -> Any:
    _check(op, p)
    if training is not True:
        views.flag(op, "train", training)
        return the_tensor(op, x)
    out = _alpha_dropped(op, x, p, shape)
    return x.copy_(out) if inplace else out


@public("torch", "F")
def alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """Dropout that keeps the mean and variance of SELU's inputs.

    >>> torch.alpha_dropout(torch.ones(3), 0.5, False)
    tensor([1., 1., 1.])
    """
    return _alpha("alpha_dropout", input, p, tuple(input.shape), training, inplace)


@public("torch", "F")
def feature_alpha_dropout(
    input: Any, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Any:
    """alpha_dropout of whole channels.

    >>> torch.feature_alpha_dropout(torch.ones(1, 2, 2), 0.5, False)
    tensor([[[1., 1.],
             [1., 1.]]])
    """
    shape = (*input.shape[:2], *(1 for _ in input.shape[2:]))
    return _alpha("feature_alpha_dropout", input, p, shape, training, inplace)
