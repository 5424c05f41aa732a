"""What the arguments of public functions may be besides tensors: flags, whole numbers, numbers,
texts and dtypes, as the annotations of their parameters say.

The classes of a call's arguments are looked up among those of calls that were right before, so
looking at each argument is for the first call with such classes, and for those that are wrong
or have to be converted: NumPy's numbers and tensors of one element stand for Python's numbers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple  # arguments of any class

import numpy as np

from rushlight import errors
from rushlight.dtypes import bool_, complex128, dtype, float64, int64
from rushlight.views import ONLY_INT, whole_numbers

Function = Callable[..., Any]
NOT_THIS: Final = object()  # what a conversion gives for a value of another kind


# What parameters are annotated with where Python has no class for it.
Ints = Any  # whole numbers: one, or a list or tuple of them
IntList = Any  # a list or tuple of whole numbers
Number = Any  # a number of any kind, or a tensor of one


@dataclass(frozen=True, slots=True)
class Kind:
    """What one parameter takes: values of these classes as they are, others converted.

    of_elements: whether lists and tuples are taken too, as they are if all elements are int.
    """

    name: str  # as errors say it
    classes: frozenset[type]
    converted: Callable[[Any], Any] = lambda _: NOT_THIS
    of_elements: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it is of dimensions, sizes, places or counts."""
        return self.name in ("int", "tuple of ints")


def _element(value: Any) -> Any:
    """The element of a tensor that may stand for a number; NOT_THIS for others."""
    if not hasattr(value, "_storage") or value.ndim or value.requires_grad:
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


def _whole_of_list(value: Any) -> Any:
    """A whole number where a list may be: there a tensor may have dimensions."""
    if hasattr(value, "_storage") and value.numel() == 1:
        value = value.reshape(())
    return _whole(value)


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else NOT_THIS


