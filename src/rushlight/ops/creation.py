"""Tensors of sizes and one number: full, zeros, ones, and ones like others."""

from __future__ import annotations

import functools
import math
from typing import Any  # fill values are numbers, sizes come in several forms

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.argument_kinds import IntList, Number
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


# -- arguments


def sizes_of(op: str, name: str, args: tuple[Any, ...]) -> views.Shape:
    """Sizes given as `f(2, 3)` or `f((2, 3))`; `f(())` is right, and `f()` is not."""
    if not args:
        raise TypeError(f'{op}() missing 1 required positional argument: "{name}"')
    if len(args) == 1 and isinstance(args[0], list | tuple):
        args = tuple(args[0])
    return views.whole_numbers(op, name, args)


def check_sizes(op: str, sizes: views.Shape) -> None:
    """Raise for sizes that are no numbers of 64 bits."""
    for at, size in enumerate(sizes):
        if not -(2**63) <= size < 2**63:
            raise TypeError(
                f"{op}(): argument 'size' failed to unpack the object at pos {at + 1}: {size} "
                f"does not fit in 64 bits"
            )


def sizes_given(
    op: str, args: tuple[Any, ...], named: dict[str, Any], name: str
) -> views.Shape:
    """Sizes by position, or by keyword under this name; not both."""
    if not named:
        return sizes_of(op, name, args)
    given = given_by(op, named, name)
    if args:
        raise TypeError(f"{op}() got multiple values for argument {name!r}")
    return sizes_of(op, name, (given,))


def merged(
    op: str, names: tuple[str, ...], args: tuple[Any, ...], named: dict[str, Any]
) -> dict[str, Any]:
    """Arguments by name, that were given by position or by keyword; TypeError for one that is
    given twice, or has none of the names.
    """
    given_by(op, named, *names)
    given = dict(zip(names, args, strict=False))
    twice = next((n for n in named if n in given), None)
    if twice is not None:
        raise TypeError(f"{op}() got multiple values for argument {twice!r}")
    if len(args) > len(names):
        raise TypeError(
            f"{op}() takes at most {len(names)} of them, but {len(args)} were given"
        )
    return given | named


def given_by(op: str, named: dict[str, Any], *names: str) -> Any:
    """The first of the keywords; TypeError for one that is none of the names."""
    unknown = next((k for k in named if k not in names), None)
    if unknown is not None:
        raise TypeError(f"{op}() got an unexpected keyword argument {unknown!r}")
    return named.get(names[0])


def shape_of(op: str, size: tuple[Any, ...], named: dict[str, Any]) -> views.Shape:
    """The shape that a factory is asked for."""
    shape = sizes_given(op, size, named, "size")
    check_sizes(op, shape)
    if any(s < 0 for s in shape):
        raise RuntimeError(
            f"{op}: Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def number_kind(*numbers: Any) -> dtype:
    """The dtype of a tensor filled with Python numbers."""
    top = max(map(dt.category_of, numbers), default=Category.FLOATING)
    return dt.number_dtype(top, config.default_dtype())


def with_grad(made: Any, requires_grad: bool, device: Any = None, like: Any = None) -> Any:
    """The finished tensor of a factory function: in its place, a leaf if asked."""
    if device is not None or config.process.has_places:
        made = recorder.placed(made, device, like)
    in_memory(made)
    is_unset = requires_grad is None or requires_grad is False  # None is PyTorch's default
    return made if is_unset else made.requires_grad_(requires_grad)


def in_memory(made: Any) -> Any:
    """A new tensor, unless no memory could hold it: OutOfMemoryError where it was asked for."""
    type = made._storage.value.type
    if type.nbytes > _memory_of_machine() and not type.is_meta:
        raise errors.out_of_memory(type.nbytes, "the machine has less memory")
    return made


@functools.cache
def _memory_of_machine() -> int:
    """The bytes that memory and swap hold: more is not had even if it is never touched, by
    the kernel's own rule (overcommit).
    """
    try:
        with open("/proc/meminfo") as file:
            found = dict(line.split(":") for line in file)
        return sum(int(found[name].split()[0]) << 10 for name in ("MemTotal", "SwapTotal"))
    except (OSError, KeyError, ValueError):  # another system: what an address may be
        return 1 << 47


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
        kind = dtype or config.default_dtype()
        made = FULL(shape=shape_of(name, size, named), value=value, dtype=kind)
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
        shape = shape_of(name, size, named)
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
    size: IntList,
    fill_value: Number,
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
    made = filled("full", shape_of("full", (size,), {}), fill_value, kind)
    return with_grad(made.detach() if made.requires_grad else made, requires_grad, device)


@public("torch")
def full_like(
    input: Any,
    fill_value: Number,
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
    size: IntList,
    fill_value: Number,
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
    shape = shape_of("new_full", (size,), {})
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
    size: IntList, stride: IntList, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Elements to be written, of this shape and these strides.

    >>> torch.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    shape = sizes_of("empty_strided", "size", (size,))
    view = views.View(shape, sizes_of("empty_strided", "stride", (stride,)), 0)
    count = views.span(view)[1] if views.numel(view.shape) else 0
    made = FULL(shape=(count,), value=0, dtype=dtype or config.default_dtype())
    return with_grad(made.as_strided(view.shape, view.strides), requires_grad, device)


@public("Tensor")
def new_empty_strided(
    input: Any, size: IntList, stride: IntList, *, dtype: dtype | None = None,
    device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Elements to be written, of this shape, these strides and this tensor's dtype.

    >>> torch.ones(1).new_empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    made = empty_strided(size, stride, dtype=dtype or input.dtype, device="cpu")
    return with_grad(_alike(made, input), requires_grad, device, input)
