"""How long a unit takes, roughly: enough to tell work worth sharing from work that is not."""

from __future__ import annotations

from rushlight.ir.node import Node, view_of
from rushlight.schedule.fuse import Unit
from rushlight.schedule.memory import nbytes_of
from rushlight.views import numel

# Rates of one thread on small work, most of which lies in its cache.
_FLOPS_A_NS = 50.0
_BYTES_A_NS = 8.0
_ELEMENTS_A_NS = 2.0
_LAUNCH_NS = 100.0


def nanoseconds(unit: Unit) -> float:
    """An estimate of what a unit costs one thread."""
    moved = sum(map(nbytes_of, unit.reads)) + sum(map(nbytes_of, unit.writes))
    product = unit.epilogue_of or unit.single
    flops = _flops(product) if product is not None else 0.0
    loops = unit.numel / _ELEMENTS_A_NS
    return _LAUNCH_NS + loops + moved / _BYTES_A_NS + flops / _FLOPS_A_NS


def _flops(node: Node) -> float:
    shapes = [view_of(arg).shape for arg in node.args]
    if node.op == "contract":
        batch, rows, _, _ = node.attrs
        return 2.0 * node.numel * numel(shapes[0][batch + rows :])
    if node.op in ("attention", "attention_grad"):
        query, key = shapes[:2] if node.op == "attention" else shapes[3:5]
        return 4.0 * numel(query) * key[-2]
    return 0.0
