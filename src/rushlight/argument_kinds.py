"""What the arguments of public functions may be besides tensors: flags, whole numbers, numbers,
texts and dtypes, as the annotations of their parameters say.

The classes of a call's arguments are looked up among those of calls that were right before, so
looking at each argument is for the first call with such classes, and for those that are wrong
or have to be converted: NumPy's numbers and tensors of one element stand for Python's numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple  # arguments of any class

import numpy as np

from rushlight import errors
from rushlight.dtypes import bool_, complex128, dtype, float64, int64

Function = Callable[..., Any]
NOT_THIS: Final = object()  # what a conversion gives for a value of another kind


@dataclass(frozen=True, slots=True)
class Kind:
    """What one parameter takes: values of these classes as they are, others converted."""

    name: str  # as errors say it
    classes: tuple[type, ...]
    converted: Callable[[Any], Any] = lambda _: NOT_THIS


def _element(value: Any) -> Any:
    """The element of a tensor that may stand for a number; NOT_THIS for others."""
    if not hasattr(value, "_storage") or value.numel() != 1 or value.requires_grad:
        return NOT_THIS
    return value.item()


def _whole(value: Any) -> Any:
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    found = _element(value)
    return found if isinstance(found, int) else NOT_THIS


def _real(value: Any) -> Any:
    if isinstance(value, np.integer | np.floating | np.bool_):
        return value.item()
    if isinstance(value, int | float):
        return value
    found = _element(value)
    return NOT_THIS if isinstance(found, complex) else found


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else NOT_THIS


def _python_dtype(value: Any) -> Any:
    """The dtype that a class of Python's numbers stands for."""
    return _DTYPES.get(value, NOT_THIS) if isinstance(value, type) else NOT_THIS


_DTYPES = {bool: bool_, int: int64, float: float64, complex: complex128}
FLAG = Kind("bool", (bool,))
WHOLE = Kind("int", (int,), _whole)
REAL = Kind("float", (float, int, bool), _real)
TEXT = Kind("str", (str,), _text)
DTYPE = Kind("torch.dtype", (dtype,), _python_dtype)
_OF_ANNOTATIONS = {
    "bool": FLAG, "int": WHOLE, "float": REAL, "str": TEXT, "dtype": DTYPE, "dt.dtype": DTYPE,
}  # fmt: skip


class Declared(NamedTuple):
    """A parameter whose kind is known."""

    kind: Kind
    position: int  # 0 where it is given by keyword only
    takes_none: bool


class Kinds:
    """The kinds of a public function's arguments.

    first: how many arguments by position need no look: those before the first declared one.

    fitted: what makes the arguments of a call fit; None where nothing is declared.
    """

    __slots__ = ("_known", "_name", "_parameters", "_positional", "first", "fitted")

    def __init__(
        self, name: str, positional: tuple[str, ...], parameters: dict[str, Declared]
    ) -> None:
        self._name = name.removeprefix("Tensor.")
        self._positional = positional
        self._parameters = parameters
        self._known: set[tuple[Any, ...]] = set()
        at = (i for i, n in enumerate(positional) if n in parameters)
        self.first = next(at, len(positional))
        self.fitted = self._fitted if parameters else None

    def all_fitted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same where it does not matter how long it takes."""
        return self._fitted(args, kwargs) if self._parameters else (args, kwargs)

    def _fitted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # hot
        """The arguments of a call, converted where they have to be; TypeError for one of
        another kind.
        """
        key = (*map(type, args), *kwargs, *map(type, kwargs.values()))
        return (args, kwargs) if key in self._known else self._looked_at(args, kwargs, key)

    def _looked_at(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], key: tuple[Any, ...]
    ) -> Any:
        names = self._positional
        given = [self._one(n, v) for n, v in zip(names, args, strict=False)]
        named = {n: self._one(n, v) for n, v in kwargs.items()}
        is_same = all(map(_same, given, args)) and all(map(_same, named.values(), kwargs.values()))
        if is_same:
            self._known.add(key)
        return (*given, *args[len(names) :]), named

    def _one(self, name: str, value: Any) -> Any:
        declared = self._parameters.get(name)
        if declared is None or (value is None and declared.takes_none):
            return value
        kind = declared.kind
        if type(value) in kind.classes:
            return value
        found = kind.converted(value)
        if found is NOT_THIS:
            raise errors.wrong_kind(self._name, name, declared.position, kind.name, value)
        return found


def _same(one: Any, other: Any) -> bool:
    return one is other


def kinds_of(function: Function, name: str) -> Kinds:
    """The kinds of a function's arguments.

    name: what users call the function; a method's begins with "Tensor.".
    """
    code = _innermost(function).__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    declared = dict(_declared(function.__annotations__, names, count, name))
    return Kinds(name, names[:count], declared)


def is_declared(function: Function) -> bool:
    """Whether the kind of some argument is known."""
    return kinds_of(function, "").fitted is not None


def _declared(
    annotations: dict[str, Any], names: tuple[str, ...], count: int, name: str
) -> Iterator[tuple[str, Declared]]:
    first = 0 if name.startswith("Tensor.") else 1
    for place, parameter in enumerate(names, first):
        text = annotations.get(parameter)
        if not isinstance(text, str):
            continue
        kind = _OF_ANNOTATIONS.get(text.removesuffix(" | None"))
        if kind is not None:
            position = place if place < count + first else 0
            yield parameter, Declared(kind, position, text.endswith(" | None"))


def _innermost(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function
