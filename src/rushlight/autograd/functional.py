"""Derivatives of functions: jacobian, hessian, and products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # functions of tensors or tuples of tensors

from rushlight.autograd.grad_api import grad
from rushlight.autograd.modes import enable_grad
from rushlight.ops.creation import zeros
from rushlight.ops.rearrange import stack
from rushlight.tensor import Tensor

Function = Callable[..., Any]


def _leaves(inputs: Any, create_graph: bool) -> tuple[bool, tuple[Any, ...]]:
    is_tuple = isinstance(inputs, tuple | list)
    plain = tuple(inputs) if is_tuple else (inputs,)
    for i, x in enumerate(plain):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"The inputs given must be either a Tensor or a tuple of Tensors but the value "
                f"at "
                f"index {i} has type {type(x)}."
            )
    if create_graph:
        return is_tuple, tuple(x.view(x._shape) if x.requires_grad else _leaf(x) for x in plain)
    return is_tuple, tuple(_leaf(x) for x in plain)


def _leaf(x: Any) -> Any:
    return x.detach().requires_grad_()


def _outputs(result: Any) -> tuple[bool, tuple[Any, ...]]:
    is_tuple = isinstance(result, tuple | list)
    return is_tuple, tuple(result) if is_tuple else (result,)


def _unused_as_zeros(found: Any, inputs: Any, strict: bool) -> tuple[Any, ...]:
    if strict and any(g is None for g in found):
        raise RuntimeError(
            "the output of the user-provided function is independent of an input"
        )
    return tuple(
        x.new_zeros(x._shape) if g is None else g for g, x in zip(found, inputs, strict=True)
    )


def _grads(outputs: Any, inputs: Any, given: Any, create: bool, strict: bool = False) -> Any:
    pairs = [(o, g) for o, g in zip(outputs, given, strict=True) if o.requires_grad]
    if not pairs:
        return _unused_as_zeros([None] * len(inputs), inputs, strict)
    chosen, seeds = zip(*pairs, strict=True)
    found = grad(chosen, inputs, seeds, True, create, allow_unused=True)
    return _unused_as_zeros(found, inputs, strict)


def _jacobian_of(out: Any, inputs: Any, create: bool, strict: bool) -> tuple[Any, ...]:
    rows = []
    flat = out.reshape(-1)
    for i in range(flat.numel()):
        one = zeros(flat.numel(), dtype=out.dtype)
        one[i] = 1
        rows.append(_grads((out,), inputs, (one.reshape(out._shape),), create, strict))
    if not rows:
        return tuple(x.new_zeros((*out._shape, *x._shape)) for x in inputs)
    return tuple(
        stack(list(parts)).reshape((*out._shape, *x._shape))
        for parts, x in zip(zip(*rows, strict=True), inputs, strict=True)
    )


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives of outputs by inputs: shape (*output, *input) for each pair."""
    with enable_grad():
        is_tuple_in, leaves = _leaves(inputs, create_graph)
        is_tuple_out, outs = _outputs(func(*leaves))
        table = tuple(_jacobian_of(o, leaves, create_graph, strict) for o in outs)
    rows = tuple(row if is_tuple_in else row[0] for row in table)
    return rows if is_tuple_out else rows[0]


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a function of one number."""
    is_tuple = isinstance(inputs, tuple | list)

    def gradient(*xs: Any) -> Any:
        out = func(*xs)
        if not isinstance(out, Tensor) or out.numel() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to hessian should contain a single "
                "element"
            )
        return _grads((out.reshape(()),), xs, (out.new_ones(()),), True, strict)

    found = jacobian(gradient, tuple(inputs) if is_tuple else (inputs,), create_graph, strict)
    return found if is_tuple else found[0][0]


def _vectors(v: Any, likes: tuple[Any, ...]) -> tuple[Any, ...]:
    if v is None:
        if len(likes) != 1 or likes[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the other side has a single element"
            )
        return (likes[0].new_ones(likes[0]._shape),)
    plain = tuple(v) if isinstance(v, tuple | list) else (v,)
    if [p._shape for p in plain] != [x._shape for x in likes]:
        raise RuntimeError("v has another size than the tensors it is multiplied with")
    return plain


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(outputs, the product of v with the Jacobian)."""
    with enable_grad():
        is_tuple, leaves = _leaves(inputs, create_graph)
        result = func(*leaves)
        _, outs = _outputs(result)
        found = _grads(outs, leaves, _vectors(v, outs), create_graph, strict)
    return _finished(result, create_graph), found if is_tuple else found[0]


def _finished(result: Any, create_graph: bool) -> Any:
    if create_graph:
        return result
    if isinstance(result, tuple | list):
        return type(result)(r.detach() for r in result)
    return result.detach()


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(outputs, the product of the Jacobian with v), by differentiating twice backwards."""
    with enable_grad():
        _, leaves = _leaves(inputs, create_graph)
        result = func(*leaves)
        is_tuple, outs = _outputs(result)
        dummies = tuple(o.new_zeros(o._shape).requires_grad_() for o in outs)
        pulled = _grads(outs, leaves, dummies, True, strict)
        found = _grads(pulled, dummies, _vectors(v, leaves), create_graph, strict)
    return _finished(result, create_graph), found if is_tuple else found[0]


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, the product of the Hessian with v)."""
    with enable_grad():
        is_tuple, leaves = _leaves(inputs, create_graph)
        out = func(*leaves)
        first = _grads((out,), leaves, (out.new_ones(out._shape),), True, strict)
        found = _grads(first, leaves, _vectors(v, leaves), create_graph, strict)
    return _finished(out, create_graph), found if is_tuple else found[0]


vhp = hvp  # a Hessian is symmetric
