"""Values and storages: what a tensor points at.

Note: storages and values. A Value is one immutable result: pending at a position of a trace, or
realised in a Buffer. A Storage is what aliases share: it points at its current Value; an
in-place write gives it a new one. A storage keeps its first buffer for life: the last Value is
written into that memory at the flush.
"""

from __future__ import annotations

from typing import Any  # buffers belong to runtime/, which comes later

from rushlight.ops.registry import TensorType


class Value:
    """One result: `position` in the trace `trace` while `epoch` is that trace's; `buffer` once
    it is real. `error` is set instead when the flush that should have made it failed.
    `claimed`: a storage that was written to has taken the buffer as its own.
    """

    __slots__ = (
        "__dict__", "__weakref__", "buffer", "claimed", "epoch", "position", "trace", "type",
    )  # fmt: skip

    type: TensorType
    position: int
    epoch: int
    trace: Any
    buffer: Any
    claimed: bool
    inference: bool | None = None  # made in inference mode (trace/inference.py); None: not yet
    # known, or made before any
    error: BaseException | None = None  # rare, so only the class has it until one is set

    def __init__(self, type: TensorType, buffer: Any = None) -> None:
        self.type = type
        self.buffer = buffer
        self.claimed = False
        self.epoch = -1
        self.position = -1
        self.trace = None


class Storage:
    """Memory that tensors share. What only few storages have is on the class until then."""

    __slots__ = ("__dict__", "__weakref__", "value")

    buffer: Any = None  # the memory kept for life, from the first write on
    version = 0
    owner: Any = None  # a weak reference to a tensor with history that was detached from

    def __init__(self, value: Value) -> None:
        self.value = value
