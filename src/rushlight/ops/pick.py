"""One element a row by its number along a dimension, and the transpose.

Note: gradients of picked elements. The transpose is written as a comparison of the number with
the position, not as a scatter, so that it fuses into what reads it (the gradient of
log_softmax, say).
"""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import views
from rushlight.ops.registry import Op, TensorType
from rushlight.views import View


def safe_target(k: Any, target: Any, ignore_index: int) -> tuple[Any, Any]:
    """Targets as int64 with ignored ones made 0, and where they are ignored."""
    target = k.cast(target, dt.int64)
    is_ignored = target.equals(ignore_index)
    return k.select(is_ignored, 0, target), is_ignored


def pick_lower(k: Any, x: Any, target: Any, dim: int, ignore_index: int) -> Any:
    safe, is_ignored = safe_target(k, target, ignore_index)
    own = views.contiguous_strides(x.shape)
    strides = own[:dim] + own[dim + 1 :]
    view = View(target.shape, strides, 0)
    found = k.gather(x, view, [(safe, own[dim], x.shape[dim])], "target")
    return k.select(is_ignored, 0, found)


def checked_lower(k: Any, g: Any, target: Any, count: int, ignore_index: int) -> Any:
    return k.checked(g, safe_target(k, target, ignore_index)[0], count, "target")


CHECKED = Op(  # g; the flush fails where a target is no class (backward reads no class of x)
    "nll_loss_backward",
    attrs=("count", "ignore_index"),
    type=lambda g, target, count, ignore_index: g,
    lower=checked_lower,
    vjp=lambda h, out, g, target, count, ignore_index: (
        CHECKED(h, target, count=count, ignore_index=ignore_index),
        None,
    ),
)


def picked_gradient(g: Any, target: Any, dim: int, count: int, ignore_index: int) -> Any:
    """The gradient of a tensor of `count` classes of which `target`'s were picked."""
    g = CHECKED(g, target, count=count, ignore_index=ignore_index)
    return PLACE(g, target, dim=dim, count=count, ignore_index=ignore_index)


def _pick_vjp(g: Any, out: Any, x: Any, target: Any, dim: int, ignore_index: int) -> Any:
    return picked_gradient(g, target, dim, x.shape[dim], ignore_index), None


PICK = Op(  # x at the target's class along dim; 0 where the target is ignore_index
    "pick_class",
    attrs=("dim", "ignore_index"),
    type=lambda x, target, dim, ignore_index: TensorType(target.shape, x.dtype),
    lower=pick_lower,
    vjp=_pick_vjp,
)


def place_lower(k: Any, g: Any, target: Any, dim: int, count: int, ignore_index: int) -> Any:
    shape = (*g.shape[:dim], count, *g.shape[dim:])
    one = (*g.shape[:dim], 1, *g.shape[dim:])
    target = k.reshape(k.cast(target, dt.int64), one)
    is_here = k.expand(target, shape).equals(k.iota(shape, dim))
    is_here = is_here & k.expand(target, shape).differs(ignore_index)
    return k.select(is_here, k.expand(k.reshape(g, one), shape), 0)


PLACE = Op(  # zeros with g at the target's class along a new dim
    "place_class",
    attrs=("dim", "count", "ignore_index"),
    type=lambda g, target, dim, count, ignore_index: TensorType(
        (*g.shape[:dim], count, *g.shape[dim:]), g.dtype
    ),
    lower=place_lower,
    vjp=lambda h, out, g, target, dim, count, ignore_index: (
        PICK(h, target, dim=dim, ignore_index=ignore_index),
        None,
    ),
)
