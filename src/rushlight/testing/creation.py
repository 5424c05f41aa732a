"""`make_tensor`: random inputs of any dtype, range and layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# Any, below: tensors, dtypes and devices are the core's.

_RANGES = {"bool": (0, 2), "uint8": (0, 10), "float": (-9, 9), "int": (-9, 10)}


def make_tensor(
    *shape: int | Sequence[int],
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Any:
    """A tensor of values drawn evenly from `[low, high)`.

    Without limits the range is [-9, 9) for floats, [-9, 10) for integers, [0, 10) for unsigned
    ones, and both values for booleans. Limits are cut to what the dtype holds.

    >>> import rushlight as torch
    >>> make_tensor((2, 3), dtype=torch.float32, device="cpu", low=0, high=1).shape
    torch.Size([2, 3])
    """
    import rushlight as torch  # late: the public namespace imports this room

    floating = dtype.is_floating_point or dtype.is_complex
    if requires_grad and not floating:
        raise ValueError(
            "`requires_grad=True` is not supported for boolean and integral dtypes, "
            f"but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, "
            f"but got noncontiguous={noncontiguous} and memory_format={memory_format}"
        )
    sizes = _sizes(shape)
    limits = _limits(torch, dtype, low, high)
    draw = _floats if floating else _integers
    result = draw(torch, sizes, dtype, device, *limits)
    if exclude_zero:
        result[result == 0] = torch.finfo(dtype).tiny if floating else 1
    if noncontiguous and result.numel() > 1:
        result = torch.repeat_interleave(result, 2, dim=-1)[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_(requires_grad)


def _sizes(shape: tuple[Any, ...]) -> tuple[int, ...]:
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        return tuple(shape[0])
    return shape


def _limits(
    torch: Any, dtype: Any, low: float | None, high: float | None
) -> tuple[float, float]:
    name = str(dtype).rsplit(".", 1)[-1]
    floating = dtype.is_floating_point or dtype.is_complex
    family = "float" if floating else "uint8" if name.startswith("uint") else name
    start, end = _RANGES.get(family, _RANGES["int"])
    low, high = start if low is None else low, end if high is None else high
    if math.isnan(low) or math.isnan(high):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    if low > high or (low == high and not floating):
        relation = ">=" if low >= high else ">"
        raise ValueError(f"`low` must be less than `high`, but got {low} {relation} {high}")
    least, most = _held(torch, dtype, name, floating)
    return min(max(low, least), most), max(min(high, most), least)


def _held(torch: Any, dtype: Any, name: str, floating: bool) -> tuple[float, float]:
    """What a dtype can hold, as a half-open range for integers."""
    if name == "bool":
        return 0, 2
    info = torch.finfo(dtype) if floating else torch.iinfo(dtype)
    return info.min, info.max if floating else info.max + 1


def _floats(
    torch: Any, sizes: tuple[int, ...], dtype: Any, device: Any, low: float, high: float
) -> Any:
    """Drawn in float64 and mixed so that the widest range does not overflow."""
    if dtype.is_complex:
        part = torch.float64 if "128" in str(dtype) else torch.float32
        draw = [_floats(torch, sizes, part, device, low, high) for _ in range(2)]
        return torch.complex(*draw).to(dtype)
    unit = torch.rand(sizes, dtype=torch.float64, device=device)
    drawn = (low * (1 - unit) + high * unit).to(dtype)
    # Rounding to a narrow dtype can reach the upper limit, which is not in the range.
    return torch.where(drawn >= high, low, drawn).to(dtype) if low < high else drawn


def _integers(
    torch: Any, sizes: tuple[int, ...], dtype: Any, device: Any, low: float, high: float
) -> Any:
    first, end = math.ceil(low), math.ceil(high)
    last = min(end, torch.iinfo(torch.int64).max)
    return torch.randint(first, last, sizes, dtype=torch.int64, device=device).to(dtype)
