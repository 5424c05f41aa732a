"""Derivatives of functions: jacobian, hessian, and products with vectors.

Inputs and outputs are tensors or tuples of tensors. `strict` asks that every output depends on
every input (RuntimeError otherwise; else such derivatives are zeros), `create_graph` that the
results can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any  # functions of tensors or tuples of tensors

from rushlight.autograd import engine
from rushlight.autograd.grad_api import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.ops.joining import stack
from rushlight.ops.ranges import eye
from rushlight.tensor import Tensor
from rushlight.trace.inputs import input_of

Function = Callable[..., Any]
_OUTPUTS = "outputs of the user-provided function"
_STRATEGIES = ("forward-mode", "reverse-mode")


def jacobian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives of outputs by inputs: shape (*output, *input) for each pair.

    vectorize: compute all rows (or columns) together instead of one by one.
    strategy:  'forward-mode' is quicker for functions of few inputs; it needs vectorize.

    >>> import rushlight as torch
    >>> torch.autograd.functional.jacobian(torch.square, torch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])
    """
    _check_strategy("jacobian", strategy, create_graph, strict, vectorize)
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs)
    with enable_grad():
        is_tuple, leaves = _leaves("jacobian", inputs, create_graph)
        result = func(*leaves)
        is_tuple_out, outs = _tensors("jacobian", result, _OUTPUTS)
        _check_outputs(outs, strict)
        make = _rows_together if vectorize else _rows
        table = [make(i, out, leaves, create_graph, strict) for i, out in enumerate(outs)]
    rows = [_finished(row if is_tuple else row[0], create_graph) for row in table]
    return tuple(rows) if is_tuple_out else rows[0]


def _check_strategy(
    name: str, strategy: str, create: bool, strict: bool, vectorize: bool
) -> None:
    if strategy not in _STRATEGIES:
        raise AssertionError(
            f'{name}: expected strategy to be either "forward-mode" or "reverse-mode", but got '
            f"{strategy!r}"
        )
    if strict and vectorize:
        raise RuntimeError(f"{name}: strict=True and vectorize=True are not supported together")
    if strategy == "forward-mode":
        if create:
            raise NotImplementedError(
                f"{name}: create_graph=True is only supported for strategy='reverse-mode'"
            )
        if strict:
            raise RuntimeError(
                f"{name}: strict=True is only supported for strategy='reverse-mode'"
            )
        if not vectorize:
            raise NotImplementedError(f"{name}: forward mode needs vectorize=True")


def _forward_jacobian(func: Function, inputs: Any) -> Any:
    from rushlight.func.jacobians import jacfwd  # transforms come later

    is_tuple, plain = _tensors("jacobian", inputs, "inputs")

    def checked(*xs: Any) -> Any:
        is_tuple_out, outs = _tensors("jacobian", func(*xs), _OUTPUTS)
        return outs if is_tuple_out else outs[0]

    argnums = tuple(range(len(plain))) if is_tuple else 0
    return _finished(jacfwd(checked, argnums)(*(x.detach() for x in plain)), False)


def _rows(number: int, out: Any, inputs: Any, create: bool, strict: bool) -> Any:
    """The Jacobians of one output, one backward for each of its elements."""
    identity = eye(out.numel(), dtype=out.dtype).reshape((out.numel(), *out._shape))
    rows = [
        _gradients((out,), inputs, (seed,), create, strict, f"Output {number}")
        for seed in identity
    ]
    if not rows:
        return tuple(x.new_zeros((*out._shape, *x._shape)) for x in inputs)
    return tuple(
        stack(list(parts)).reshape((*out._shape, *x._shape))
        for parts, x in zip(zip(*rows, strict=True), inputs, strict=True)
    )


def _rows_together(number: int, out: Any, inputs: Any, create: bool, strict: bool) -> Any:
    """The Jacobians of one output, by one backward for a batch of cotangents."""
    count = out.numel()
    found: Sequence[Any] = [None] * len(inputs)
    if out.requires_grad and count:
        identity = eye(count, dtype=out.dtype).reshape((count, *out._shape))
        found = grad(
            out, inputs, identity, True, create, allow_unused=True, is_grads_batched=True
        )
    return tuple(
        (x.new_zeros((count, *x._shape)) if g is None else g).reshape((*out._shape, *x._shape))
        for g, x in zip(found, inputs, strict=True)
    )


