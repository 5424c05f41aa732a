"""The tape: one gradient node for each recorded operation that a gradient may flow through."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any  # tensors come later

from rushlight import errors
from rushlight.dtypes import dtype
from rushlight.ops.registry import Op, TensorType
from rushlight.trace.value import Value
from rushlight.views import AnyView, Shape

_sequence = itertools.count()
Saved = tuple[
    Value | None, AnyView | None, Shape, dtype
]  # an operand; no Value where none is needed


class _Rare:
    """What few nodes have: found on the class until a node gets its own."""

    __slots__ = ()

    hooks: dict[int, Callable[..., Any]] | None = None  # after the node's rule
    output_hooks: Any = None  # on gradients of its results: {output: {id: hook}}
    retainers: Any = None  # keep gradients of its results: {output: function}
    prehooks: Any = None  # {id: hook} on all gradients of its results, before the rule
    freed = False


class Node(_Rare):
    """What PyTorch calls `grad_fn`: how to take the gradient of results to operands.

    Operands are saved as Values and not as tensors, so that later in-place writes cannot
    corrupt them. The recorder fills the fields itself (see `record`), so they are few.
    """

    __slots__ = (
        "__dict__", "__weakref__", "attrs", "edge", "epoch", "index", "next", "op", "out_types",
        "outs", "sequence", "values",
    )  # fmt: skip

    op: Op | None
    attrs: tuple[Any, ...]
    next: tuple[tuple[Node | None, int], ...]  # (node | None, output number) for each operand
    edge: Any  # the recorded step, which knows how operands were read; or none
    # of the operands that the derivative rule reads, and of results: Values, or what hooks made
    # of them (`packing.Packed`)
    values: tuple[Any, ...]
    outs: tuple[Any, ...]
    out_types: tuple[TensorType, ...]
    epoch: int
    index: int
    sequence: int

    def __init__(
        self,
        op: Op | None,
        attrs: tuple[Any, ...],
        next: tuple[tuple[Node | None, int], ...],
    ) -> None:
        self.op = op
        self.attrs = attrs
        self.next = next
        self.edge = None
        self.values = ()
        self.outs = ()
        self.out_types = ()
        self.epoch = -1
        self.index = -1
        self.sequence = next_sequence()

    @property
    def saved(self) -> tuple[Saved, ...]:
        """The operands, as far as they were saved."""
        if self.edge is None:
            return self.__dict__.get("saved_operands", ())  # type: ignore[no-any-return]
        if self.freed:
            return tuple((None, o.view, o.type.shape, o.type.dtype) for o in self.edge.operands)
        return tuple(
            (value, o.view, o.type.shape, o.type.dtype)
            if value is None or type(value) is Value
            else _unpacked(value)
            for value, o in zip(self.values, self.edge.operands, strict=True)
        )

    @saved.setter
    def saved(self, operands: tuple[Saved, ...]) -> None:
        self.edge = None
        self.__dict__["saved_operands"] = operands

    @property
    def metadata(self) -> dict[str, Any]:
        """Notes about the node (PyTorch's; anomaly mode and custom functions use it)."""
        return self.__dict__.setdefault("notes", {})  # type: ignore[no-any-return]

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

    def _sequence_nr(self) -> int:
        """Its place in the order of recording, which is the order of backward."""
        return self.sequence

    requires_grad = True

    def __call__(self, *grads: Any) -> Any:
        """The gradients of its operands from those of its results."""
        from rushlight.autograd import saved  # for who looks into nodes

        return saved.gradients_of(self, grads)

    def __getattr__(self, name: str) -> Any:
        """`_saved_result`, `_saved_self`: what the node saved, named as PyTorch names it."""
        if not name.startswith(("_saved_", "_raw_saved_")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        from rushlight.autograd import saved  # for who looks into nodes

        if name.startswith("_saved_"):
            return saved.tensor_of(self, name.removeprefix("_saved_"))
        return saved.SavedTensor(self, name.removeprefix("_raw_saved_"))

    def saves(self, value: Value) -> bool:
        """Whether the derivative rule reads this very value."""
        reads = None if self.op is None else self.op.reads
        outs = self.outs if reads is None else self.outs[reads : reads + 1]
        return any(v is value for v in (*self.values, *outs))

    def free(self) -> None:
        """Drop what was saved: from now on the node is met as one of another epoch."""
        self.freed = True
        self.values = self.outs = ()
        self.epoch = -1

    @property
    def is_spent(self) -> bool:
        """Whether the derivative rule reads what `free` has dropped."""
        return self.freed and (not self.next or (self.edge is not None and self.edge.saves))

    @property
    def is_dead_end(self) -> bool:
        """Whether a backward from here meets a node that is spent."""
        return self.freed and any(node.is_spent for node in _freed_from(self))

    def cut(self) -> None:
        """Drop the way on from a dead end that is used again: who sums losses up keeps the last
        node of each, and not every step's graph.
        """
        self.next = ()
        self.__dict__.pop("notes", None)

    def check_alive(self) -> None:
        if self.is_spent:
            edge = self.edge
            place = errors.origin_text(edge.where, edge.label) if edge is not None else ""
            raise errors.graph_freed(self.name(), place)

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_inputs, grad_outputs)` after the node ran; may return new
        grad_inputs.
        """
        if self.hooks is None:
            self.hooks = {}
        self.touch()
        return RemovableHandle(self.hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        """Call `hook(grad_outputs)` before the node runs; may return new grad_outputs."""
        if self.prehooks is None:
            self.prehooks = {}
        self.touch()
        return RemovableHandle(self.prehooks, hook)

    def touch(self) -> None:
        """A hook makes the trace's gradient structure impure: no memoised backward."""
        impure_epochs.add(self.epoch)

    @property
    def has_hooks(self) -> bool:
        return bool(self.hooks or self.output_hooks or self.retainers or self.prehooks)


class AccumulateGrad(Node):
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
        return "torch::autograd::AccumulateGrad"

    @property
    def has_hooks(self) -> bool:
        return super().has_hooks or bool(self.accumulate_hooks)


class Input(AccumulateGrad):
    """Where an inner derivative begins: a leaf whose gradient goes on to what it stands for."""

    __slots__ = ("is_open",)

    def __init__(self, tensor: Any, next: tuple[tuple[Node | None, int], ...]) -> None:
        super().__init__(tensor)
        self.next = next
        self.is_open = True  # until the function that has it as an input returns


def starts_of(nodes: Iterable[Node]) -> Iterator[Node]:
    """Where the history of nodes begins, as far as it is there: leaves, inputs of functions
    with what those stand for, and nodes that are spent.
    """
    seen = set(nodes)
    stack = list(seen)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad) or node.is_spent:
            yield node
        for after, _ in () if node.is_spent else node.next:
            if after is not None and after not in seen:
                seen.add(after)
                stack.append(after)


def _freed_from(start: Node) -> Iterator[Node]:
    """A freed node and those that lead on from it, as far as they are freed too."""
    seen = {start}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        yield node
        for after, _ in node.next:
            if after is not None and after.freed and after not in seen:
                seen.add(after)
                waiting.append(after)


def _unpacked(packed: Any) -> Saved:
    found = packed.tensor()
    return found._storage.value, found._view, found._shape, found.dtype


next_sequence: Callable[[], int] = _sequence.__next__


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
