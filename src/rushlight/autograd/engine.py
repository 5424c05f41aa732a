"""The backward pass: walk the tape from the roots, in reverse order of recording."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Sequence
from typing import Any  # tensors come later

from rushlight import config, errors
from rushlight.autograd import nan_search, remembered
from rushlight.devices import META
from rushlight.dtypes import dtype
from rushlight.ops import batching
from rushlight.ops.registry import OPS, TensorType, recorder
from rushlight.ops.view_ops import Placed
from rushlight.trace.packing import Held
from rushlight.trace.record import alias, make_tensor, value_tensor
from rushlight.trace.tape import AccumulateGrad, Input, Node, Saved
from rushlight.trace.trace import hooks as trace_hooks
from rushlight.trace.trace import local, recording
from rushlight.trace.value import Storage, Value

Gradients = dict[int, Any]  # output number -> gradient


class Ghost:
    """A saved operand whose elements a derivative rule does not read: shape and dtype only."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)


def backward(
    roots: Sequence[Any],
    gradients: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Any] | None = None,
) -> None:
    """Accumulate gradients into `.grad` of leaves (or of `inputs` alone: results among them
    retain their gradients from then on).
    """
    if not roots:
        return
    grads = [seed(root, g, i) for i, (root, g) in enumerate(zip(roots, gradients, strict=True))]
    trace = local.trace
    root = roots[0]
    can_memo = len(roots) == 1 and inputs is None and not create_graph and gradients[0] is None
    with recording:
        if can_memo and root._node.epoch == trace.epoch and trace.is_memoisable:
            walk = Walk(retain_graph, create_graph)
            return remembered.backward(trace, root, grads[0], walk)
    walk = Walk(retain_graph, create_graph)
    walk.start(roots, grads)
    if inputs is not None:
        targets = [_target_of(t) for t in inputs]
        for t in inputs:
            t.retain_grad()
        for t, g in zip(inputs, walk.run_to(targets), strict=True):
            if g is not None and isinstance(t._node, AccumulateGrad):
                accumulate_at(t._node, t, g, create_graph)
        return
    walk.run()


def seed(root: Any, gradient: Any, index: int = 0) -> Any:
    """The cotangent of a root: ones for a scalar, otherwise what the caller gave, checked."""
    if root._node is None:
        raise errors.no_grad_fn(index)
    if gradient is not None:
        return _given(root, gradient, index)
    if root.numel() != 1:
        raise errors.grad_not_scalar(root.shape)
    if not root.dtype.is_floating_point:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got "
            f"{root.dtype!r}"
        )
    with config.gradients_off():
        one = OPS["full"](shape=tuple(root.shape), value=1.0, dtype=root.dtype)
    return recorder.beside(one, root) if config.process.has_places else one


def _given(root: Any, gradient: Any, index: int) -> Any:
    if not isinstance(gradient, trace_hooks.tensor_class):
        raise TypeError(
            f"gradients can be either Tensors or None, but got {type(gradient).__name__}"
        )
    if gradient.shape != root.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{index}] has a shape of {list(gradient.shape)} "
            f"and output[{index}] has a shape of {list(root.shape)}."
        )
    if gradient.dtype.is_complex != root.dtype.is_complex:
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same "
            f"dtype. Mismatch in dtype: grad_output[{index}] has a dtype of {gradient.dtype!r} "
            f"and output[{index}] has a dtype of {root.dtype!r}."
        )
    return gradient


def _target_of(tensor: Any) -> tuple[Node, int]:
    if tensor._node is None:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return tensor._node, tensor._output


def gradients_by(
    roots: Sequence[Any],
    targets: Sequence[tuple[Node, int]],
    given: Sequence[Any],
    retain_graph: bool,
    create_graph: bool,
) -> list[Any]:
    """The gradients of the roots by results of nodes (node, output number); None where a root
    does not depend on one.
    """
    seeds = [seed(root, g, i) for i, (root, g) in enumerate(zip(roots, given, strict=True))]
    walk = Walk(retain_graph, create_graph)
    with recording:
        trace = local.trace
        if not create_graph and trace.is_memoisable:
            key = remembered.key_of(trace, roots, targets, seeds, retain_graph)
            if key is not None:
                return remembered.gradients(trace, key, walk, roots, targets, seeds)
    walk.start(roots, seeds)
    return walk.run_to(targets)


class _Walks(threading.local):
    current: Walk | None = None


_walks = _Walks()


def current_walk() -> Walk | None:
    """The backward pass that runs in this thread."""
    return _walks.current


