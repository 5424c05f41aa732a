"""Handles of hooks, hooks for all modules, and the gates through which backward hooks run."""

from __future__ import annotations

import itertools
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.nn.module import Module

Hooks = OrderedDict[int, Callable[..., Any]]
_serial = itertools.count()


class RemovableHandle:
    """Takes a hook away again: by `remove()`, or at the end of a `with` block."""

    next_id = 0

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        self.id = next(_serial)
        RemovableHandle.next_id = self.id + 1
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else (extra_dict,)
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra if d is not None)

    def remove(self) -> None:
        """Remove the hook; removing it twice does nothing."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            table = ref()
            if table is not None:
                table.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks = OrderedDict() if state[0] is None else state[0]
        self.hooks_dict_ref = weakref.ref(hooks)
        self.id = state[1]
        extra = [OrderedDict() if d is None else d for d in state[2]]
        self.extra_dict_ref = tuple(weakref.ref(d) for d in extra)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


def insert_hook(table: Any, handle: RemovableHandle, hook: Any, prepend: bool = False) -> None:
    """Enter a hook at the end of a table, or at its front."""
    table[handle.id] = hook
    if prepend:
        table.move_to_end(handle.id, last=False)


# ---- hooks of all modules

global_forward_pre: Hooks = OrderedDict()
global_forward: Hooks = OrderedDict()
global_forward_with_kwargs: OrderedDict[int, bool] = OrderedDict()
global_forward_always: OrderedDict[int, bool] = OrderedDict()
global_backward_pre: Hooks = OrderedDict()
global_backward: Hooks = OrderedDict()
global_backward_is_full: bool | None = None
global_buffer_registration: Hooks = OrderedDict()
global_module_registration: Hooks = OrderedDict()
global_parameter_registration: Hooks = OrderedDict()

CALL_TABLES = (global_forward_pre, global_forward, global_backward_pre, global_backward)


class _Watch:
    """Where nn.module leaves the function to call when a hook of all modules is registered."""

    on_register: Callable[[], None]


watch = _Watch()


def has_global_call_hooks() -> bool:
    """Must every call of every module look for hooks?"""
    return any(CALL_TABLES)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, args)` before the forward of every module."""
    return _register(global_forward_pre, hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call `hook(module, args, output)` after the forward of every module."""
    handle = RemovableHandle(
        global_forward, extra_dict=(global_forward_with_kwargs, global_forward_always)
    )
    if with_kwargs:
        global_forward_with_kwargs[handle.id] = True
    if always_call:
        global_forward_always[handle.id] = True
    return _enter(global_forward, handle, hook)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_output)` before the backward of every module."""
    return _register(global_backward_pre, hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, grad_input, grad_output)` after the backward of every module."""
    return _register_global_backward(hook, full=True)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """The older form of `register_module_full_backward_hook`; both cannot be in use at once."""
    return _register_global_backward(hook, full=False)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, buffer)` whenever a buffer is registered."""
    return _register(global_buffer_registration, hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, submodule)` whenever a submodule is registered."""
    return _register(global_module_registration, hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call `hook(module, name, parameter)` whenever a parameter is registered."""
    return _register(global_parameter_registration, hook)


def _register(table: Any, hook: Callable[..., Any]) -> RemovableHandle:
    return _enter(table, RemovableHandle(table), hook)


def _enter(table: Any, handle: RemovableHandle, hook: Callable[..., Any]) -> RemovableHandle:
    table[handle.id] = hook
    if any(table is t for t in CALL_TABLES):
        watch.on_register()
    return handle


def _register_global_backward(hook: Callable[..., Any], full: bool) -> RemovableHandle:
    global global_backward_is_full
    if global_backward and global_backward_is_full is not full:
        raise RuntimeError(
            "Cannot use both regular backward hooks and full backward hooks as a global Module "
            "hook. Please use only one of them."
        )
    global_backward_is_full = full
    return _register(global_backward, hook)


# ---- backward


class BackwardGates:
    """Two identities around a module's forward, whose derivatives call its backward hooks.

    The gradient passes the exit gate first: there the pre-hooks may replace `grad_output`. The
    entry gate sees `grad_input`, which the hooks may replace. Where no input needs a gradient,
    the hooks run at the exit gate with `grad_input` all None.
    """

    def __init__(self, module: Module, hooks: list[Any], pre_hooks: list[Any]) -> None:
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs: tuple[Any, ...] | None = None
        self.n_inputs = 0
        self.n_outputs = 0
        self.has_entry = False

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Pass the module's positional arguments through the entry gate."""
        self.n_inputs = len(args)
        if not self.hooks:
            return args
        spots = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        if not _needs_gradient(args[i] for i in spots):
            return args
        self.has_entry = True
        return _through_gate(self._after_backward, args, spots)

    def leave(self, output: Any) -> Any:
        """Pass the module's output, a tensor or a tuple or list of them, through the exit."""
        outputs = (output,) if isinstance(output, Tensor) else output
        if not isinstance(outputs, (tuple, list)):
            return output
        spots = [i for i, a in enumerate(outputs) if isinstance(a, Tensor)]
        self.n_outputs = len(outputs)
        if not _needs_gradient(outputs[i] for i in spots):
            return output
        passed = _through_gate(self._before_backward, tuple(outputs), spots)
        return passed[0] if isinstance(output, Tensor) else type(output)(passed)

    def _before_backward(self, spots: list[int], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        full = _spread(spots, grads, self.n_outputs)
        for hook in self.pre_hooks:
            full = _replaced(hook(self.module, full), full, "Backward pre hook", "grad_output")
        self.grad_outputs = full
        if self.hooks and not self.has_entry:
            self._call_hooks((None,) * self.n_inputs, frozen=True)
        return tuple(full[i] for i in spots)

    def _after_backward(self, spots: list[int], grads: tuple[Any, ...]) -> tuple[Any, ...]:
        full = self._call_hooks(_spread(spots, grads, self.n_inputs), frozen=False)
        return tuple(full[i] for i in spots)

    def _call_hooks(self, grad_inputs: tuple[Any, ...], frozen: bool) -> tuple[Any, ...]:
        for hook in self.hooks:
            result = hook(self.module, grad_inputs, self.grad_outputs)
            if result is None:
                continue
            if frozen and not all(g is None for g in _as_tuple(result)):
                raise RuntimeError(
                    "Backward hook for Modules where no input requires gradient should always "
                    "return None or None for all gradients."
                )
            grad_inputs = _replaced(result, grad_inputs, "Backward hook", "grad_input")
        return grad_inputs


def _needs_gradient(tensors: Any) -> bool:
    from rushlight import is_grad_enabled  # the namespace is complete only when modules run

    return is_grad_enabled() and any(t.requires_grad for t in tensors)


def _through_gate(
    on_backward: Callable[[list[int], tuple[Any, ...]], tuple[Any, ...]],
    values: tuple[Any, ...],
    spots: list[int],
) -> tuple[Any, ...]:
    """`values` with the tensors at `spots` replaced by identities whose backward calls back."""
    passed = _gate_function().apply(on_backward, spots, *(values[i] for i in spots))
    if isinstance(passed, Tensor):
        passed = (passed,)
    result = list(values)
    for i, tensor in zip(spots, passed, strict=True):
        result[i] = tensor
    return tuple(result)


_gate_class: Any = None


def _gate_function() -> Any:
    """The gate as an autograd Function, made at first use: autograd comes after nn.hooks."""
    global _gate_class
    if _gate_class is not None:
        return _gate_class
    from rushlight.autograd import Function

    class ModuleGate(Function):
        _passes_samples = True

        @staticmethod
        def forward(ctx: Any, on_backward: Any, spots: list[int], *tensors: Tensor) -> Any:
            ctx.set_materialize_grads(False)
            fixed = [t for t in tensors if not t.requires_grad]
            passed = tuple(t.view_as(t) for t in tensors)
            if fixed:
                ctx.mark_non_differentiable(
                    *(p for p, t in zip(passed, tensors, strict=True) if not t.requires_grad)
                )
            ctx.on_backward, ctx.spots = on_backward, spots
            return passed

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            return (None, None, *ctx.on_backward(ctx.spots, grads))

    _gate_class = ModuleGate
    return ModuleGate


def _spread(spots: list[int], grads: tuple[Any, ...], size: int) -> tuple[Any, ...]:
    full: list[Any] = [None] * size
    for i, grad in zip(spots, grads, strict=True):
        full[i] = grad
    return tuple(full)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _replaced(result: Any, old: tuple[Any, ...], who: str, what: str) -> tuple[Any, ...]:
    """What a hook returned, if it has as many gradients as there were; None keeps the old."""
    if result is None:
        return old
    new = _as_tuple(result)
    if len(new) != len(old):
        raise RuntimeError(
            f"{who} returned an invalid number of {what}, got {len(new)}, "
            f"but expected {len(old)}"
        )
    return new


def call_legacy_backward_hooks(module: Module, hooks: list[Any], output: Any) -> None:
    """Attach hooks of the older kind to the operation that made a module's output."""
    tensor = output
    while not isinstance(tensor, Tensor):
        if isinstance(tensor, dict):
            tensor = next(v for v in tensor.values() if isinstance(v, Tensor))
        else:
            tensor = tensor[0]
    node = tensor.grad_fn
    if node is None:
        return
    warnings.warn(
        "Using a non-full backward hook when the forward contains multiple autograd Nodes is "
        "deprecated; use register_full_backward_hook, which gets the gradients of the module's "
        "own inputs and outputs.",
        FutureWarning,
        stacklevel=4,
    )
    for hook in hooks:
        node.register_hook(_bound(hook, module))


def _bound(hook: Callable[..., Any], module: Module) -> Callable[..., Any]:
    def call(grad_input: Any, grad_output: Any) -> Any:
        return hook(module, grad_input, grad_output)

    return call
