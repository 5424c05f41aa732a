"""`torch._dynamo.eval_frame`: the class that PyTorch's `compile` makes of a module."""

from __future__ import annotations

from typing import Any

from rushlight import errors
from rushlight.compiler import disable
from rushlight.nn.module import Module

__all__ = ["OptimizedModule", "disable", "is_dynamo_supported"]


class OptimizedModule(Module):
    """Nothing is an instance: `torch.compile` returns the module that it is given."""

    def __init__(self, mod: Any, dynamo_ctx: Any) -> None:
        raise errors.not_there(
            "OptimizedModule", "modules around modules: compile() makes none"
        )


def is_dynamo_supported() -> bool:
    """Whether `torch.compile` can be used: it can."""
    return True