class Walk:
    """One backward pass over the tape."""

    def __init__(self, retain_graph: bool, create_graph: bool) -> None:
        self.retain_graph = retain_graph or create_graph
        self.create_graph = create_graph
        self.pending: dict[Node, Gradients] = {}
        self.heap: list[tuple[int, int, Node]] = []
        self.reached: set[Node] = set()
        self.freed: list[int] = []  # nodes of this trace, by index
        self.wanted: dict[tuple[Node, int], int] | None = None
        self.found: list[Any] = []
        self.needed: set[Node] | None = None
        self._here: tuple[Node, ...] = ()  # the node whose hooks and rule run now

    def start(self, roots: Sequence[Any], grads: Sequence[Any]) -> None:
        if config.scopes.anomaly:
            nan_search.check_roots(roots)
        for root, grad in zip(roots, grads, strict=True):
            self.send(root._node, root._output, grad)

    def run_to(self, targets: Sequence[tuple[Node, int]]) -> list[Any]:
        """Only gradients with respect to `targets` (node, output number); None if unreached."""
        self.wanted = {}
        for i, target in enumerate(targets):
            self.wanted.setdefault(target, i)
        self.found = [None] * len(targets)
        starts, ends = [n for _, _, n in self.heap], {t[0] for t in targets}
        self.needed = _leading_to(starts, ends)
        if not ends <= self.needed:
            _check_uncut(starts)
        self.run()
        found = [self.found[self.wanted[t]] for t in targets]
        return found if self.create_graph else [without_history(g) for g in found]

    def send(self, node: Node, output: int, grad: Any) -> None:
        """Add a cotangent of one output of a node, and schedule the node."""
        waiting = self.pending.get(node)
        if waiting is None:
            self.pending[node] = {output: whole(grad)}
            heapq.heappush(self.heap, (-node.sequence, id(node), node))
        elif output in waiting:
            with self.mode():
                total = waiting[output]
                is_placed = isinstance(grad, Placed)
                waiting[output] = grad.added_to(total) if is_placed else total + grad
        else:
            waiting[output] = whole(grad)

    def mode(self) -> Any:
        """Under forward mode gradients have tangents, so their ops must be differentiable."""
        return config.gradients(bool(self.create_graph or config.scopes.levels))

    def run(self) -> None:
        outer, _walks.current = _walks.current, self
        try:
            with config.autocast_off():  # gradients have the dtypes that the forward chose
                self._run()
        finally:
            _walks.current = outer

    def _run(self) -> None:
        while self.heap:
            _, _, node = heapq.heappop(self.heap)
            grads = self.pending.pop(node)
            self.reached.add(node)
            self._here = (node,)
            if self.needed is not None and node not in self.needed:
                continue
            if self.wanted is None:
                self._call_tensor_hooks(node, grads)
                if type(node) is AccumulateGrad:
                    self._accumulate(node, grads)
                else:
                    self._step(node, grads)
            elif self._leads_on(node):
                self._take_wanted(node, grads)
                self._call_tensor_hooks(node, grads)
                self._step(node, grads)
            else:
                self._call_tensor_hooks(node, grads)
                self._take_wanted(node, grads)
        if self.retain_graph:  # a path tells whether what it holds may be walked again
            trace = local.trace
            trace.step(("retained",))

    def _take_wanted(self, node: Node, grads: Gradients) -> None:
        """Keep the gradients that were asked for. As in PyTorch, what the hooks of a tensor
        make of its gradient is kept only where the walk goes no further.
        """
        assert self.wanted is not None
        for output, grad in grads.items():
            at = self.wanted.get((node, output))
            if at is not None:
                self.found[at] = grad

    def reachable(self, nodes: Sequence[Node | None]) -> list[Node]:
        """Those of `nodes` that this pass has still to come by."""
        if self.needed is not None:
            return [n for n in nodes if n in self.needed]
        waiting = [node for _, _, node in self.heap]
        found = _leading_to([*waiting, *self._here], {n for n in nodes if n is not None})
        return [n for n in nodes if n in found]

    def _leads_on(self, node: Node) -> bool:
        assert self.needed is not None
        return any(n is not None and n in self.needed for n, _ in node.next)

    def _accumulate(self, node: AccumulateGrad, grads: Gradients) -> None:
        target = node.target()
        if target is None:
            return
        grads = self._call_prehooks(node, grads)
        accumulate_at(node, target, grads[0], self.create_graph)
        if node.hooks:
            for hook in list(node.hooks.values()):
                hook((), _all_of(node, grads))

    def _call_tensor_hooks(self, node: Node, grads: Gradients) -> None:
        """Hooks on the results' gradients; what is retained is what they leave."""
        if node.output_hooks:
            for output, hooks in node.output_hooks.items():
                for hook in list(hooks.values()):
                    if output in grads:
                        with self.mode():
                            changed = hook(grads[output])
                        if changed is not None:
                            grads[output] = _checked(hook, grads[output], changed)
        if node.retainers:
            for output, retain in node.retainers.items():
                if output in grads:
                    with self.mode():
                        retain(grads[output])

    def _call_prehooks(self, node: Node, grads: Gradients) -> Gradients:
        if node.prehooks:
            for hook in list(node.prehooks.values()):
                changed = hook(_all_of(node, grads))
                if changed is not None:
                    changed = changed if isinstance(changed, tuple) else (changed,)
                    grads = {i: g for i, g in enumerate(changed) if g is not None}
        return grads

    def _step(self, node: Node, grads: Gradients) -> None:
        if isinstance(node, Input):  # it stands for a tensor outside
            for after, output in node.next:
                if after is not None:
                    with self.mode():
                        self.send(after, output, _outside(grads[0], after))
            return
        node.check_alive()
        grads = self._call_prehooks(node, grads)
        with self.mode():
            saved_operands = node.saved
            results = node_gradients(node, grads, saved_operands)
            if node.hooks or config.scopes.anomaly:
                results = [whole(r) for r in results]
            if node.hooks:
                given = _all_of(node, grads)
                for hook in list(node.hooks.values()):
                    changed = hook(tuple(results), given)
                    if changed is not None:
                        results = changed if isinstance(changed, tuple) else (changed,)
            if config.scopes.anomaly:
                _check_finite(node, results)
            for (after, output), grad, saved in zip(
                node.next, results, saved_operands, strict=True
            ):
                if after is None:
                    continue
                if grad is not None:
                    self.send(after, output, fit(_outside(grad, after), saved))
                elif self.needed is None or after in self.needed:
                    _check_may_be_none(node, (after, output), saved[3])
        if not self.retain_graph and local.trace.free_node(node):
            self.freed.append(node.index)


