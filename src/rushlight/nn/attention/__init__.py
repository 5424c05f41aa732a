"""`torch.nn.attention`: which kernel attention runs on, and attention with a formula.

There is one kernel for `scaled_dot_product_attention`: a choice among PyTorch's is kept, told
back and has no effect on what is computed.
"""

from __future__ import annotations

import contextlib
import enum
import importlib
from collections.abc import Iterator, Sequence
from typing import NoReturn

from rushlight import errors
from rushlight.backends import cuda as _cuda

__all__ = [
    "SDPBackend", "activate_flash_attention_impl", "bias", "current_flash_attention_impl",
    "flex_attention", "list_flash_attention_impls", "restore_flash_attention_impl",
    "sdpa_kernel",
]  # fmt: skip

WARN_FOR_UNFUSED_KERNELS = False


class SDPBackend(enum.Enum):
    """PyTorch's implementations of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_SWITCHES = {
    SDPBackend.FLASH_ATTENTION: (_cuda.flash_sdp_enabled, _cuda.enable_flash_sdp),
    SDPBackend.EFFICIENT_ATTENTION: (
        _cuda.mem_efficient_sdp_enabled, _cuda.enable_mem_efficient_sdp,
    ),
    SDPBackend.MATH: (_cuda.math_sdp_enabled, _cuda.enable_math_sdp),
    SDPBackend.CUDNN_ATTENTION: (_cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp),
}  # fmt: skip


@contextlib.contextmanager
def sdpa_kernel(
    backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False
) -> Iterator[None]:
    """Name the implementations that attention may use inside a `with` block.

    The results are the same whatever is named; `torch.backends.cuda` tells what was.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention import SDPBackend, sdpa_kernel
    >>> q = torch.ones(1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
    ...     out = torch.nn.functional.scaled_dot_product_attention(q, q, q)
    >>> out.shape
    torch.Size([1, 2, 4])
    """
    named = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not named or not all(isinstance(one, SDPBackend) for one in named):
        raise ValueError(f"sdpa_kernel: expected a SDPBackend or several, got {backends!r}")
    before = {one: is_enabled() for one, (is_enabled, _) in _SWITCHES.items()}
    for one, (_, enable) in _SWITCHES.items():
        enable(one in named)
    try:
        yield
    finally:
        for one, was_enabled in before.items():
            _SWITCHES[one][1](was_enabled)


def list_flash_attention_impls() -> list[str]:
    """The kernels of other packages that can be activated: none."""
    return []


def current_flash_attention_impl() -> None:
    """The kernel of another package in use: none."""


def activate_flash_attention_impl(impl: str) -> NoReturn:
    """Refuse: kernels of other packages cannot be used."""
    raise errors.not_there(f"activate_flash_attention_impl({impl!r})", "kernels for a GPU")


def restore_flash_attention_impl(_raise_warn: bool = True) -> None:
    """Go back to the kernel of this library, which is always in use."""


def __getattr__(name: str) -> object:
    """Import `bias` and `flex_attention` when they are first named."""
    if name not in ("bias", "flex_attention"):
        raise AttributeError(f"module 'rushlight.nn.attention' has no attribute {name!r}")
    return importlib.import_module(f"rushlight.nn.attention.{name}")
