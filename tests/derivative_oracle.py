"""First, second and forward derivatives of one operation, here and in PyTorch.

The samples and the way values cross between the libraries come from the folder `conformance`
(test_conformance.py says where that is). An outcome is what a library answers to one question:
whether results require gradients, the gradients, those of the gradients, or the tangents; or
the error that it raises instead.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from conformance import opdb, rules
from conformance.bridge import compare, give, resolve, take, translate

import rushlight

KINDS = ("first", "second", "forward")
# Signs and phases of these results are free: derivatives are those of their fourth powers.
GAUGE = {name for name, judge in rules.JUDGES.items() if judge is not rules.ties}
CLOSE = (1e-6, 1e-7)


@dataclass(frozen=True, slots=True)
class Finding:
    """How one kind of derivative of one sample compares."""

    op: str
    dtype: str
    kind: str
    verdict: str  # "agrees", or what is wrong
    detail: str = ""


def names() -> list[str]:
    """Every public operation of PyTorch's database."""
    return [
        key
        for key, op in _database().items()
        if not rules.excluded(op.name, op.variant_test_name)
    ]


def findings(name: str, dtype: str, limit: int = 2) -> Iterator[Finding]:
    """Compare all derivatives of up to `limit` samples of an operation."""
    op = _database()[name]
    for i, sample in enumerate(_samples(op, dtype, limit)):
        parts = (sample.input, tuple(sample.args), dict(sample.kwargs))
        case = _Case(op, sample, _leaves(parts), seed=opdb.stable_hash(f"{name}{i}"))
        for kind in KINDS:
            if verdict := case.verdict(kind):
                yield Finding(name, dtype, kind, *verdict)
        for operand in _others(parts):
            if verdict := case.by(operand).verdict("first"):
                yield Finding(name, dtype, "other operands", *verdict)


_ops: dict[str, Any] = {}


def _database() -> dict[str, Any]:
    if not _ops:
        _ops.update((op.full_name, op) for op in opdb.database().values())
    return _ops


def _samples(op: Any, dtype: str, limit: int) -> list[Any]:
    """Samples with elements to differentiate by, evenly spaced."""
    kinds = (
        op.supported_backward_dtypes("cpu")
        if op.supports_autograd
        else op.supported_dtypes("cpu")
    )
    if getattr(torch, dtype) not in kinds:
        return []
    with_elements = [
        s
        for s in opdb.samples_of(op, dtype, 60, True)
        if any(t.numel() for t in _leaves((s.input, s.args, s.kwargs)))
    ]
    return opdb.spread(with_elements, limit)


