"""`torch.autograd.grad` and `backward`: gradients of several tensors by several others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # tensors alone or in sequences

from rushlight import errors
from rushlight.autograd import engine
from rushlight.autograd.graph import GradientEdge
from rushlight.ops import batching
from rushlight.tensor import Tensor
from rushlight.trace.tape import next_sequence
from rushlight.trace.write import current_node


def _tensors(x: Any) -> list[Any]:
    return [x] if isinstance(x, Tensor | GradientEdge) else list(x)


def _place(target: Any) -> tuple[Any, int]:
    """The gradient node and the number of its result that a tensor or an edge names."""
    if isinstance(target, GradientEdge):
        return target.node, target.output_nr
    current_node(target)
    if target._node is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return target._node, target._output


def _cotangents(outputs: Sequence[Any], given: Any) -> list[Any]:
    wanted = [None] * len(outputs) if given is None else given
    wanted = [wanted] if isinstance(wanted, Tensor) else list(wanted)
    if len(wanted) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(wanted)} gradients")
    return wanted


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
    roots = _tensors(tensors)
    if inputs is not None:
        inputs = _tensors(inputs)
        if not inputs:
            raise RuntimeError("'inputs' argument to backward() cannot be empty.")
    for root in roots:
        current_node(root)
    keep = create_graph if retain_graph is None else retain_graph
    given = _cotangents(roots, grad_tensors if grad_variables is None else grad_variables)
    engine.backward(roots, given, keep, create_graph, inputs)


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
            "got: "
            "allow_unused=False."
        )
    roots, targets = _tensors(outputs), _tensors(inputs)
    if not targets:
        raise ValueError("grad requires non-empty inputs.")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(roots, targets, grad_outputs, keep, create_graph, allow_unused)
    found = _walk(roots, targets, _cotangents(roots, grad_outputs), keep, create_graph)
    for i, g in enumerate(found):
        if g is None and not (allow_unused or materialize_grads):
            raise errors.unused_in_graph()
        if g is None and materialize_grads:
            found[i] = _zeros_like(targets[i])
    return tuple(found)


def _walk(
    roots: Sequence[Any], targets: Sequence[Any], given: Sequence[Any], keep: bool, create: bool
) -> list[Any]:
    for t in roots:
        current_node(t)
    places = [_place(t) for t in targets]
    seeds = [engine.seed(root, g) for root, g in zip(roots, given, strict=True)]
    walk = engine.Walk(keep, create)
    walk.start(roots, seeds)
    return walk.run_to(places)


def _batched(
    roots: Sequence[Any],
    targets: Sequence[Any],
    given: Any,
    keep: bool,
    create: bool,
    unused: Any,
) -> tuple[Any, ...]:
    """One walk for a batch of cotangents, along their first dimension."""
    rows = _cotangents(roots, given)
    sizes = [r._shape[0] for r in rows if r is not None and r._shape]
    if not sizes:
        raise ValueError("grad: is_grads_batched needs a batch of grad_outputs")
    with batching.batch_of(sizes[0], "error", next_sequence()) as batch:
        seeds = [None if r is None else batching.enter(r, batch.number, 0) for r in rows]
        found = grad(roots, targets, seeds, keep, create, allow_unused=unused)
        return tuple(None if g is None else batching.leave(g, batch.level, 0) for g in found)
