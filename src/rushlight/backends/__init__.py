"""`torch.backends`: what PyTorch's back ends are asked, and the switches that they have.

None of those libraries is used here: results never depend on a switch in this room. The
switches keep what is set, so that a program can read back what it wrote.
"""

from rushlight.backends import (
    cpu,
    cuda,
    cudnn,
    cusparselt,
    mha,
    mkl,
    mkldnn,
    mps,
    nnpack,
    openmp,
    opt_einsum,
)

fp32_precision = "none"

__all__ = [
    "cpu",
    "cuda",
    "cudnn",
    "cusparselt",
    "fp32_precision",
    "mha",
    "mkl",
    "mkldnn",
    "mps",
    "nnpack",
    "openmp",
    "opt_einsum",
]
