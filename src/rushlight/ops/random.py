"""Random tensors: each op takes (seed, counter) as run-time numbers and computes bits from them
alone.

Note: random numbers. Element i of a draw is a function of (seed, counter + i): 64 bits of
Philox4x32-10. The counter moves on when an op is recorded, so a remembered step draws new
numbers, and no result depends on chunks or threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any  # generators, sizes, numbers

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.devices import META
from rushlight.dtypes import dtype
from rushlight.layout import check_layout
from rushlight.ops import batching
from rushlight.ops.creation import given_by, merged, with_grad
from rushlight.ops.creation import shape_of as _shape_of
from rushlight.ops.order_keys import sorted_positions
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Op,
    TensorType,
    documented,
    public,
    recorder,
)
from rushlight.random.generator import Generator, default_generator

_MASK32 = 0xFFFFFFFF


def next_counter(generator: Any, count: int) -> tuple[int, Any]:
    """Seed and first counter of a draw; inside `vmap` a counter for each sample."""
    source = default_generator if generator is None else generator
    if generator is not None and not isinstance(generator, Generator):
        raise errors.not_a_generator(generator)
    if not batching.active.batches:
        return source.take(count)
    batches = batching.drawing()
    seed, first = source.take(count * math.prod(b.size for b in batches))
    return seed, batching.counters(first, count, batches)


def source_of(generator: Any, device: Any = None, like: Any = None) -> Any:
    """What to draw from: a meta tensor takes no numbers from the program's generators."""
    if config.process.has_places and recorder.place_of(device, like) is META:
        return Generator()
    return generator


# -- bits to numbers


def uniform_of(k: Any, bits: Any, kind: dtype) -> Any:
    """Bits as multiples of 2^-digits in [0, 1), as many digits as the dtype holds."""
    digits = min(kind.mantissa + 1, 53)
    work = dt.float64 if kind is dt.float64 else dt.float32
    whole = k.shr(bits, 64 - digits) & ((1 << digits) - 1)
    if digits <= 24:
        whole = k.cast(whole, dt.int32)
    return k.cast(k.cast(whole, work) * 2.0**-digits, kind)


def _halves(k: Any, bits: Any, kind: dtype) -> tuple[Any, Any]:
    """Two independent uniforms: the first in (0, 1], the second in [0, 1)."""
    low, high = bits & _MASK32, k.shr(bits, 32) & _MASK32
    first = k.cast(low + 1, kind) * 2.0**-32
    if kind is dt.float64:
        return first, k.cast(high, kind) * 2.0**-32
    return first, k.cast(k.cast(k.shr(high, 8), dt.int32), kind) * 2.0**-24


def normal_of(k: Any, bits: Any, kind: dtype) -> Any:
    """Box and Muller's transform (1958) of the two words."""
    work = dt.float64 if kind is dt.float64 else dt.float32
    u, v = _halves(k, bits, work)
    radius = k.sqrt(k.log(u) * -2.0)
    return k.cast(radius * k.cos(v * (2 * math.pi)), kind)


def exponential_of(k: Any, bits: Any, kind: dtype) -> Any:
    """-log of a uniform in (0, 1]."""
    work = dt.float64 if kind is dt.float64 else dt.float32
    return k.cast(-k.log(_halves(k, bits, work)[0]), kind)


def _drawing(name: str, of: Callable[..., Any]) -> Op:
    return Op(
        name,
        attrs=("shape", "dtype"),
        type=lambda seed, counter, shape, dtype: TensorType(shape, dtype),
        lower=lambda k, seed, counter, shape, dtype: of(
            k, k.random(shape, seed, counter), dtype
        ),
        vjp=NOT_DIFFERENTIABLE,
    )


UNIFORM = _drawing("uniform", uniform_of)
NORMAL = _drawing("normal", normal_of)
EXPONENTIAL = _drawing("exponential", exponential_of)


def _integers_lower(
    k: Any, low: Any, high: Any, seed: Any, counter: Any, shape: Any, dtype: Any, is_small: bool
) -> Any:
    bits = k.random(shape, seed, counter)
    low, high = k.cast(low, dt.int64), k.cast(high, dt.int64)
    count = high - low
    if is_small:  # the top word of the 64-bit fraction times the count
        carry = k.shr((bits & _MASK32) * count, 32)
        inside = k.shr((k.shr(bits, 32) & _MASK32) * count + carry, 32)
    else:
        inside = k.remainder(bits & 0x7FFFFFFFFFFFFFFF, count)
    return k.cast(low + inside, dtype)


