"""Replicas in several processes: needs a process group, which this build cannot start."""

from __future__ import annotations

from typing import Any  # a module takes and returns anything

from rushlight import distributed
from rushlight.nn.module import Module


class DistributedDataParallel(Module):
    """Known by name, for `isinstance` and imports; making one needs a process group."""

    def __init__(self, module: Module, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        distributed.no_group()
