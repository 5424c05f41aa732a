"""What is found out about a function by recording its example: nothing is computed for it.

Every tensor that the example makes by a factory can be varied, so the same lines say what the
function records, whether its results can be differentiated, once and twice, forwards, under
`vmap`, and with which dtypes.
"""

from __future__ import annotations

import doctest
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import unwrap
from sys import _getframe
from types import CodeType
from typing import Any

import rushlight
from rushlight.ops.registry import Op, recorder

FACTORIES = frozenset({
    "arange", "complex", "empty", "eye", "full", "linspace", "ones", "rand", "randn", "tensor",
    "zeros",
})  # fmt: skip
KINDS = ("bool", "int64", "bfloat16", "float32", "float64", "complex64")
Vary = Callable[[Any], Any]
_parser = doctest.DocTestParser()


@dataclass(frozen=True, slots=True)
class Facts:
    """`first` and `second` are derivatives; None where there is nothing to vary."""

    records: tuple[str, ...]
    first: bool | None
    second: bool
    forward: bool
    batches: bool | None
    kinds: tuple[str, ...]


class _Varied:
    """The namespace that an example calls `torch`, with factories that vary what they make."""

    def __init__(self, own: str, vary: Vary) -> None:
        self._own, self._vary = own, vary
        self.made: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        found = getattr(rushlight, name)
        if name not in FACTORIES or name == self._own:
            return found

        def factory(*args: Any, **kwargs: Any) -> Any:
            made = found(*args, **kwargs)
            if "dtype" in kwargs:
                return made
            self.made.append(made)
            return self._vary(made)

        return factory


def results(example: str, own: str, vary: Vary) -> tuple[list[Any], list[Any]]:
    """Everything that the example's expressions give, and what was varied."""
    torch = _Varied(own, vary)
    names: dict[str, Any] = {"torch": torch}
    given: list[Any] = []
    for step in _parser.get_examples(example):
        if step.source.startswith("import "):
            continue
        try:
            code = compile(step.source, "<example>", "eval")
        except SyntaxError:
            exec(step.source, names)
        else:
            given.append(eval(code, names))
    return given, torch.made


def tensors_in(value: Any) -> Iterator[Any]:
    """The tensors of a result, which may be a tuple of them."""
    if isinstance(value, rushlight.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)


def smooth(values: list[Any]) -> list[Any]:
    found = tensors_in(values)
    return [t for t in found if t.dtype.is_floating_point or t.dtype.is_complex]


def _as_it_is(x: Any) -> Any:
    return x


def facts_of(function: Callable[..., Any], name: str, example: str) -> Facts:
    """What recording the example says about the function."""
    records = tuple(op.name for op in _ops_recorded(function, name, example))
    _, made = results(example, name, _as_it_is)
    if not made:
        return Facts(records, None, False, False, None, ())
    of_floats = bool(smooth(made))
    kinds = tuple(_kinds(example, name, of_floats))
    if not of_floats and "float32" not in kinds:
        return Facts(records, None, False, False, _batches(example, name, False), kinds)
    first, second = _derivatives(example, name, of_floats)
    forward = bool(first) and _works(lambda: _pushed(example, name, of_floats))
    return Facts(records, first, second, forward, _batches(example, name, of_floats), kinds)


def _works(call: Callable[[], Any]) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call()
    except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
        return False
    return True


def _shifted(by: Any, of_floats: bool) -> Vary:
    """Floating tensors (integers if there are no others) moved by a number that derivatives
    and batches are taken of.
    """

    def vary(x: Any) -> Any:
        if x.dtype.is_floating_point or x.dtype.is_complex:
            return x + by.to(x.dtype)
        return x if of_floats else x.float() + by.float()

    return vary


def _total(values: list[Any]) -> Any:
    parts = [t.abs().sum() if t.dtype.is_complex else t.square().sum() for t in values]
    return sum(parts[1:], parts[0])


def _derivatives(example: str, name: str, of_floats: bool) -> tuple[bool | None, bool]:
    zero = rushlight.zeros((), dtype=rushlight.float64, requires_grad=True)
    try:
        given = list(tensors_in(results(example, name, _shifted(zero, of_floats))[0]))
    except RuntimeError:  # a write that is not allowed to what requires gradients
        return False, False
    if not given:
        return None, False
    smooth_ones = [t for t in given if t.requires_grad]
    if not smooth_ones:
        return False, False

    def once() -> None:
        rushlight.autograd.grad(_total(smooth_ones), zero, retain_graph=True)

    if not _works(once):  # as in PyTorch, they require gradients that nobody can give them
        return False, False

    def twice() -> None:
        (slope,) = rushlight.autograd.grad(_total(smooth_ones), zero, create_graph=True)
        if slope.requires_grad:  # else it is zero wherever it is defined
            rushlight.autograd.grad(slope, zero)

    return True, _works(twice)


def _pushed(example: str, name: str, of_floats: bool) -> Any:
    zero = rushlight.zeros((), dtype=rushlight.float64)

    def push(by: Any) -> Any:
        return tuple(smooth(results(example, name, _shifted(by, of_floats))[0]))

    return rushlight.func.jvp(push, (zero,), (zero + 1,))


def _batches(example: str, name: str, of_floats: bool) -> bool:
    """With the floating tensors, or with integers as they are, different for each sample."""
    zeros = rushlight.zeros(2, dtype=rushlight.float64)

    def sample(by: Any) -> Any:
        def vary(x: Any) -> Any:
            is_moved = x.dtype.is_floating_point or x.dtype.is_complex or not of_floats
            return x + by.to(x.dtype) if is_moved else x

        return tuple(tensors_in(results(example, name, vary)[0]))

    return _works(lambda: rushlight.func.vmap(sample, randomness="different")(zeros))


def _kinds(example: str, name: str, of_floats: bool) -> Iterator[str]:
    """Dtypes that the example's floating tensors (integers if it has no other) may have."""
    for kind in KINDS:
        wanted = getattr(rushlight, kind)

        def cast(x: Any, wanted: Any = wanted) -> Any:
            return x.to(wanted) if x.dtype.is_floating_point or not of_floats else x

        if _works(lambda cast=cast: results(example, name, cast)):  # type: ignore[misc]
            yield kind


# -- what is recorded inside of a function


def _ops_recorded(function: Callable[..., Any], name: str, example: str) -> list[Op]:
    """The ops that the function itself records in its example, each once."""
    found: list[Op] = []
    with _watched(unwrap(function).__code__, found):
        results(example, name, _as_it_is)
    return list(dict.fromkeys(found))


@contextmanager
def _watched(code: CodeType, found: list[Op]) -> Iterator[None]:
    """Note the ops that are recorded below calls of this code."""
    known = {
        name: getattr(recorder, name) for name in ("record", "record_one", "record_two", "view")
    }

    def noting(plain: Callable[..., Any]) -> Callable[..., Any]:
        def record(op: Op, *rest: Any) -> Any:
            if _is_below(code):
                found.append(op)
            return plain(op, *rest)

        return record

    try:
        for name, plain in known.items():
            setattr(recorder, name, noting(plain))
        yield
    finally:
        for name, plain in known.items():
            setattr(recorder, name, plain)


def _is_below(code: CodeType) -> bool:
    frame = _getframe(2)
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
