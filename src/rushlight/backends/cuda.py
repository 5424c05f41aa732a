"""`torch.backends.cuda`: switches of CUDA's libraries, kept and without effect here."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass(slots=True)
class Matmul:
    """`torch.backends.cuda.matmul`: the precision of products on a CUDA device."""

    allow_tf32: bool = False
    allow_fp16_reduced_precision_reduction: bool = True
    allow_bf16_reduced_precision_reduction: bool = True
    allow_fp16_accumulation: bool = False
    fp32_precision: str = "none"


matmul = Matmul()

_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def is_built() -> bool:
    """Whether support for CUDA was built in: it was not."""
    return False


def is_flash_attention_available() -> bool:
    """Whether CUDA's flash attention can be used: it cannot."""
    return False


def flash_sdp_enabled() -> bool:
    """Whether flash attention is allowed on a CUDA device."""
    return _attention["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """Whether memory-efficient attention is allowed on a CUDA device."""
    return _attention["mem_efficient"]


def math_sdp_enabled() -> bool:
    """Whether attention in single operations is allowed on a CUDA device."""
    return _attention["math"]


def cudnn_sdp_enabled() -> bool:
    """Whether cuDNN's attention is allowed on a CUDA device."""
    return _attention["cudnn"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow flash attention on a CUDA device, or not."""
    _attention["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow memory-efficient attention on a CUDA device, or not."""
    _attention["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention in single operations on a CUDA device, or not."""
    _attention["math"] = bool(enabled)


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow cuDNN's attention on a CUDA device, or not."""
    _attention["cudnn"] = bool(enabled)


@contextlib.contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[None]:
    """Allow kinds of attention inside a `with` block."""
    warnings.warn(
        "torch.backends.cuda.sdp_kernel() is deprecated: use torch.nn.attention.sdpa_kernel()",
        FutureWarning,
        stacklevel=3,
    )
    before = dict(_attention)
    asked = (enable_flash, enable_mem_efficient, enable_math, enable_cudnn)
    _attention.update(zip(before, asked, strict=True))
    try:
        yield
    finally:
        _attention.update(before)


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:  # Any: SDPAParams
    """Whether CUDA's flash attention takes these inputs: it does not."""
    return False


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Whether CUDA's memory-efficient attention takes these inputs: it does not."""
    return False


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """Whether cuDNN's attention takes these inputs: it does not."""
    return False
