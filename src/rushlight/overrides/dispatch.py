"""`__torch_function__`: functions that a class of the program's takes over.

Note: overriding. PyTorch looks at the type of every argument of every call. Here nothing does
until a class that overrides is there: a subclass of Tensor that was defined, a mode, or an
object with `__torch_function__` that a function could not take. Then `activate` exchanges the
code of every public function, so that it looks at its arguments from there on. Functions stay
the objects they are: what a program imported or compares by identity goes on to work. The
library's own calls between operations use other function objects and are not changed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FunctionType
from typing import Any  # functions of any signature, operands of any class

from rushlight import errors
from rushlight.config import process
from rushlight.surface import NAMESPACES
from rushlight.tensor import Tensor, disabled_torch_function
from rushlight.tensor_operators import Operators

Function = Callable[..., Any]


class _Scopes(threading.local):
    modes: tuple[Any, ...] = ()  # the innermost last
    no_subclasses = False
    no_modes = False
    running: Any = None  # the function that the default handler calls


scopes = _Scopes()

# -- which arguments override

_PLAIN = frozenset((Tensor, int, float, bool, complex, str, type(None), dict, slice))


def _overrides(kind: type) -> bool:
    method = getattr(kind, "__torch_function__", None)
    if method is None or method is disabled_torch_function:
        return False
    return not errors.is_foreign(kind)  # PyTorch's own method calls the function again


def _candidates(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        kind = type(value)
        if kind is tuple or kind is list:
            yield from (v for v in value if type(v) not in _PLAIN)
        elif kind not in _PLAIN:
            yield value


def overloaded(values: Iterable[Any]) -> list[Any]:
    """One argument of each class that overrides: subclasses first, else as they come."""
    found: list[Any] = []
    for value in _candidates(values):
        kind = type(value)
        if isinstance(value, type) or not _overrides(kind):
            continue
        if any(type(other) is kind for other in found):
            continue
        at = next((i for i, o in enumerate(found) if issubclass(kind, type(o))), len(found))
        found.insert(at, value)
    return found


# -- calls


def dispatch(public: Function, plain: Function, args: Any, kwargs: Any) -> Any:
    """A call of a public function: what a mode or an argument makes of it, or what it does."""
    has_mode = scopes.modes and not scopes.no_modes
    if scopes.no_subclasses and not has_mode:
        return plain(*args, **kwargs)
    found = overloaded((*args, *kwargs.values()) if kwargs else args)
    if not found and not has_mode:
        return plain(*args, **kwargs)
    return handle(public, plain, found, args, kwargs)


def handle(public: Function, plain: Function, found: list[Any], args: Any, kwargs: Any) -> Any:
    """Ask the innermost mode, then every class that overrides, until one has a result."""
    kinds = tuple([type(value) for value in found])
    if scopes.modes and not scopes.no_modes:
        result = _ask_mode(public, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    if scopes.no_subclasses:
        return plain(*args, **kwargs)
    for value in found:
        result = value.__torch_function__(public, kinds, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(public, "__qualname__", None) or repr(public)
    raise TypeError(
        f"Multiple dispatch failed for {name!r}; all __torch_function__ handlers returned "
        f"NotImplemented: {', '.join(kind.__name__ for kind in kinds) or 'a mode'}"
    )


def _ask_mode(public: Function, kinds: tuple[type, ...], args: Any, kwargs: Any) -> Any:
    modes = scopes.modes
    scopes.modes = modes[:-1]
    try:
        return modes[-1].__torch_function__(public, kinds, args, kwargs)
    finally:
        scopes.modes = modes


# -- exchanging code


@functools.cache
def _template(free: int) -> CodeType:
    """Code that calls its one constant, for a function that closes over `free` variables. It
    must take these up although it reads none: whoever looks at its frame (a debugger) does.
    """
    names = [f"free{i}" for i in range(free)]
    text = "\n    ".join((
        f"def maker({', '.join(names)}):",
        "def template(*args, **kwargs):",
        "    dispatching = 'dispatching'",
        "    return dispatching(args, kwargs)",
        *[f"    {name}" for name in names],  # never reached
        "return template",
    ))  # fmt: skip
    made: dict[str, Any] = {}
    exec(compile(text, __file__, "exec"), made)
    code: CodeType = made["maker"](*names).__code__
    return code


def _watch(function: FunctionType, public: Any = None) -> None:
    """Make a function look at its arguments; `public` is what handlers are told was called."""
    plain = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    plain.__kwdefaults__ = function.__kwdefaults__
    plain.__qualname__ = function.__qualname__  # Python's own messages say it
    plain.__dict__.update(function.__dict__)
    told = function if public is None else public

    def dispatching(args: Any, kwargs: Any) -> Any:
        return dispatch(told, plain, args, kwargs)

    code = _template(len(function.__code__.co_freevars))
    function.__wrapped__ = plain  # type: ignore[attr-defined]  # for inspect.signature
    function.__defaults__ = function.__kwdefaults__ = None
    function.__code__ = code.replace(
        co_name=function.__name__,
        co_qualname=function.__qualname__,
        co_freevars=function.__code__.co_freevars,
        co_consts=tuple([dispatching if c == "dispatching" else c for c in code.co_consts]),
    )


_KEPT = {  # what no class takes over
    "__hash__", "__init_subclass__", "__iter__", "__new__", "__torch_function__", "as_subclass",
    "is_storage", "is_tensor",
}  # fmt: skip
# operators whose handlers are told that a method was called, as by PyTorch
_METHOD_OF = {
    "__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul",
    "__truediv__": "div", "__div__": "div", "__pow__": "pow", "__mod__": "remainder",
    "__matmul__": "matmul", "__neg__": "neg", "__abs__": "abs", "__lt__": "lt", "__le__": "le",
    "__gt__": "gt", "__ge__": "ge", "__iadd__": "add_", "__isub__": "sub_", "__imul__": "mul_",
    "__itruediv__": "div_", "__idiv__": "div_",
}  # fmt: skip
_lock = threading.Lock()


def activate() -> None:
    """Make every public function, method and property look at its arguments."""
    with _lock:
        if process.has_overrides:
            return
        process.has_overrides = True
        for function in public_functions():
            if function.__name__ not in _KEPT:
                _watch(function)
        for name, member in tensor_members().items():
            _watch_member(name, member)


def public_functions() -> list[FunctionType]:
    """The functions of every namespace, each once."""
    found = {id(f): f for space in NAMESPACES.values() for f in space.values()}
    return list(found.values())  # type: ignore[arg-type]


def tensor_members() -> dict[str, Any]:
    """The attributes of Tensor's class, with the operators of its base."""
    return {**vars(Operators), **vars(Tensor)}


def is_method(name: str, member: Any) -> bool:
    """Whether an attribute of Tensor's class is one that classes may take over."""
    if name in _KEPT or (name.startswith("_") and not name.startswith("__")):
        return False
    return isinstance(member, FunctionType | property)


def _watch_member(name: str, member: Any) -> None:
    if not is_method(name, member):
        return
    if isinstance(member, property):
        _watch(member.fget, member.__get__)  # type: ignore[arg-type]
        if member.fset is not None:
            _watch(member.fset, member.__set__)  # type: ignore[arg-type]
    elif not hasattr(member, "__wrapped__") or member.__code__.co_name != "template":
        _watch(member, getattr(Tensor, _METHOD_OF.get(name, name)))
