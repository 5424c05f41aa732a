"""The tape: one gradient node for each recorded operation that a gradient may flow through."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any  # tensors come later

from rushlight import errors
from rushlight.dtype import dtype
from rushlight.ops.registry import Op, TensorType
from rushlight.trace.value import Value
from rushlight.views import Shape, View

_sequence = itertools.count()
Saved = tuple[
    Value | None, View | None, Shape, dtype
]  # an operand; no Value where none is needed


class Node:
    """What PyTorch calls `grad_fn`: how to take the gradient of results to operands.

    Operands are saved as Values and not as tensors, so that later in-place writes cannot corrupt them.
    """

    __slots__ = (
        "__weakref__", "attrs", "epoch", "freed", "hooks", "index", "metadata", "next", "op",
        "out_types", "outs", "post_hooks", "prehooks", "saved", "sequence",
    )  # fmt: skip

    def __init__(
        self,
        op: Op | None,
        attrs: tuple[Any, ...],
        next: tuple[tuple[Node | None, int], ...],
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.next = next  # (node | None, output number) for each operand
        self.saved: tuple[Saved, ...] = ()
        self.outs: tuple[Value | None, ...] = ()
        self.out_types: tuple[TensorType, ...] = ()
        self.epoch = -1
        self.index = -1
        self.freed = False
        self.hooks: dict[int, Callable[..., Any]] | None = None  # after the node's rule
        self.prehooks: Any = None  # on gradients of its results: {output: {id: hook}}
        self.post_hooks: Any = None
        self.metadata: dict[str, Any] = {}
        self.sequence = next_sequence()

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """(node, output number) for every operand, (None, 0) where no gradient flows."""
        return tuple((n, i) if n is not None else (None, 0) for n, i in self.next)

    def name(self) -> str:
        assert self.op is not None
        words = self.op.name.replace(".", "_").strip("_").split("_")
        return "".join(w[:1].upper() + w[1:] for w in words) + "Backward0"

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"

    def free(self) -> None:
        """Drop what was saved; using the node again raises."""
        self.freed = True
        self.saved = self.outs = ()

    def check_alive(self) -> None:
        if self.freed:
            raise errors.graph_freed(self.name())

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; may return new grad_inputs."""
        if self.hooks is None:
            self.hooks = {}
        self.touch()
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_outputs)` before the node runs; may return new grad_outputs."""
        if self.post_hooks is None:
            self.post_hooks = {}
        self.touch()
        return RemovableHandle(self.post_hooks, hook)

    def touch(self) -> None:
        """A hook makes the trace's gradient structure impure: no memoised backward."""
        impure_epochs.add(self.epoch)

    @property
    def has_hooks(self) -> bool:
        return bool(self.hooks or self.prehooks or self.post_hooks)


class Accumulate(Node):
    """The end of a gradient path: adds to the `.grad` of a leaf tensor."""

    __slots__ = ("accumulate_hooks", "target")

    def __init__(self, tensor: Any) -> None:
        super().__init__(None, (), ())
        self.target = weakref.ref(tensor)
        self.accumulate_hooks: dict[int, Callable[..., Any]] | None = None

    @property
    def variable(self) -> Any:
        return self.target()

    def name(self) -> str:
        return "AccumulateGrad"

    @property
    def has_hooks(self) -> bool:
        return bool(self.hooks or self.prehooks or self.post_hooks or self.accumulate_hooks)


def next_sequence() -> int:
    return next(_sequence)


impure_epochs: set[int] = set()  # epochs in which a hook was added to a recorded node


class RemovableHandle:
    """Takes a hook away again: `handle.remove()` or a `with` block."""

    _ids = itertools.count()

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self.id = next(self._ids)
        self._hooks = hooks
        hooks[self.id] = hook

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
