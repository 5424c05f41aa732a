"""Making modules without initial values."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.nn.module import Module


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory and no initial values."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", None) or "cpu"
    kwargs["device"] = "meta"
    return module_cls(*args, **kwargs).to_empty(device=device)
