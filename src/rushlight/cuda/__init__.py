"""`torch.cuda` on a machine without CUDA: every question has its answer, and it is no.

Programs ask `is_available()` and go on with the CPU; what only makes sense with a device raises
what PyTorch's CPU build raises. Seeding, clearing caches and waiting have nothing to act on and
return at once. No state is kept here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rushlight.cuda import amp, memory, nccl, nvtx, profiler, random, streams
from rushlight.cuda.absent import CudaError, DeferredCudaCallError, refuse
from rushlight.cuda.memory import (
    caching_allocator_alloc,
    caching_allocator_delete,
    empty_cache,
    get_allocator_backend,
    host_memory_stats,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from rushlight.cuda.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from rushlight.cuda.streams import (
    CUDAGraph,
    Event,
    ExternalStream,
    MemPool,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
    set_stream,
    stream,
    use_mem_pool,
)
from rushlight.errors import AcceleratorError, OutOfMemoryError

Device = Any  # a device, its name, its index, or None for the current one

default_generators: tuple[()] = ()
has_half = False
has_magma = False


def is_available() -> bool:
    """Whether a CUDA device can be used: it cannot."""
    return False


def is_initialized() -> bool:
    """Whether CUDA has been started: it never is."""
    return False


def device_count() -> int:
    """The number of CUDA devices: none."""
    return 0


def init() -> None:
    """Start CUDA, which is not there."""
    refuse()


def synchronize(device: Device = None) -> None:
    """Wait for the devices' work; with no device there is none to wait for."""


def ipc_collect() -> None:
    """Free memory shared between processes; there is none on a device."""


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether a CUDA device computes in bfloat16: there is no device."""
    return False


def is_tf32_supported() -> bool:
    """Whether a CUDA device computes in TF32: there is no device."""
    return False


def get_arch_list() -> list[str]:
    """The architectures that kernels were built for: none."""
    return []


def get_gencode_flags() -> str:
    """The compiler flags for those architectures: none."""
    return ""


def current_device() -> int:
    """The index of the current device, of which there is none."""
    refuse()


def set_device(device: Device) -> None:
    """Choose a device. A negative index chooses none, and that works."""
    if not (isinstance(device, int) and device < 0):
        refuse()


def get_device_name(device: Device = None) -> str:
    """A device's name."""
    refuse()


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """A device's compute capability."""
    refuse()


def get_device_properties(device: Device = None) -> NoReturn:
    """A device's properties."""
    refuse()


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether one device reads another's memory."""
    refuse()


def cudart() -> NoReturn:
    """The CUDA run-time library."""
    refuse()


def current_blas_handle() -> NoReturn:
    """The handle of cuBLAS."""
    refuse()


def get_sync_debug_mode() -> int:
    """The debug mode of synchronising operations."""
    refuse()


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Set the debug mode of synchronising operations."""
    refuse()


def utilization(device: Device = None) -> int:
    """How busy a device is."""
    refuse()


class device:
    """Make a device current inside a `with` block; None and negative indices change nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else device

    def __enter__(self) -> None:
        set_device(self.idx)

    def __exit__(self, *_: object) -> None:
        return None


class device_of(device):
    """Make a tensor's device current; a CPU tensor changes nothing."""

    def __init__(self, obj: Any) -> None:  # Any: a tensor or a storage
        super().__init__(obj.get_device() if obj.is_cuda else -1)


class _AbsentType(type):
    """The class of `torch.cuda.FloatTensor` and its like: nothing is an instance of them."""

    def __call__(cls, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            f"type torch.cuda.{cls.__name__} not available. "
            "Torch not compiled with CUDA enabled."
        )


def _absent_type(name: str) -> type:
    return _AbsentType(name, (), {"__module__": "torch.cuda", "is_cuda": True})


FloatTensor, DoubleTensor, HalfTensor, BFloat16Tensor, LongTensor = map(
    _absent_type,
    ("FloatTensor", "DoubleTensor", "HalfTensor", "BFloat16Tensor", "LongTensor"),
)
IntTensor, ShortTensor, CharTensor, ByteTensor, BoolTensor = map(
    _absent_type, ("IntTensor", "ShortTensor", "CharTensor", "ByteTensor", "BoolTensor")
)


def _is_in_bad_fork() -> bool:
    return False


def _lazy_init() -> None:
    refuse()


def _lazy_call(function: Callable[[], Any], **_: Any) -> None:
    """Do something once CUDA starts: it never does, so never."""


def _sleep(cycles: int) -> None:
    refuse()
