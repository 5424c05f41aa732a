"""Bounding gradients: by their common norm, or value by value."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterable
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor


def get_total_norm(
    tensors: Any,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of several tensors as if they were one vector."""
    items = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not items:
        return rl.tensor(0.0)
    norms = [rl.linalg.vector_norm(item, norm_type) for item in items]
    total = rl.linalg.vector_norm(rl.stack(norms), norm_type)
    if error_if_nonfinite and not bool(rl.isfinite(total)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is "
            "non-finite, so it cannot be clipped. To disable this error and scale the "
            "gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


def clip_grads_with_norm_(
    parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scale gradients down so that a total norm computed before becomes at most `max_norm`.

    The factor is a tensor, so that nothing waits for its value.
    """
    if max_norm < 0:
        raise ValueError(f"max_norm must not be negative, got {max_norm}")
    grads = _grads(parameters)
    if not grads:
        return
    with rl.no_grad():
        factor = (float(max_norm) / (total_norm + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor)


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of all parameters so that their common norm is at most `max_norm`.

    Returns the norm before.
    """
    if isinstance(parameters, Tensor):
        parameters = [parameters]
    else:
        is_generator = hasattr(parameters, "__next__")
        parameters = list(parameters)
        if is_generator and not parameters:
            warnings.warn(
                "`parameters` is an empty generator, no gradient clipping will occur.",
                stacklevel=3,
            )
    with rl.no_grad():
        total = get_total_norm(_grads(parameters), norm_type, error_if_nonfinite, foreach)
        clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


@functools.wraps(clip_grad_norm_, assigned=())
def clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor:
    """The old name of `clip_grad_norm_`."""
    warnings.warn(
        "`torch.nn.utils.clip_grad_norm` is now deprecated in favor of "
        "`torch.nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(*args, **kwargs)


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Bring every value of the gradients between plus and minus `clip_value`."""
    clip_value = float(clip_value)
    with rl.no_grad():
        for grad in _grads(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)


def _grads(parameters: Any) -> list[Tensor]:
    items: Iterable[Tensor] = [parameters] if isinstance(parameters, Tensor) else parameters
    return [item.grad for item in items if item.grad is not None]
