"""What the loop writers hand to the runtime: kernel text, and launches of it on numbered
buffers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True, slots=True)
class KernelSource:
    """One kernel as LLVM text.

    `text` holds `define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch)` and may
    call functions named in `needs` (vector mathematics and LLVM intrinsics), which the module
    builder adds once a module. `name` is made from the kernel's structure, so that equal names
    mean equal text.
    """

    name: str
    text: str
    needs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A place in a program's memory: buffer number plus a byte offset."""

    buffer: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One call of a kernel: `chunks` independent tasks over these pointers and integers.

    `tables` are constant int64 arrays (offset tables) that the runtime keeps alive; their
    addresses follow `pointers` and precede `ints` in the argument block. An `independent`
    launch needs nothing that the launches just before it write, back to and including the last
    that is not independent, nor do they need anything that it overwrites: they run side by
    side. `nanoseconds` estimates what all chunks cost one thread.
    """

    source: KernelSource
    chunks: int
    pointers: tuple[BufferRef, ...]
    ints: tuple[int, ...] = ()
    tables: tuple[np.ndarray, ...] = field(default=(), compare=False)
    scratch: int = 0
    independent: bool = False
    nanoseconds: float = math.inf
