"""`torch.compile` and `torch.compiler`: skipping a function's Python where that is safe.

Recording compiles every step already. What `compile` adds is that a call which would do what
the last one did is done again as a whole, without running the function's body.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any, NoReturn  # any function or module

import numpy

from rushlight import errors
from rushlight.arrays import from_numpy
from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.replay.function import Compiled
from rushlight.tensor import Tensor
from rushlight.trace import flush

MODES = ("default", "lite", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
BACKENDS = (
    "rushlight", "inductor", "eager", "eager_noexcept", "aot_eager",
    "aot_eager_decomp_partition", "pre_dispatch_eager",
)  # fmt: skip


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """The function or module itself: its operations are recorded and compiled as they are.

    With `mode="reduce-overhead"`, a function whose Python is skipped where a call would only
    repeat the last (`Compiled`). It pays for small models, whose Python takes longer than
    their arithmetic: give it the function that does the whole step, or the whole of an
    inference. A module is returned as it is, for what it computes is usually differentiated
    outside. Only what is made by this mode has the attributes of `Compiled` (`reason`,
    `skipped`): without it the result is `model` itself.

    mode: also "default", "lite", "max-autotune" and "max-autotune-no-cudagraphs", which all
    mean the same here. backend: by default `get_default_backend()`; "rushlight", or the name of
    one of PyTorch's that only choose how the same results are computed (`BACKENDS`): all mean
    the one there is. Other names raise RuntimeError; so do a mode together with options. A
    callable backend would be given a graph of PyTorch's, which is not there:
    NotImplementedError. The other options change nothing.

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2, mode="reduce-overhead")
    >>> for _ in range(4):
    ...     y = double(torch.ones(2))
    >>> y, double.skipped > 0
    (tensor([2., 2.]), True)
    """
    _check_mode(mode, options)
    _check_backend(get_default_backend() if backend is None else backend)
    if model is None:
        return functools.partial(compile, mode=mode, disable=disable)
    if not callable(model):
        raise RuntimeError(
            f"compile: expected a function or module, got {type(model).__name__}"
        )
    if disable or mode != "reduce-overhead" or isinstance(model, Compiled | Module):
        return model
    return Compiled(model)


def _check_mode(mode: str | None, options: dict[str, Any] | None) -> None:
    if mode is None:
        return
    if mode not in MODES:
        raise RuntimeError(
            f"compile: Unrecognized mode={mode}, should be one of: {', '.join(MODES)}"
        )
    if options is not None:
        raise RuntimeError("compile: either mode or options can be given, not both")


def _check_backend(backend: object) -> None:
    if callable(backend):
        raise errors.not_there("compile(backend=<function>)", "graphs for other compilers")
    if backend not in BACKENDS:
        raise RuntimeError(
            f"compile: Invalid backend: {backend!r}, should be one of: {', '.join(BACKENDS)}"
        )


def is_compiling() -> bool:
    """False: code never runs in a special mode."""
    return False


def is_dynamo_compiling() -> bool:
    """False, as `is_compiling`."""
    return False


def is_exporting() -> bool:
    """False, as `is_compiling`."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself; as a decorator too."""
    return fn if fn is not None else disable


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every operation it calls is recorded."""
    return fn


def assume_constant_result(fn: Any) -> Any:
    """The function itself: it is called whenever it is called."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Results have memory of their own: nothing ends with a step."""


class set_stance(contextlib.ContextDecorator):
    """Accepted for programs that use it: there is one way of running code, whatever stance."""

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: str | Callable[..., Any] | None = None,
    ) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The one there is."""
    return ["rushlight"]


_default: dict[str, str] = {"backend": "rushlight"}


def get_default_backend() -> str:
    """What `compile` takes for its backend where none is given."""
    return _default["backend"]


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """Give `compile` another default; None goes back to "rushlight". Raises as `compile` does
    for a backend that is not there.
    """
    if backend is not None:
        _check_backend(backend)
    _default["backend"] = "rushlight" if backend is None else str(backend)


def set_enable_guard_collectives(enabled: bool) -> bool:
    """Accepted, with what was set before: no decision here needs other processes."""
    before, _guards["collectives"] = _guards["collectives"], bool(enabled)
    return before


_guards = {"collectives": False}


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that leaves its function as it is: `original_fn` is called in any case, for
    Python functions are run and not read. Parameters that differ raise TypeError.
    """

    def check(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(original_fn) or not callable(traceable_fn):
            raise TypeError("substitute_in_graph expects functions")
        if not skip_signature_check:
            _check_parameters(original_fn, traceable_fn)
        return traceable_fn

    return check


def _check_parameters(original: Callable[..., Any], other: Callable[..., Any]) -> None:
    try:
        known = list(inspect.signature(original).parameters)
    except ValueError:  # a builtin that does not say
        return
    if known != (given := list(inspect.signature(other).parameters)):
        raise TypeError(f"Signature mismatch between {original} and {other}: {known}, {given}")


def load_compiled_function(
    file: Any, *, f_globals: Any = None, external_data: Any = None
) -> NoReturn:
    """Refused: functions are not compiled ahead of time, so no file holds one."""
    raise errors.not_there("load_compiled_function", "functions compiled ahead of time")


def save_cache_artifacts() -> None:
    """None, PyTorch's answer for "nothing to save": compiled programs are on disk already, and
    are found there by other processes.
    """


def load_cache_artifacts(serialized_artifacts: bytes) -> NoReturn:
    """Refused: `save_cache_artifacts` makes none."""
    raise errors.not_there(
        "load_cache_artifacts", "caches in bytes: programs are kept in files"
    )


# Filters of guards, for `options={"guard_filter_fn": ...}`. What is compared before a call is
# done again is decided by `replay/guards.py` alone, so nothing here calls them; a program may.


def skip_all_guards_unsafe(guard_entries: Any) -> list[bool]:
    """Keep none."""
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries: Any) -> list[bool]:
    """Keep those of what is no global."""
    return [not entry.is_global for entry in guard_entries]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """Keep all: none is one of a module."""
    return [True for _ in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries: Any) -> list[bool]:
    """Keep all: none is one of a module."""
    return [True for _ in guard_entries]


def keep_tensor_guards_unsafe(guard_entries: Any, keep_parameters: bool = False) -> list[bool]:
    """Keep those of tensors; of parameters only if asked."""
    return [
        entry.guard_type == "TENSOR_MATCH"
        and (keep_parameters or not isinstance(entry.value, Parameter))
        for entry in guard_entries
    ]


def keep_portable_guards_unsafe(guard_entries: Any) -> list[bool]:
    """Keep those of global states, of shapes, and of tensors that are no globals."""
    return [
        entry.guard_type in ("GLOBAL_STATE", "SHAPE_ENV")
        or (entry.guard_type == "TENSOR_MATCH" and not entry.is_global)
        for entry in guard_entries
    ]


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of NumPy arrays as one of tensors.

    >>> import numpy
    >>> import rushlight as torch
    >>> torch.compiler.wrap_numpy(numpy.sort)(torch.tensor([2.0, 1.0]))
    tensor([1., 2.])
    """

    @functools.wraps(fn)
    def inner(*args: Any, **kwargs: Any) -> Any:
        given = [a.numpy() if isinstance(a, Tensor) else a for a in args]
        named = {k: a.numpy() if isinstance(a, Tensor) else a for k, a in kwargs.items()}
        made = fn(*given, **named)
        return from_numpy(made) if isinstance(made, numpy.ndarray) else made

    return inner


def reset() -> None:
    """Compute what is pending; programs are kept, since they depend on nothing that can go
    stale.
    """
    flush()