INTEGERS = Op(  # low <= x < high; `is_small`: fewer than 2^31 choices
    "integers",
    attrs=("shape", "dtype", "is_small"),
    type=lambda low, high, seed, counter, shape, dtype, is_small: TensorType(shape, dtype),
    lower=_integers_lower,
    vjp=NOT_DIFFERENTIABLE,
)
WORDS = _drawing("words", lambda k, bits, kind: k.cast(bits, kind))


def draw(op: Op, shape: views.Shape, kind: dtype, generator: Any = None) -> Any:
    """Record a drawing op for a fresh tensor."""
    seed, counter = next_counter(generator, views.numel(shape))
    return op(seed, counter, shape=shape, dtype=kind)


def draw_integers(
    low: int, high: int, shape: views.Shape, kind: dtype, generator: Any = None
) -> Any:
    """Record uniform integers in [low, high)."""
    seed, counter = next_counter(generator, views.numel(shape))
    is_small = high - low < 1 << 31
    return INTEGERS(low, high, seed, counter, shape=shape, dtype=kind, is_small=is_small)


# -- functions


def floating(op: str, kind: dtype) -> dtype:
    if not (kind.is_floating_point or kind.is_complex):
        raise errors.not_implemented_for(op, kind, "a floating dtype")
    return kind


def floating_draw(op: Op, name: str, shape: views.Shape, kind: dtype, generator: Any) -> Any:
    if not kind.is_complex:
        return draw(op, shape, floating(name, kind), generator)
    import rushlight  # complex tensors are put together from the public functions

    parts = draw(op, (*shape, 2), kind.to_real(), generator)
    if op is NORMAL:
        parts = parts * math.sqrt(0.5)
    return rushlight.view_as_complex(parts)  # type: ignore[misc,operator,unused-ignore]


def _sized(name: str, op: Op, doc: str) -> Any:
    def function(
        *size: Any,
        generator: Any = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        names: Any = None,
        **named: Any,
    ) -> Any:
        if layout is not None:
            check_layout(layout)
        if names is not None:
            raise errors.not_there("names", "named dimensions")
        shape = _shape_of(name, size, named)
        made = floating_draw(
            op, name, shape, dtype or config.default_dtype(), source_of(generator, device)
        )
        return with_grad(made, requires_grad, device)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public("torch", name=name, out=True)(function)


