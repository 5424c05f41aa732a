"""The names of PyTorch's native module that programs use.

Classes for tensor subclasses, switches of TorchScript's executor, which are accepted because
there is none, and answers about the build.
"""

from __future__ import annotations

import importlib
from typing import Any  # switches take anything

from rushlight.config import default_device as _get_default_device
from rushlight.errors import LinAlgError as _LinAlgError
from rushlight.overrides import DisableTorchFunction, DisableTorchFunctionSubclass
from rushlight.tensor import Tensor
from rushlight.tensor import disabled_torch_function as _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_LinAlgError",
    "_disabled_torch_function_impl",
    "_get_default_device",
]

_GLIBCXX_USE_CXX11_ABI = True
_has_cuda = _has_mps = _has_xpu = False
_TensorMeta = type(Tensor)


def _log_api_usage_once(event: str) -> None:
    """Accepted: nothing is logged."""


def _get_tracing_state() -> None:
    """The TorchScript trace being made: none."""


def _get_privateuse1_backend_name() -> str:
    """The name of a device that an extension adds: the one it has before that."""
    return "privateuseone"


def _get_accelerator(check: bool | None = None) -> Any:
    """The device of this build's accelerator: the CPU, as there is none."""
    return importlib.import_module("rushlight.devices").device("cpu")


def _switch(name: str, before: object) -> None:
    """A switch of TorchScript's executor: it is accepted, and was always `before`."""

    def function(*_: Any) -> Any:
        return before

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Accepted: there is no TorchScript executor."
    globals()[name] = function


for _name in (
    "_jit_set_profiling_executor", "_jit_set_profiling_mode", "_get_graph_executor_optimize",
    "_jit_set_nvfuser_enabled", "_jit_set_texpr_fuser_enabled", "_jit_texpr_fuser_enabled",
    "_jit_can_fuse_on_cpu", "_jit_can_fuse_on_gpu", "_jit_nvfuser_enabled",
    "_debug_get_fusion_group_inlining",
):  # fmt: skip
    _switch(_name, False)
for _name in (
    "_jit_override_can_fuse_on_cpu", "_jit_override_can_fuse_on_gpu", "_jit_set_bailout_depth",
    "_debug_set_autodiff_subgraph_inlining", "_debug_set_fusion_group_inlining",
    "_set_graph_executor_optimize", "_jit_set_nvfuser_guard_mode",
):  # fmt: skip
    _switch(_name, None)


def __getattr__(name: str) -> object:
    """Import `_nn` when it is first named."""
    if name != "_nn":
        raise AttributeError(f"module 'rushlight._C' has no attribute {name!r}")
    return importlib.import_module("rushlight._C._nn")