def _check_may_be_none(node: Node, target: tuple[Node, int], kind: dtype) -> None:
    """Refuse to drop a gradient that an op's rule does not give. Integers have none; custom
    functions may give None, and so may hooks.
    """
    assert node.op is not None
    is_smooth = kind.is_floating_point or kind.is_complex
    if is_smooth and node.op.name != "function" and not node.hooks:
        place = node.next.index(target) + 1
        raise errors.not_differentiable(f"{node.op.name}: operand {place}")


def _all_of(node: Node, grads: Gradients) -> tuple[Any, ...]:
    """The gradients of all results of a node, None where there is none."""
    return tuple(grads.get(i) for i in range(max(len(node.out_types), 1)))


def _checked(hook: Any, before: Any, changed: Any) -> Any:
    """What a hook made of a gradient: a tensor of its shape and dtype."""
    name = getattr(hook, "__name__", repr(hook))
    if not isinstance(changed, trace_hooks.tensor_class):
        raise TypeError(f"expected Variable, but hook returned '{type(changed).__name__}'")
    if changed.dtype is not before.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was {before.dtype!r} got "
            f"{changed.dtype!r})"
        )
    if changed.shape != before.shape:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value (was {list(before.shape)} got "
            f"{list(changed.shape)})"
        )
    return changed


def without_history(x: Any) -> Any:
    """The same values with the same tangents, as a constant of backward."""
    return x if x is None or x._node is None else alias(x)


def whole(grad: Any) -> Any:
    """A gradient as a tensor."""
    return grad.tensor() if isinstance(grad, Placed) else grad


def _leading_to(starts: Sequence[Node], ends: set[Node]) -> set[Node]:
    """The nodes on some path from `starts` to `ends` (ends included)."""
    memo: dict[Node, bool] = {}
    stack: list[tuple[Node, bool]] = [(n, False) for n in starts]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            below = any(n is not None and memo.get(n, False) for n, _ in node.next)
            memo[node] = below or node in ends
        elif node not in memo:
            memo[node] = node in ends
            stack.append((node, True))
            stack.extend((n, False) for n, _ in node.next if n is not None and n not in memo)
    return {n for n, leads in memo.items() if leads}


def _check_uncut(starts: Sequence[Node]) -> None:
    """Raise if the way on from a freed node has been dropped: nobody knows where it led."""
    seen: set[Node] = set()
    waiting = list(starts)
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.freed and not node.next:
            node.check_alive()
        waiting.extend(n for n, _ in node.next if n is not None)


