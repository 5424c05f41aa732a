"""Largest and smallest elements: their values, and their places."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Ints
from rushlight.ops import return_types
from rushlight.ops.creation import merged
from rushlight.ops.elementwise import (
    WHERE,
    check_tensors,
    pointwise,
)
from rushlight.ops.pick import PLACE
from rushlight.ops.reduce import (
    SUM,
    Dims,
    check_dims_not_empty,
    kept,
    reduced_type,
)
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Op,
    TensorType,
    documented,
    public,
)


def extreme(k: Any, kind: str, x: Any, dims: Dims, keepdim: bool) -> Any:
    """max or min; of bool, any or all."""
    if x.dtype is dt.bool_:
        return k.reduce("any" if kind == "max" else "all", x, dims, keepdim)
    return k.cast(k.reduce(kind, k.wide(x), dims, keepdim), x.dtype)


def _reaches_lower(k: Any, x: Any, extreme: Any) -> Any:
    same = k.eq(x, extreme)
    if not x.dtype.is_floating_point:
        return same
    return same | (k.ne(x, x) & k.ne(extreme, extreme))


REACHES = pointwise("reaches_extreme", _reaches_lower, to="bool")


def amax_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool) -> Any:
    """Shared evenly among the elements that reach the extreme: the NaNs, if there are some."""
    reached = REACHES(x, kept(out, x.shape, dim, keepdim))
    count = SUM(reached, dim=dim, keepdim=True, dtype=g.dtype)
    return WHERE(reached, kept(g, x.shape, dim, keepdim) / count, 0)


def _extreme_op(name: str, kind: str) -> Op:
    return Op(
        name,
        attrs=("dim", "keepdim"),
        type=lambda x, dim, keepdim: reduced_type(x, dim, keepdim, x.dtype),
        lower=lambda k, x, dim, keepdim: extreme(k, kind, x, dim, keepdim),
        vjp=amax_vjp,
    )


AMAX, AMIN = _extreme_op("amax", "max"), _extreme_op("amin", "min")


def _amax(op: Op, input: Any, dim: Any, keepdim: bool) -> Any:
    if input.dtype.is_complex:
        raise errors.not_for_complex(op.name, input.dtype)
    dims = views.dim_indices(op.name, dim, input.ndim)
    check_dims_not_empty(op.name, input, dim, dims)
    return op(input, dim=dims, keepdim=views.flag(op.name, "keepdim", keepdim))


@public("torch", "Tensor", out=True)
def amax(input: Any, dim: Ints | None = (), keepdim: bool = False) -> Any:
    """The largest value over `dim`; equal ones share the gradient.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).amax((0, 1))
    tensor(4.)
    """
    return _amax(AMAX, input, dim, keepdim)


@public("torch", "Tensor", out=True)
def amin(input: Any, dim: Ints | None = (), keepdim: bool = False) -> Any:
    """The smallest value over `dim`; equal ones share the gradient.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).amin(0)
    tensor([1., 2.])
    """
    return _amax(AMIN, input, dim, keepdim)


@public("torch", "Tensor", out=True)
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """Both extremes.

    >>> torch.aminmax(torch.tensor([[1.0, 4.0], [3.0, 2.0]]), dim=1)
    torch.return_types.aminmax(
    min=tensor([1., 2.]),
    max=tensor([4., 3.]))
    """
    if input.numel() == 0 and (dim is None or input.shape[dim] == 0):
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no "
            "identity."
        )
    dims = () if dim is None else dim
    low, high = amin(input, dims, keepdim), amax(input, dims, keepdim)
    if dim is None and keepdim:
        pass  # amin keeps the dimensions of a full reduction too
    return return_types.aminmax(low, high)


def _ordered(k: Any, x: Any) -> Any:
    return k.cast(x, dt.uint8) if x.dtype is dt.bool_ else k.wide(x)


def _place_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool) -> Any:
    (d,) = dim
    values, index = g[0], out[1]
    if keepdim:
        values, index = values.squeeze(d), index.squeeze(d)
    return PLACE(values, index, dim=d, count=x.shape[d], ignore_index=-1)


def _max_dim_op(name: str, kind: str) -> Op:
    def type_rule(x: TensorType, dim: Dims, keepdim: bool) -> tuple[TensorType, TensorType]:
        shape = views.reduced_shape(x.shape, dim, keepdim)
        return TensorType(shape, x.dtype), TensorType(shape, dt.int64)

    def lower(k: Any, x: Any, dim: Dims, keepdim: bool) -> tuple[Any, Any]:
        index = k.reduce("arg" + kind, _ordered(k, x), dim, keepdim)
        return extreme(k, kind, x, dim, keepdim), index

    return Op(
        name,
        attrs=("dim", "keepdim"),
        type=type_rule,
        lower=lower,
        vjp=_place_vjp,
        reads=1,
    )


MAX_DIM, MIN_DIM = _max_dim_op("max_dim", "max"), _max_dim_op("min_dim", "min")


def _max_of_dim(op: Op, name: str, kind: Any, input: Any, dim: int, keepdim: bool) -> Any:
    if input.dtype.is_complex:
        raise errors.not_for_complex(name, input.dtype)
    d = views.dim_index(name, dim, input.ndim)
    if input.ndim == 0:
        value, index = op(input.reshape(1), dim=(0,), keepdim=False)
        return kind(value, index)
    check_dims_not_empty(name, input, dim, (d,))
    return kind(*op(input, dim=(d,), keepdim=views.flag(name, "keepdim", keepdim)))


def _max_or_min(name: str, input: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """max() of all, max(dim), or max(other), told apart by what is given."""
    check_tensors(name, input=input)
    kwargs = dict(kwargs)
    if "axis" in kwargs:
        kwargs["dim"] = kwargs.pop("axis")
    if "keepdims" in kwargs:
        kwargs["keepdim"] = kwargs.pop("keepdims")
    if not args and not kwargs:
        if input.numel() == 0:
            check_dims_not_empty(name, input, None, ())
        if input.dtype.is_complex:
            raise errors.not_for_complex(name, input.dtype)
        return (AMAX if name == "max" else AMIN)(
            input, dim=tuple(range(input.ndim)), keepdim=False
        )
    first = args[0] if args else kwargs.get("dim", kwargs.get("other"))
    is_alone = len(args) + len(kwargs) == 1
    is_other = not hasattr(first, "__index__") or (_is_tensor(first) and is_alone)
    if "other" in kwargs or (args and is_other):
        if not _is_tensor(first) or not is_alone:
            raise TypeError(
                f"{name}(): argument 2 must be a dim or Tensor, not {errors.class_name(first)}"
            )
        return input.maximum(first) if name == "max" else input.minimum(first)
    given = merged(name, ("dim", "keepdim"), args, kwargs)
    if "dim" not in given:
        raise TypeError(f'{name}() missing 1 required positional argument: "dim"')
    return _dim_form(name, input, **given)


def _is_tensor(value: Any) -> bool:
    return hasattr(value, "_storage")


def _dim_form(name: str, input: Any, dim: int, keepdim: bool = False) -> Any:
    op, kind = (MAX_DIM, return_types.max) if name == "max" else (MIN_DIM, return_types.min)
    return _max_of_dim(op, name, kind, input, dim, keepdim)


@public("torch", "Tensor", out=True)
@documented("dim", "keepdim")
def max(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The largest element; `max(dim)` gives values and indices, `max(other)` is elementwise.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).max(1)
    torch.return_types.max(
    values=tensor([4., 3.]),
    indices=tensor([1, 0]))
    """
    return _max_or_min("max", input, args, kwargs)


