"""`torch.backends.cpu`: the vectors that this machine has."""

from __future__ import annotations

import numpy as np


def get_cpu_capability() -> str:
    """AVX512, AVX2, ... in PyTorch's words; DEFAULT where there is nothing special."""
    # NumPy asks the processor at import; there is no public way to its answer in NumPy 1.
    core = getattr(np, "_core", None) or np.core
    features = core._multiarray_umath.__cpu_features__
    for feature, name in (("AVX512_SKX", "AVX512"), ("AVX2", "AVX2"), ("SVE", "SVE256")):
        if features.get(feature):
            return name
    return "DEFAULT"
