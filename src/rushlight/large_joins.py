"""Large data joined by a program of its own, with all threads: NumPy copies with one.

Joining data is no step of the trace (`ops/joining.py` says why), so this program is not found
by a path but by where the parts lie; it is made when the same kind of join comes again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any  # tensors; what keys are made of

from rushlight import config, views
from rushlight.dtypes import dtype
from rushlight.ir.builder import Builder
from rushlight.trace.trace import recording
from rushlight.views import Recast, Shape, View

if TYPE_CHECKING:
    from rushlight.compiled import CompiledGraph

_LEAST_BYTES = 1 << 20  # of the result: less is copied before a program has begun
_MOST_PARTS = 8  # more would make a kernel that is slow to compile
_MOST_KINDS = 256

_programs: dict[Any, CompiledGraph | None] = {}  # None: seen once


def join(parts: Sequence[Any], dim: int, kind: dtype, shape: Shape, address: int) -> bool:
    """Write the elements of the parts, all of dtype `kind`, to the result's memory; False, and
    nothing is written, where that is better left to NumPy.
    """
    is_small = math.prod(shape) * kind.itemsize < _LEAST_BYTES
    if is_small or kind.is_complex or config.process.backend == "reference":
        return False
    parts = [p for p in parts if math.prod(p._shape)]
    if not 2 <= len(parts) <= _MOST_PARTS or any(type(p._view) is Recast for p in parts):
        return False
    places = tuple([(p._shape, p._strides) for p in parts])
    key = (dim, kind, places)
    with recording:
        if key not in _programs:
            if len(_programs) >= _MOST_KINDS:
                _programs.clear()
            _programs[key] = None
            return False
        program = _programs[key]
        if program is None:
            program = _programs[key] = _program(dim, kind, places)
        first = [p.data_ptr() for p in parts]
        program.run([first[i] for i in program.leaves], [], [address])
    return True


def _program(
    dim: int, kind: dtype, places: Sequence[tuple[Shape, tuple[int, ...]]]
) -> CompiledGraph:
    from rushlight.compiled import CompiledGraph  # with LLVM: no import should wait for it

    k = Builder()
    refs = []
    for i, (shape, strides) in enumerate(places):
        view = View(shape, strides, 0)
        reach = views.span(view)[1]
        refs.append(k.seen(k.leaf(i, (reach,), kind), view))
    node, _ = k.cat(refs, dim).arg
    return CompiledGraph(k, [node], {})
