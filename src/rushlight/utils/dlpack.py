"""DLPack: tensors given to and taken from other libraries without a copy.

NumPy makes and reads the capsules. What it lacks are the dtypes that it does not have: their
bits travel as unsigned integers, and the dtype in the capsule is corrected here.
"""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any  # capsules, and objects that give them

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors
from rushlight.arrays import tensor_on
from rushlight.devices import check_usable
from rushlight.dtypes import dtype
from rushlight.tensor import Tensor


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers of device types."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


class _DType(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
    ]  # fmt: skip


class _Tensor(ctypes.Structure):  # DLTensor
    _fields_ = [
        ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("dtype", _DType),
    ]  # fmt: skip


# where the DLTensor is: behind version, context, deleter and flags in a versioned capsule
_OFFSETS = {b"dltensor": 0, b"dltensor_versioned": 32}
_UNSIGNED, _BFLOAT = 1, 4
# dtypes that NumPy lacks, by DLPack's code and bits
_LACKING = {
    (_BFLOAT, 16): "bfloat16", (7, 8): "float8_e3m4", (8, 8): "float8_e4m3",
    (10, 8): "float8_e4m3fn", (11, 8): "float8_e4m3fnuz", (12, 8): "float8_e5m2",
    (13, 8): "float8_e5m2fnuz", (14, 8): "float8_e8m0fnu",
}  # fmt: skip
_CODES = {name: code for (code, _), name in _LACKING.items()}

_api = ctypes.pythonapi
_api.PyCapsule_GetName.restype = ctypes.c_char_p
_api.PyCapsule_GetName.argtypes = [ctypes.py_object]
_api.PyCapsule_GetPointer.restype = ctypes.c_void_p
_api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _dtype_in(capsule: Any) -> _DType:
    """The dtype that a capsule tells, as memory that can be written."""
    name = _api.PyCapsule_GetName(capsule)
    if name not in _OFFSETS:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be "
            "consumed only once, so you might have already constructed a tensor from it once."
        )
    address = _api.PyCapsule_GetPointer(capsule, name) + _OFFSETS[name]
    found: _DType = _Tensor.from_address(address).dtype
    return found


# -- out


def capsule_of(
    x: Tensor, *, max_version: tuple[int, int] | None = None, copy: bool | None = None
) -> Any:
    """What `Tensor.__dlpack__` returns; the memory is shared while the capsule is used."""
    if x.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if x.is_meta:
        raise BufferError("Can't export tensors on meta: they have no elements")
    for bit, is_set in (("conjugate", x.is_conj()), ("negative", x.is_neg())):
        if is_set:
            raise BufferError(f"Can't export tensors with the {bit} bit set")
    array = (x.clone() if copy else x)._shared_array()
    named = {} if max_version is None else {"max_version": max_version}
    capsule = array.__dlpack__(**named)
    if x.dtype.name in _CODES:
        _dtype_in(capsule).code = _CODES[x.dtype.name]
    return capsule


def device_of(x: Tensor) -> tuple[DLDeviceType, int]:
    """What `Tensor.__dlpack_device__` returns."""
    if x.is_meta:
        raise ValueError("Unknown device type meta for Dlpack")
    return DLDeviceType.kDLCPU, 0


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule on the memory of a tensor, for one `from_dlpack`."""
    if not isinstance(tensor, Tensor):
        raise errors.not_a_tensor("to_dlpack", "tensor", tensor, 1)
    return capsule_of(tensor)


# -- in


class _Given:
    """A capsule as the object that NumPy asks for one."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLDeviceType.kDLCPU, 0


@contextmanager
def _readable(capsule: Any) -> Iterator[dtype | None]:
    """Show NumPy the bits of a dtype that it lacks; the dtype they are of."""
    kind = _dtype_in(capsule)
    name = _LACKING.get((kind.code, kind.bits))
    known = None if name is None else dt.BY_NAME.get(name)
    if known is not None:
        kind.code = _UNSIGNED
    yield known


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of another library's (an object with `__dlpack__`, a capsule).

    device: where the tensor is to be; only the CPU has data here. copy: True always copies,
    False and None never need to.

    >>> import numpy as np
    >>> import rushlight as torch
    >>> torch.from_dlpack(np.arange(3))
    tensor([0, 1, 2])
    """
    if device is not None and check_usable(device).type != "cpu":
        raise ValueError(f"from_dlpack: cannot move to device {device!r}")
    made = _taken(_capsule_from(ext_tensor))
    return made.clone() if copy else made


def _capsule_from(source: Any) -> Any:
    if not hasattr(source, "__dlpack__"):
        return source
    kind, _ = source.__dlpack_device__()
    if kind != DLDeviceType.kDLCPU:
        raise RuntimeError(
            f"from_dlpack: data on device type {int(kind)} cannot be read: this build of "
            f"rushlight runs on the CPU only"
        )
    try:
        return source.__dlpack__(max_version=(1, 0))
    except TypeError:  # a library from before versions
        return source.__dlpack__()


def _taken(capsule: Any) -> Tensor:
    with _readable(capsule) as kind:
        array = np.from_dlpack(_Given(capsule))
    return tensor_on(array, kind or dt.of_numpy(array.dtype))
