"""Tensors from sizes and numbers: full, arange and what is built on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any  # fill values are numbers, sizes come in several forms

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.dtypes import Category, dtype
from rushlight.layout import check_layout
from rushlight.ops import batching
from rushlight.ops.fill_value import checked_value
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Op,
    TensorType,
    documented,
    public,
    recorder,
)

FULL = Op(  # the value is part of the program: for zeros, ones and other constants
    "full",
    attrs=("shape", "value", "dtype"),
    type=lambda shape, value, dtype: TensorType(shape, dtype),
    lower=lambda k, shape, value, dtype: k.full(shape, value, dtype),
    vjp=NOT_DIFFERENTIABLE,
)
FILL = Op(  # the value is a run-time number or a 0-d tensor
    "fill",
    attrs=("shape", "dtype"),
    type=lambda value, shape, dtype: TensorType(shape, dtype),
    lower=lambda k, value, shape, dtype: k.expand(k.cast(value, dtype), shape),
    vjp=lambda g, out, value, shape, dtype: g.sum(),
)


UNRELATED = Op(  # a value that took nothing from other operands but their place in the graph
    "unrelated",
    attrs=("shapes",),
    type=lambda made, *others, shapes: TensorType(made.shape, made.dtype),
    lower=lambda k, made, *others, shapes: made,
    vjp=lambda g, out, made, *others, shapes: (
        g,
        *(FULL(shape=s, value=0, dtype=g.dtype) for s in shapes),
    ),
)


def unrelated(made: Any, *others: Any) -> Any:
    """`made`, with zero gradients for tensors that only gave it a shape, a distribution or a
    place.
    """
    tracked = [t for t in others if getattr(t, "requires_grad", False)]
    if not tracked or not config.scopes.grad_enabled:
        return made
    return UNRELATED(made, *tracked, shapes=tuple(t._shape for t in tracked))


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


# -- arguments


def sizes_of(args: tuple[Any, ...]) -> views.Shape:
    """Sizes given as `f(2, 3)` or `f((2, 3))`."""
    if len(args) == 1 and not isinstance(args[0], int) and hasattr(args[0], "__len__"):
        shape = getattr(args[0], "shape", None)
        args = tuple(args[0]) if shape is None or shape else args
    try:
        return tuple([s.__index__() for s in args])
    except AttributeError:
        raise TypeError(f"size must be ints, but got {list(args)}") from None


def _shape_of(op: str, size: tuple[Any, ...], named: Any) -> views.Shape:
    if not size and named is None:
        raise TypeError(f'{op}() missing 1 required positional argument: "size"')
    shape = sizes_of(size if named is None else (named,))
    if any(s < 0 for s in shape):
        raise RuntimeError(
            f"{op}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def number_kind(*numbers: Any) -> dtype:
    """The dtype of a tensor filled with Python numbers."""
    top = max(
        (n.dtype.category if hasattr(n, "dtype") else dt.of_number(n) for n in numbers),
        default=Category.FLOATING,
    )
    return dt.number_dtype(top, config.default_dtype())


def with_grad(made: Any, requires_grad: bool, device: Any = None, like: Any = None) -> Any:
    """The finished tensor of a factory function: in its place, a leaf if asked."""
    if device is not None or config.process.has_places:
        made = recorder.placed(made, device, like)
    return made.requires_grad_() if requires_grad else made


def _alike(made: Any, input: Any) -> Any:
    """A new tensor: one for each sample of `vmap` that `input` has, as it may be written."""
    return batching.spread_like(made, input) if input._storage.value.type.levels else made


_STATIC = frozenset((0, 1, -1, math.inf, -math.inf))


def filled(op: str, shape: views.Shape, value: Any, kind: dtype) -> Any:
    """A tensor of one value; rare values are run-time numbers, so that they compile nothing."""
    value = checked_value(op, value, kind)
    if isinstance(value, bool | int | float) and value in _STATIC:
        return FULL(shape=shape, value=value, dtype=kind)
    return FILL(value, shape=shape, dtype=kind)


def _constant(name: str, value: Any, doc: str) -> Any:
    def factory(
        *size: Any,
        dtype: dtype | None = None,
        layout: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        memory_format: Any = None,
        names: Any = None,
        **named: Any,
    ) -> Any:
        if layout is not None:
            check_layout(layout)
        if names is not None:
            raise errors.not_there("names", "named dimensions")
        given = named.pop("size", None)
        if named:
            raise TypeError(
                f"{name}() got an unexpected keyword argument {next(iter(named))!r}"
            )
        kind = dtype or config.default_dtype()
        made = FULL(shape=_shape_of(name, size, given), value=value, dtype=kind)
        return with_grad(made, requires_grad, device)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public("torch", name=name, out=True)(factory)


def _constant_like(name: str, value: Any, doc: str) -> Any:
    def factory(
        input: Any,
        *,
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
        made = FULL(shape=input._shape, value=value, dtype=dtype or input.dtype)
        return with_grad(_alike(made, input), requires_grad, device, input)

    factory.__name__ = factory.__qualname__ = name
    factory.__doc__ = doc
    return public("torch", name=name)(factory)


def _constant_new(name: str, value: Any, doc: str) -> Any:
    def method(
        input: Any,
        *size: Any,
        dtype: dtype | None = None,
        device: Any = None,
        requires_grad: bool = False,
        layout: Any = None,
        pin_memory: bool = False,
        **named: Any,
    ) -> Any:
        if layout is not None:
            check_layout(layout)
        shape = _shape_of(name, size, named.get("size"))
        made = FULL(shape=shape, value=value, dtype=dtype or input.dtype)
        return with_grad(_alike(made, input), requires_grad, device, input)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = doc
    return public("Tensor", name=name)(documented("size")(method))


zeros = _constant("zeros", 0, "A tensor of zeros: `zeros(2, 3)` or `zeros((2, 3))`.")
ones = _constant("ones", 1, "A tensor of ones: `ones(2, 3)` or `ones((2, 3))`.")
empty = _constant("empty", 0, "A tensor whose elements are to be written (here: zeros).")
zeros_like = _constant_like("zeros_like", 0, "Zeros of the shape and dtype of `input`.")
ones_like = _constant_like("ones_like", 1, "Ones of the shape and dtype of `input`.")
empty_like = _constant_like("empty_like", 0, "Elements to be written, like `input`.")
new_zeros = _constant_new("new_zeros", 0, "Zeros of this tensor's dtype.")
new_ones = _constant_new("new_ones", 1, "Ones of this tensor's dtype.")
new_empty = _constant_new("new_empty", 0, "Elements to be written, of this tensor's dtype.")


@public("torch", out=True)
def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    names: Any = None,
) -> Any:
    """A tensor of one value, whose type gives the dtype.

    >>> import rushlight as torch
    >>> torch.full((2,), 3)
    tensor([3, 3])
    """
    if layout is not None:
        check_layout(layout)
    if names is not None:
        raise errors.not_there("names", "named dimensions")
    kind = dtype or number_kind(fill_value)
    made = filled("full", _shape_of("full", (size,), None), fill_value, kind)
    return with_grad(made.detach() if made.requires_grad else made, requires_grad, device)


@public("torch")
def full_like(
    input: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    memory_format: Any = None,
) -> Any:
    """One value in the shape and dtype of `input`.

    >>> torch.full_like(torch.tensor([1.0, 2.0]), 7)
    tensor([7., 7.])
    """
    if layout is not None:
        check_layout(layout)
    if not hasattr(input, "_storage"):
        raise errors.not_a_tensor("full_like", "input", input)
    made = filled("full_like", input._shape, fill_value, dtype or input.dtype)
    made = made.detach() if made.requires_grad else made
    return with_grad(_alike(made, input), requires_grad, device, input)


@public("Tensor")
def new_full(
    input: Any,
    size: Any,
    fill_value: Any,
    *,
    dtype: dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    layout: Any = None,
    pin_memory: bool = False,
) -> Any:
    """One value in this tensor's dtype.

    >>> torch.tensor([1, 2]).new_full((3,), 7)
    tensor([7, 7, 7])
    """
    if layout is not None:
        check_layout(layout)
    shape = _shape_of("new_full", (size,), None)
    made = filled("new_full", shape, fill_value, dtype or input.dtype)
    return with_grad(_alike(made, input), requires_grad, device, input)


@public("Tensor")
def new_tensor(
    input: Any, data: Any, *, dtype: dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A copy of `data` in this tensor's dtype.

    >>> torch.tensor([1.0, 2.0]).new_tensor([3, 4])
    tensor([3., 4.])
    """
    if layout is not None:
        check_layout(layout)
    from rushlight.arrays import tensor  # ops come before tensors

    made = tensor(data, dtype=dtype or input.dtype, device="cpu")
    return with_grad(made, requires_grad, device, input)


