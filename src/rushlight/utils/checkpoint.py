"""`torch.utils.checkpoint`: inner values of parts of a network are computed again in backward.

Note: how much memory is kept. Without reentry the first run saves nothing but places in a list;
when backward asks for the first of them, what was recorded so far is computed, and the function
runs again and fills the list. So the inner values of one checkpointed part exist at a time.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any  # functions of any signature are run

import rushlight as rl
from rushlight import amp
from rushlight.amp import state as autocast_state
from rushlight.autograd import engine
from rushlight.autograd.function import Function
from rushlight.autograd.graph import saved_tensors_hooks
from rushlight.ops import batching
from rushlight.random.generator import default_generator, drawing_from
from rushlight.tensor import Tensor
from rushlight.trace import packing
from rushlight.trace.trace import flush
from rushlight.trace.value import Value
from rushlight.utils import checkpoint_policies
from rushlight.utils.checkpoint_policies import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

ContextPair = tuple[contextlib.AbstractContextManager, contextlib.AbstractContextManager]


class CheckpointError(RuntimeError):
    """The second run of a checkpointed function saved other tensors than the first."""


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The random states of the accelerators that hold an argument: of none."""
    return [], []


def set_device_states(
    devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None
) -> None:
    """Set the random states of accelerators: there are none to name."""
    if len(devices):
        raise RuntimeError(f"set_device_states: no device {devices[0]} of type {device_type}")


class DefaultDeviceType:
    """The type of device whose random state is kept when no argument tells: kept for programs
    that set it; the CPU's is always kept.
    """

    _name = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        DefaultDeviceType._name = device

    @staticmethod
    def get_device_type() -> str:
        return DefaultDeviceType._name


def noop_context_fn() -> ContextPair:
    """Nothing around the first run, and nothing around the second."""
    return contextlib.nullcontext(), contextlib.nullcontext()


