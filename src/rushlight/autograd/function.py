"""Functions with a derivative of the user's own: `torch.autograd.Function`."""

from __future__ import annotations

import contextlib
import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any  # forward takes and returns anything

from rushlight import config, errors
from rushlight.autograd import custom_tangents, engine
from rushlight.autograd.grad_mode import enable_grad, no_grad
from rushlight.autograd.intermediates import Forward, Kept
from rushlight.ops import batching
from rushlight.ops.registry import Op, TensorType
from rushlight.tensor import Tensor
from rushlight.trace import inference, packing
from rushlight.trace.tape import AccumulateGrad, Node
from rushlight.trace.trace import local, recording
from rushlight.trace.value import Value
from rushlight.trace.write import adopt_history, current_node

FUNCTION = Op(  # only a gradient node: its rule is the user's `backward`
    "function",
    type=lambda *types: types,
    lower=lambda k, *refs: refs,
    vjp=None,
)


class _Saved:
    """A tensor as it was when it was saved: later writes to it change nothing."""

    __slots__ = ("node", "output", "state", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.state = (tensor._storage.value, tensor._view, tensor._shape, tensor.dtype)
        self.note_history(tensor)

    def note_history(self, tensor: Tensor) -> None:
        """Take the tensor's gradient history as its own (a result gets one after it was
        saved).
        """
        self.node, self.output = current_node(tensor), tensor._output

    def is_of(self, tensor: Any) -> bool:
        return self.tensor is tensor

    def of(self, tensor: Tensor) -> _Saved:
        """The same elements, as a tensor with another history."""
        return _Saved(tensor)

    def get(self) -> Tensor:
        if self.tensor._storage.value is self.state[0]:
            return self.tensor
        return self._with_history(engine.restore(self.state))

    def _with_history(self, found: Tensor) -> Tensor:
        found._node, found._output = self.node, self.output
        return found


class _SavedByHooks(_Saved):
    """What the hooks for saved tensors made of one; the tensor itself is not kept."""

    __slots__ = ("packed", "source")

    def __init__(self, tensor: Tensor) -> None:
        self.packed = packing.keep(tensor)
        self.source = weakref.ref(tensor)
        self.tensor = self.state = None  # type: ignore[assignment]
        self.note_history(tensor)

    def is_of(self, tensor: Any) -> bool:
        return self.source() is tensor

    def get(self) -> Tensor:
        return self._with_history(packing.Held.of(self.packed.tensor()).tensor())


class FunctionCtx:
    """What `forward` leaves for `backward`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: tuple[_Saved | None, ...] = ()
        self._for_tangents: tuple[Tensor | None, ...] | None = None
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self.materialize_grads = True
        self._node: Any = None
        self._intermediates: Kept | None = None

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (inputs, outputs or others) until backward."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but argument is of type "
                    f"{type(t).__name__}"
                )
        kind = _SavedByHooks if local.trace.packing else _Saved
        self._saved = tuple(None if t is None else kind(t) for t in tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for `jvp`, which runs right after `forward`."""
        self._for_tangents = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        if self._for_tangents is not None:
            return self._for_tangents
        if self._node is not None and self._node.freed:
            raise errors.graph_freed(self._node.name(), "")
        if self._was_read:
            raise RuntimeError(
                "saved_tensors can only be accessed once when "
                "clear_saved_tensors_on_access=True is set on the autograd.Function."
            )
        found = tuple(None if s is None else s.get() for s in self._saved)
        if self.clear_saved_tensors_on_access and self._node is not None:
            self._saved, self._was_read = (), True
        return found

    saved_variables = saved_tensors
    _was_read = False
    clear_saved_tensors_on_access = False  # whether looking at them in backward lets them go

    def mark_shared_storage(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """Accepted for programs that still call it: which tensors share memory is known."""

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Say which inputs `forward` wrote into; they must be among its results."""
        self._dirty = tensors

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Say which results never require gradients."""
        self._constant = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether missing gradients of results arrive as zeros (or None)."""
        self.materialize_grads = value

    # In PyTorch a ctx is its gradient node.

    def name(self) -> str:
        return type(self).__name__

    @property
    def next_functions(self) -> Any:
        return self._node.next_functions

    @property
    def metadata(self) -> dict[str, Any]:
        return self._node.metadata  # type: ignore[no-any-return]

    def register_hook(self, hook: Callable[..., Any]) -> Any:
        return self._node.register_hook(hook)

    def register_prehook(self, hook: Callable[..., Any]) -> Any:
        return self._node.register_prehook(hook)


class FunctionNode(Node):
    """The gradient node of one application; each Function has a class of nodes, named as
    PyTorch names it.
    """

    __slots__ = ("ctx", "function")
    ctx: Any  # what `forward` left, until the way on is cut
    function: type[Function]

    def name(self) -> str:
        return type(self).__name__

    def apply(self, grads: dict[int, Any]) -> Sequence[Any]:
        """Gradients of the arguments from those of the results."""
        return _run(self.function, self.ctx, self, grads)

    def __getattr__(self, name: str) -> Any:
        """`y.grad_fn.scale`: attributes that `forward` set on its ctx are the node's too."""
        if name in ("ctx", "function") or name.startswith("__") or self.ctx is None:
            raise AttributeError(f"{self.name()} has no attribute {name!r}")
        return getattr(self.ctx, name)

    def saves(self, value: Value) -> bool:
        return any(s is not None and s.state[0] is value for s in self.ctx._saved)

    def free(self) -> None:
        super().free()
        self.ctx._saved = ()

    def cut(self) -> None:
        super().cut()
        self.ctx = None

    @property
    def is_spent(self) -> bool:
        """Nobody knows what `backward` reads: a second backward may call it, but later work on
        its result does not keep it for that.
        """
        return self.freed

    def check_alive(self) -> None:
        if not self.next:
            raise errors.graph_freed(self.name(), "")


class Function(FunctionCtx):
    """An operation with a derivative of its own.

    >>> import rushlight as torch
    >>> class Double(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         return grad * 2
    >>> x = torch.ones(2, requires_grad=True)
    >>> Double.apply(x).sum().backward()
    >>> x.grad
    tensor([2., 2.])
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use "
            "new-style autograd function with static forward method."
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the results: `forward(ctx, *args)`, or `forward(*args)` with
        setup_context.
        """
        raise NotImplementedError(
            "You must implement the forward function for custom autograd.Function."
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keep what backward needs, when `forward` takes no ctx."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Gradients of the arguments of `forward` from those of its results."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom "
            "autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """Tangents of the results of `forward` from those of its arguments (None for arguments
        that are no tensors).
        """
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with "
            "forward mode AD."
        )

    boxed_grads_call = False  # whether `backward` takes its gradients as one list
    generate_vmap_rule = False  # whether `forward` may see samples of `vmap`
    _node_class: Any  # of gradient nodes, once there is one
    _passes_samples = False  # a Function of the library's own, which may anyway

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *args: Any) -> Any:
        """The results for whole batches, and where their samples are: `(output, out_dims)`.

        info: `batch_size` and `randomness`. in_dims: for each argument the dimension of its
        samples, None for what they share.
        """
        raise NotImplementedError("vmap is not implemented.")

    @classmethod
    def _by_batch(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Whether a rule for batches made the result inside of `vmap`, and the result."""
        from rushlight.autograd import function_batch  # only inside of vmap

        has_rule = cls.vmap is not Function.vmap
        has_setup = cls.setup_context is not Function.setup_context
        function_batch.check_supports(cls, has_setup, has_rule)
        return has_rule, function_batch.apply_rule(cls, args, kwargs) if has_rule else None

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Run `forward`, and record this function for backward."""
        if batching.active.batches and not cls._passes_samples:
            is_done, result = cls._by_batch(args, kwargs)
            if is_done:
                return result
        ctx = type(f"{cls.__name__}Backward", (cls,), {})()
        FunctionCtx.__init__(ctx)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        needs = config.scopes.grad_enabled and any(ctx.needs_input_grad)
        given = custom_tangents.given_to(args)
        forward = Forward(cls.__name__, args) if needs else None
        with no_grad(), custom_tangents.outside(given), forward or contextlib.nullcontext():
            if cls.setup_context is not Function.setup_context:
                result = cls.forward(*args, **kwargs)
                cls.setup_context(ctx, args, result)
            else:
                result = cls.forward(ctx, *args, **kwargs)
        outputs: Sequence[Any] = result if isinstance(result, tuple) else (result,)
        if given:
            outputs = custom_tangents.with_own_values(outputs, args, ctx._dirty)
        if forward is not None:
            if config.process.has_inference:
                _check_saved(ctx, args)
            _check_dirty(ctx, outputs)
            outputs = _attach(cls, ctx, args, outputs)
            ctx._intermediates = Kept(forward, ctx) or None
        custom_tangents.hand_out(cls, ctx, args, outputs, given)
        ctx._for_tangents = None
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


class InplaceFunction(Function):
    """A Function of the old kind, which remembers whether it works in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """A Function of the old kind: `apply` of any Function takes nested arguments."""


def _attach(cls: type[Function], ctx: Any, args: Sequence[Any], outputs: Sequence[Any]) -> Any:
    node = _node_of(cls, ctx, args)
    types = []
    given = []
    for i, out in enumerate(outputs):
        if not isinstance(out, Tensor):
            types.append(TensorType((), config.default_dtype()))
            given.append(out)
            continue
        types.append(TensorType(out._shape, out.dtype))
        is_constant = any(out is t for t in ctx._constant)
        if is_constant or not (out.dtype.is_floating_point or out.dtype.is_complex):
            given.append(out)
            continue
        given.append(_result(ctx, args, out, node, i))
    node.out_types = tuple(types)
    for saved in ctx._saved:
        for out in given:
            if saved is not None and saved.is_of(out):
                saved.note_history(out)
    return given


def _check_saved(ctx: Any, args: Sequence[Any]) -> None:
    for saved in ctx._saved:
        if saved is not None and saved.tensor is not None:
            inference.check_saved(saved.tensor, args)


def _node_class(cls: type[Function]) -> type[FunctionNode]:
    found = cls.__dict__.get("_node_class")
    if found is None:
        found = type(f"{cls.__name__}Backward", (FunctionNode,), {"__slots__": ()})
        cls._node_class = found
    return found


def _node_of(cls: type[Function], ctx: Any, args: Sequence[Any]) -> FunctionNode:
    with recording:
        trace = local.trace
        after: list[tuple[Node | None, int]] = []
        saved: list[Any] = []
        for a in args:
            if not isinstance(a, Tensor):
                after.append((None, 0))
                saved.append((None, None, (), None))
                continue
            node = current_node(a)
            if node is not None and node.epoch != trace.epoch:
                trace.join_node(node)
            after.append((node, a._output if node is not None else 0))
            saved.append((None, None, a._shape, a.dtype))
        made = _node_class(cls)(FUNCTION, (), tuple(after))
        made.saved = tuple(saved)
        made.ctx, made.function = ctx, cls
        trace.step(("function",))
        trace.add_node(made)
        trace.is_pure = False  # what `backward` does may differ from time to time
        ctx._node = made
        return made


def _result(ctx: Any, args: Sequence[Any], out: Tensor, node: Node, output: int) -> Tensor:
    if any(out is t for t in ctx._dirty):
        source = out.detach()
        source._node, source._output = node, output
        with enable_grad():
            adopt_history(out, source)
        return out
    if out._base is not None or any(out is a for a in args):
        base = out if out._base is None else out._base
        out = out.detach()
        out._base, out._chain, out._seen = base, ((FUNCTION, ()),), base._rebased
    out._node, out._output = node, output
    return out


def _check_dirty(ctx: Any, outputs: Sequence[Any]) -> None:
    """Raise for inputs that `forward` must not have written to."""
    for t in ctx._dirty:
        if isinstance(t, Tensor) and isinstance(current_node(t), AccumulateGrad):
            raise errors.leaf_in_place("a custom Function")
        if not any(t is out for out in outputs):
            raise RuntimeError(
                "Some elements marked as dirty during the forward method were not returned as "
                "output. The inputs that are modified inplace must all be outputs of the "
                "Function."
            )


def _run(cls: type[Function], ctx: Any, node: Node, grads: dict[int, Any]) -> Sequence[Any]:
    given = []
    for i, type in enumerate(node.out_types):
        grad = grads.get(i)
        if grad is None and ctx.materialize_grads:
            grad = engine.zeros(type)
        given.append(grad)
    rule = cls.backward if cls.backward is not Function.backward else cls.vjp
    if cls.boxed_grads_call:
        given = [given]
    if ctx._intermediates is not None and config.scopes.grad_enabled:
        with ctx._intermediates.with_history(ctx):
            results = rule(ctx, *given)
    else:
        results = rule(ctx, *given)
    results = results if isinstance(results, tuple) else (results,)
    count = len(node.next)
    if len(results) > count and all(r is None for r in results[count:]):
        results = results[:count]
    if len(results) != count:
        raise RuntimeError(
            f"function {node.name()} returned an incorrect number of gradients (expected "
            f"{count}, got {len(results)})"
        )
    for i, grad in enumerate(results):
        _check_gradient(node, i, grad)
    return results


def _check_gradient(node: Node, i: int, grad: Any) -> None:
    shape, kind = node.saved[i][2:]
    if grad is None:
        return
    if kind is None:
        raise RuntimeError(
            f"function {node.name()} returned a gradient different from None at position "
            f"{i + 1}, but the corresponding forward input was not a Variable"
        )
    if not isinstance(grad, Tensor):
        raise RuntimeError(f"expected Variable or None (got {type(grad).__name__})")
    if grad.dtype.is_complex and not kind.is_complex:
        raise RuntimeError(
            f"Function {node.name()} returned a complex gradient at index {i} for an input of "
            f"{kind!r}"
        )
    own = grad._shape
    fits = len(own) >= len(shape) and all(
        s in (1, o) for s, o in zip(reversed(shape), reversed(own), strict=False)
    )
    if not fits:
        raise RuntimeError(
            f"Function {node.name()} returned an invalid gradient at index {i} - got "
            f"{list(own)} but expected shape compatible with {list(shape)}"
        )


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A `backward` whose gradients carry no history, so that they cannot be differentiated."""

    @functools.wraps(fn)
    def inner(ctx: Any, *grads: Any) -> Any:
        with no_grad():
            results = fn(ctx, *grads)
        if isinstance(results, tuple):
            return tuple(r.detach() if isinstance(r, Tensor) else r for r in results)
        return results.detach() if isinstance(results, Tensor) else results

    return inner
