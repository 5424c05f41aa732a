"""`torch.cuda.nccl`: NVIDIA's collectives, which need its devices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.cuda.absent import refuse


def version() -> tuple[int, int, int]:
    """The version of NCCL."""
    refuse()


def is_available(tensors: Iterable[Any]) -> bool:  # Any: tensors of the core
    """Whether these tensors can be reduced by NCCL: they are on no CUDA device."""
    return False