def node_gradients(node: Node, grads: Gradients, saved: tuple[Saved, ...]) -> Sequence[Any]:
    """Run a node's derivative rule; one gradient (or None) for each operand."""
    op = node.op
    assert op is not None
    if op.name == "function":
        return node.apply(grads)  # type: ignore[no-any-return]
    count = len(node.out_types)
    if count == 1:
        g: Any = grads[0]
        out: Any = result_of(node.outs[0]) if node.outs else Ghost(*_shape_dtype(node))
    else:
        g = tuple(grads[i] if i in grads else zeros(node.out_types[i]) for i in range(count))
        out = tuple(result_of(v) for v in node.outs) if node.outs else None
    operands = [restore(s) for s in saved]
    named = dict(zip(op.attrs, node.attrs, strict=True))
    if config.scopes.grad_enabled:
        _attach(node, operands, out)
    results = op.vjp(g, out, *operands, **named)
    return results if isinstance(results, tuple) else (results,)


def result_of(saved: Any) -> Any:
    """A saved result as a tensor without history."""
    return value_tensor(saved) if type(saved) is Value else Held.of(saved.tensor()).tensor()


def _shape_dtype(node: Node) -> tuple[Any, Any]:
    return node.out_types[0].shape, node.out_types[0].dtype


def zeros(type: TensorType) -> Any:
    made = OPS["full"](shape=type.shape, value=0.0, dtype=type.dtype)
    return recorder.on_device(made, META) if type.is_meta else made


def restore(saved: Saved) -> Any:
    """A saved operand as a tensor without history, or its ghost."""
    value, view, shape, dtype = saved
    return Ghost(shape, dtype) if value is None else value_tensor(value, view)


def _attach(node: Node, operands: list[Any], out: Any) -> None:
    """For higher orders: restored operands keep their gradient history."""
    for operand, (after, output) in zip(operands, node.next, strict=True):
        if after is not None and not isinstance(operand, Ghost):
            operand._node, operand._output = after, output
    outs = out if isinstance(out, tuple) else (out,)
    for i, tensor in enumerate(outs):
        if tensor is not None and not isinstance(tensor, Ghost):
            tensor._node, tensor._output = node, i


def _outside(grad: Any, node: Node) -> Any:
    """A gradient summed over the batches of `vmap` that the node it goes to is not in."""
    if not batching.levels_of(grad.part if isinstance(grad, Placed) else grad):
        return grad
    return batching.summed(whole(grad), node)


def fit(grad: Any, saved: Saved) -> Any:
    """A gradient summed to the shape, and cast to the dtype, of the operand it belongs to."""
    _, _, shape, dtype = saved
    if isinstance(grad, Placed):
        if grad.dtype is dtype:
            return grad
        grad = grad.tensor()
    if grad.shape != shape:
        grad = sum_to(grad, shape)
    if grad.dtype is not dtype:
        grad = grad.to(dtype)
    return grad


def sum_to(grad: Any, shape: tuple[int, ...]) -> Any:
    """Undo broadcasting: sum over the dimensions along which `shape` was expanded."""
    extra = grad.ndim - len(shape)
    dims = tuple(range(extra)) + tuple(
        i + extra for i, size in enumerate(shape) if size == 1 and grad.shape[i + extra] != 1
    )
    if dims:
        grad = grad.sum(dims, keepdim=True)
    return grad.reshape(shape)


def accumulate_at(node: Any, target: Any, grad: Any, create_graph: bool) -> None:
    """Add to the gradient of a leaf, unless it no longer wants one, and tell its hooks."""
    if target._node is not None:
        with recording:  # another thread may add to the same gradient
            accumulate(target, grad, create_graph)
    if node.accumulate_hooks:
        for hook in list(node.accumulate_hooks.values()):
            hook(target)


def accumulate(tensor: Any, grad: Any, create_graph: bool) -> None:
    """Add to `tensor.grad`: a first gradient is taken as it is, later ones are added in
    place.
    """
    if config.process.has_places:
        grad = recorder.beside(grad, tensor)
    if batching.levels_of(grad):
        batching.check_stays(grad, tensor)
    if tensor._grad is None:
        if grad._view is not None:
            grad = grad.clone()
        own = make_tensor(
            trace_hooks.tensor_class, Storage(grad._storage.value), grad._storage.value.type
        )
        if create_graph:
            own._node, own._output = grad._node, grad._output
        tensor._grad = own
    elif create_graph or batching.levels_of(grad):  # the first may be equal for all samples
        tensor._grad = tensor._grad + grad
    else:
        with config.gradients_off():
            tensor._grad.add_(grad)


def _check_finite(node: Node, results: Sequence[Any]) -> None:
    for i, grad in enumerate(results):
        if grad is not None and bool(batching.whole(grad).isnan().any()):
            where, label = (
                (node.edge.where, node.edge.label) if node.edge is not None else ("", "")
            )
            place = errors.origin_text(where, label)
            raise errors.nan_gradient(node.name(), i, place, nan_search.source_line(where))
