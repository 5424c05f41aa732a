"""`autocast`: lower precision inside a `with` block or a decorated function."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Self  # functions of any signature are decorated

from rushlight.amp import state
from rushlight.dtypes import bfloat16, dtype, float16
from rushlight.tensor import Tensor

_ON_CPU = (bfloat16, float16)


class autocast:
    """Matrix products inside run in lower precision, losses and the like in float32.

    device_type: 'cpu', or the type of a device that is not there ('cuda'), for which the block
    changes nothing and says so in a warning. dtype: bfloat16 (the default) or float16 for the
    CPU; with another the block changes nothing and warns. Float64 tensors are left alone.

    >>> import rushlight as torch
    >>> with torch.autocast("cpu", dtype=torch.bfloat16):
    ...     print((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)
    torch.bfloat16
    """

    def __init__(
        self,
        device_type: str,
        dtype: dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`"
            )
        if not is_autocast_available(device_type):
            raise RuntimeError(
                f"User specified an unsupported autocast device_type '{device_type}'"
            )
        self.device = device_type
        self.fast_dtype = state.get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = (
            state.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        )
        self._enabled = bool(enabled) and self._can_lower()
        self._before: list[tuple[bool, Any, bool]] = []

    def _can_lower(self) -> bool:
        if self.device != "cpu":
            name = self.device.upper()
            warnings.warn(f"{name} is not available. Disabling autocast.", stacklevel=3)
            return False
        if self.fast_dtype not in _ON_CPU:
            names = ", ".join(map(repr, _ON_CPU))
            warnings.warn(
                f"In CPU autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"CPU Autocast only supports dtypes of {names} currently.",
                stacklevel=3,
            )
            return False
        return True

    def __enter__(self) -> Self:
        place = self.device
        before = state.is_autocast_enabled(place), state.get_autocast_dtype(place)
        self._before.append((*before, state.is_autocast_cache_enabled()))
        state.set_autocast_enabled(place, self._enabled)
        state.set_autocast_dtype(place, self.fast_dtype)
        state.set_autocast_cache_enabled(self._cache_enabled)
        state.autocast_increment_nesting()
        return self

    def __exit__(self, *_: object) -> None:
        enabled, kind, cache = self._before.pop()
        state.autocast_decrement_nesting()
        state.set_autocast_enabled(self.device, enabled)
        state.set_autocast_dtype(self.device, kind)
        state.set_autocast_cache_enabled(cache)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


def is_autocast_available(device_type: str) -> bool:
    """Whether devices of that type have autocast (which need not mean that one is there)."""
    return device_type in state.DEVICE_TYPES


def custom_fwd(
    fwd: Callable[..., Any] | None = None,
    *,
    device_type: str,
    cast_inputs: dtype | None = None,
) -> Callable[..., Any]:
    """Decorates the `forward` of a Function that is used under autocast.

    With `cast_inputs`, tensors are cast to it and the body runs without autocast; without, the
    body runs under the caller's autocast. `custom_bwd` gives the backward the same.
    """
    _check_name(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        is_on = state.is_autocast_enabled(device_type)
        ctx._dtype = state.get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = is_on and cast_inputs is None
        if cast_inputs is None or not is_on:
            return fwd(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            given, named = _cast(args, cast_inputs), _cast(kwargs, cast_inputs)
            return fwd(ctx, *given, **named)

    return forward


def custom_bwd(
    bwd: Callable[..., Any] | None = None, *, device_type: str
) -> Callable[..., Any]:
    """Decorates the `backward` of a Function: it runs under its forward's autocast."""
    _check_name(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(ctx, *args, **kwargs)

    return backward


def _check_name(device_type: str) -> None:
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def _cast(x: Any, to: dtype) -> Any:
    """Floating-point tensors in nested containers as `to`, except float64."""
    if isinstance(x, Tensor):
        lowers = x.is_floating_point() and x.dtype.itemsize < 8
        return x.to(to) if lowers else x
    if isinstance(x, Mapping):
        return {key: _cast(value, to) for key, value in x.items()}
    if isinstance(x, list | tuple):
        return type(x)([_cast(value, to) for value in x])
    return x
