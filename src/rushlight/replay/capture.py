"""Watching one call: the program it ran, where that read and wrote, and what else it touched.

`Refused` says why a call cannot be repeated without its Python.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any  # the user's function and its arguments

from rushlight import pipeline
from rushlight.optim import batch as steps
from rushlight.random import generator as random
from rushlight.replay.guards import HARMLESS_MODULES, Guards, is_ours, is_users
from rushlight.tensor import Tensor
from rushlight.trace.trace import Trace, hooks, local
from rushlight.trace.trie import Edge
from rushlight.trace.value import Storage, Value

# C functions that only look at their arguments, or change what the guards compare.
# fmt: off
_BUILTINS = frozenset((
    "abs", "all", "any", "bin", "callable", "chr", "divmod", "format", "hash", "hex",
    "isinstance", "issubclass", "len", "max", "min", "oct", "ord", "pow", "repr", "round",
    "sorted", "sum",
))
_TYPES = (
    str, bytes, int, float, complex, bool, tuple, list, dict, set, frozenset,
    types.GeneratorType,
)
# fmt: on


# Properties of tensors and streams that the guards do not compare.
_LOOKS = frozenset((
    "_version", "storage_offset", "data_ptr", "untyped_storage", "storage", "manual_seed",
    "seed", "initial_seed", "get_rng_state", "set_rng_state", "get_state", "set_state",
))  # fmt: skip


class Refused(Exception):
    """A call that has to be made in Python; the message says why."""


@dataclass(slots=True)
class Flush:
    """One flush of the call: its program, what that read, and the objects that received it."""

    edge: Edge
    key: pipeline.RequestKey
    targets: pipeline.Targets
    leaves: list[Any]  # buffers
    numbers: list[Any]
    written: list[Storage]
    is_new: bool
    program: Any = None


@dataclass(slots=True)
class Draw:
    """Random numbers taken: the generator, how many, and where the trace's numbers say so."""

    generator: random.Generator
    count: int
    at: int
    first: int  # the counter of the first


@dataclass(slots=True)
class Step:
    """An optimizer's step: its batches, each with the states of its parameters, and where its
    floats are among the trace's numbers.
    """

    optimizer: Any
    batches: list[tuple[Any, list[dict[str, Any]]]]
    at: int