def _like(name: str, op: Op, doc: str) -> Any:
    def function(
        input: Any,
        *,
        generator: Any = None,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
    ) -> Any:
        if layout is not None:
            check_layout(layout)
        if not hasattr(input, "_storage"):
            raise errors.not_a_tensor(name, "input", input)
        made = floating_draw(
            op, name, input._shape, dtype or input.dtype, source_of(generator, device, input)
        )
        return with_grad(made, requires_grad, device, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public("torch", name=name)(function)


rand = _sized("rand", UNIFORM, "Uniform numbers in [0, 1).")
randn = _sized("randn", NORMAL, "Standard normal numbers.")
rand_like = _like("rand_like", UNIFORM, "Uniform numbers in [0, 1), like `input`.")
randn_like = _like("randn_like", NORMAL, "Standard normal numbers, like `input`.")


def check_range(op: str, low: int, high: int) -> None:
    if low >= high:
        raise RuntimeError(
            f"{op} expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )


LIMITS = {  # all integers below are numbers of the dtype
    dt.float64: 1 << 53, dt.float32: 1 << 24, dt.float16: 1 << 11, dt.bfloat16: 1 << 8,
    dt.int64: 1 << 63, dt.int32: 1 << 31, dt.int16: 1 << 15, dt.int8: 1 << 7, dt.uint8: 1 << 8,
    dt.bool_: 2, dt.uint16: 1 << 16, dt.uint32: 1 << 32, dt.uint64: 1 << 64,
}  # fmt: skip


def check_bounds(op: str, low: int, high: int, kind: dtype) -> None:
    if kind.is_complex:
        raise errors.refuses_complex(op, kind)
    top = LIMITS[kind] - 1 if kind.is_integral else int(dt.finfo(kind).max)
    least = -top - kind.is_integral if kind.is_signed else 0
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= top:
            raise RuntimeError(f"{op}: {name} is out of bounds for {kind!r}: {value}")


@public("torch", out=True)
@documented("low", "high", "size")
def randint(
    *bounds_and_size: Any,
    generator: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Any:
    """Integers in [low, high): `randint(high, size)` or `randint(low, high, size)`.

    >>> torch.randint(3, 4, (2,))
    tensor([3, 3])
    """
    if layout is not None:
        check_layout(layout)
    given_by("randint", named, "low", "high", "size")
    given = list(bounds_and_size)
    if len(given) + len(named) not in (2, 3):
        raise TypeError(
            f"randint() takes (high, size) or (low, high, size), but was given "
            f"{len(given) + len(named)} of them"
        )
    size = named["size"] if "size" in named else given.pop()
    high = named["high"] if "high" in named else given.pop()
    low = named["low"] if "low" in named else given.pop() if given else 0
    low, high = (
        views.whole_number("randint", "low", low),
        views.whole_number("randint", "high", high),
    )
    kind = dtype or dt.int64
    check_range("random_", low, high)
    check_bounds("randint", low, high, kind)
    if not isinstance(size, list | tuple):
        raise errors.wrong_kind("randint", "size", 0, "tuple of ints", size)
    shape = _shape_of("randint", (size,), {})
    made = draw_integers(low, high, shape, kind, source_of(generator, device))
    return with_grad(made, requires_grad, device)


@public("torch")
@documented("low", "high")
def randint_like(
    input: Any,
    *bounds: Any,
    generator: Any = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
    **named: Any,
) -> Any:
    """Integers in [low, high), like `input`: `randint_like(x, high)` or `(x, low, high)`.

    >>> torch.randint_like(torch.ones(2), 3, 4)
    tensor([3., 3.])
    """
    if layout is not None:
        check_layout(layout)
    if not hasattr(input, "_storage"):
        raise errors.not_a_tensor("randint_like", "input", input)
    names = ("low", "high") if len(bounds) != 1 or "high" in named else ("high",)
    given = merged("randint_like", names, bounds, named)
    if "high" not in given:
        raise TypeError('randint_like() missing 1 required positional argument: "high"')
    high = views.whole_number("randint_like", "high", given["high"])
    low = views.whole_number("randint_like", "low", given.get("low", 0))
    kind = dtype or input.dtype
    check_range("random_", low, high)
    check_bounds("randint_like", low, high, kind)
    source = source_of(generator, device, input)
    made = draw_integers(low, high, input._shape, kind, source)
    return with_grad(made, requires_grad, device, input)


def _shuffle_lower(k: Any, seed: Any, counter: Any, n: int, dtype: dtype) -> Any:
    """Random numbers with their positions in place of their last bits, sorted: the order is
    that of the random numbers, as nearly as 64 bits tell.
    """
    bits = max(n - 1, 0).bit_length()
    keys = (k.random((n,), seed, counter) & k.extent(-1 << bits)) | k.iota((n,), 0)
    return k.cast(k.host(sorted_positions, [((n,), dt.int64)], keys, bits=bits)[0], dtype)


SHUFFLE = Op(
    "shuffle",
    attrs=("n", "dtype"),
    type=lambda seed, counter, n, dtype: TensorType((n,), dtype),
    lower=_shuffle_lower,
    vjp=NOT_DIFFERENTIABLE,
)


@public("torch", out=True)
def randperm(
    n: int, *, generator: Any = None, dtype: dtype | None = dt.int64, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """The numbers 0 to n - 1 in random order.

    >>> torch.randperm(5).sort().values
    tensor([0, 1, 2, 3, 4])
    """
    if layout is not None:
        check_layout(layout)
    n = views.whole_number("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    kind = dtype or dt.int64
    if kind is dt.bool_ or kind.is_complex:
        raise errors.not_implemented_for("randperm", kind, "real numbers")
    check_bounds("randperm", 0, n, kind)
    seed, counter = next_counter(source_of(generator, device), n)
    made = SHUFFLE(seed, counter, n=n, dtype=kind)
    return with_grad(made, requires_grad, device)
