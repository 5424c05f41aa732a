"""What a gradient node saved, and the node as a function: `y.grad_fn._saved_result`.

PyTorch names saved tensors as its derivative formulas do: `self` and `other` for the operands,
`result` for the result, and attributes by their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any  # attributes are of any kind

from rushlight import config
from rushlight.autograd import engine
from rushlight.trace import packing
from rushlight.trace.tape import Node
from rushlight.trace.value import Value

_OPERANDS = {"self": 0, "input": 0, "other": 1, "weight": 1, "exponent": 1}


def tensor_of(node: Node, name: str) -> Any:
    """A saved tensor with its history, a saved number, or an attribute of the operation.

    Raises RuntimeError once the graph was freed, AttributeError for what was not saved.
    """
    op = node.op
    if op is None:
        raise AttributeError(f"{node.name()} saves nothing")
    if name in op.attrs:
        return node.attrs[op.attrs.index(name)]
    node.check_alive()
    place = _place(node, name)
    if place == "result":
        found = engine.result_of(node.outs[0])
        found._node, found._output = node, 0
        return found
    value, view, shape, dtype = node.saved[place]
    if value is not None and value.type.weak:
        return engine.restore((value, view, shape, dtype)).item()
    found = engine.restore((value, view, shape, dtype))
    found._node, found._output = node.next[place]
    return found


def _place(node: Node, name: str) -> Any:
    """'result', or the number of the operand that is called `name`."""
    assert node.op is not None
    if name in ("result", "output", "out") and node.outs:
        return "result"
    parameters = list(inspect.signature(node.op.vjp).parameters)[2:]
    found = parameters.index(name) if name in parameters else _OPERANDS.get(name, -1)
    values = node.values
    if not 0 <= found < len(values) or values[found] is None:
        raise AttributeError(f"{node.name()} has not saved {name!r}")
    return found


class SavedTensor:
    """A saved tensor that can be given out of hand: `node._raw_saved_self`."""

    def __init__(self, node: Node, name: str) -> None:
        node.check_alive()
        self._node, self._place, self._name = node, _place(node, name), name

    @property
    def data(self) -> Any:
        return tensor_of(self._node, self._name)

    def register_hooks(
        self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]
    ) -> None:
        """Keep what `pack_hook(tensor)` returns, and pass that to `unpack_hook` in backward.

        Raises RuntimeError if hooks have been registered for this tensor before.
        """
        node, place = self._node, self._place
        kept = list(node.outs if place == "result" else node.values)
        at = 0 if place == "result" else place
        if type(kept[at]) is not Value:
            raise RuntimeError("Calling register_hooks on a saved tensor more than once")
        with config.gradients_off():
            held = engine.restore(node.saved[at]) if place != "result" else self.data.detach()
        kept[at] = packing.Packed(packing.Hooks(pack_hook, unpack_hook), held)
        if place == "result":
            node.outs = tuple(kept)
        else:
            node.values = tuple(kept)
        node.touch()


def gradients_of(node: Node, grads: tuple[Any, ...]) -> Any:
    """Call a node: one gradient, or a tuple of one for each operand."""
    node.check_alive()
    saved = node.saved
    given = {i: g for i, g in enumerate(grads) if g is not None}
    found = engine.node_gradients(node, given, saved)
    fitted = tuple(
        None if g is None or after is None else engine.fit(engine.whole(g), s)
        for g, s, (after, _) in zip(found, saved, node.next, strict=True)
    )
    return fitted if len(fitted) != 1 else fitted[0]