@dataclass(slots=True)
class Capture:
    """What a call did."""

    guards: Guards = field(default_factory=Guards)
    flushes: list[Flush] = field(default_factory=list)
    draws: list[Draw] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    copies: dict[int, Any] = field(default_factory=dict)  # buffers by the id of their copy
    gradients: dict[int, Any] = field(default_factory=dict)  # by tensor, as they were found
    names: set[str] = field(default_factory=set)  # that the user's code uses
    entered: set[types.CodeType] = field(default_factory=set)
    obstacle: str = ""
    trace: Trace = field(default_factory=lambda: local.trace)
    stream: tuple[int, int] = field(default_factory=lambda: _position())

    def refuse(self, why: str) -> None:
        """Remember the first reason not to repeat this call."""
        self.obstacle = self.obstacle or why

    # -- Python

    def profile(self, frame: types.FrameType, event: str, argument: Any) -> None:
        """What the interpreter says of calls; the library's own are of no interest."""
        if event not in ("call", "c_call") or not _is_for_user(frame):
            return
        if event == "call":
            self._enter(frame)
        elif not _is_harmless(argument):
            self.refuse(f"it calls {_name_of(argument)}")

    def _enter(self, frame: types.FrameType) -> None:
        code = frame.f_code
        for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            argument = frame.f_locals.get(name)
            if hasattr(argument, "__dict__") and not isinstance(argument, Tensor):
                self.note(argument)
        if code in self.entered:
            return
        self.entered.add(code)
        self.names.update(code.co_names)
        for function in _functions_of(code):
            self.note(function)

    def note(self, found: Any) -> None:
        """An object that the call may read: its state, and the gradients of its tensors."""
        self.guards.note(found)
        for key, tensor in self.guards.tensors.items():
            if key not in self.gradients:
                self.gradients[key] = tensor._grad

    # -- the runtime

    def flushed(self, trace: Trace, edge: Edge, alive: list[Value]) -> None:
        """Run a flush, and remember it."""
        if trace is not self.trace:
            pipeline.execute(trace, edge, alive)
            return
        key, targets = pipeline.request_of(trace, alive)
        known = (edge.programs or {}).get(key)
        written = {id(s): s for s in (r() for r, _, _ in trace.mutated) if s is not None}
        flush = Flush(
            edge, key, targets, list(trace.leaves), list(trace.numbers),
            list(written.values()), known is None,
        )  # fmt: skip
        self.flushes.append(flush)
        pipeline.execute(trace, edge, alive)
        flush.program = pipeline.program_of(edge, key, whole=True)

    def _is_mine(self) -> bool:
        """Whether this is told by the thread that makes the call."""
        return local.trace is self.trace

    def read(self) -> None:
        if self._is_mine():
            self.refuse("it looks at a tensor's elements")

    def copied(self, value: Value) -> Value:
        made = pipeline.copy_value(value)
        self.copies[id(made.buffer)] = value.buffer
        return made

    def drew(self, generator: random.Generator, count: int) -> None:
        if self._is_mine():
            if generator is not random.default_generator:
                self.refuse("it draws from a generator of its own")
            at = len(self.trace.numbers)
            self.draws.append(Draw(generator, count, at, generator._counter))

    def stepped(self, optimizer: Any, batches: list[Any]) -> None:
        if not self._is_mine():
            return
        state = optimizer.state
        parts = [  # gradients would be kept alive
            (batch._replace(grads=[]), [state.get(param, {}) for param in batch.params])
            for batch in batches
        ]
        self.steps.append(Step(optimizer, parts, len(self.trace.numbers)))

    def end(self) -> None:
        """Look for what can only be told when the call is over."""
        looks = sorted(self.names & _LOOKS)
        if looks:
            self.refuse(f"it uses {looks[0]}")
        seed, counter = self.stream
        if _position() != (seed, counter + sum(draw.count for draw in self.draws)):
            self.refuse("it moves the stream of random numbers")


def _position() -> tuple[int, int]:
    """Where the default stream of random numbers is."""
    return random.default_generator._seed, random.default_generator._counter


@contextmanager
def watching(capture: Capture) -> Iterator[None]:
    """Have everything that happens on this thread told to `capture`."""
    before = hooks.execute, hooks.reading, hooks.copy_value
    hooks.execute, hooks.reading, hooks.copy_value = (
        capture.flushed, capture.read, capture.copied,
    )  # fmt: skip
    steps.Watch.step, random.Watch.draw = capture.stepped, capture.drew
    sys.setprofile(capture.profile)
    try:
        yield
    finally:
        sys.setprofile(None)
        steps.Watch.step = random.Watch.draw = None
        hooks.execute, hooks.reading, hooks.copy_value = before


def _is_for_user(frame: types.FrameType | None) -> bool:
    """Whether the user's code runs here: itself, or Python's or NumPy's on its behalf."""
    while frame is not None:
        module = frame.f_globals.get("__name__")
        if is_ours(module):
            return False
        if is_users(module):
            return True
        frame = frame.f_back
    return False


def _functions_of(code: types.CodeType) -> list[types.FunctionType]:
    """The functions that run this code: their closures and globals may be read."""
    import gc  # only when a call is captured

    return [f for f in gc.get_referrers(code) if isinstance(f, types.FunctionType)]


def _is_harmless(function: Callable[..., Any]) -> bool:
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return isinstance(owner, _TYPES) or owner in _TYPES
    module = getattr(function, "__module__", None)
    if module == "builtins" or module is None:
        return function.__name__ in _BUILTINS
    return module in HARMLESS_MODULES


def _name_of(function: Any) -> str:
    module = getattr(function, "__module__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{module}.{name}" if module not in (None, "builtins") else str(name)