@public("torch", "Tensor", out=True)
@documented("dim", "keepdim")
def min(input: Any, *args: Any, **kwargs: Any) -> Any:
    """The smallest element; `min(dim)` gives values and indices, `min(other)` is
    elementwise.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).min(1)
    torch.return_types.min(
    values=tensor([1., 2.]),
    indices=tensor([0, 1]))
    """
    return _max_or_min("min", input, args, kwargs)


def _arg_op(name: str) -> Op:
    return Op(
        name,
        attrs=("dim", "keepdim"),
        type=lambda x, dim, keepdim: reduced_type(x, dim, keepdim, dt.int64),
        lower=lambda k, x, dim, keepdim: k.reduce(name, k.wide(x), dim, keepdim),
        vjp=NOT_DIFFERENTIABLE,
    )


ARGMAX, ARGMIN = _arg_op("argmax"), _arg_op("argmin")


def _arg(op: Op, input: Any, dim: int | None, keepdim: bool) -> Any:
    if input.dtype is dt.bool_ or input.dtype.is_complex:
        raise RuntimeError(f"{op.name}(): does not support {input.dtype!r} input")
    dims = views.dim_indices(op.name, dim, input.ndim)
    if dim is None and input.numel() == 0:
        raise IndexError(
            f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0."
        )
    if dim is not None:
        check_dims_not_empty(op.name, input, dim, dims)
    return op(input, dim=dims, keepdim=views.flag(op.name, "keepdim", keepdim))


@public("torch", "Tensor", out=True)
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the largest element along `dim`, or in the flattened tensor.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).argmax(1)
    tensor([1, 0])
    """
    return _arg(ARGMAX, input, dim, keepdim)


@public("torch", "Tensor", out=True)
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The position of the smallest element along `dim`, or in the flattened tensor.

    >>> torch.tensor([[1.0, 4.0], [3.0, 2.0]]).argmin()
    tensor(0)
    """
    return _arg(ARGMIN, input, dim, keepdim)
