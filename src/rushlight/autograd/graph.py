"""`torch.autograd.graph`: hooks on saved tensors and on several gradients, edges by name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self  # hooks keep anything

from rushlight.autograd import engine
from rushlight.tensor import Tensor
from rushlight.trace import packing
from rushlight.trace.tape import Node, RemovableHandle
from rushlight.trace.trace import local
from rushlight.trace.write import current_node

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

_disabled: list[str] = []  # reasons why no hooks may be set, the innermost last


class saved_tensors_hooks:
    """Tensors saved for backward inside pass through `pack_hook`, and back by `unpack_hook`.

    pack_hook takes a tensor and returns anything; unpack_hook takes that and returns a tensor
    of the same elements. Only what pack_hook returned is kept until backward.

    >>> import rushlight as torch
    >>> x = torch.ones(2, requires_grad=True)
    >>> hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), torch.from_numpy)
    >>> with hooks:
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __init__(
        self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]
    ) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> Self:
        if _disabled:
            raise RuntimeError(_disabled[-1])
        pair = packing.Hooks(self.pack_hook, self.unpack_hook)
        local.trace.packing = (*local.trace.packing, pair)
        return self

    def __exit__(self, *_: object) -> None:
        local.trace.packing = local.trace.packing[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Keeps saved tensors in the CPU's memory, which is where they are."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(lambda tensor: tensor, lambda tensor: tensor)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """Setting hooks for saved tensors inside raises RuntimeError with this message."""
    if local.trace.packing:
        raise RuntimeError(error_message)
    _disabled.append(error_message)
    try:
        yield
    finally:
        _disabled.pop()


class _Mutations:
    """What PyTorch hands out to free its copies by: nothing was copied here."""

    def clear(self) -> None:
        pass


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutations]:
    """Saved tensors may be written to inside: they always may, what is saved is not changed."""
    yield _Mutations()


class GradientEdge(NamedTuple):
    """One result of a gradient node; `torch.autograd.grad` takes it as an input."""

    node: Node
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Where the gradient of a tensor arrives."""
    node = current_node(tensor)
    if node is None:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    return GradientEdge(node, tensor._output)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write that happened behind autograd's back."""
    for each in [tensor] if isinstance(tensor, Tensor) else tensor:
        each._storage.version += 1


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., None], *, mode: str = "all"
) -> Any:
    """Call `fn` once a backward: with all gradients of `tensors`, or with the first of them.

    mode: 'all' calls `fn(gradients)` when the last of them is there, with None for tensors that
    the backward does not reach; 'any' calls `fn(gradient)` at the first.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    gather = _Gather(tensors, fn, mode == "any")
    return _Handles([t.register_hook(gather.taker(i)) for i, t in enumerate(tensors)])


class _Gather:
    """Gradients of one backward as they arrive."""

    def __init__(
        self, tensors: Sequence[Tensor], fn: Callable[..., None], is_any: bool
    ) -> None:
        self.nodes = [current_node(t) for t in tensors]
        self.fn, self.is_any = fn, is_any
        self.walk: Any = None

    def taker(self, i: int) -> Callable[[Tensor], None]:
        def take(gradient: Tensor) -> None:
            walk = engine.current_walk()
            assert walk is not None, "hooks run inside a backward pass"
            if walk is not self.walk:
                self.walk = walk
                self.found: list[Tensor | None] = [None] * len(self.nodes)
                self.missing = len(walk.reachable(self.nodes))
                if self.is_any:
                    self.fn(gradient)
            self.found[i] = gradient
            self.missing -= 1
            if self.missing == 0:
                self.walk = None
                if not self.is_any:
                    self.fn(self.found)

        return take


class _Handles:
    """Takes several hooks away again."""

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


# -- names for what there is none of here


def region_activation_memory_budget(budget: float) -> contextlib.AbstractContextManager[None]:
    """PyTorch's advice to its graph compiler about a traced region: RuntimeError elsewhere, so
    always here; TypeError for a budget that is no number, ValueError for one outside [0, 1].

    `torch.utils.checkpoint` decides what is computed again.
    """
    name = "torch.autograd.graph.region_activation_memory_budget"
    if isinstance(budget, bool) or not isinstance(budget, int | float):
        raise TypeError(f"{name}: expects a float, got {type(budget).__name__}")
    if not 0.0 <= budget <= 1.0:
        raise ValueError(f"{name}: must be in [0, 1], got {budget}")
    raise RuntimeError(
        f"{name}: no region is traced ahead of time; use torch.utils.checkpoint to compute "
        f"activations again"
    )


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Accepted for programs that set it: there are no streams whose mismatch could matter."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Accepted for programs that set it: there are no streams that a capture could miss."""
