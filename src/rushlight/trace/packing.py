"""Saved tensors given out of hand: `saved_tensors_hooks` packs them, backward unpacks them.

A gradient node usually keeps the Values its rule reads. While hooks are set, each is passed to
the pack hook instead and only what that returns is kept, so that a value nobody else holds is
never stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any  # tensors come later

from rushlight.config import gradients_off
from rushlight.trace.record import value_tensor
from rushlight.trace.tape import Node
from rushlight.trace.trace import Trace, hooks, local
from rushlight.trace.value import Value
from rushlight.views import AnyView, Shape


@dataclass(frozen=True, slots=True)
class Hooks:
    """A pair of functions between a tensor and what is kept of it; or why there may be none."""

    pack: Callable[[Any], Any]
    unpack: Callable[[Any], Any]


@dataclass(slots=True)
class Held:
    """A tensor as it was when it was kept: later writes to it change nothing."""

    value: Value
    view: AnyView | None
    shape: Shape
    dtype: Any

    @classmethod
    def of(cls, tensor: Any) -> Held:
        return cls(tensor._storage.value, tensor._view, tensor._shape, tensor.dtype)

    def tensor(self) -> Any:
        return value_tensor(self.value, self.view)


class Packed:
    """What a pack hook made of a tensor."""

    __slots__ = ("kept", "source", "unpack")

    def __init__(self, pair: Hooks, tensor: Any) -> None:
        version = tensor._storage.version
        with without_hooks(), gradients_off():
            self.kept = pair.pack(tensor)
        if tensor._storage.version != version:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as "
                "input to pack hook can not be modified by in-place operations, as this can "
                "lead to unexpected side-effects. Modify a copy."
            )
        self.unpack = pair.unpack
        self.source = hooks.source_of_tangents(tensor)

    def tensor(self) -> Any:
        """What the unpack hook gives for it."""
        with without_hooks():
            found = self.unpack(self.kept)
        if not isinstance(found, hooks.tensor_class):
            raise TypeError(
                f"Output of saved tensor unpack_hook expected to be a Tensor but got result of "
                f"type {type(found).__name__}"
            )
        return found if self.source is None else hooks.with_tangents(found, self.source)


class without_hooks:
    """What hooks record themselves is saved as usual."""

    def __enter__(self) -> None:
        self.before, local.trace.packing = local.trace.packing, ()

    def __exit__(self, *_: object) -> None:
        local.trace.packing = self.before


def keep(tensor: Any) -> Held | Packed:
    """The tensor for later: through the hooks that are set, if any are."""
    stack = local.trace.packing
    if not stack:
        return Held.of(tensor)
    held = Held.of(tensor)  # hooks get a tensor without history, and without later writes
    return Packed(stack[-1], held.tensor())


def pack_node(trace: Trace, node: Node) -> None:
    """Pass what a node has just saved to the hooks."""
    pair: Hooks = trace.packing[-1]
    trace.is_pure = False  # hooks are called in every backward, not remembered
    views = [o.view for o in node.edge.operands]
    node.values = tuple(
        value if value is None or value.type.weak else Packed(pair, value_tensor(value, view))
        for value, view in zip(node.values, views, strict=True)
    )
    node.outs = tuple(
        value if value is None else Packed(pair, value_tensor(value)) for value in node.outs
    )


hooks.pack_node = pack_node
