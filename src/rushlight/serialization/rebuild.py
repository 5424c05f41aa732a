"""The functions that a file may call: PyTorch's rebuild functions, under the same signatures.

Each gets a storage record and numbers from the file and returns a tensor. None trusts its
arguments: sizes are checked against the storage, classes against what is a tensor.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.serialization.tensors import Bytes, dressed, marked, public, short_name, view_of

# Any, below: what a file hands over has not been checked yet, and tensors are the core's.

OTHER_DTYPES = (
    "uint16",
    "uint32",
    "uint64",
    "complex32",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)


def tensor_v1(storage: Any, offset: Any, size: Any, stride: Any) -> Any:
    return _tensor(storage, storage.dtype, offset, size, stride)


def tensor_v2(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> Any:
    tensor = _tensor(storage, storage.dtype, offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Any:
    if not isinstance(dtype, public().dtype):
        raise pickle.UnpicklingError(f"a tensor cannot have the dtype {dtype!r}")
    tensor = _tensor(storage, short_name(dtype), offset, size, stride)
    return _finished(tensor, requires_grad, metadata)


def parameter(data: Any, requires_grad: Any, hooks: Any) -> Any:
    return public().nn.Parameter(data, bool(requires_grad))


def parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Any:
    result = parameter(data, requires_grad, hooks)
    return _with_attributes(result, state)


def meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Any:
    if not isinstance(dtype, public().dtype):
        raise pickle.UnpicklingError(f"a tensor cannot have the dtype {dtype!r}")
    nowhere = Bytes(np.empty(0, np.uint8), device="meta")
    tensor = view_of(nowhere, short_name(dtype), 0, size, stride)
    return tensor.requires_grad_(bool(requires_grad))


def of_type(function: Any, kind: Any, arguments: Any, state: Any) -> Any:
    """A tensor of a subclass, or one with attributes of the user's."""
    if function not in FUNCTIONS.values() or not issubclass(kind, public().Tensor):
        raise pickle.UnpicklingError(f"a tensor cannot be rebuilt by {function} as {kind}")
    result = function(*arguments)
    if kind is not type(result):
        result = dressed(result, kind, bool(result.requires_grad), {})
    return _with_attributes(result, state)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "_rebuild_tensor": tensor_v1,
    "_rebuild_tensor_v2": tensor_v2,
    "_rebuild_tensor_v3": tensor_v3,
    "_rebuild_parameter": parameter,
    "_rebuild_parameter_with_state": parameter_with_state,
    "_rebuild_meta_tensor_no_storage": meta_tensor,
}


def _tensor(storage: Any, dtype: str, offset: Any, size: Any, stride: Any) -> Any:
    if not isinstance(storage, Bytes):
        raise pickle.UnpicklingError(f"a tensor needs a storage, not {type(storage).__name__}")
    return view_of(storage, dtype, offset, size, stride)


def _finished(tensor: Any, requires_grad: Any, metadata: Any) -> Any:
    return marked(tensor, metadata or {}).requires_grad_(bool(requires_grad))


def _with_attributes(tensor: Any, state: Any) -> Any:
    """Set what the user hung on a tensor; a pair is `__dict__` and slots, as pickle has it."""
    parts = state if isinstance(state, tuple) else (state,)
    for part in parts:
        for name, value in (part or {}).items():
            if name.startswith("__"):
                raise pickle.UnpicklingError(f"a file may not set {name} of a tensor")
            setattr(tensor, name, value)
    return tensor