class _Switches:
    early_stop: bool | None = None  # what overrides the callers' choice
    debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether second runs inside stop once everything that is needed has been computed."""
    before, _Switches.early_stop = _Switches.early_stop, enable
    try:
        yield
    finally:
        _Switches.early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Accepted for programs that use it: errors always say which saved tensor differs."""
    before, _Switches.debug = _Switches.debug, enabled
    try:
        yield
    finally:
        _Switches.debug = before


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], ContextPair] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)`, whose inner values are computed again for backward.

    use_reentrant: False keeps the gradient graph of the function and is the better choice; True
    runs a backward of its own inside (positional tensors only, no `torch.autograd.grad`).
    preserve_rng_state=False lets the second run draw other random numbers. context_fn gives two
    context managers, for the first and for the second run.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint
    >>> x = torch.ones(2, requires_grad=True)
    >>> checkpoint(lambda x: x.exp().exp().sum(), x, use_reentrant=False).backward()
    >>> x.grad
    tensor([41.1936, 41.1936])
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if _reentrant(use_reentrant, "checkpoint"):
        if kwargs:
            raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError(
                "Passing `context_fn` or `debug` is only supported when use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve, *args)
    if determinism_check not in ("default", "none"):
        raise ValueError(
            f"determinism_check should be one of 'default', 'none', got {determinism_check}"
        )
    around_first, around_second = context_fn()
    if not rl.is_grad_enabled():
        with around_first:
            return function(*args, **kwargs)
    stops = early_stop if _Switches.early_stop is None else _Switches.early_stop
    surroundings = _Surroundings(preserve, around_second)
    again = _Again(
        functools.partial(_run_kept, function, [_kept(a) for a in args], _kept_values(kwargs)),
        surroundings,
        stops_early=stops,
        is_checked=determinism_check == "default",
    )
    noted = batching.noting(surroundings.batches)
    with saved_tensors_hooks(again.note, again.saved), noted, around_first:
        return function(*args, **kwargs)


def _reentrant(use_reentrant: bool | None, name: str) -> bool:
    if use_reentrant is not None:
        return use_reentrant
    warnings.warn(
        f"torch.utils.checkpoint.{name}: the use_reentrant parameter should be passed "
        f"explicitly. use_reentrant=False is recommended; the default is still True.",
        stacklevel=3,
    )
    return True


# ---- the second run


class _Surroundings:
    """Random numbers, autocast and the numbers of batches as they were at the first run, and
    the caller's context.
    """

    def __init__(
        self, preserve_rng_state: bool, around: contextlib.AbstractContextManager
    ) -> None:
        self.around = around
        self.batches: list[int] = []
        self.draws = default_generator.place if preserve_rng_state else None
        self.autocast = {
            "enabled": autocast_state.is_autocast_enabled("cpu"),
            "dtype": autocast_state.get_autocast_dtype("cpu"),
        }

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        draws = contextlib.nullcontext() if self.draws is None else drawing_from(self.draws)
        lowered = amp.autocast("cpu", **self.autocast)
        repeated = batching.repeating(self.batches)
        with draws, rl.enable_grad(), lowered, repeated, self.around:
            yield


class _Argument:
    """A tensor argument, kept for the second run through whatever hooks surround the first."""

    def __init__(self, tensor: Tensor) -> None:
        self.requires_grad = tensor.requires_grad
        self.kept = packing.keep(tensor)

    def tensor(self) -> Tensor:
        return self.kept.tensor().detach().requires_grad_(self.requires_grad)


class _Enough(Exception):
    """Everything that backward needs has been computed again."""


class _Again:
    """How to run a function again, and what the second run saved, by place."""

    def __init__(
        self,
        function: Callable[[contextlib.AbstractContextManager], None],
        surroundings: _Surroundings,
        *,
        stops_early: bool,
        is_checked: bool,
    ) -> None:
        self.function, self.surroundings = function, surroundings
        self.stops_early, self.is_checked = stops_early, is_checked
        self.holding = 0  # operations that may go on although everything was saved
        self.kinds: list[tuple[Any, Any]] = []  # shape and dtype of what the first run saved
        self.found: dict[int, Tensor] = {}

    def note(self, tensor: Tensor) -> int:
        """Pack: the first run keeps no tensor, only its place."""
        self.kinds.append((tensor.shape, tensor.dtype))
        return len(self.kinds) - 1

    def saved(self, place: int) -> Tensor:
        """Unpack: what the second run saved at this place."""
        if place not in self.found:
            self.run()
        return self.found.pop(place)

    def run(self) -> None:
        flush()  # the first run must not be computed together with the second
        self.found = {}
        self.count = self.holding = 0
        checkpoint_policies.runs.append(self)
        try:
            with self.surroundings.restored():
                self.function(saved_tensors_hooks(self._take, lambda tensor: tensor))
        except _Enough:
            pass
        finally:
            checkpoint_policies.runs.pop()
        if self.count < len(self.kinds):
            raise CheckpointError(
                f"torch.utils.checkpoint: A different number of tensors was saved during the "
                f"original forward and recomputation. Number of tensors saved during forward: "
                f"{len(self.kinds)}, during recomputation: {self.count}."
            )

    def _take(self, tensor: Tensor) -> Tensor:
        place = self.count
        self.count += 1
        if place >= len(self.kinds):
            raise CheckpointError(
                f"torch.utils.checkpoint: trying to save more tensors during recomputation "
                f"than during the original forward pass ({len(self.kinds)})."
            )
        kind = (tensor.shape, tensor.dtype)
        if self.is_checked and kind != self.kinds[place]:
            raise CheckpointError(
                f"torch.utils.checkpoint: Recomputed values have different metadata than "
                f"during the forward pass: saved tensor {place} was {self.kinds[place]}, and "
                f"is {kind} now."
            )
        self.found[place] = tensor.detach()
        self._stop_if_done()
        return tensor  # for a backward inside the function

    def _stop_if_done(self) -> None:
        if self.stops_early and not self.holding and self.count == len(self.kinds):
            raise _Enough

    @contextlib.contextmanager
    def unstopped(self) -> Iterator[None]:
        """Let an operation end whose results may be replaced."""
        self.holding += 1
        try:
            yield
        finally:
            self.holding -= 1
        self._stop_if_done()

    def replace(self, made: Value, kept: Value) -> None:
        """A result that was saved has the elements that the first run kept."""
        for tensor in self.found.values():
            if tensor._storage.value is made:
                tensor._storage.value = kept


def _kept(argument: Any) -> Any:
    return _Argument(argument) if isinstance(argument, Tensor) else argument


def _kept_values(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: _kept(a) for name, a in arguments.items()}


def _given(argument: Any) -> Any:
    return argument.tensor() if isinstance(argument, _Argument) else argument


def _run_kept(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    hooks: contextlib.AbstractContextManager,
) -> None:
    """Run the function under `hooks` on arguments that were kept (outside them)."""
    args = [_given(a) for a in args]
    kwargs = {name: _given(a) for name, a in kwargs.items()}
    with hooks:
        function(*args, **kwargs)


# ---- with reentry


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn when no input requires a gradient: then parameters inside would get none either."""
    if not any(isinstance(x, Tensor) and x.requires_grad for x in inputs):
        warnings.warn(
            "None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2
        )


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple without history; they require gradients as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: "
            f"{type(inputs).__name__}"
        )
    return tuple(
        x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x
        for x in inputs
    )


class CheckpointFunction(Function):
    """A function run without a tape, and again with one when its backward comes."""

    _passes_samples = True

    @staticmethod
    def forward(ctx: Any, run_function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.surroundings = _Surroundings(preserve_rng_state, contextlib.nullcontext())
        ctx.is_tensor = [isinstance(a, Tensor) for a in args]
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.needs = [isinstance(a, Tensor) and a.requires_grad for a in args]
        ctx.save_for_backward(*(a for a in args if isinstance(a, Tensor)))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        walk = engine.current_walk()
        if walk is not None and walk.wanted is not None:
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() "
                "or passing an `inputs` parameter to .backward(). To resolve this error, you "
                "can either set use_reentrant=False, or call .backward() without passing the "
                "`inputs` argument."
            )
        inputs = _reentry_inputs(ctx)
        flush()
        with ctx.surroundings.restored():
            outputs = ctx.run_function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        pairs = [
            (out, grad)
            for out, grad in zip(outputs, grads, strict=True)
            if isinstance(out, Tensor) and out.requires_grad
        ]
        if not pairs:
            raise RuntimeError(
                "none of output has requires_grad=True, this checkpoint() is not necessary"
            )
        rl.autograd.backward([out for out, _ in pairs], [grad for _, grad in pairs])
        return (None, None, *(x.grad if isinstance(x, Tensor) else None for x in inputs))


def _reentry_inputs(ctx: Any) -> list[Any]:
    saved = iter(ctx.saved_tensors)
    inputs = []
    for is_tensor, other, needs in zip(ctx.is_tensor, ctx.others, ctx.needs, strict=True):
        inputs.append(next(saved).detach().requires_grad_(needs) if is_tensor else other)
    return inputs


# ---- sequences


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """A Sequential (or list of functions) in `segments` parts, all but the last checkpointed.

    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint_sequential
    >>> model = torch.nn.Sequential(*(torch.nn.Tanh() for _ in range(4)))
    >>> x = torch.zeros(3, requires_grad=True)
    >>> checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    >>> x.grad
    tensor([1., 1., 1.])
    """
    reentrant = _reentrant(use_reentrant, "checkpoint_sequential")
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError(f"Unexpected keyword arguments: {','.join(kwargs)}")
    if isinstance(functions, rl.nn.Sequential):
        functions = list(functions.children())
    size = len(functions) // segments
    start = 0
    for start in range(0, size * (segments - 1), size):
        part = _in_a_row(functions[start : start + size])
        input = checkpoint(part, input, use_reentrant=reentrant, preserve_rng_state=preserve)
        start += size
    return _in_a_row(functions[start:])(input)


def _in_a_row(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run
