"""`torch.jit` without TorchScript: functions and modules stay what they are.

Compiling a function by `script` or `trace` asks for the same results sooner, and everything is
compiled here as it runs; so both return what they are given. What needs a TorchScript program
(its file, its graph, its classes' instances) raises and says so.
"""

from __future__ import annotations

import builtins
import contextlib
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn  # Any: functions and modules of all kinds

from rushlight import errors
from rushlight.futures import Future
from rushlight.nn.module import Module

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule",
    "ScriptFunction", "ScriptModule", "ScriptWarning", "TopLevelTracedModule", "TracerWarning",
    "annotate", "enable_onednn_fusion", "export", "fork", "freeze", "fuser", "ignore",
    "interface", "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing",
    "script_method", "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip


def is_scripting() -> bool:
    """Whether this is run by TorchScript: never."""
    return False


def is_tracing() -> bool:
    """Whether a TorchScript trace is being made: never."""
    return False


# -- what compiles


def script(
    obj: Any,
    optimize: None = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """The function, class or module itself.

    Its Python runs at each call, with the meaning that it has in Python, and what it computes
    is compiled. The result has no `graph`, `code` or `save`.

    >>> import rushlight as torch
    >>> @torch.jit.script
    ... def double(x: torch.Tensor):
    ...     return x * 2
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if not callable(obj):
        raise RuntimeError(f"jit.script: expected a function, class or module, got {obj!r}")
    return obj


def trace(func: Any, example_inputs: Any = None, *args: Any, **options: Any) -> Any:
    """The function or module itself, as `script`: other inputs may take other branches.

    It is called once with `example_inputs` (a tuple, or one input) or with
    `example_kwarg_inputs`, so that a mistake shows here and its kernels are compiled.
    """
    named = options.get("example_kwarg_inputs")
    if example_inputs is None and named is None:
        raise RuntimeError("jit.trace: example_inputs should be given")
    is_tuple = builtins.isinstance(example_inputs, tuple)
    given = () if named is not None else example_inputs if is_tuple else (example_inputs,)
    func(*given, **(named or {}))
    return func


def trace_module(mod: Module, inputs: dict[str, Any], *args: Any, **options: Any) -> Module:
    """The module itself; each named method is called once with its inputs."""
    if not builtins.isinstance(inputs, dict):
        raise AttributeError("jit.trace_module: expected a dictionary of (method_name, input)")
    for name, given in inputs.items():
        getattr(mod, name)(*given if builtins.isinstance(given, tuple) else (given,))
    return mod


def freeze(
    mod: Module, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True
) -> Module:
    """The module itself, which must be in evaluation mode."""
    if mod.training:
        raise RuntimeError("jit.freeze: the module must be in eval mode: call its eval()")
    return mod


def optimize_for_inference(mod: Module, other_methods: list[str] | None = None) -> Module:
    """The module itself."""
    return mod


def optimized_execution(should_optimize: bool) -> contextlib.AbstractContextManager[None]:
    """A context that changes nothing: programs are always optimized."""
    return contextlib.nullcontext()


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """A context that changes nothing: there is one way to fuse."""
    yield


class strict_fusion(contextlib.nullcontext[None]):
    """A context that changes nothing: all that can be fused is."""


def set_fusion_strategy(strategy: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Accepted: programs are specialised by their structure, and never given up."""
    return strategy


def enable_onednn_fusion(enabled: bool) -> None:
    """Accepted: oneDNN is not used."""


def onednn_fusion_enabled() -> bool:
    """Whether oneDNN fuses: it is not used."""
    return False


# -- marks for the compiler


def ignore(drop: Any = False, **_: Any) -> Any:
    """A decorator that leaves a method to Python, as all are: the method itself."""
    return drop if callable(drop) else (lambda function: function)


def _itself(function: Any) -> Any:
    """The function or class itself: the mark is for TorchScript."""
    return function


unused = export = interface = script_if_tracing = script_method = _itself
_overload = _overload_method = _drop = _itself


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is for TorchScript."""
    return the_value


class Attribute(typing.NamedTuple):
    """A value with the type that TorchScript would give it."""

    value: Any
    type: Any


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object has a type, which may be generic: `isinstance(x, list[int])`.

    >>> from rushlight import jit
    >>> jit.isinstance([1, 2], list[int]), jit.isinstance(["a"], list[int])
    (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    origin, args = typing.get_origin(target_type), typing.get_args(target_type)
    if target_type in (None, type(None)):
        return obj is None
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in args)
    return builtins.isinstance(obj, origin) and _has_parts(obj, origin, args)


def _has_parts(obj: Any, origin: type, args: tuple[Any, ...]) -> bool:
    if issubclass(origin, dict):
        return all(isinstance(k, args[0]) and isinstance(v, args[1]) for k, v in obj.items())
    if issubclass(origin, tuple):
        return len(obj) == len(args) and all(map(isinstance, obj, args))
    return all(isinstance(part, args[0]) for part in obj)


# -- what runs at the same time


def fork(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
    """A future of the call's result: outside TorchScript the call is made at once."""
    future: Future[Any] = Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future: Future[Any]) -> Any:
    """The future's result."""
    return future.wait()


# -- what there is none of


class Error(RuntimeError):
    """An error inside a TorchScript program: never raised."""


class TracerWarning(Warning):
    """A warning about what a trace does not keep: never given, as Python runs each time."""

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Ask for none of these warnings."""
        warnings.filterwarnings("ignore", category=TracerWarning)


class ScriptWarning(Warning):
    """A warning about a TorchScript program: never given."""


def _no_program(what: str) -> NoReturn:
    raise errors.not_there(f"jit.{what}", "TorchScript: no programs of it, and no files")


class ScriptFunction:
    """A TorchScript function: there are none, so nothing is an instance."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _no_program("ScriptFunction")


class CompilationUnit:
    """TorchScript source: refused when made."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _no_program("CompilationUnit")


class ScriptModule(Module):
    """A base class of older programs: a module like any other, without a program to save."""

    def save(self, f: Any, **_: Any) -> NoReturn:
        """Refuse: there is no TorchScript program."""
        _no_program("ScriptModule.save")

    @property
    def graph(self) -> NoReturn:
        """Refuse: there is no TorchScript program."""
        _no_program("ScriptModule.graph")

    @property
    def code(self) -> NoReturn:
        """Refuse: there is no TorchScript program."""
        _no_program("ScriptModule.code")


class RecursiveScriptModule(ScriptModule):
    """What PyTorch's `script` makes of a module: nothing is an instance."""


class TopLevelTracedModule(ScriptModule):
    """What PyTorch's `trace` makes of a module: nothing is an instance."""


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refuse: `torch.save(module.state_dict(), f)` keeps what a module has learned."""
    _no_program("save")


def load(
    f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False
) -> NoReturn:
    """Refuse: a TorchScript file holds a program in a language that nothing here reads."""
    _no_program("load")
