"""Gradients: the engine that walks the tape, custom functions, hooks and checks.

In come tensors with a tape; out go gradients, recorded by the same ops and compiled like
everything else.
"""

import importlib as _importlib
from typing import Any as _Any  # names of any kind

from rushlight.autograd.anomaly_mode import (
    detect_anomaly,
    is_anomaly_enabled,
    set_detect_anomaly,
)
from rushlight.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)

# Rooms that need tensors, which come after the engine: imported when first named.
_LATER = {
    "Function": "function",
    "FunctionCtx": "function",
    "InplaceFunction": "function",
    "NestedIOFunction": "function",
    "once_differentiable": "function",
    "grad": "grad_api",
    "backward": "grad_api",
    "gradcheck": "gradcheck",
    "gradgradcheck": "gradcheck",
    "GradcheckError": "gradcheck",
}


def __getattr__(name: str) -> _Any:
    if name in (
        "functional",
        "function",
        "grad_api",
        "forward_ad",
        "graph",
        "profiler",
        "variable",
    ):
        return _importlib.import_module(f"rushlight.autograd.{name}")
    if name == "Variable":
        return _importlib.import_module("rushlight.autograd.variable").Variable
    if name not in _LATER:
        raise AttributeError(f"module 'rushlight.autograd' has no attribute {name!r}")
    home = _importlib.import_module(f"rushlight.autograd.{_LATER[name]}")
    for each, room in _LATER.items():  # a submodule may share its name with a function
        if room == _LATER[name]:
            globals()[each] = getattr(home, each)
    return globals()[name]
