"""Random numbers in place of what a tensor holds."""

from __future__ import annotations

import math
from typing import Any  # generators, sizes, numbers

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.ops.creation import merged
from rushlight.ops.random import (
    EXPONENTIAL,
    LIMITS,
    NORMAL,
    UNIFORM,
    check_bounds,
    check_range,
    draw,
    draw_integers,
    floating,
    floating_draw,
    source_of,
)
from rushlight.ops.registry import (
    documented,
    public,
    recorder,
)


@public("Tensor", name="uniform_")
@documented("from", "to")
def uniform_(input: Any, *bounds: Any, generator: Any = None, **named: Any) -> Any:
    """Fill with uniform numbers in [from, to), by default [0, 1).

    >>> torch.zeros(2).uniform_(1.0, 1.0)
    tensor([1., 1.])
    """
    given = merged("uniform_", ("from", "to"), bounds, named)
    low, to = given.get("from", 0.0), given.get("to", 1.0)
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    made = floating_draw(
        UNIFORM, "uniform_", input._shape, input.dtype, source_of(generator, like=input)
    )
    if (low, to) != (0, 1):
        made = made * (to - low) + low
    return recorder.write(input, made, "uniform_")


@public("Tensor", name="normal_")
def normal_(input: Any, mean: Any = 0.0, std: Any = 1.0, *, generator: Any = None) -> Any:
    """Fill with normal numbers.

    >>> torch.zeros(2).normal_(3.0, 0.0)
    tensor([3., 3.])
    """
    if not std >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    made = floating_draw(
        NORMAL, "normal_", input._shape, input.dtype, source_of(generator, like=input)
    )
    if (mean, std) != (0, 1):
        made = made * std + mean
    return recorder.write(input, made, "normal_")


@public("Tensor", name="exponential_")
def exponential_(input: Any, lambd: Any = 1.0, *, generator: Any = None) -> Any:
    """Fill with exponential numbers of this rate.

    >>> (torch.zeros(100).exponential_() > 0).all()
    tensor(True)
    """
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    kind = floating("exponential_", input.dtype)
    made = draw(EXPONENTIAL, input._shape, kind, source_of(generator, like=input))
    return recorder.write(input, made if lambd == 1 else made / lambd, "exponential_")


@public("Tensor", name="geometric_")
def geometric_(input: Any, p: float, *, generator: Any = None) -> Any:
    """Fill with the number of trials up to the first success.

    >>> torch.zeros(2).geometric_(1 - 1e-9)
    tensor([1., 1.])
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    made = draw(EXPONENTIAL, input._shape, dt.float64, source_of(generator, like=input))
    made = (made * (-1 / math.log1p(-p))).ceil().clamp(min=1)
    return recorder.write(input, made, "geometric_")


@public("Tensor", name="log_normal_")
def log_normal_(input: Any, mean: Any = 1.0, std: Any = 2.0, *, generator: Any = None) -> Any:
    """Fill with numbers whose logarithm is normal.

    >>> torch.zeros(2).log_normal_(0.0, 1e-30)
    tensor([1., 1.])
    """
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    kind = floating("log_normal_", input.dtype)
    made = (
        draw(NORMAL, input._shape, kind, source_of(generator, like=input)) * std + mean
    ).exp()
    return recorder.write(input, made, "log_normal_")


@public("Tensor", name="cauchy_")
def cauchy_(input: Any, median: Any = 0.0, sigma: Any = 1.0, *, generator: Any = None) -> Any:
    """Fill with Cauchy numbers.

    >>> torch.zeros(2).cauchy_(1.0, 1e-30)
    tensor([1., 1.])
    """
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    floating("cauchy_", input.dtype)
    made = draw(UNIFORM, input._shape, dt.float64, source_of(generator, like=input))
    made = ((made - 0.5) * math.pi).tan() * sigma + median
    return recorder.write(input, made.to(input.dtype), "cauchy_")


@public("Tensor", name="random_")
@documented("from", "to")
def random_(input: Any, *bounds: Any, generator: Any = None, **named: Any) -> Any:
    """Fill with whole numbers: all that the dtype holds exactly, or in [from, to).

    >>> torch.zeros(2).random_(3, 4)
    tensor([3., 3.])
    """
    kind = input.dtype
    if kind.is_complex:
        raise errors.not_implemented_for("random_", kind, "no complex dtype")
    names = ("from", "to") if len(bounds) != 1 or "to" in named else ("to",)
    given = merged("random_", names, bounds, named)
    high, low = given.get("to"), views.whole_number("random_", "from", given.get("from", 0))
    top = LIMITS[kind] + (not kind.is_integral)
    if high is None:
        high = min(top, (1 << 63) - 1)
    else:
        high = views.whole_number("random_", "to", high)
        check_range("random_", low, high)
        check_bounds("random_", low, high, kind)
    return recorder.write(
        input,
        draw_integers(low, high, input._shape, kind, source_of(generator, like=input)),
        "random_",
    )