def _whole_list(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return NOT_THIS
    try:
        return whole_numbers("", "", value)
    except TypeError:  # refused by the name of the parameter
        return NOT_THIS


def _whole_or_list(value: Any) -> Any:
    return _whole_list(value) if isinstance(value, list | tuple) else _whole_of_list(value)


def _number(value: Any) -> Any:
    if isinstance(value, np.number):
        return value.item()
    if isinstance(value, int | float | complex | np.bool_):  # the last is a number of its own
        return value
    return value if hasattr(value, "_storage") and value.ndim == 0 else NOT_THIS


def _python_dtype(value: Any) -> Any:
    """The dtype that a class of Python's numbers stands for."""
    return _DTYPES.get(value, NOT_THIS) if isinstance(value, type) else NOT_THIS


_DTYPES = {bool: bool_, int: int64, float: float64, complex: complex128}
_KINDS = {
    "bool": Kind("bool", frozenset((bool,))),
    "int": Kind("int", frozenset((int,)), _whole),
    "float": Kind("float", frozenset((float, int, bool)), _real),
    "str": Kind("str", frozenset((str,)), _text),
    "dtype": Kind("torch.dtype", frozenset((dtype,)), _python_dtype),
    "Number": Kind("Number", frozenset((float, int, bool, complex)), _number),
    "Ints": Kind("tuple of ints", frozenset((int,)), _whole_or_list, True),
    "IntList": Kind("tuple of ints", frozenset(), _whole_list, True),
}
_KINDS["dt.dtype"] = _KINDS["dtype"]
_OF_ANNOTATIONS = {text: (kind, False) for text, kind in _KINDS.items()}
_OF_ANNOTATIONS |= {f"{text} | None": (kind, True) for text, kind in _KINDS.items()}
_NEVER = 1 << 30  # more arguments than a call has


# Parameters that PyTorch's own Python code reads: any object is true or false there, and texts
# are compared with those that it knows.
_READ_BY_PYTHON = frozenset((
    "_stacklevel", "center", "compute_mode", "get_infos", "inplace", "reduce", "reduction",
    "return_indices", "size_average",
))  # fmt: skip
_PYTHON_FUNCTIONS = frozenset((
    "affine_grid", "embedding_bag", "gaussian_nll_loss", "grid_sample", "gumbel_softmax",
    "interpolate", "linear_cross_entropy", "lobpcg", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "multi_head_attention_forward", "triplet_margin_with_distance_loss",
    "upsample",
))  # fmt: skip


_PYTHON_MODULES = frozenset(("rushlight.masked",))
# Functions on the hot path: they take dimensions, flags and dtypes by functions that look.
_LOOK_THEMSELVES = frozenset((
    "all", "amax", "amin", "any", "argmax", "argmin", "cat", "chunk", "concat", "concatenate",
    "conv1d", "conv2d", "conv3d", "cumsum", "gather", "index_select", "mean", "split", "stack",
    "std", "sum", "unbind", "var",
))  # fmt: skip
_UNSET = frozenset(("pin_memory", "requires_grad"))  # flags that may also be None


Known = dict[tuple[Any, ...], tuple[Any, ...]]


class Declared(NamedTuple):
    """What a function's annotations say: the kinds of parameters, and whether None is one."""

    positional: tuple[str, ...]
    kinds: dict[str, tuple[Kind, bool]]
    first: int  # how many arguments by position come before those that have a kind
    known: Known  # classes of arguments that are taken, and where lists are among them


class Kinds:
    """The kinds of the arguments of a public function or method.

    first: how many arguments by position need no look.

    fitted: what makes the arguments of a call fit: `args, kwargs = fitted(args, kwargs)`.
    """

    __slots__ = ("_declared", "_known", "_name", "first", "fitted")

    def __init__(self, name: str, declared: Declared) -> None:
        self._name = name
        self._declared = declared
        self._known = declared.known
        self.first = declared.first
        self.fitted = self._fitted if declared.kinds else _as_given

    @property
    def is_declared(self) -> bool:
        """Whether any parameter has a kind."""
        return bool(self._declared.kinds)

    def _fitted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # hot
        """The arguments of a call, converted where they have to be; TypeError for one of
        another kind.
        """
        lists = self._known.get((*map(type, args), *kwargs, *map(type, kwargs.values())))
        if lists is None:
            return self._looked_at(args, kwargs)
        for place in lists:
            value = args[place] if type(place) is int else kwargs[place]
            if not ONLY_INT.issuperset(map(type, value)):
                return self._looked_at(args, kwargs)
        return args, kwargs

    def _looked_at(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        names = self._declared.positional
        given = [self._one(n, v) for n, v in zip(names, args, strict=False)]
        named = {n: self._one(n, v) for n, v in kwargs.items()}
        pairs = [*zip(names, args, strict=False), *kwargs.items()]
        if all(self._is_plain(n, v) for n, v in pairs):
            key = (*map(type, args), *kwargs, *map(type, kwargs.values()))
            self._known[key] = self._lists(args, kwargs)
        return (*given, *args[len(names) :]), named

    def _lists(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Where there are lists whose elements each call has to look at."""
        by_position = enumerate(zip(self._declared.positional, args, strict=False))
        given: list[tuple[Any, str, Any]] = [(i, n, v) for i, (n, v) in by_position]
        given += [(n, n, v) for n, v in kwargs.items()]
        return tuple(
            place
            for place, name, value in given
            if name in self._declared.kinds and isinstance(value, list | tuple)
        )

    def _is_plain(self, name: str, value: Any) -> bool:
        """Whether a value's class says that it is taken as it is."""
        kind, takes_none = self._declared.kinds.get(name, (None, True))
        if kind is None or (value is None and takes_none):
            return True
        if isinstance(value, list | tuple):
            return kind.of_elements and ONLY_INT.issuperset(map(type, value))
        return type(value) in kind.classes

    def _one(self, name: str, value: Any) -> Any:
        """A value as the parameter takes it."""
        if self._is_plain(name, value):
            return value
        kind, _ = self._declared.kinds[name]
        found = kind.converted(value)
        if found is NOT_THIS:
            op, position = self._name.removeprefix("Tensor."), self._position(name)
            raise errors.wrong_kind(op, name, position, kind.name, value)
        return found

    def _position(self, name: str) -> int:
        """A parameter's place as users count: `self` is none; 0 for one by keyword only."""
        names = self._declared.positional
        first = 0 if self._name.startswith("Tensor.") else 1
        return names.index(name) + first if name in names else 0


def _as_given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return args, kwargs


def kinds_of(function: Function, name: str) -> Kinds:
    """The kinds of a function's arguments.

    name: what users call the function; a method's begins with "Tensor.".
    """
    known = name.removeprefix("Tensor.")
    if known in _PYTHON_FUNCTIONS or known in _LOOK_THEMSELVES:
        return _NOTHING
    declared = declared_by(_innermost(function))
    return Kinds(name, declared) if declared.kinds else _NOTHING


@functools.cache
def declared_by(function: Any) -> Declared:
    """What the annotations of a function's own parameters say."""
    code = function.__code__
    count = code.co_argcount
    names = code.co_varnames[: count + code.co_kwonlyargcount]
    said = {} if function.__module__ in _PYTHON_MODULES else function.__annotations__
    kinds = {
        name: _OF_ANNOTATIONS[said[name]]
        for name in names
        if said.get(name) in _OF_ANNOTATIONS and name not in _READ_BY_PYTHON
    }
    if function.__module__.startswith("rushlight.ops"):  # not `tensor` itself
        kinds |= {name: (kinds[name][0], True) for name in _UNSET.intersection(kinds)}
    first = next((i for i, name in enumerate(names[:count]) if name in kinds), _NEVER)
    return Declared(names[:count], kinds, first, {})


def dtype_given(op: str, given: Any) -> dtype:
    """A dtype, for functions that look at their arguments themselves."""
    if isinstance(given, dtype):
        return given
    found = _python_dtype(given)
    if found is NOT_THIS:
        raise errors.wrong_kind(op, "dtype", 0, "torch.dtype", given)
    return found


def _innermost(function: Any) -> Any:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


_NOTHING = Kinds("", Declared((), {}, _NEVER, {}))
