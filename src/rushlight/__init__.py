"""Rushlight: tensors, autograd and neural networks with PyTorch's API, compiled as recorded.

`import rushlight as torch`. This file only says what that namespace holds. Rooms that not every
program needs are imported when they are first named.
"""

import importlib as _importlib
from math import e, inf, nan, pi

import rushlight as torch  # PyTorch's namespace has itself: its tests say `torch.torch.abs`
from rushlight import errors as _errors
from rushlight import pipeline as _pipeline
from rushlight import surface as _surface
from rushlight.arrays import from_file, from_numpy
from rushlight.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.config import default_dtype as get_default_dtype
from rushlight.config import get_default_device, set_default_device, set_default_dtype
from rushlight.devices import device
from rushlight.dtypes import (
    ALIASES as _ALIASES,
)
from rushlight.dtypes import (
    BY_NAME as _BY_NAME,
)
from rushlight.dtypes import (
    NAMED_ONLY as _NAMED_ONLY,
)
from rushlight.dtypes import (
    can_cast,
    dtype,
    finfo,
    iinfo,
    promote_types,
)
from rushlight.errors import AcceleratorError, OutOfMemoryError
from rushlight.layout import (
    Size,
    channels_last,
    channels_last_3d,
    contiguous_format,
    layout,
    legacy_contiguous_format,
    memory_format,
    preserve_format,
    sparse_coo,
    sparse_csr,
    strided,
)
from rushlight.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from rushlight.tensor import Tensor

newaxis = None
globals().update(_BY_NAME)
globals().update(_NAMED_ONLY)
globals().update(_ALIASES)
bit = _NAMED_ONLY["uint1"]
globals().update(_surface.NAMESPACES["torch"])

_ROOMS = (
    "_C", "__config__", "__future__", "_dynamo", "_functorch", "_higher_order_ops", "_inductor",
    "_logging", "_utils", "accelerator", "amp", "autograd", "backends", "compiler", "cpu",
    "cuda", "data", "distributed", "distributions", "fft", "func", "functional", "futures",
    "hub", "jit", "library", "linalg", "masked", "mps", "multiprocessing", "nn", "onnx", "ops",
    "optim", "overrides", "profiler", "quasirandom", "random", "return_types", "serialization",
    "signal", "special", "storage", "testing", "torch_version", "types", "utils", "version",
    "xpu",
)  # fmt: skip
_AUTOCAST = (
    "is_autocast_enabled", "set_autocast_enabled", "get_autocast_dtype", "set_autocast_dtype",
    "is_autocast_cpu_enabled", "set_autocast_cpu_enabled", "get_autocast_cpu_dtype",
    "set_autocast_cpu_dtype", "get_autocast_gpu_dtype", "set_autocast_gpu_dtype",
    "is_autocast_cache_enabled", "set_autocast_cache_enabled", "clear_autocast_cache",
    "autocast_increment_nesting", "autocast_decrement_nesting",
)  # fmt: skip
_RECURRENT = (
    "rnn_tanh", "rnn_relu", "gru", "lstm", "rnn_tanh_cell", "rnn_relu_cell", "gru_cell",
    "lstm_cell",
)  # fmt: skip
_CHECKS = (
    "_assert", "_assert_async", "_check", "_check_index", "_check_is_size",
    "_check_not_implemented", "_check_tensor_all", "_check_type", "_check_value",
    "_check_with",
)  # fmt: skip
_ELSEWHERE = dict.fromkeys(_AUTOCAST, "amp.state") | {
    **dict.fromkeys(_CHECKS, "checks"),
    "Event": "streams",
    "Stream": "streams",
    "ScriptFunction": "jit",
    "ScriptModule": "jit",
    "Future": "futures",
    "compile": "compiler",
    "save": "serialization",
    "load": "serialization",
    "__version__": "version",
    "explain": "explain",
    **dict.fromkeys(
        (
            "SymBool",
            "SymFloat",
            "SymInt",
            "sym_float",
            "sym_int",
            "sym_ite",
            "sym_max",
            "sym_min",
            "sym_not",
            "sym_sqrt",
            "sym_sum",
        ),
        "symbolic",
    ),
    **dict.fromkeys(
        (
            "compiled_with_cxx11_abi",
            "get_device_module",
            "get_file_path",
            "has_lapack",
            "has_mkl",
            "has_openmp",
            "has_spectral",
            "init_num_threads",
            "is_vulkan_available",
            "is_warn_always_enabled",
            "set_warn_always",
            "typename",
        ),
        "facts",
    ),
    "cond": "control_flow",
    "while_loop": "control_flow",
    "DisableTorchFunction": "overrides",
    "DisableTorchFunctionSubclass": "overrides",
    "is_anomaly_check_nan_enabled": "autograd.anomaly_mode",
    "set_anomaly_enabled": "autograd.anomaly_mode",
    "from_dlpack": "utils.dlpack",
    "to_dlpack": "utils.dlpack",
    "set_printoptions": "printing",
    "get_printoptions": "printing",
    "autocast": "amp",
    "GradScaler": "amp",
    "UntypedStorage": "storage",
    "TypedStorage": "storage",
    "set_default_tensor_type": "typed",
    "is_anomaly_enabled": "autograd",
    "use_deterministic_algorithms": "determinism",
    "are_deterministic_algorithms_enabled": "determinism",
    "is_deterministic_algorithms_warn_only_enabled": "determinism",
    "set_deterministic_debug_mode": "determinism",
    "get_deterministic_debug_mode": "determinism",
    "get_float32_matmul_precision": "determinism",
    "set_float32_matmul_precision": "determinism",
    "vmap": "func",
    **dict.fromkeys(_RECURRENT, "nn.recurrence"),
    "get_num_threads": "runtime.pool",
    "set_num_threads": "runtime.pool",
    "set_flush_denormal": "determinism",
    "get_num_interop_threads": "determinism",
    "set_num_interop_threads": "determinism",
    "thread_safe_generator": "random",
}


def __getattr__(name: str) -> object:
    """Import a room, or the room of a name, when it is first asked for."""
    found: object
    if name in _ROOMS:
        found = _importlib.import_module(f"rushlight.{name}")
    elif name in _ELSEWHERE:
        found = getattr(_importlib.import_module(f"rushlight.{_ELSEWHERE[name]}"), name)
    elif name.startswith("_foreach_"):
        found = getattr(_importlib.import_module("rushlight.foreach"), name)
    elif name.endswith(("Tensor", "Storage")):
        found = getattr(_importlib.import_module("rushlight.typed"), name, None)
        if found is None:
            raise AttributeError(f"module 'rushlight' has no attribute {name!r}")
    else:
        why = f": it has no {_errors.NO_COMPLEX_HALF}" if name in ("complex32", "chalf") else ""
        raise AttributeError(f"module 'rushlight' has no attribute {name!r}{why}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_ROOMS, *_ELSEWHERE})
