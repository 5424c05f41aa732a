"""`torch._dynamo`: what programs call of PyTorch's way to compile Python.

Python runs as it is here, and what it records is compiled. So marks and limits are accepted,
questions are answered, and what would hand out a graph raises.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn  # Any: functions and modules of all kinds

from rushlight import errors
from rushlight._dynamo import config, eval_frame, external_utils, utils
from rushlight._dynamo.eval_frame import OptimizedModule, is_dynamo_supported
from rushlight.compiler import (
    allow_in_graph,
    assume_constant_result,
    compile,
    disable,
    is_compiling,
    list_backends,
    reset,
    set_stance,
)

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "config", "disable",
    "disallow_in_graph", "eval_frame", "explain", "export", "external_utils", "forbid_in_graph",
    "graph_break", "is_compiling", "is_dynamo_supported", "list_backends", "lookup_backend",
    "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic", "optimize",
    "register_backend", "reset", "reset_code_caches", "run", "set_stance", "utils",
]  # fmt: skip


def optimize(backend: Any = "inductor", **options: Any) -> Callable[[Any], Any]:
    """A decorator that does what `torch.compile(backend=backend)` does."""
    return lambda function: compile(function, backend=backend)


def run(fn: Any = None) -> Any:
    """The function itself; as a decorator too."""
    return fn if fn is not None else run


def disallow_in_graph(fn: Any) -> Any:
    """The function itself: whatever it calls runs as it is."""
    return fn


forbid_in_graph = disallow_in_graph


def register_backend(
    compiler_fn: Any = None, name: str | None = None, tags: tuple[str, ...] = ()
) -> Any:
    """The function itself: `torch.compile` refuses backends that are functions of graphs."""
    return compiler_fn if compiler_fn is not None else register_backend


def lookup_backend(compiler_fn: Any) -> NoReturn:
    """Refuse: there is no function that would be given a graph."""
    raise errors.not_there("_dynamo.lookup_backend", "graphs for other compilers")


def graph_break(msg: str = "") -> None:
    """Nothing: recording goes on over anything that Python does."""


def mark_dynamic(t: Any, index: Any, *args: Any, **kwargs: Any) -> None:
    """Accepted: a new size compiles nothing again."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t: Any, guard: bool = True) -> None:
    """Accepted: a tensor stays where it is."""


def reset_code_caches() -> None:
    """Compute what is pending, as `reset`."""
    reset()


def explain(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: a function is not cut into graphs. `rushlight.explain` shows the kernels that
    compute a tensor.
    """
    raise errors.not_there("_dynamo.explain", "graphs of functions")


def export(f: Any, *args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: a function is not made into a graph."""
    raise errors.not_there("_dynamo.export", "graphs of functions")
