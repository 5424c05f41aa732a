"""gradcheck and gradgradcheck: derivative rules against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # functions of tensors

import numpy as np

from rushlight.autograd.grad_api import grad
from rushlight.autograd.modes import enable_grad
from rushlight.ops.random import randn
from rushlight.tensor import Tensor, tensor_of_array


class GradcheckError(RuntimeError):
    """A derivative does not agree with finite differences."""


def _outputs(result: Any) -> list[Any]:
    found = list(result) if isinstance(result, tuple | list) else [result]
    return [o for o in found if isinstance(o, Tensor) and o.dtype.is_floating_point]


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare gradients with finite differences; raises GradcheckError naming output and input.

    Inputs that require gradients should be float64. fast_mode compares one random projection.
    """
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if not any(isinstance(x, Tensor) and x.requires_grad for x in given):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    try:
        compare = _compare_projected if fast_mode else _compare_all
        with enable_grad():
            compare(func, given, eps, atol, rtol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _wanted(inputs: tuple[Any, ...]) -> list[int]:
    return [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]


def _values(func: Any, inputs: tuple[Any, ...]) -> list[Any]:
    return [o.detach()._numbers().astype(np.float64) for o in _outputs(func(*inputs))]


def _moved(inputs: tuple[Any, ...], i: int, array: Any) -> tuple[Any, ...]:
    x = inputs[i]
    moved = tensor_of_array(array, x.dtype).requires_grad_()
    return (*inputs[:i], moved, *inputs[i + 1 :])


def _slope(func: Any, inputs: tuple[Any, ...], i: int, step: Any, eps: float) -> list[Any]:
    """(f(x + eps * step) - f(x - eps * step)) / (2 * eps) for each output."""
    base = inputs[i].detach()._numbers().astype(np.float64)
    up = _values(func, _moved(inputs, i, base + eps * step))
    down = _values(func, _moved(inputs, i, base - eps * step))
    return [(a - b) / (2 * eps) for a, b in zip(up, down, strict=True)]


def _numerical(func: Any, inputs: tuple[Any, ...], i: int, eps: float) -> list[Any]:
    """Jacobians (input elements x output elements) by finite differences."""
    shape = inputs[i]._shape
    rows = []
    for j in range(inputs[i].numel()):
        step = np.zeros(shape).reshape(-1)
        step[j] = 1
        rows.append([s.reshape(-1) for s in _slope(func, inputs, i, step.reshape(shape), eps)])
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def _analytical(out: Any, inputs: tuple[Any, ...], wanted: list[int]) -> list[Any]:
    """Jacobians of one output by each input, by backward from each of its elements."""
    targets = [inputs[i] for i in wanted]
    tables = [np.zeros((t.numel(), out.numel())) for t in targets]
    if not out.requires_grad:
        return tables
    for j in range(out.numel()):
        one = np.zeros(out.numel())
        one[j] = 1
        seed = tensor_of_array(one.reshape(out._shape), out.dtype)
        found = grad(out, targets, seed, retain_graph=True, allow_unused=True)
        for table, g in zip(tables, found, strict=True):
            if g is not None:
                table[:, j] = g._numbers().reshape(-1)
    return tables


def _compare_all(
    func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float
) -> None:
    wanted = _wanted(inputs)
    outs = _outputs(func(*inputs))
    numerical = {i: _numerical(func, inputs, i, eps) for i in wanted if inputs[i].numel()}
    for o, out in enumerate(outs):
        analytical = _analytical(out, inputs, wanted)
        for i, table in zip(wanted, analytical, strict=True):
            if i in numerical and not np.allclose(
                table, numerical[i][o], rtol, atol, equal_nan=True
            ):
                raise _disagreement(o, i, numerical[i][o], table)


def _disagreement(output: int, input: int, numerical: Any, analytical: Any) -> GradcheckError:
    return GradcheckError(
        f"Jacobian mismatch for output {output} with respect to input {input},\n"
        f"numerical:{numerical}\nanalytical:{analytical}\n"
    )


def _compare_projected(
    func: Any, inputs: tuple[Any, ...], eps: float, atol: float, rtol: float
) -> None:
    stream = np.random.default_rng(0)
    for o, out in enumerate(_outputs(func(*inputs))):
        seed = stream.standard_normal(out._shape)
        found: list[Any] = [None] * len(_wanted(inputs))
        if out.requires_grad:
            targets = [inputs[i] for i in _wanted(inputs)]
            given = tensor_of_array(seed, out.dtype)
            found = list(grad(out, targets, given, retain_graph=True, allow_unused=True))
        for i, g in zip(_wanted(inputs), found, strict=True):
            step = stream.standard_normal(inputs[i]._shape)
            expected = float((_slope(func, inputs, i, step, eps)[o] * seed).sum())
            got = 0.0 if g is None else float((g._numbers() * step).sum())
            if not np.isclose(got, expected, rtol, atol * max(1, out.numel()), equal_nan=True):
                raise _disagreement(o, i, expected, got)


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives with finite differences of first ones."""
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    count = len(given)
    if grad_outputs is None:
        with enable_grad():
            outs = _outputs(func(*given))
        seeds = tuple(randn(o._shape, dtype=o.dtype).requires_grad_() for o in outs)
    else:
        seeds = (
            tuple(grad_outputs) if isinstance(grad_outputs, tuple | list) else (grad_outputs,)
        )

    def first(*args: Any) -> Any:
        xs, cotangents = args[:count], args[count:]
        outs = _outputs(func(*xs))
        pairs = [(o, c) for o, c in zip(outs, cotangents, strict=True) if o.requires_grad]
        targets = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        chosen, weights = zip(*pairs, strict=True)
        found = grad(chosen, targets, weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first, (*given, *seeds), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, fast_mode=fast_mode,
    )  # fmt: skip
