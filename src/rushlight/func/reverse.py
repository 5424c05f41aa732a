"""`grad`, `grad_and_value` and `vjp`: reverse mode for functions.

Note: levels of reverse mode. A transform gives its function inputs with gradient nodes of their
own (`trace/inputs.py`) and asks for gradients by exactly those, so nested derivatives by "the
same" tensor are never mixed up. An input is linked to the tensor it stands for: a result that
depends on something outside can be differentiated there. Results that do not are cut off, and
their derivatives are recorded in the form that is fast and not differentiable.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any  # functions of anything

from rushlight import tree
from rushlight.autograd import engine
from rushlight.autograd.grad_mode import enable_grad
from rushlight.autograd.tangents import is_smooth
from rushlight.config import scopes
from rushlight.func.arguments import (
    chosen,
    output_leaves,
    replaced,
    split_aux,
)
from rushlight.tensor import Tensor
from rushlight.trace.inputs import input_of
from rushlight.trace.tape import Input, starts_of
from rushlight.trace.write import current_node

Function = Callable[..., Any]
_GRAD = "grad_and_value(f)(*args)"
_VJP = "vjp(f, *primals)"


class Derivation:
    """A function's inputs while its derivative is taken, and what its results depend on."""

    def __init__(self, args: Any) -> None:
        self.is_recorded = scopes.grad_enabled  # whether anybody differentiates the result
        self.given, self.structure = tree.flatten(args)
        for x in self.given:
            if not isinstance(x, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(x)}")
            if not is_smooth(x):
                raise RuntimeError("only Tensors of floating point dtype can require gradients")
        self.inputs = [input_of(x, self.is_recorded) for x in self.given]
        self.nodes = [x._node for x in self.inputs]

    @property
    def arguments(self) -> Any:
        """What the function is called with."""
        return tree.unflatten(self.inputs, self.structure)

    def close(self) -> None:
        """The function has returned: nobody else asks for gradients by these inputs."""
        for node in self.nodes:
            node.is_open = False

    def leads_outside(self, tensors: Sequence[Any]) -> bool:
        """Whether something depends on what is differentiated outside of this function."""
        return self.is_recorded and has_history(tensors)

    def finished(self, results: Any) -> Any:
        """Results as they look outside."""
        return (
            finished(results) if self.is_recorded else tree.map(engine.without_history, results)
        )

    def gradients(self, roots: Sequence[Any], seeds: Sequence[Any], create: bool) -> Any:
        """By the function's arguments, in their structure; zeros for those without effect."""
        pairs = [
            (r, s) for r, s in zip(roots, seeds, strict=True) if current_node(r) is not None
        ]
        walk = engine.Walk(True, create)
        walk.start([r for r, _ in pairs], [engine.seed(r, s) for r, s in pairs])
        found = walk.run_to([(node, 0) for node in self.nodes])
        leaves = [
            x.new_zeros(x._shape) if g is None else g
            for x, g in zip(self.given, found, strict=True)
        ]
        return tree.unflatten(leaves, self.structure)


def finished(results: Any) -> Any:
    """Results without the history that ends at inputs of functions which have returned."""
    return tree.map(lambda x: x if has_history([x]) else engine.without_history(x), results)


def has_history(tensors: Sequence[Any]) -> bool:
    """Whether the history of some tensor begins at a leaf that gradients may be asked by."""
    nodes = [n for t in tensors if (n := current_node(t)) is not None]
    return any(not isinstance(s, Input) or s.is_open for s in starts_of(nodes))


def grad(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """A function that computes the gradient of `func`, which returns one number.

    argnums: which positional arguments to differentiate by: an int, or a tuple of them for a
             tuple of gradients. Arguments may be trees of tensors.
    has_aux: `func` returns (output, aux) and the new function (gradient, aux).

    Raises RuntimeError if the output is no tensor of one element, ValueError for arguments that
    are no tensors.

    >>> import rushlight as torch
    >>> torch.func.grad(torch.func.grad(lambda x: x**3))(torch.tensor(2.0))
    tensor(12.)
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return inner


def grad_and_value(func: Function, argnums: Any = 0, has_aux: bool = False) -> Function:
    """Like `grad`, for (gradient, output), or (gradient, (output, aux)).

    >>> import rushlight as torch
    >>> torch.func.grad_and_value(lambda x: x * x)(torch.tensor(3.0))
    (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def inner(*args: Any, **kwargs: Any) -> Any:
        level = Derivation(chosen(args, argnums))
        try:
            with enable_grad():
                result = func(*replaced(args, argnums, level.arguments), **kwargs)
        finally:
            level.close()
        output, aux = split_aux(_GRAD, result, has_aux)
        _check_number(output)
        gradient = level.gradients([output], [None], level.leads_outside([output]))
        value = level.finished(output)
        return gradient, (value, level.finished(aux)) if has_aux else value

    return inner


def _check_number(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(f"{_GRAD}: Expected f(*args) to return a Tensor, got {type(output)}")
    if output.ndim:
        raise RuntimeError(
            f"{_GRAD}: Expected f(*args) to return a scalar Tensor, got tensor with "
            f"{output.ndim} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> Any:
    """The output of `func` and a function from cotangents to gradients of `primals`.

    The cotangents have the structure of the output; the gradients are a tuple with one entry
    for each primal. With `has_aux`, (output, function, aux).

    >>> import rushlight as torch
    >>> output, pull = torch.func.vjp(torch.sin, torch.zeros(2))
    >>> pull(torch.tensor([1.0, 2.0]))
    (tensor([1., 2.]),)
    """
    return vjp_of(func, primals, tuple(range(len(primals))), has_aux)


def vjp_of(func: Function, args: tuple[Any, ...], argnums: Any, has_aux: bool) -> Any:
    """`vjp` by the arguments that `argnums` names."""
    level = Derivation(chosen(args, argnums) if argnums != () else ())
    try:
        with enable_grad():
            result = func(*replaced(args, argnums, level.arguments))
    finally:
        level.close()
    output, aux = split_aux(_VJP, result, has_aux)
    roots, structure = output_leaves(_VJP, output)

    def pull(
        cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None
    ) -> Any:
        seeds, own = tree.flatten(cotangents)
        if own != structure:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of "
                f"outputs to the function. cotangents: {cotangents!r}, primal output: "
                f"{output!r}"
            )
        _check_cotangents(roots, seeds)
        wants = scopes.grad_enabled if create_graph is None else create_graph
        is_history = level.leads_outside(roots) or any(s.requires_grad for s in seeds)
        return level.gradients(roots, seeds, wants and is_history)

    value = level.finished(output)
    return (value, pull, level.finished(aux)) if has_aux else (value, pull)


def _check_cotangents(roots: Sequence[Any], seeds: Sequence[Any]) -> None:
    for seed in seeds:
        if not isinstance(seed, Tensor):
            raise TypeError(
                f"gradients can be either Tensors or None, but got {type(seed).__name__}"
            )
    for root in roots:
        if not is_smooth(root):
            raise RuntimeError(
                "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got "
                f"Tensor with dtype {root.dtype!r}"
            )
