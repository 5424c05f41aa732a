"""Rushlight: tensors, autograd and neural networks with PyTorch's API, compiled as recorded.

`import rushlight as torch`. This file only says what that namespace holds.
"""

from rushlight import pipeline as _pipeline  # noqa: F401 - installs the executor
from rushlight import surface as _surface
from rushlight.autograd.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from rushlight.config import default_dtype as get_default_dtype
from rushlight.config import set_default_dtype
from rushlight.device import device
from rushlight.dtype import (
    ALIASES as _ALIASES,
)
from rushlight.dtype import (
    BY_NAME as _BY_NAME,
)
from rushlight.dtype import (
    can_cast,
    dtype,
    finfo,
    iinfo,
    promote_types,
)
from rushlight.tensor import Size, Tensor, from_numpy, tensor

globals().update(_BY_NAME)
globals().update(_ALIASES)
globals().update(_surface.NAMESPACES["torch"])
