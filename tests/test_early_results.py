"""What a later unit makes of one unit's results alone is made early, where less is stored."""

from __future__ import annotations

import importlib
from typing import Any

from rushlight.ir.builder import Builder
from rushlight.ir.ref import Ref
from rushlight.schedule.fuse import Fusion

dt: Any = importlib.import_module("rushlight.dtypes")  # the name `rushlight.dtype` is a class


def _forward(k: Builder) -> tuple[Ref, Ref, Ref, Ref]:
    """x = a b, exp(x), their product's product with c, and what a loss sends back to it."""
    a, b, c = (k.leaf(i, (32, 32), dt.float32) for i in range(3))
    x = k.contract("ik,kj->ij", a, b)
    part = k.exp(x)
    out = k.contract("ik,kj->ij", x * part, c)
    return x, part, out, k.contract("ij,kj->ik", out, c)


def test_a_slope_is_stored_instead_of_its_parts() -> None:
    k = Builder()
    x, part, out, back = _forward(k)
    slope = part + x * k.exp(x * x * -0.5)
    gradient = back * slope
    fusion = Fusion([out.node, gradient.node])
    units = fusion.run()
    assert slope.node in fusion.stored
    assert part.node not in fusion.stored
    maker = next(u for u in units if slope.node in u.writes)
    assert (x * part).node in maker.writes


def test_parts_that_others_need_stay() -> None:
    k = Builder()
    x, part, out, back = _forward(k)
    gradient = back * (part + x * k.exp(x * x * -0.5))
    other = k.contract("ik,kj->ij", part, back)
    fusion = Fusion([out.node, gradient.node, other.node])
    fusion.run()
    assert part.node in fusion.stored


def test_one_part_is_not_exchanged_for_another_of_its_size() -> None:
    k = Builder()
    _, part, out, back = _forward(k)
    gradient = back * k.exp(k.sqrt(part))
    fusion = Fusion([out.node, gradient.node])
    fusion.run()
    assert part.node in fusion.stored


def test_results_that_the_user_holds_stay() -> None:
    k = Builder()
    x, part, out, back = _forward(k)
    gradient = back * (part + x * k.exp(x * x * -0.5))
    fusion = Fusion([out.node, gradient.node, part.node, x.node])
    fusion.run()
    assert {part.node, x.node} <= fusion.stored