def _tensors(tree: Any) -> list[Any]:
    if isinstance(tree, torch.Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [t for part in parts for t in _tensors(part)] if isinstance(tree, _NESTED) else []


def _leaves(tree: Any) -> list[Any]:
    """What a sample wants to be differentiated by."""
    return list({id(t): t for t in _tensors(tree) if t.requires_grad}.values())


def _others(tree: Any) -> list[Any]:
    """What a sample has beside that, and could be differentiated by."""
    smooth = [t for t in _tensors(tree) if t.is_floating_point() or t.is_complex()]
    return [t for t in smooth if not t.requires_grad and t.numel()]


_NESTED = (list, tuple, dict)


def _mask_of(op: Any, parts: Any) -> Any:
    """Where the results of a masked operation are defined; None for other operations."""
    if "masked" not in op.gradcheck_wrapper.__name__:
        return None

    @functools.wraps(op.op)
    def ones(*args: Any, **kwargs: Any) -> Any:
        return torch.ones_like(op.op(*args, **kwargs))

    x, args, kwargs = parts
    return op.gradcheck_wrapper(ones, x, *args, **kwargs) != 0


class _Case:
    """One sample of one operation: its derivatives in any library."""

    def __init__(self, op: Any, sample: Any, leaves: list[Any], seed: int) -> None:
        self.op, self.sample, self.leaves = op, sample, leaves
        self.parts = (sample.input, tuple(sample.args), dict(sample.kwargs))
        self.process = sample.output_process_fn_grad
        self.gauge, self.seed = op.name in GAUGE, seed
        self.binder, self.wrapper = opdb.function_of(op), op.gradcheck_wrapper
        self.mask = _mask_of(op, self.parts)

    def by(self, operand: Any) -> _Case:
        """The same, differentiated by one operand alone."""
        return _Case(self.op, self.sample, [operand], self.seed)

    def verdict(self, kind: str) -> tuple[str, str] | None:
        """What is to be said of one kind; None where PyTorch has no such derivative."""
        question = getattr(self, kind)
        wanted = _asked(question, torch, self.seed)
        if isinstance(wanted, Exception):
            if kind == "first" and not isinstance(self._flags(rushlight), Exception):
                return self._where_refused(wanted)
            return None
        got = _asked(question, rushlight, self.seed)
        if isinstance(got, Exception):
            return f"raises {type(got).__name__}", str(got)[:200]
        if difference := compare(wanted["requires"], got["requires"]):
            return "requires_grad", difference
        again = _asked(question, torch, self.seed + 1)
        is_random = isinstance(again, Exception) or compare(wanted, again, CLOSE)
        got = _where_defined(wanted, got)
        difference = compare(wanted, got, "structure" if is_random else CLOSE)
        return ("values", difference) if difference else ("agrees", "")

    def _where_refused(self, refusal: Exception) -> tuple[str, str] | None:
        """PyTorch raises: we must at least not drop the gradient without a word."""
        wanted, got = self._flags(torch), self._flags(rushlight)
        if isinstance(wanted, list) and not any(wanted):
            return None
        if any(got):
            return "agrees", ""
        if isinstance(wanted, Exception) and "deriv" not in str(wanted):
            return None
        return "dropped", f"PyTorch: {str(refusal)[:120]}"

    def _flags(self, lib: Any) -> list[bool] | Exception:
        return _asked(lambda lib: [y.requires_grad for y in self._outputs(lib)[0]], lib, 1)

    def _outputs(self, lib: Any, memo: dict[int, Any] | None = None) -> tuple[list[Any], Any]:
        """All tensors that the operation gives, and what it was given by id."""
        memo = {} if memo is None else memo
        for leaf in self.leaves if not memo else ():
            memo[id(leaf)] = give(leaf.detach(), lib, up=True).requires_grad_()
        x, args, kwargs = give(self.parts, lib, memo, up=True)
        function = self.binder(lib)
        if self.mask is None:
            out = translate(self.wrapper, lib)(function, x, *args, **kwargs)
        else:
            out = lib.where(give(self.mask, lib), function(x, *args, **kwargs), 0)
        out = translate(self.process, lib)(out)
        found = opdb.flat(out, resolve(lib, "Tensor"))
        if self.gauge:
            found = [y.abs() ** 4 for y in found if y.is_floating_point() or y.is_complex()]
        return found, memo

    def _loss(self, lib: Any, create_graph: bool) -> tuple[Any, ...]:
        outs, memo = self._outputs(lib)
        leaves = [memo[id(t)] for t in self.leaves]
        used = [y for y in outs if y.requires_grad]
        draws = np.random.default_rng(self.seed)
        cotangents = [_drawn(lib, draws, y).requires_grad_(create_graph) for y in used]
        grads = lib.autograd.grad(
            used, leaves, cotangents, allow_unused=True, create_graph=create_graph
        )
        return outs, leaves, cotangents, grads, draws

    def first(self, lib: Any) -> dict[str, Any]:
        outs, leaves, _, grads, _ = self._loss(lib, False)
        return {
            "requires": [y.requires_grad for y in outs],
            "values": _taken(lib, grads, leaves),
        }

    def second(self, lib: Any) -> dict[str, Any]:
        _, leaves, cotangents, grads, draws = self._loss(lib, True)
        smooth = [g for g in grads if g is not None]
        upper = [_drawn(lib, draws, g) for g in smooth]
        pairs = [(g, u) for g, u in zip(smooth, upper, strict=True) if g.requires_grad]
        inputs = [*leaves, *cotangents]
        found = [None] * len(inputs)
        if pairs:
            slopes, weights = zip(*pairs, strict=True)
            found = lib.autograd.grad(slopes, inputs, weights, allow_unused=True)
        return {
            "requires": [],
            "values": _taken(lib, found, inputs),
        }

    def forward(self, lib: Any) -> dict[str, Any]:
        modes = resolve(lib, "autograd.forward_ad")
        draws = np.random.default_rng(self.seed)
        with modes.dual_level():
            memo: dict[int, Any] = {}
            for leaf in self.leaves:
                x = give(leaf.detach(), lib, up=True)
                memo[id(leaf)] = modes.make_dual(x, _drawn(lib, draws, x))
            outs, _ = self._outputs(lib, memo)
            pairs = [(y, modes.unpack_dual(y).tangent) for y in outs]
        smooth = [(t, y) for y, t in pairs if y.is_floating_point() or y.is_complex()]
        return {"requires": [], "values": [v for t, y in smooth for v in _taken(lib, [t], [y])]}


def _taken(lib: Any, derivatives: Sequence[Any], likes: Sequence[Any]) -> list[Any]:
    """Derivatives in portable form; those of what is not related are zeros."""
    pairs = zip(derivatives, likes, strict=True)
    return [take(lib.zeros_like(x) if d is None else d, lib) for d, x in pairs]


def _asked(question: Callable[[Any], Any], lib: Any, seed: int) -> Any:
    """A library's answer, or the error that it raises."""
    random.seed(seed), np.random.seed(seed % 2**32), lib.manual_seed(seed)
    try:
        return question(lib)
    except Exception as error:
        return error


def _where_defined(wanted: Any, got: Any) -> Any:
    """The answer, with NaN wherever PyTorch has it: 0 * inf is one of the differences."""
    pairs = list(zip(wanted["values"], got["values"], strict=False))
    if all(w.data.shape == g.data.shape for w, g in pairs):
        for w, g in pairs:
            g.data = np.where(w.data != w.data, w.data, g.data)
    return got


def _drawn(lib: Any, draws: np.random.Generator, like: Any) -> Any:
    name = str(like.dtype).rpartition(".")[2]
    return opdb.cotangent(lib, draws, tuple(like.shape), name)
