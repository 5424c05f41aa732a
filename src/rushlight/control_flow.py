"""Control flow that depends on tensors, as functions: the program simply takes a branch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # operands of any kind


def cond(
    pred: Any,
    true_fn: Callable[..., Any],
    false_fn: Callable[..., Any],
    operands: Sequence[Any] = (),
) -> Any:
    """`true_fn(*operands)` if `pred` holds, otherwise `false_fn(*operands)`.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> torch.cond(x.sum() > 1, lambda x: x + 1, lambda x: x - 1, (x,))
    tensor([2., 2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("cond: expected functions as branches")
    if not isinstance(operands, tuple | list):
        raise RuntimeError(f"cond: expected a tuple of operands, got {operands!r}")
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
) -> tuple[Any, ...]:
    """Call `body_fn` on its own results while `cond_fn` of them holds; the last results."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        made = body_fn(*carried)
        carried = tuple(made) if isinstance(made, tuple | list) else (made,)
        if len(carried) != len(carried_inputs):
            raise RuntimeError(
                f"while_loop: body_fn returned {len(carried)} results for "
                f"{len(carried_inputs)} carried inputs"
            )
    return carried
