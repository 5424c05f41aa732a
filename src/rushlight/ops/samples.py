"""Random numbers whose distribution the elements of tensors decide."""

from __future__ import annotations

from typing import Any  # generators, sizes, numbers

import numpy as np

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.argument_kinds import IntList
from rushlight.dtypes import dtype
from rushlight.layout import check_layout
from rushlight.ops import batching
from rushlight.ops.bounds import extremes
from rushlight.ops.creation import shape_of as _shape_of
from rushlight.ops.creation import unrelated, with_grad
from rushlight.ops.random import (
    NORMAL,
    UNIFORM,
    draw,
    floating,
    floating_draw,
    next_counter,
    source_of,
)
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Op,
    TensorType,
    public,
    recorder,
)


def _check_probability(op: str, p: Any) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"{op} expects p to be in [0, 1], but got p={p}")


def _coins(p: Any, shape: views.Shape, kind: dtype, generator: Any) -> Any:
    work = dt.float64 if getattr(p, "dtype", None) is dt.float64 else dt.float32
    return (draw(UNIFORM, shape, work, generator) < p).to(kind)


def _check_not_complex(op: str, x: Any) -> None:
    if x.dtype.is_complex:
        raise errors.not_for_complex(op, x.dtype)


@public("torch", out=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Any:
    """1 with the probability that `input` gives (or `p`), else 0.

    >>> torch.bernoulli(torch.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    _check_not_complex("bernoulli", input)
    if p is not None:
        _check_probability("bernoulli", p)
        return unrelated(
            _coins(p, input._shape, input.dtype, source_of(generator, like=input)), input
        )
    kind = floating("bernoulli", input.dtype)
    values = input.detach()
    is_read = input.numel() and not input.is_meta and not batching.levels_of(values)
    if not config.scopes.inference and is_read:
        least, most = extremes(values)
        if not (least >= 0 and most <= 1):
            raise RuntimeError(
                f"Expected p_in >= 0 && p_in <= 1 to be true, but got values from {least} to "
                f"{most}"
            )
    return unrelated(
        _coins(values, input._shape, kind, source_of(generator, like=input)), input
    )


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
    _check_not_complex("bernoulli_", input)
    if hasattr(p, "_storage"):
        return recorder.write(
            input,
            _coins(p, input._shape, input.dtype, source_of(generator, like=input)),
            "bernoulli_",
        )
    _check_probability("bernoulli_", p)
    return recorder.write(
        input,
        _coins(p, input._shape, input.dtype, source_of(generator, like=input)),
        "bernoulli_",
    )


def _sample_rows(weights: Any, bits: Any, count: int, replacement: bool) -> Any:
    """Row by row: inversion with replacement, exponential keys (Efraimidis, Spirakis)
    without; then what has no weight comes last, in order.
    """
    weights = np.asarray(weights, np.float64)
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    uniform = ((bits >> 11) & ((1 << 53) - 1)).astype(np.float64) * 2.0**-53
    if not replacement:
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
    num_samples = views.whole_number("multinomial", "num_samples", num_samples)
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
    seed, counter = next_counter(source_of(generator, like=input), count)
    made = MULTINOMIAL(
        rows.detach(), seed, counter, count=num_samples, replacement=bool(replacement)
    )
    local_flush()  # bad weights are reported on the user's line
    return made if input.ndim == 2 else made.reshape(-1)


def local_flush() -> None:
    """Compute what is pending."""
    from rushlight.trace.trace import flush  # the trace comes after ops

    flush()


def _check_deviation(std: Any) -> None:
    """Raise for what is complex or known to be negative."""
    least = std
    if hasattr(std, "_storage"):
        if std.dtype.is_complex:
            raise RuntimeError(f"normal expects std to be non-complex, but found {std.dtype!r}")
        if not std.numel() or std.is_meta or batching.levels_of(std):
            return
        least = extremes(std)[0]
    if not least >= 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {least}")


@public("torch", out=True)
def normal(
    mean: Any = 0.0, std: Any = 1.0, size: IntList | None = None, *, generator: Any = None,
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
    _check_deviation(std)
    if size is None and tensors:
        shape = views.broadcast_shapes("normal", *(x._shape for x in tensors))
        kind = dtype or tensors[0].dtype
    else:
        shape = _shape_of("normal", (size,), {})
        kind = dtype or config.default_dtype()
    made = floating_draw(NORMAL, "normal", shape, kind, source_of(generator, device, like))
    made = unrelated((made * _plain(std) + _plain(mean)).to(kind), mean, std)
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
    floating("poisson", input.dtype)
    seed, counter = next_counter(source_of(generator, like=input), input.numel())
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
    seed, counter = next_counter(source_of(generator, like=count), views.numel(shape))
    drawn = BINOMIAL(count.detach().expand(shape), prob.detach().expand(shape), seed, counter)
    return unrelated(drawn, count, prob)
