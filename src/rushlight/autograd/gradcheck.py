"""gradcheck and gradgradcheck: derivative rules against finite differences.

Jacobians are tables (parts of the input x parts of the output): a complex number has two parts,
its real and its imaginary one.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any  # functions of tensors

import numpy as np

from rushlight.advice import warn_caller
from rushlight.arrays import tensor_of_array
from rushlight.autograd import tangents
from rushlight.autograd.grad_api import grad
from rushlight.autograd.grad_mode import enable_grad
from rushlight.dtypes import complex128, float64
from rushlight.ops.joining import stack
from rushlight.ops.random import randn
from rushlight.tensor import Tensor

Array = Any  # np.ndarray of float64


class _Module(types.ModuleType):
    """`torch.autograd.gradcheck` is a function, and once somebody imports the module of that
    name, what Python puts in its place is this module: calling it is calling the function.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> bool:
        return gradcheck(*args, **kwargs)


sys.modules[__name__].__class__ = _Module


class GradcheckError(RuntimeError):
    """A derivative does not agree with finite differences."""


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

    Inputs that require gradients should be float64 or complex128. check_forward_ad also
    compares tangents, check_batched_grad gradients of a batch of cotangents (`vmap`),
    check_batched_forward_grad tangents of a batch. fast_mode compares one random projection.

    >>> import rushlight as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, (x,), check_forward_ad=True)
    True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("gradcheck: nothing to check without forward and backward mode")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("gradcheck: check_batched_grad needs check_backward_ad")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("gradcheck: check_batched_forward_grad needs check_forward_ad")
    given = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    if not any(isinstance(x, Tensor) and x.requires_grad for x in given):
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of them "
            "have requires_grad=True."
        )
    _warn_of_few_bits(given)
    case = _Case(func, given, eps, atol, rtol)
    try:
        with enable_grad():
            if fast_mode:
                case.compare_projected(check_forward_ad, check_backward_ad)
            else:
                case.compare_all(check_forward_ad, check_backward_ad)
            if check_batched_grad:
                case.compare_batched_gradients()
            if check_batched_forward_grad:
                case.compare_batched_tangents()
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _outputs(result: Any) -> list[Any]:
    found = list(result) if isinstance(result, tuple | list) else [result]
    return [o for o in found if isinstance(o, Tensor) and tangents.is_smooth(o)]


def _parts(x: Any) -> Array:
    """The elements of a tensor as one row of real numbers."""
    array = np.ascontiguousarray(x.detach()._numbers()).reshape(-1)
    if x.dtype.is_complex:
        return array.astype(np.complex128).view(np.float64)
    return array.astype(np.float64)


def _of_parts(parts: Array, like: Any) -> Any:
    """A tensor of the shape and dtype of `like`."""
    whole = parts.view(np.complex128) if like.dtype.is_complex else parts
    return tensor_of_array(whole.reshape(like._shape), like.dtype)


def _units(like: Any) -> Iterator[Any]:
    """A tensor for each part of `like` that is 1 there and 0 elsewhere."""
    for unit in np.eye(_parts(like).size):
        yield _of_parts(unit, like)


