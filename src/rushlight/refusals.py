"""What is said of a call that failed because an argument is no tensor.

A function works with its arguments without looking at their classes first, which every call
would pay for. Only when it has failed are they looked at: an attribute that one of them lacks,
an operand that cannot be recorded, or a tensor of PyTorch's becomes a TypeError that names the
public function and the argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any  # functions of any signature

from rushlight import errors, parameter_names
from rushlight.argument_kinds import declared_by

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Given:
    """One argument of a call: `element` is its place in a list, or None."""

    name: str
    position: int
    value: Any
    default: Any
    element: int | None = None

    def refused(self, function: str) -> TypeError:
        return errors.not_a_tensor(function, self.name, self.value, self.position, self.element)


def recovered(
    call: Function, function: Function, name: str, args: Any, kwargs: Any, error: Exception
) -> Any:
    """What a call that failed gives with parameters under the function's own names; otherwise
    raises what is to be said of it.

    call: the function as users call it, with this very guard.
    """
    if kwargs and isinstance(error, TypeError):
        ours = parameter_names.respelled(function, name.removeprefix("Tensor."), kwargs)
        if ours is not None:
            return call(*args, **ours)
    said = explained(function, name, args, kwargs, error)
    if said is error:
        raise error
    raise said from None


def explained(
    function: Function, name: str, args: Any, kwargs: Mapping[str, Any], error: Exception
) -> Exception:
    """The error to raise for a call that failed with `error`: often itself.

    name: what users call the function; a method's begins with "Tensor.".
    """
    first = 0 if name.startswith("Tensor.") else 1
    name = name.removeprefix("Tensor.")
    given = tuple(_given(function, args, kwargs, first))
    for one in given:
        if errors.is_foreign_tensor(one.value):
            return one.refused(name)
    if isinstance(error, AttributeError | errors.NotAnOperandError):
        found = _lacking(given, error)
        return error if found is None else found.refused(name)
    if isinstance(error, TypeError):
        return _renamed(error, function, name)
    if isinstance(error, _OF_WIDE) and _has_wide_count(given, function):
        return ValueError(f"{name}(): Overflow when unpacking long long")
    return error


_OF_WIDE = OverflowError, IndexError, MemoryError, RuntimeError


def _has_wide_count(given: tuple[Given, ...], function: Function) -> bool:
    """Whether a dimension, size, place or count has more than 64 bits; numbers that become
    elements are refused where they are converted.
    """
    kinds = declared_by(inspect.unwrap(function)).kinds
    return any(
        type(one.value) is int and not -(2**63) <= one.value < 2**63
        for one in given
        if one.name in kinds and kinds[one.name][0].is_whole
    )


def _given(
    function: Function, args: Any, kwargs: Mapping[str, Any], first: int
) -> Iterator[Given]:
    """The arguments, and the elements of those that are lists, by the names of parameters."""
    signature = inspect.signature(function)
    try:
        bound = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        bound = dict(kwargs)
    for position, (name, parameter) in enumerate(signature.parameters.items(), first):
        if name not in bound:
            continue
        value = bound[name]
        place = 0 if parameter.kind is parameter.KEYWORD_ONLY else position
        yield Given(name, place, value, parameter.default)
        if isinstance(value, list | tuple):
            for i, part in enumerate(value):
                yield Given(name, place, part, parameter.default, i)


def _lacking(
    given: tuple[Given, ...], error: AttributeError | errors.NotAnOperandError
) -> Given | None:
    """The argument that was asked for what only tensors have; among several that are None the
    one that may not be.
    """
    culprit = error.got if isinstance(error, errors.NotAnOperandError) else error.obj
    if hasattr(culprit, "_storage"):
        return None
    found = [one for one in given if one.value is culprit]
    needed = [one for one in found if one.default is inspect.Parameter.empty]
    return next(iter([*needed, *found]), None)


def _renamed(error: TypeError, function: Function, name: str) -> Exception:
    """Python's own message about arguments, of the function's public name."""
    own = f"{inspect.unwrap(function).__qualname__}()"
    text = str(error)
    if own == f"{name}()" or not text.startswith(own):
        return error
    return TypeError(name + text[len(own) - 2 :])
