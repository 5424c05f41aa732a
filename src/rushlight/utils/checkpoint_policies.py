"""Selective checkpoints: which results of the first run are kept, and taken by the second.

Note: kept results. The second run records every step again, so that it saves for backward what
the first one did; but a kept result has the first run's elements, and what was recorded to make
it is never computed, because nobody needs it.
"""

from __future__ import annotations

import contextlib
import enum
import functools
from collections import Counter
from collections.abc import Callable
from typing import Any  # operations take and return anything

from rushlight import errors, ops, tree
from rushlight.operators import OpOverload, OpOverloadPacket
from rushlight.overrides.modes import TorchFunctionMode
from rushlight.tensor import Tensor
from rushlight.trace.packing import Held

_ATEN: Any = ops.namespaces["aten"]
SAC_IGNORED_OPS = {_ATEN.detach.default}
_IGNORED = frozenset(op.overloadpacket.__name__ for op in SAC_IGNORED_OPS)


class CheckpointPolicy(enum.Enum):
    """What becomes of an operation's result: it is kept, or computed again.

    PREFER_* leaves a compiler the choice, which there is none of here. What is offloaded to the
    CPU is kept, as that is where it is.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_KEEPING = (
    CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE,
    CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD,
)  # fmt: skip


class SelectiveCheckpointContext:
    """What a policy is told besides the operation and its arguments: the result."""

    def __init__(self, *, is_recompute: bool, op_output: Any = None) -> None:
        self.is_recompute, self.op_output = is_recompute, op_output


Policy = Callable[..., CheckpointPolicy | bool]
_Call = tuple[OpOverload, int]  # an operation, and which of its calls


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Policy | list[Any], allow_cache_entry_mutation: bool = False
) -> tuple[contextlib.AbstractContextManager[Any], contextlib.AbstractContextManager[Any]]:
    """Contexts for `checkpoint(..., context_fn=...)`, in which a policy says what is kept.

    policy_fn_or_list: a function `policy(ctx, op, *args, **kwargs)` that returns a
    CheckpointPolicy, or True for MUST_SAVE and False for PREFER_RECOMPUTE; or a list of the
    operations (`torch.ops.aten.mm.default`) to keep the results of. It is asked about public
    functions, by the operation that PyTorch runs for them; in-place forms and views are never
    kept. allow_cache_entry_mutation: a kept result is never changed by later writes.

    Raises ValueError for a list of anything but OpOverloads, TypeError for neither function nor
    list.

    >>> import functools
    >>> import rushlight as torch
    >>> from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> x = torch.ones(2, 2, requires_grad=True)
    >>> keep = [torch.ops.aten.mm.default]
    >>> contexts = functools.partial(create_selective_checkpoint_contexts, keep)
    >>> y = checkpoint(lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=contexts)
    >>> y.sum().backward()
    """
    storage: dict[_Call, Any] = {}
    return _Keeping(_policy_of(policy_fn_or_list), storage), _Taking(storage)


def _policy_of(given: Any) -> Policy:
    if not isinstance(given, list):
        if not callable(given):
            raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
        return given  # type: ignore[no-any-return]
    for op in given:
        if not isinstance(op, OpOverload):
            hint = (
                f" Name one of its forms: {op!r}.default."
                if isinstance(op, OpOverloadPacket)
                else ""
            )
            raise ValueError(
                f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                f"{type(op)}.{hint}"
            )
    return lambda ctx, op, *args, **kwargs: op in given


class _Watching(TorchFunctionMode):
    """Sees the operations of one run, and counts the calls of each."""

    def __init__(self, storage: dict[_Call, Any]) -> None:
        self.storage = storage
        self.calls: Counter[OpOverload] = Counter()

    def __enter__(self) -> Any:
        self.calls.clear()
        return super().__enter__()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if not name or name == "__get__" or name.strip("_") in _IGNORED:
            return func(*args, **kwargs)
        return self.seen(func, name, args, kwargs)

    def seen(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        raise errors.left_to_subclasses(self, "seen")

    def call_of(self, name: str, args: Any, kwargs: Any) -> _Call:
        """Which call this is."""
        op = _overload_of(name, args, kwargs)
        self.calls[op] += 1
        return op, self.calls[op] - 1


class _Keeping(_Watching):
    """The first run: asks the policy about every result."""

    def __init__(self, policy: Policy, storage: dict[_Call, Any]) -> None:
        super().__init__(storage)
        self.policy = policy

    def seen(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        if not _is_new(made, args):
            return made
        call = self.call_of(name, args, kwargs)
        ctx = SelectiveCheckpointContext(is_recompute=False, op_output=made)
        policy = self.policy(ctx, call[0], *args, **kwargs)
        if policy is True or policy in _KEEPING:
            self.storage[call] = tree.map(_held, made)
        else:
            self.storage[call] = None
        return made


class _Taking(_Watching):
    """The second run: results that were kept take their elements from the first."""

    def seen(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        run = runs[-1]
        with run.unstopped():
            made = func(*args, **kwargs)
            if _is_new(made, args):
                self._take(self.call_of(name, args, kwargs), made, run)
        return made

    def _take(self, call: _Call, made: Any, run: Any) -> None:
        if call not in self.storage:
            raise RuntimeError(
                f"{call[0]}: call {call[1]} of the recomputation was not made in the forward "
                f"pass. This can happen if the operations in the checkpointed region are "
                f"nondeterministic or depend on global state that changed between forward and "
                f"backward."
            )
        kept = self.storage[call]
        if kept is None:
            return
        for new, held in zip(tree.flatten(made)[0], tree.flatten(kept)[0], strict=True):
            if isinstance(held, Held) and _reads_alike(new, held):
                run.replace(new._storage.value, held.value)
                new._storage.value = held.value


_FORMS = {  # where a call of the function does not run the `default` form of its name
    "add": "add.Tensor", "sub": "sub.Tensor", "mul": "mul.Tensor", "div": "div.Tensor",
    "truediv": "div.Tensor", "pow": "pow.Tensor_Scalar", "eq": "eq.Tensor", "lt": "lt.Tensor",
    "gt": "gt.Tensor", "sum": "sum.dim_IntList", "mean": "mean.dim", "var": "var.correction",
    "std": "std.correction", "max": "max.dim", "min": "min.dim", "where": "where.self",
    "rsub": "rsub.Scalar", "radd": "add.Tensor", "rmul": "mul.Tensor", "rtruediv": "div.Tensor",
    "softmax": "_softmax.default", "log_softmax": "_log_softmax.default",
    "conv1d": "convolution.default", "conv2d": "convolution.default",
    "conv3d": "convolution.default", "getitem": "slice.Tensor",
}  # fmt: skip
_PRODUCTS = {(1, 1): "dot", (2, 1): "mv", (1, 2): "mm", (2, 2): "mm"}


def _overload_of(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
    """The operator that PyTorch runs for a call of the public function `name`, if the operator
    library here has it; else one of the function's own name.
    """
    name = name.strip("_")
    form = _FORMS.get(name, f"{name}.default")
    if name in ("matmul", "rmatmul"):
        form = _PRODUCTS.get((args[0].ndim, args[1].ndim), "bmm") + ".default"
    elif name == "linear":
        bias = args[2] if len(args) > 2 else kwargs.get("bias")
        form = "mm.default" if bias is None else "addmm.default"
    packet, _, overload = form.partition(".")
    try:
        return getattr(getattr(_ATEN, packet), overload)  # type: ignore[no-any-return]
    except AttributeError:
        return _unlisted(name)


@functools.cache
def _unlisted(name: str) -> OpOverload:
    made = OpOverloadPacket(f"aten::{name}", _not_callable, ("default",)).default
    assert isinstance(made, OpOverload)
    return made


def _not_callable(*args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError("an operator that only names a public function cannot be called")


runs: list[Any] = []  # the second runs that go on now (`checkpoint.py`), the innermost last


def _held(x: Any) -> Any:
    return Held.of(x) if isinstance(x, Tensor) else x


def _reads_alike(x: Tensor, held: Held) -> bool:
    return x._view == held.view and x._storage.value.type is held.value.type


def _is_new(made: Any, args: Any) -> bool:
    """Whether a call made tensors of its own: no view of an argument, nothing in place."""
    given = {id(x._storage) for x in tree.flatten(args)[0] if isinstance(x, Tensor)}
    found = [x for x in tree.flatten(made)[0] if isinstance(x, Tensor)]
    return bool(found) and all(id(x._storage) not in given and x._base is None for x in found)
