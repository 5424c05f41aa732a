"""Random tensors: each op takes (seed, counter) as run-time numbers and computes bits from them
alone.

Note: random numbers. Element i of a draw is a function of (seed, counter + i): 64 bits of
Philox4x32-10. The counter moves on when an op is recorded, so a remembered step draws new
numbers, and no result depends on chunks or threads.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any  # generators, sizes, numbers

import numpy as np

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.devices import META
from rushlight.dtypes import dtype
from rushlight.ir.host import takes_batches
from rushlight.layout import check_layout
from rushlight.ops import batching
from rushlight.ops.creation import _shape_of, unrelated, with_grad
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


def _take(generator: Any, count: int) -> tuple[int, Any]:
    """Seed and first counter of a draw; inside `vmap` a counter for each sample."""
    source = default_generator if generator is None else generator
    if generator is not None and not isinstance(generator, Generator):
        raise errors.not_a_generator(generator)
    if not batching.active.batches:
        return source.take(count)
    batches = batching.drawing()
    seed, first = source.take(count * math.prod(b.size for b in batches))
    return seed, batching.counters(first, count, batches)


def _source(generator: Any, device: Any = None, like: Any = None) -> Any:
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
    seed, counter = _take(generator, views.numel(shape))
    return op(seed, counter, shape=shape, dtype=kind)


def draw_integers(
    low: int, high: int, shape: views.Shape, kind: dtype, generator: Any = None
) -> Any:
    """Record uniform integers in [low, high)."""
    seed, counter = _take(generator, views.numel(shape))
    is_small = high - low < 1 << 31
    return INTEGERS(low, high, seed, counter, shape=shape, dtype=kind, is_small=is_small)


# -- functions


def _floating(op: str, kind: dtype) -> dtype:
    if not (kind.is_floating_point or kind.is_complex):
        raise errors.not_implemented_for(op, kind, "a floating dtype")
    return kind


def _drawn(op: Op, name: str, shape: views.Shape, kind: dtype, generator: Any) -> Any:
    if not kind.is_complex:
        return draw(op, shape, _floating(name, kind), generator)
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
        shape = _shape_of(name, size, named.pop("size", None))
        if named:
            raise TypeError(
                f"{name}() got an unexpected keyword argument {next(iter(named))!r}"
            )
        made = _drawn(
            op, name, shape, dtype or config.default_dtype(), _source(generator, device)
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
        made = _drawn(
            op, name, input._shape, dtype or input.dtype, _source(generator, device, input)
        )
        return with_grad(made, requires_grad, device, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return public("torch", name=name)(function)


rand = _sized("rand", UNIFORM, "Uniform numbers in [0, 1).")
randn = _sized("randn", NORMAL, "Standard normal numbers.")
rand_like = _like("rand_like", UNIFORM, "Uniform numbers in [0, 1), like `input`.")
randn_like = _like("randn_like", NORMAL, "Standard normal numbers, like `input`.")


def _whole(op: str, name: str, number: Any) -> int:
    """A size or a bound; a float is refused, since it would lose its fraction silently."""
    try:
        return operator.index(number)
    except TypeError:
        kind = type(number).__name__
        raise TypeError(f"{op}(): argument '{name}' must be int, not {kind}") from None


def _check_range(op: str, low: int, high: int) -> None:
    if low >= high:
        raise RuntimeError(
            f"{op} expects 'from' to be less than 'to', but got from={low} >= to={high}"
        )


_LIMITS = {  # all integers below are numbers of the dtype
    dt.float64: 1 << 53, dt.float32: 1 << 24, dt.float16: 1 << 11, dt.bfloat16: 1 << 8,
    dt.int64: 1 << 63, dt.int32: 1 << 31, dt.int16: 1 << 15, dt.int8: 1 << 7, dt.uint8: 1 << 8,
    dt.bool_: 2, dt.uint16: 1 << 16, dt.uint32: 1 << 32, dt.uint64: 1 << 64,
}  # fmt: skip


def _check_bounds(op: str, low: int, high: int, kind: dtype) -> None:
    if kind.is_complex:
        raise errors.refuses_complex(op, kind)
    top = _LIMITS[kind] - 1 if kind.is_integral else int(dt.finfo(kind).max)
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
    given = list(bounds_and_size)
    if len(given) + len(named) not in (2, 3):
        raise TypeError(
            f"randint() takes (high, size) or (low, high, size), but was given "
            f"{len(given) + len(named)} of them"
        )
    size = named["size"] if "size" in named else given.pop()
    high = named["high"] if "high" in named else given.pop()
    low = named["low"] if "low" in named else given.pop() if given else 0
    low, high = _whole("randint", "low", low), _whole("randint", "high", high)
    kind = dtype or dt.int64
    _check_range("random_", low, high)
    _check_bounds("randint", low, high, kind)
    shape = _shape_of("randint", (size,), None)
    made = draw_integers(low, high, shape, kind, _source(generator, device))
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
    given = list(bounds)
    high = int(named["high"] if "high" in named else given.pop())
    low = int(named["low"] if "low" in named else given.pop() if given else 0)
    kind = dtype or input.dtype
    _check_range("random_", low, high)
    _check_bounds("randint_like", low, high, kind)
    source = _source(generator, device, input)
    made = draw_integers(low, high, input._shape, kind, source)
    return with_grad(made, requires_grad, device, input)


@takes_batches
def _order(keys: Any, bits: int) -> Any:
    """The lowest `bits` of random numbers in order."""
    found = np.sort(keys, axis=-1)
    found &= (1 << bits) - 1
    return found


def _shuffle_lower(k: Any, seed: Any, counter: Any, n: int, dtype: dtype) -> Any:
    """Random numbers with their positions in place of their last bits, sorted: the order is
    that of the random numbers, as nearly as 64 bits tell.
    """
    bits = max(n - 1, 0).bit_length()
    keys = (k.random((n,), seed, counter) & k.extent(-1 << bits)) | k.iota((n,), 0)
    return k.cast(k.host(_order, [((n,), dt.int64)], keys, bits=bits)[0], dtype)


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
    n = _whole("randperm", "n", n)
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    kind = dtype or dt.int64
    if kind is dt.bool_ or kind.is_complex:
        raise errors.not_implemented_for("randperm", kind, "real numbers")
    _check_bounds("randperm", 0, n, kind)
    seed, counter = _take(_source(generator, device), n)
    made = SHUFFLE(seed, counter, n=n, dtype=kind)
    return with_grad(made, requires_grad, device)


# -- with probabilities


def _check_probability(op: str, p: Any) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"{op} expects p to be in [0, 1], but got p={p}")


def _coins(p: Any, shape: views.Shape, kind: dtype, generator: Any) -> Any:
    work = dt.float64 if getattr(p, "dtype", None) is dt.float64 else dt.float32
    return (draw(UNIFORM, shape, work, generator) < p).to(kind)


@public("torch", out=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability that `input` gives (or `p`), else 0.

    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None:
        _check_probability("bernoulli", p)
        return unrelated(
            _coins(p, input._shape, input.dtype, _source(generator, like=input)), input
        )
    kind = _floating("bernoulli", input.dtype)
    values = input.detach()
    is_read = input.numel() and not input.is_meta and not batching.levels_of(values)
    if not config.scopes.inference and is_read:
        least, most = float(values.min()), float(values.max())
        if not (least >= 0 and most <= 1):
            raise RuntimeError(
                f"Expected p_in >= 0 && p_in <= 1 to be true, but got values from {least} to "
                f"{most}"
            )
    return unrelated(_coins(values, input._shape, kind, _source(generator, like=input)), input)


@public("Tensor", name="bernoulli")
def bernoulli_method(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability that the tensor gives (or `p`), else 0."""
    return bernoulli(input, p, generator=generator)