@public("torch", out=True)
def empty_strided(
    size: Any, stride: Any, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Elements to be written, of this shape and these strides.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    view = views.View(sizes_of((size,)), sizes_of((stride,)), 0)
    count = views.span(view)[1] if views.numel(view.shape) else 0
    made = FULL(shape=(count,), value=0, dtype=dtype or config.default_dtype())
    return with_grad(made.as_strided(view.shape, view.strides), requires_grad, device)


@public("Tensor")
def new_empty_strided(
    input: Any, size: Any, stride: Any, *, dtype: dtype | None = None, device: Any = None,
    requires_grad: bool = False, layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Elements to be written, of this shape, these strides and this tensor's dtype.

    >>> torch.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    made = empty_strided(size, stride, dtype=dtype or input.dtype, device="cpu")
    return with_grad(_alike(made, input), requires_grad, device, input)


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
    if kind.category is Category.INTEGRAL:
        if step and not int(step):
            raise ValueError(f"arange: step must be nonzero, but {step} is 0 in {kind!r}")
        start, end, step = int(start), int(end), int(step)
    length = _range_length("arange", start, end, step, False)
    return with_grad(ARANGE(start, step, length=length, dtype=kind), requires_grad, device)


@public("torch", name="range", out=True)
def closed_range(
    start: Any = 0, end: Any = None, step: Any = 1, *, dtype: dtype | None = None,
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


# -- from data


@public("torch")
def as_tensor(data: Any, dtype: dtype | None = None, device: Any = None) -> Any:
    """`data` as a tensor, sharing memory with tensors and arrays where the dtype is right.

    >>> torch.as_tensor([1, 2])
    tensor([1, 2])
    """
    import numpy as np  # to recognise arrays

    from rushlight.arrays import from_numpy, tensor  # ops come before tensors
    from rushlight.tensor import Tensor  # ops come before tensors

    if isinstance(data, Tensor):
        moved = data if device is None else recorder.on_device(data, device)
        return moved if dtype is None or data.dtype is dtype else moved.to(dtype)
    if isinstance(data, np.ndarray):
        shared = from_numpy(data)
        made = shared if dtype is None or shared.dtype is dtype else shared.to(dtype)
        return with_grad(made, False, device)
    return tensor(data, dtype=dtype, device=device)


@public("torch")
def asarray(
    obj: Any, *, dtype: dtype | None = None, device: Any = None, copy: bool | None = None,
    requires_grad: bool | None = None,
) -> Any:  # fmt: skip
    """Like `as_tensor`, with control over copying: True always, False never, None as needed.

    requires_grad: None for what `obj` says, with its history; False cuts that off.

    >>> torch.asarray([1.0, 2.0], dtype=torch.float64)
    tensor([1., 2.], dtype=torch.float64)
    """
    from rushlight.arrays import tensor  # ops come before tensors
    from rushlight.tensor import Tensor  # ops come before tensors

    if copy and not isinstance(obj, Tensor):
        made = tensor(obj, dtype=dtype, device=device)
        return made.requires_grad_() if requires_grad else made
    made = as_tensor(obj, dtype, device)
    if copy and made is obj:
        made = made.clone()
    if copy is False and made is not obj:
        import numpy as np  # to recognise arrays

        if not (
            isinstance(obj, np.ndarray) and (dtype is None or dt.of_numpy(obj.dtype) is dtype)
        ):
            raise ValueError("asarray: can't alias the object without a copy")
    if requires_grad is False and made.requires_grad:
        made = made.detach()
    return made.requires_grad_() if requires_grad else made


@public("torch")
def scalar_tensor(
    s: Any, *, dtype: dtype | None = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """A Python number as a 0-d tensor of the default dtype.

    >>> torch.scalar_tensor(2)
    tensor(2.)
    """
    if layout is not None:
        check_layout(layout)
    kind = dtype or config.default_dtype()
    made = FILL(checked_value("scalar_tensor", s, kind), shape=(), dtype=kind)
    return with_grad(made, requires_grad, device)


@public("torch")
def frombuffer(
    buffer: Any, *, dtype: dtype, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Any:
    """A 1-D tensor on the memory of an object that has the buffer protocol.

    count: elements to read, -1 for all that are left after `offset` bytes.

    >>> torch.frombuffer(bytearray([1, 2, 3]), dtype=torch.uint8)
    tensor([1, 2, 3], dtype=torch.uint8)
    """
    import numpy as np  # reads buffers

    from rushlight.arrays import tensor_on  # ops come before tensors

    try:
        view = memoryview(buffer).cast("B")
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    count = _buffer_count(len(view), dtype.itemsize, count, offset)
    made = tensor_on(np.frombuffer(view, dtype.storage, count, offset), dtype)
    return with_grad(made, requires_grad)


def _buffer_count(nbytes: int, itemsize: int, count: int, offset: int) -> int:
    """How many elements `frombuffer` reads; ValueError for what does not fit."""
    if nbytes == 0 or count == 0:
        raise ValueError(f"both buffer length ({nbytes}) and count ({count}) must not be 0")
    if not 0 <= offset < nbytes:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length "
            f"({nbytes} bytes) minus 1"
        )
    if count < 0 and (nbytes - offset) % itemsize:
        raise ValueError(
            f"buffer length ({nbytes - offset} bytes) after offset ({offset} bytes) must be a "
            f"multiple of element size ({itemsize})"
        )
    wanted = (nbytes - offset) // itemsize if count < 0 else count
    if offset + wanted * itemsize > nbytes:
        raise ValueError(
            f"requested buffer length ({wanted} * {itemsize} bytes) after offset ({offset} "
            f"bytes) must not be greater than actual buffer length ({nbytes} bytes)"
        )
    return wanted


@public("torch")
def meshgrid(*tensors: Any, indexing: str | None = None) -> Any:
    """Coordinate grids of 1-D tensors; indexing "ij" (the default) or "xy".

    >>> torch.meshgrid(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), indexing="ij")
    (tensor([[1., 1.],
            [2., 2.]]), tensor([[3., 4.],
            [3., 4.]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        tensors = tuple(tensors[0])
    if not tensors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if any(t.ndim > 1 for t in tensors):
        raise RuntimeError("meshgrid: Expected 0D or 1D tensors in the tensor list")
    if any(t.dtype is not tensors[0].dtype for t in tensors):
        raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", got {indexing!r}')
    swaps = indexing == "xy" and len(tensors) >= 2
    if swaps:
        tensors = (tensors[1], tensors[0], *tensors[2:])
    shape = tuple(t.numel() for t in tensors)
    count = len(tensors)
    grids = [
        t.reshape([-1 if d == i else 1 for d in range(count)]).expand(shape)
        for i, t in enumerate(tensors)
    ]
    if swaps:
        grids = [grids[1], grids[0], *grids[2:]]
    return tuple(grids)
