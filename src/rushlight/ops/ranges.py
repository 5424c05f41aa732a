"""Numbers in order: ranges, evenly spaced points, indices of triangles; the identity."""

from __future__ import annotations

import math
from typing import Any  # fill values are numbers, sizes come in several forms

from rushlight import config, errors
from rushlight import dtypes as dt
from rushlight.argument_kinds import Number
from rushlight.dtypes import Category, dtype
from rushlight.layout import check_layout
from rushlight.ops.creation import number_kind, with_grad
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Op,
    TensorType,
    documented,
    public,
)


def _arange_lower(k: Any, start: Any, step: Any, length: int, dtype: Any) -> Any:
    """start + i * step, calculated in float64 for floating results and int64 for integers."""
    work = dt.int64 if dtype.is_integral else dt.float64
    index = k.cast(k.iota((length,), 0), work)
    return k.cast(k.cast(start, work) + index * k.cast(step, work), dtype)


ARANGE = Op(
    "arange",
    attrs=("length", "dtype"),
    type=lambda start, step, length, dtype: TensorType((length,), dtype),
    lower=_arange_lower,
    vjp=NOT_DIFFERENTIABLE,
)


def _double(kind: Any) -> Any:
    return dt.complex128 if kind.is_complex else dt.float64


def _spaced(k: Any, start: Any, end: Any, steps: int, dtype: Any) -> Any:
    """`steps` points of double precision from start to end; each half counts from its own
    end.
    """
    kind = _double(dtype)
    first, last = k.cast(start, kind), k.cast(end, kind)
    if steps <= 1:
        return k.expand(first, (steps,))
    gaps = k.extent(float(steps - 1))
    step = (last - first) / k.cast(gaps, kind)
    index = k.cast(k.iota((steps,), 0), dt.float64)
    rising = first + k.cast(index, kind) * step
    falling = last - k.cast(gaps - index, kind) * step
    return k.select(index < k.extent(float(steps // 2)), rising, falling)


LINSPACE = Op(
    "linspace",
    attrs=("steps", "dtype"),
    type=lambda start, end, steps, dtype: TensorType((steps,), dtype),
    lower=lambda k, start, end, steps, dtype: k.cast(
        _spaced(k, start, end, steps, dtype), dtype
    ),
    vjp=NOT_DIFFERENTIABLE,
)
LOGSPACE = Op(
    "logspace",
    attrs=("steps", "dtype"),
    type=lambda start, end, base, steps, dtype: TensorType((steps,), dtype),
    lower=lambda k, start, end, base, steps, dtype: k.cast(
        k.pow(k.cast(base, _double(dtype)), _spaced(k, start, end, steps, dtype)), dtype
    ),
    vjp=NOT_DIFFERENTIABLE,
)
EYE = Op(
    "eye",
    attrs=("n", "m", "dtype"),
    type=lambda n, m, dtype: TensorType((n, m), dtype),
    lower=lambda k, n, m, dtype: k.cast(k.iota((n, m), 0).equals(k.iota((n, m), 1)), dtype),
    vjp=NOT_DIFFERENTIABLE,
)


# -- ranges


def plain_number(x: Any) -> Any:
    """A number, or the number in a one-element tensor."""
    return x.item() if hasattr(x, "item") else x


def _range_length(op: str, start: Any, end: Any, step: Any, is_closed: bool) -> int:
    if step == 0:
        raise RuntimeError(f"{op}: step must be nonzero")
    numbers = (start, end, step)
    if not all(isinstance(n, int) or math.isfinite(n) for n in numbers):
        raise RuntimeError(f"{op}: unsupported range: {start} -> {end}")
    if (end - start) * (1 if step > 0 else -1) < 0:
        raise RuntimeError(
            f"{op}: upper bound and lower bound inconsistent with step sign ({start} -> {end} "
            f"by {step})"
        )
    if all(isinstance(n, int) for n in numbers):
        return (end - start) // step + 1 if is_closed else -((start - end) // step)  # type: ignore[no-any-return]
    return (  # type: ignore[no-any-return]
        math.floor((end - start) / step) + 1 if is_closed else math.ceil((end - start) / step)
    )


def _check_range_kind(op: str, kind: dtype) -> None:
    if kind.is_complex:
        raise errors.not_for_complex(op, kind)
    _check_no_bool(op, kind)


def _check_no_bool(op: str, kind: dtype) -> None:
    if kind is dt.bool_:
        raise errors.not_implemented_for(op, kind, "numbers")


@public("torch", out=True)
@documented("start", "end", "step")
def arange(
    *bounds: Any,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    **named: Any,
) -> Any:
    """Numbers from start (0) up to, not including, end.

    >>> import rushlight as torch
    >>> torch.arange(1, 7, 2)
    tensor([1, 3, 5])
    """
    if layout is not None:
        check_layout(layout)
    names = ("end",) if len(bounds) == 1 and not named else ("start", "end", "step")
    if len(bounds) == 1 and "end" not in named:
        names = ("end", "step")  # type: ignore[assignment]
    if set(named) & set(names[: len(bounds)]):
        raise TypeError(f"arange() got multiple values for one of {list(named)}")
    given = dict(zip(names, bounds, strict=False)) | named
    if "end" not in given or len(bounds) > 3 or set(given) - {"start", "end", "step"}:
        raise TypeError(
            f"arange() received an invalid combination of arguments: {bounds} {named}"
        )
    start, end, step = (
        plain_number(given.get(n, d)) for n, d in (("start", 0), ("end", 0), ("step", 1))
    )
    is_whole = all(isinstance(n, int) for n in (start, end, step))
    kind = dtype or (dt.int64 if is_whole else config.default_dtype())
    _check_range_kind("arange", kind)
    if kind is dt.int64:  # PyTorch counts narrower integers before it drops fractions
        if step and not int(step):
            raise ValueError(f"arange: step must be nonzero, but {step} is 0 in {kind!r}")
        start, end, step = int(start), int(end), int(step)
    length = _range_length("arange", start, end, step, False)
    if kind.category is Category.INTEGRAL:
        start, step = int(start), int(step)
    return with_grad(ARANGE(start, step, length=length, dtype=kind), requires_grad, device)


@public("torch", name="range", out=True)
def closed_range(
    start: Number = 0, end: Any = None, step: Number = 1, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """Numbers from start to end, both included."""
    if layout is not None:
        check_layout(layout)
    start, end, step = map(plain_number, (start, end, step))
    kind = dtype or config.default_dtype()
    _check_range_kind("range", kind)
    length = _range_length("range", start, end, step, True)
    return with_grad(ARANGE(start, step, length=length, dtype=kind), requires_grad, device)


def _check_steps(op: str, steps: Any) -> int:
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{op}(): argument 'steps' must be int, not {type(steps).__name__}")
    if steps < 0:
        raise RuntimeError(f"{op}: number of steps must be non-negative, got {steps}")
    return int(steps)


def _check_points(op: str, *points: Any) -> None:
    for point in points:
        if hasattr(point, "ndim") and point.ndim:
            raise RuntimeError(
                f"{op}: start and end must be numbers or 0-dimensional tensors, got a tensor "
                f"of shape {errors.shape_text(point.shape)}"
            )


def _ends(kind: dtype, steps: int, *points: Any) -> list[Any]:
    """Start and end; in an integral result PyTorch cuts them to integers first."""
    is_cut = kind.is_integral and steps > 1
    return [int(plain_number(x)) if is_cut else x for x in points]


def _points_kind(*points: Any) -> dtype:
    return number_kind(*points, 0.0)


@public("torch", out=True)
def linspace(
    start: Any, end: Any, steps: int, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """`steps` evenly spaced numbers from start to end, both included.

    >>> torch.linspace(0, 1, 5)
    tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    if layout is not None:
        check_layout(layout)
    _check_points("linspace", start, end)
    kind = dtype or _points_kind(start, end)
    _check_no_bool("linspace", kind)
    steps = _check_steps("linspace", steps)
    made = LINSPACE(*_ends(kind, steps, start, end), steps=steps, dtype=kind)
    return with_grad(made, requires_grad, device)


@public("torch", out=True)
def logspace(
    start: Any, end: Any, steps: int, base: float = 10.0, *, dtype: dtype | None = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False,
) -> Any:  # fmt: skip
    """base to the power of `steps` evenly spaced exponents.

    >>> torch.logspace(0, 2, 3)
    tensor([  1.,  10., 100.])
    """
    if layout is not None:
        check_layout(layout)
    _check_points("logspace", start, end)
    kind = dtype or _points_kind(start, end)
    _check_no_bool("logspace", kind)
    steps = _check_steps("logspace", steps)
    made = LOGSPACE(*_ends(kind, steps, start, end), base, steps=steps, dtype=kind)
    return with_grad(made, requires_grad, device)


@public("torch", out=True)
def eye(
    n: int, m: int | None = None, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Ones on the diagonal of an n x m matrix, zeros elsewhere.

    >>> torch.eye(2, 3)
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if layout is not None:
        check_layout(layout)
    m = n if m is None else m
    for name, size in (("n", n), ("m", m)):
        if size < 0:
            raise RuntimeError(f"eye: {name} must be greater or equal to 0, got {size}")
    made = EYE(n=int(n), m=int(m), dtype=dtype or config.default_dtype())
    return with_grad(made, requires_grad, device)


def _triangle_indices(row: int, col: int, keep: Any, dtype: dtype | None, device: Any) -> Any:
    import numpy as np  # index tables are small and made once

    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if row < 0 or col < 0:
        raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
    if dtype not in (None, dt.int64, dt.int32, dt.int16):
        raise errors.not_implemented_for("triangle indices", dtype, "an integer dtype")
    places = np.nonzero(keep(np.ones((row, col), bool)))
    return with_grad(tensor_of_array(np.stack(places), dtype or dt.int64), False, device)


@public("torch")
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = dt.int64, device: Any = None,
    layout: Any = None,
) -> Any:  # fmt: skip
    """Row and column numbers of the lower triangle, as a 2 x N tensor.

    >>> torch.tril_indices(2, 2)
    tensor([[0, 1, 1],
            [0, 0, 1]])
    """
    if layout is not None:
        check_layout(layout)
    import numpy as np  # as above

    return _triangle_indices(row, col, lambda full: np.tril(full, offset), dtype, device)


@public("torch")
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype | None = dt.int64, device: Any = None,
    layout: Any = None,
) -> Any:  # fmt: skip
    """Row and column numbers of the upper triangle, as a 2 x N tensor.

    >>> torch.triu_indices(2, 2)
    tensor([[0, 0, 1],
            [0, 1, 1]])
    """
    if layout is not None:
        check_layout(layout)
    import numpy as np  # as above

    return _triangle_indices(row, col, lambda full: np.triu(full, offset), dtype, device)