@public("Tensor", name="bernoulli_")
def bernoulli_(input: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
    """Fill with 1 with probability p (a number or a tensor), else 0.

    >>> torch.zeros(2).bernoulli_(1.0)
    tensor([1., 1.])
    """
    if hasattr(p, "_storage"):
        return recorder.write(
            input,
            _coins(p, input._shape, input.dtype, _source(generator, like=input)),
            "bernoulli_",
        )
    _check_probability("bernoulli_", p)
    return recorder.write(
        input,
        _coins(p, input._shape, input.dtype, _source(generator, like=input)),
        "bernoulli_",
    )


def _sample_rows(weights: Any, bits: Any, count: int, replacement: bool) -> Any:
    """Row by row: inversion with replacement, exponential keys (Efraimidis, Spirakis)
    without.
    """
    weights = np.asarray(weights, np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    uniform = ((bits >> 11) & ((1 << 53) - 1)).astype(np.float64) * 2.0**-53
    if not replacement:
        if ((weights > 0).sum(-1) < count).any():
            raise RuntimeError(
                "invalid multinomial distribution (with replacement=False, not enough "
                "non-negative category to sample)"
            )
        with np.errstate(divide="ignore"):
            keys = np.where(weights > 0, -np.log1p(-uniform) / weights, np.inf)
        return np.argsort(keys, axis=-1, kind="stable")[..., :count]
    running = np.cumsum(weights, -1)
    return (
        np.stack(
            [
                np.minimum(
                    np.searchsorted(line, u * line[-1], side="right"), np.flatnonzero(w)[-1]
                )
                for line, u, w in zip(running, uniform, weights, strict=True)
            ]
        )
        if len(running)
        else np.empty((0, count), np.int64)
    )


def _multinomial_lower(
    k: Any, weights: Any, seed: Any, counter: Any, count: int, replacement: bool
) -> Any:
    rows, columns = weights.shape
    drawn = (rows, count if replacement else columns)
    return k.host(
        _sample_rows,
        [((rows, count), dt.int64)],
        weights,
        k.random(drawn, seed, counter),
        count=count,
        replacement=replacement,
    )[0]


MULTINOMIAL = Op(
    "multinomial",
    attrs=("count", "replacement"),
    type=lambda w, seed, counter, count, replacement: TensorType((w.shape[0], count), dt.int64),
    lower=_multinomial_lower,
    vjp=NOT_DIFFERENTIABLE,
)


@public("torch", "Tensor", out=True)
def multinomial(
    input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None
) -> Any:
    """Indices drawn in proportion to the weights of each row.

    >>> torch.multinomial(torch.tensor([0.0, 1.0, 0.0]), 2, replacement=True)
    tensor([1, 1])
    """
    if input.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {input.ndim}")
    if not input.dtype.is_floating_point:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {input.dtype!r}"
        )
    num_samples = _whole("multinomial", "num_samples", num_samples)
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples: {num_samples}")
    rows = input if input.ndim == 2 else input.reshape(1, -1)
    columns = rows._shape[1]
    if not replacement and num_samples > columns:
        raise RuntimeError(
            f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{num_samples} > {columns}"
        )
    count = rows._shape[0] * (num_samples if replacement else columns)
    seed, counter = _take(_source(generator, like=input), count)
    made = MULTINOMIAL(
        rows.detach(), seed, counter, count=num_samples, replacement=bool(replacement)
    )
    local_flush()  # bad weights are reported on the user's line
    return made if input.ndim == 2 else made.reshape(-1)


def local_flush() -> None:
    """Compute what is pending."""
    from rushlight.trace.trace import flush  # the trace comes after ops

    flush()


@public("torch", out=True)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Any = None,
    dtype: dtype | None = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Normal numbers; mean and std are numbers (with `size`) or tensors.

    >>> torch.normal(torch.tensor([1.0, 2.0]), torch.zeros(2))
    tensor([1., 2.])
    """
    if layout is not None:
        check_layout(layout)
    tensors = [x for x in (mean, std) if hasattr(x, "_storage")]
    like = tensors[0] if tensors else None
    for x in (std,):
        is_known = hasattr(x, "_storage") and x.numel() and not x.is_meta
        is_known = is_known and not batching.levels_of(x)
        least = float(x.min()) if is_known else x
        if not hasattr(least, "_storage") and not least >= 0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {least}")
    if size is None and tensors:
        shape = views.broadcast_shapes("normal", *(x._shape for x in tensors))
        kind = dtype or tensors[0].dtype
    else:
        shape = _shape_of("normal", (size,), None)
        kind = dtype or config.default_dtype()
    made = draw(NORMAL, shape, _floating("normal", kind), _source(generator, device, like))
    made = unrelated(made * _plain(std) + _plain(mean), mean, std)
    return with_grad(made, requires_grad, device, like)


def _plain(x: Any) -> Any:
    return x.detach() if hasattr(x, "_storage") else x


@public("torch")
def poisson(input: Any, generator: Any = None) -> Any:
    """Poisson numbers with the rates of `input`.

    >>> torch.poisson(torch.zeros(2))
    tensor([0., 0.])
    """
    if input.dtype.is_complex:
        raise errors.not_for_complex("poisson", input.dtype)
    _floating("poisson", input.dtype)
    seed, counter = _take(_source(generator, like=input), input.numel())
    return unrelated(POISSON(input.detach(), seed, counter), input)


def numpy_stream(bits: Any) -> np.random.Generator:
    """One NumPy stream seeded from the bits of all elements: they differ in how many numbers
    they need.
    """
    first = int(bits.reshape(-1)[0]) & ((1 << 63) - 1) if bits.size else 0
    return np.random.Generator(np.random.Philox(first))


def _poisson_rows(rates: Any, bits: Any) -> Any:
    if (rates < 0).any():
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    return numpy_stream(bits).poisson(rates)


POISSON = Op(
    "poisson",
    type=lambda rates, seed, counter: TensorType(rates.shape, rates.dtype),
    lower=lambda k, rates, seed, counter: k.cast(
        k.host(
            _poisson_rows,
            [(rates.shape, dt.float64)],
            rates,
            k.random(rates.shape, seed, counter),
        )[0],
        rates.dtype,
    ),
    vjp=NOT_DIFFERENTIABLE,
)


def _binomial_rows(count: Any, prob: Any, bits: Any) -> Any:
    stream = numpy_stream(bits)
    return stream.binomial(count.astype(np.int64), prob).astype(np.float64)


BINOMIAL = Op(
    "binomial",
    type=lambda count, prob, seed, counter: TensorType(count.shape, count.dtype),
    lower=lambda k, count, prob, seed, counter: k.cast(
        k.host(
            _binomial_rows,
            [(count.shape, dt.float64)],
            count,
            prob,
            k.random(count.shape, seed, counter),
        )[0],
        count.dtype,
    ),
    vjp=NOT_DIFFERENTIABLE,
)


@public("torch")
def binomial(count: Any, prob: Any, generator: Any = None) -> Any:
    """Binomial numbers with these counts and probabilities.

    >>> torch.binomial(torch.tensor([5.0, 5.0]), torch.tensor([0.0, 1.0]))
    tensor([0., 5.])
    """
    for name, x in (("count", count), ("prob", prob)):
        if not x.dtype.is_floating_point:
            raise ValueError(f"binomial: {name} must have a floating dtype, got {x.dtype!r}")
    shape = views.broadcast_shapes("binomial", count._shape, prob._shape)
    seed, counter = _take(_source(generator, like=count), views.numel(shape))
    drawn = BINOMIAL(count.detach().expand(shape), prob.detach().expand(shape), seed, counter)
    return unrelated(drawn, count, prob)


# -- filling


@public("Tensor", name="uniform_")
@documented("from", "to")
def uniform_(input: Any, *bounds: Any, generator: Any = None, **named: Any) -> Any:
    """Fill with uniform numbers in [from, to), by default [0, 1).

    >>> torch.zeros(2).uniform_(1.0, 1.0)
    tensor([1., 1.])
    """
    given = dict(zip(("from", "to"), bounds, strict=False)) | named
    low, to = given.pop("from", 0.0), given.pop("to", 1.0)
    if given or len(bounds) > 2:
        raise TypeError(f"uniform_() received an invalid combination of arguments: {named}")
    if low > to:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}"
        )
    made = _drawn(
        UNIFORM, "uniform_", input._shape, input.dtype, _source(generator, like=input)
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
    made = _drawn(NORMAL, "normal_", input._shape, input.dtype, _source(generator, like=input))
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
    kind = _floating("exponential_", input.dtype)
    made = draw(EXPONENTIAL, input._shape, kind, _source(generator, like=input))
    return recorder.write(input, made if lambd == 1 else made / lambd, "exponential_")


@public("Tensor", name="geometric_")
def geometric_(input: Any, p: float, *, generator: Any = None) -> Any:
    """Fill with the number of trials up to the first success.

    >>> torch.zeros(2).geometric_(1 - 1e-9)
    tensor([1., 1.])
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    made = draw(EXPONENTIAL, input._shape, dt.float64, _source(generator, like=input))
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
    kind = _floating("log_normal_", input.dtype)
    made = (draw(NORMAL, input._shape, kind, _source(generator, like=input)) * std + mean).exp()
    return recorder.write(input, made, "log_normal_")


@public("Tensor", name="cauchy_")
def cauchy_(input: Any, median: Any = 0.0, sigma: Any = 1.0, *, generator: Any = None) -> Any:
    """Fill with Cauchy numbers.

    >>> torch.zeros(2).cauchy_(1.0, 1e-30)
    tensor([1., 1.])
    """
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    _floating("cauchy_", input.dtype)
    made = draw(UNIFORM, input._shape, dt.float64, _source(generator, like=input))
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
        raise errors.wrong_dtype("random_", kind, "no complex dtype")
    given = list(bounds)
    high = named.get("to", given.pop() if given else None)
    low = _whole("random_", "from", named.get("from", given.pop() if given else 0))
    top = _LIMITS[kind] + (not kind.is_integral)
    if high is None:
        high = min(top, (1 << 63) - 1)
    else:
        high = _whole("random_", "to", high)
        _check_range("random_", low, high)
        _check_bounds("random_", low, high, kind)
    return recorder.write(
        input,
        draw_integers(low, high, input._shape, kind, _source(generator, like=input)),
        "random_",
    )
