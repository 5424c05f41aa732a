"""`torch.autograd.grad` and `backward`: gradients of several tensors by several others."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any  # tensors alone or in sequences

from rushlight import errors
from rushlight.autograd import engine
from rushlight.autograd.graph import GradientEdge
from rushlight.ops import batching
from rushlight.tensor import Tensor
from rushlight.trace.tape import AccumulateGrad, next_sequence
from rushlight.trace.write import current_node


def _tensors(x: Any) -> list[Any]:
    return [x] if isinstance(x, Tensor | GradientEdge) else list(x)


class _EdgeRoot:
    """A gradient edge where a backward starts, as the engine sees a tensor."""

    def __init__(self, edge: GradientEdge) -> None:
        self._node, self._output = edge.node, edge.output_nr
        self.type = edge.node.out_types[edge.output_nr]
        self.shape, self.dtype = self.type.shape, self.type.dtype

    def numel(self) -> int:
        return self.type.numel

    @property
    def is_meta(self) -> bool:
        return self.type.is_meta


def _roots(x: Any) -> list[Any]:
    """What a backward starts from, with its history up to date."""
    found = []
    for root in _tensors(x):
        if isinstance(root, GradientEdge):
            root = _leaf_of(root.node) or _EdgeRoot(root)
        elif isinstance(root, Tensor):
            current_node(root)
        else:
            raise TypeError(f"backward starts at Tensors, not at {type(root).__name__}")
        found.append(root)
    return found


def _leaf_of(node: Any) -> Any:
    """The tensor of a leaf's edge."""
    return node.target() if isinstance(node, AccumulateGrad) else None


def _place(target: Any) -> tuple[Any, int]:
    """The gradient node and the number of its result that a tensor or an edge names."""
    if isinstance(target, GradientEdge):
        return target.node, target.output_nr
    current_node(target)
    if target._node is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return target._node, target._output


def _cotangents(outputs: Sequence[Any], given: Any) -> list[Any]:
    wanted: Any = [None] * len(outputs) if given is None else given
    wanted = [wanted] if isinstance(wanted, Tensor) else list(wanted)
    if len(wanted) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(wanted)} gradients")
    return list(wanted)


def _zeros_like(target: Any) -> Any:
    if isinstance(target, GradientEdge):
        return engine.zeros(target.node.out_types[target.output_nr])
    return target.new_zeros(target._shape)


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves they came from."""
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        grad_tensors = grad_variables
    if inputs is not None:
        inputs = [_input(x) for x in _tensors(inputs)]
        if not inputs:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    roots = _roots(tensors)
    keep = create_graph if retain_graph is None else retain_graph
    engine.backward(roots, _cotangents(roots, grad_tensors), keep, create_graph, inputs)


def _input(x: Any) -> Any:
    """A tensor whose `.grad` a backward is to fill."""
    if not isinstance(x, GradientEdge):
        current_node(x)
        return x
    leaf = _leaf_of(x.node)
    if leaf is None:
        raise RuntimeError("backward: `inputs` can be an edge of a leaf only, not of a result")
    return leaf


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` by `inputs`, summed over the outputs.

    >>> import rushlight as torch
    >>> x = torch.tensor(3.0, requires_grad=True)
    >>> torch.autograd.grad(x * x, x)
    (tensor(6.),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but "
            "got: allow_unused=False."
        )
    roots, targets = _roots(outputs), _tensors(inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        found = _batched(roots, targets, grad_outputs, keep, create_graph)
    else:
        found = _walk(roots, targets, _cotangents(roots, grad_outputs), keep, create_graph)
    for i, g in enumerate(found):
        if g is None and not (allow_unused or materialize_grads):
            raise errors.unused_in_graph(i)
        if g is None and materialize_grads:
            found[i] = _zeros_like(targets[i])
    return tuple(_apart(found))


def _apart(found: list[Any]) -> list[Any]:
    """Gradients each in memory of its own, so that a write to one changes no other."""
    if len(found) < 2:
        return found
    memories: set[int] = set()
    for i, g in enumerate(found):
        if g is not None and 0 not in g._strides:
            if id(g._storage) in memories:
                found[i] = g.clone()
            memories.add(id(g._storage))
    return found


def _walk(
    roots: Sequence[Any], targets: Sequence[Any], given: Sequence[Any], keep: bool, create: bool
) -> list[Any]:
    return engine.gradients_by(roots, [_place(t) for t in targets], given, keep, create)


def _batched(
    roots: Sequence[Any], targets: Sequence[Any], given: Any, keep: bool, create: bool
) -> list[Any]:
    """One walk for a batch of cotangents, along their first dimension."""
    rows = _cotangents(roots, given)
    sizes = [r._shape[0] for r in rows if r is not None and r._shape]
    if not sizes:
        raise ValueError("grad: is_grads_batched needs a batch of grad_outputs")
    for i, (root, row) in enumerate(zip(roots, rows, strict=True)):
        if row is not None and row._shape[1:] != tuple(root.shape):
            raise RuntimeError(
                f"If `is_grads_batched=True`, the first dimension of each grad_output is the "
                f"batch: grad_output[{i}] has shape {list(row._shape)}, and output[{i}] "
                f"{list(root.shape)}."
            )
    with batching.batch_of(sizes[0], "error", next_sequence()) as batch:
        seeds = [None if r is None else batching.enter(r, batch.number, 0) for r in rows]
        found = _walk(roots, targets, seeds, keep, create)
        return [None if g is None else batching.leave(g, batch.level, 0) for g in found]