def hessian(
    func: Function,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """Second derivatives of a function of one number: shape (*input, *input) for each pair.

    >>> import rushlight as torch
    >>> torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])
    """
    is_tuple, plain = _tensors("hessian", inputs, "inputs")
    _check_strategy("hessian", outer_jacobian_strategy, create_graph, strict, vectorize)

    def gradient(*xs: Any) -> Any:
        with enable_grad():
            leaves = tuple(input_of(x, is_linked=True) for x in xs)
            out = _number("hessian", func(*leaves), strict)
            return _gradients((out,), leaves, (out.new_ones(()),), True, strict, second=strict)

    found = jacobian(gradient, plain, create_graph, strict, vectorize, outer_jacobian_strategy)
    return found if is_tuple else found[0][0]


def vjp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(outputs, the product of v with the Jacobian): v has the structure of the outputs, and
    may be left out for one number.
    """
    with enable_grad():
        is_tuple, leaves = _leaves("vjp", inputs, create_graph)
        result = func(*leaves)
        _, outs = _tensors("vjp", result, _OUTPUTS)
        _check_outputs(outs, strict)
        given = _vectors("vjp", v, outs, "user-provided function returns")
        found = _gradients(outs, leaves, given, create_graph, strict)
    return _finished(result, create_graph), _finished(
        found if is_tuple else found[0], create_graph
    )


def jvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(outputs, the product of the Jacobian with v): v has the structure of the inputs, and may
    be left out for one number. By differentiating twice backwards.
    """
    with enable_grad():
        _, leaves = _leaves("jvp", inputs, create_graph)
        given = _vectors("jvp", v, leaves, "input to the user-provided function is")
        result = func(*leaves)
        is_tuple, outs = _tensors("jvp", result, _OUTPUTS)
        _check_outputs(outs, strict)
        dummies = tuple(o.new_zeros(o._shape).requires_grad_() for o in outs)
        pulled = _gradients(outs, leaves, dummies, True, strict)
        found = _gradients(pulled, dummies, given, create_graph, strict)
    return _finished(result, create_graph), _finished(
        found if is_tuple else found[0], create_graph
    )


def hvp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, the product of the Hessian with v), for a function of one number."""
    return _hessian_product("hvp", func, inputs, v, create_graph, strict)


def vhp(
    func: Function, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> Any:
    """(output, the product of v with the Hessian): `hvp`, since a Hessian is symmetric."""
    return _hessian_product("vhp", func, inputs, v, create_graph, strict)


def _hessian_product(
    name: str, func: Function, inputs: Any, v: Any, create: bool, strict: bool
) -> Any:
    with enable_grad():
        is_tuple, leaves = _leaves(name, inputs, create)
        given = _vectors(name, v, leaves, "input to the user-provided function is")
        result = func(*leaves)
        out = _number(name, result, strict)
        first = _gradients((out,), leaves, (out.new_ones(()),), True, strict, second=strict)
        found = _gradients(first, leaves, given, create, strict)
    return _finished(result, create), _finished(found if is_tuple else found[0], create)


# -- inputs, outputs and vectors


def _tensors(name: str, given: Any, what: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether a tuple was given, and the tensors."""
    plain = given if isinstance(given, tuple) else (given,)
    for i, x in enumerate(plain):
        if not isinstance(x, Tensor):
            where = f"value at index {i}" if plain is given else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but "
                f"the {where} has type {type(x)}."
            )
    return plain is given, plain


def _leaves(name: str, inputs: Any, create: bool) -> tuple[bool, tuple[Any, ...]]:
    """The inputs as leaves of a derivative; under `create_graph` gradients go on to them."""
    is_tuple, plain = _tensors(name, inputs, "inputs")
    for x in plain:
        if not (x.dtype.is_floating_point or x.dtype.is_complex):
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
    return is_tuple, tuple(
        input_of(x, is_linked=True) if create and x.requires_grad else _leaf(x) for x in plain
    )


def _leaf(x: Any) -> Any:
    return x.detach().requires_grad_()


def _number(name: str, result: Any, strict: bool) -> Any:
    """The output of a function that returns one number, as a 0-d tensor."""
    is_tuple, outs = _tensors(name, result, _OUTPUTS)
    if is_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outs[0].numel() != 1:
        raise RuntimeError(
            f"The Tensor returned by the function given to {name} should contain a single "
            "element"
        )
    _check_outputs(outs, strict)
    return outs[0].reshape(())


def _vectors(name: str, v: Any, likes: tuple[Any, ...], what: str) -> tuple[Any, ...]:
    if v is None:
        if len(likes) != 1 or likes[0].numel() != 1:
            raise RuntimeError(
                f"The vector v can only be None if the {what} a single Tensor with a single "
                "element."
            )
        return (likes[0].new_ones(likes[0]._shape),)
    _, plain = _tensors(name, v, "vector v")
    if len(plain) != len(likes):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(likes)} but got {len(plain)}."
        )
    for p, x in zip(plain, likes, strict=True):
        if p._shape != x._shape:
            raise RuntimeError(f"v has invalid size: should be {x.shape} but got {p.shape}.")
    return plain


def _finished(result: Any, create: bool) -> Any:
    if isinstance(result, tuple):
        return tuple(_finished(r, create) for r in result)
    return result if create else engine.without_history(result)


# -- gradients


def _check_outputs(outs: Sequence[Any], strict: bool) -> None:
    for i, out in enumerate(outs):
        if strict and not out.requires_grad:
            raise RuntimeError(
                f"Output {i} of the user-provided function does not require gradients. The "
                "outputs must be computed in a differentiable manner from the input when "
                "running in strict mode."
            )


def _check_histories(found: Sequence[Any]) -> None:
    for i, g in enumerate(found):
        if not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {i}. This "
                "is not allowed in strict mode when its derivatives are wanted."
            )


def _gradients(
    outs: Sequence[Any],
    inputs: Sequence[Any],
    seeds: Sequence[Any],
    create: bool,
    strict: bool = False,
    which: str = "The output",
    second: bool | None = None,
) -> tuple[Any, ...]:
    """The gradients of outputs by inputs, zeros for inputs without effect. `second` asks that
    they depend on the inputs themselves; left out, strict results with a graph have to.
    """
    pairs = [(o, g) for o, g in zip(outs, seeds, strict=True) if o.requires_grad]
    found: Sequence[Any] = [None] * len(inputs)
    if pairs:
        chosen, given = zip(*pairs, strict=True)
        found = grad(chosen, inputs, given, True, create, allow_unused=True)
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(
                f"{which} of the user-provided function is independent of input {i}. This is "
                "not allowed in strict mode."
            )
    made = tuple(
        x.new_zeros(x._shape) if g is None else g for g, x in zip(found, inputs, strict=True)
    )
    if strict and create if second is None else second:
        _check_histories(made)
    return made