@dataclass(slots=True)
class _Case:
    """A function at one place, and how closely derivatives have to agree."""

    func: Callable[..., Any]
    inputs: tuple[Any, ...]
    eps: float
    atol: float
    rtol: float

    @property
    def wanted(self) -> list[int]:
        """Which inputs to differentiate by."""
        return [
            i for i, x in enumerate(self.inputs) if isinstance(x, Tensor) and x.requires_grad
        ]

    @property
    def targets(self) -> list[Any]:
        return [self.inputs[i] for i in self.wanted]

    def outputs(self) -> list[Any]:
        return _outputs(self.func(*self.inputs))

    def slope(self, i: int, step: Array) -> list[Array]:
        """(f(x + eps * step) - f(x - eps * step)) / (2 * eps) for each output."""
        base = _parts(self.inputs[i])
        up, down = (self._values(i, base + sign * self.eps * step) for sign in (1, -1))
        return [(a - b) / (2 * self.eps) for a, b in zip(up, down, strict=True)]

    def _values(self, i: int, parts: Array) -> list[Array]:
        moved = _of_parts(parts, self.inputs[i]).requires_grad_()
        found = self.func(*self.inputs[:i], moved, *self.inputs[i + 1 :])
        return [_parts(o) for o in _outputs(found)]

    def tangents(self, i: int, direction: Any) -> list[Array]:
        """The tangents of the outputs for a direction of one input."""
        return [_parts(t) for t in self._tangents(i, direction)]

    def _tangents(self, i: int, direction: Any) -> list[Any]:
        level = tangents.enter()
        try:
            dual = tangents.made_dual(self.inputs[i], direction, level)
            found = _outputs(self.func(*self.inputs[:i], dual, *self.inputs[i + 1 :]))
            pairs = [(o, tangents.unpacked(o, level)[1]) for o in found]
        finally:
            tangents.leave(level)
        return [tangents.zeros_like(o) if t is None else t for o, t in pairs]

    def gradients(self, out: Any, seed: Any, is_batch: bool = False) -> list[Any]:
        """The gradients by all targets for a cotangent of one output."""
        if not out.requires_grad:
            return [None] * len(self.targets)
        return list(
            grad(out, self.targets, seed, True, allow_unused=True, is_grads_batched=is_batch)
        )

    def compare_all(self, is_forward: bool, is_backward: bool) -> None:
        """Compare whole Jacobians."""
        numerical = {
            i: _table([self.slope(i, unit) for unit in np.eye(_parts(self.inputs[i]).size)])
            for i in self.wanted
            if self.inputs[i].numel()
        }
        for i, tables in numerical.items() if is_forward else ():
            found = _table([self.tangents(i, unit) for unit in _units(self.inputs[i])])
            for o, (table, expected) in enumerate(zip(found, tables, strict=True)):
                self._check(o, i, expected, table, "computed with forward mode ")
        for o, out in enumerate(self.outputs() if is_backward else ()):
            rows = [self.gradients(out, seed) for seed in _units(out)]
            for k, i in enumerate(self.wanted):
                if i in numerical and rows:
                    columns = [_parts_or_zeros(row[k], self.inputs[i]) for row in rows]
                    self._check(o, i, numerical[i][o], np.stack(columns, 1), "")

    def compare_projected(self, is_forward: bool, is_backward: bool) -> None:
        """Compare one product with a random vector on both sides for each output and input."""
        stream = np.random.default_rng(0)
        for o, out in enumerate(self.outputs()):
            seed = stream.standard_normal(_parts(out).size)
            found = self.gradients(out, _of_parts(seed, out)) if is_backward else []
            for k, i in enumerate(self.wanted):
                x = self.inputs[i]
                step = stream.standard_normal(_parts(x).size)
                expected = self.slope(i, step)[o] @ seed
                if is_forward:
                    got = self.tangents(i, _of_parts(step, x))[o] @ seed
                    self._check(o, i, expected, got, "computed with forward mode ", out.numel())
                if is_backward:
                    got = _parts_or_zeros(found[k], x) @ step
                    self._check(o, i, expected, got, "", out.numel())

    def compare_batched_gradients(self) -> None:
        """Gradients for a batch of cotangents are those for each of them."""
        for o, out in enumerate(self.outputs()):
            seeds = [randn(out._shape, dtype=out.dtype) for _ in range(2)]
            apart = [self.gradients(out, seed) for seed in seeds]
            together = self.gradients(out, stack(seeds), is_batch=out.requires_grad)
            for k, i in enumerate(self.wanted):
                expected = [_parts_or_zeros(row[k], self.inputs[i]) for row in apart]
                got = np.zeros(0) if together[k] is None else _parts(together[k])
                if together[k] is not None:
                    self._check(o, i, np.concatenate(expected), got, "of a batch ")

    def compare_batched_tangents(self) -> None:
        """Tangents for a batch of directions are those for each of them."""
        from rushlight.func.vmap import vmap  # transforms come later

        for i in self.wanted:
            x = self.inputs[i]
            steps = [randn(x._shape, dtype=x.dtype) for _ in range(2)]
            apart = [self.tangents(i, step) for step in steps]
            together = vmap(lambda step, i=i: tuple(self._tangents(i, step)))(stack(steps))
            for o, got in enumerate(together):
                expected = np.concatenate([row[o] for row in apart])
                self._check(o, i, expected, _parts(got), "of a batch, with forward mode, ")

    def _check(
        self, output: int, input: int, expected: Any, got: Any, how: str, scale: int = 1
    ) -> None:
        atol = self.atol * max(1, scale)
        if not np.allclose(got, expected, self.rtol, atol, equal_nan=True):
            raise GradcheckError(
                f"Jacobian {how}mismatch for output {output} with respect to input {input},\n"
                f"numerical:{expected}\nanalytical:{got}\n"
            )


def _table(rows: Sequence[Sequence[Array]]) -> list[Array]:
    """A Jacobian for each output, from what each part of the input does to all outputs."""
    return [np.stack(parts) for parts in zip(*rows, strict=True)]


def _parts_or_zeros(g: Any, like: Any) -> Array:
    return np.zeros(_parts(like).size) if g is None else _parts(g)


def _warn_of_few_bits(inputs: tuple[Any, ...]) -> None:
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad and x.dtype not in (float64, complex128):
            warn_caller(
                f"gradcheck: input #{i} requires a gradient and is {x.dtype!r}: finite "
                f"differences need float64 or complex128, and the check will likely fail"
            )


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
    """Compare second derivatives with finite differences of first ones: gradients of gradients,
    and with check_fwd_over_rev tangents of gradients.
    """
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
        xs = tuple(
            x.view_as(x).requires_grad_()
            if isinstance(own, Tensor) and own.requires_grad
            else x
            for x, own in zip(xs, given, strict=True)
        )
        outs = _outputs(func(*xs))
        pairs = [(o, c) for o, c in zip(outs, cotangents, strict=True) if o.requires_grad]
        targets = [x for x in xs if isinstance(x, Tensor) and x.requires_grad]
        chosen, weights = zip(*pairs, strict=True)
        found = grad(chosen, targets, weights, create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        first, (*given, *seeds), eps=eps, atol=atol, rtol=rtol,
        raise_exception=raise_exception, fast_mode=fast_mode,
        check_batched_grad=check_batched_grad, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
    )  # fmt: skip
