"""Where an inner derivative begins: handles with gradient nodes of their own."""

from __future__ import annotations

from typing import Any  # tensors come later

from rushlight.ops.registry import TensorType
from rushlight.trace.record import alias
from rushlight.trace.tape import Input
from rushlight.trace.trace import local, recording
from rushlight.trace.write import current_node


def input_of(x: Any, is_linked: bool) -> Any:
    """A leaf that reads what x reads. Gradients with respect to it are those of this one use of
    x; if it is linked, they go on to x in a later backward.
    """
    out = alias(x)
    with recording:
        trace = local.trace
        node = current_node(x) if is_linked else None
        if node is not None and node.epoch != trace.epoch:
            trace.bears(node, x._storage.value)
            trace.join_node(node)
        place = (node, x._output) if node is not None else None
        trace.step(("input", -1 if node is None else node.index, x._output))
        made = Input(out, () if place is None else (place,))
        made.out_types = (TensorType(out._shape, out.dtype),)
        trace.add_node(made)
        out._node = made
    return out
