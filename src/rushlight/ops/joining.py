"""Tensors joined: along a dimension, or as blocks of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.ops.creation import FULL, unrelated
from rushlight.ops.rearrange import constant_pad
from rushlight.ops.registry import Linearity, Op, TensorType, public, recorder
from rushlight.views import Shape


def _cat_type(*parts: TensorType, dim: int, sizes: Shape, dtype: dtype) -> TensorType:
    shape = list(parts[0].shape)
    shape[dim] = sum(sizes)
    return TensorType(tuple(shape), dtype)


def _cat_vjp(g: Any, out: Any, *parts: Any, dim: int, sizes: Shape, dtype: dtype) -> Any:
    return g.split(sizes, dim)


CAT = Op(
    "cat",
    attrs=("dim", "sizes", "dtype"),
    type=_cat_type,
    lower=lambda k, *parts, dim, sizes, dtype: k.cat([k.cast(p, dtype) for p in parts], dim),
    vjp=_cat_vjp,
    jvp=Linearity.TOGETHER,
)


def _tensors_of(op: str, tensors: Any) -> list[Any]:
    if hasattr(tensors, "_storage") or not isinstance(tensors, Sequence):
        raise TypeError(
            f"{op}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        kind = ValueError if op == "cat" else RuntimeError
        raise kind(f"{op} expects a non-empty TensorList")
    for i, t in enumerate(tensors):
        if not hasattr(t, "_storage"):
            raise TypeError(
                f"{op}: expected Tensor as element {i} in argument 0, but got "
                f"{type(t).__name__}"
            )
    return list(tensors)


def common_dtype(tensors: Sequence[Any]) -> dtype:
    """The promoted dtype of tensors of equal standing."""
    kind: dtype = tensors[0].dtype
    for t in tensors[1:]:
        kind = dt.promote_types(kind, t.dtype)
    return kind


@public("torch", out=True, aliases=("concat", "concatenate"))
def cat(tensors: Any, dim: int = 0) -> Any:
    """Tensors joined along an existing dimension.

    >>> torch.cat([torch.ones(1, 2), torch.zeros(1, 2)])
    tensor([[1., 1.],
            [0., 0.]])
    """
    parts = _tensors_of("cat", tensors)
    kind = common_dtype(parts)
    full = [p for p in parts if p._shape != (0,)] or parts[:1]  # (0,) joins anything
    first = full[0]._shape
    if not all(p._shape for p in parts):
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    at = views.dim_index("cat", dim, len(first))
    for i, p in enumerate(full):
        if p._shape == first:
            continue
        if p.ndim != len(first) or any(
            a != b for d, (a, b) in enumerate(zip(p._shape, first, strict=True)) if d != at
        ):
            raise RuntimeError(
                f"cat: Sizes of tensors must match except in dimension {at}. Expected "
                f"{errors.shape_text(first)} but got {errors.shape_text(p._shape)} for tensor "
                f"number {i} in the list."
            )
    sizes = tuple([p._shape[at] for p in full])
    if _is_data(parts):
        return _joined_now(full, at, kind, (*first[:at], sum(sizes), *first[at + 1 :]))
    made = CAT(*full, dim=at, sizes=sizes, dtype=kind)
    if len(full) == len(parts):
        return made
    return unrelated(made, *(p for p in parts if p._shape == (0,)))


def _is_data(parts: Sequence[Any]) -> bool:
    """Whether all parts are in memory already and have no derivatives."""
    has_gradients = config.scopes.grad_enabled and any(p.requires_grad for p in parts)
    if has_gradients or any(recorder.has_tangent(p) for p in parts):
        return False
    types = [p._storage.value.type for p in parts if p._storage.value.buffer is not None]
    return len(types) == len(parts) and not any(t.is_meta or t.levels for t in types)


def _joined_now(parts: Sequence[Any], dim: int, kind: dtype, shape: Shape) -> Any:
    """Join data at once: batches cut out of a data set differ in where they are cut, and would
    otherwise make every training step a new program.
    """
    from rushlight.arrays import joined  # ops come before tensors

    return joined(parts, dim, kind, shape)


@public("torch", out=True)
def stack(tensors: Any, dim: int = 0) -> Any:
    """Tensors of one shape joined along a new dimension.

    >>> torch.stack([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])], dim=1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    parts = _tensors_of("stack", tensors)
    for i, p in enumerate(parts):
        if p._shape != parts[0]._shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got "
                f"{errors.shape_text(parts[0]._shape)} at entry 0 and "
                f"{errors.shape_text(p._shape)} at entry {i}"
            )
    shape = parts[0]._shape
    at = views.dim_index("stack", dim, len(shape) + 1)
    if at < len(shape) and _is_data(parts):  # joined along `at`, and counted differently
        whole = (*shape[:at], len(parts), *shape[at:])
        return _joined_now(parts, at, common_dtype(parts), whole)
    return cat([p.unsqueeze(at) for p in parts], at)


def _stack_along(name: str, grow: str, dim_of: Any, aliases: tuple[str, ...] = ()) -> None:
    def function(tensors: Any) -> Any:
        import rushlight  # the public forms of atleast_*

        parts = _tensors_of(name, tensors)
        grown = [getattr(rushlight, grow)(p) for p in parts]
        return cat(grown, dim_of(grown[0].ndim))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = "Tensors joined along one dimension, made to have it first."
    public("torch", name=name, out=True, aliases=aliases)(function)


_stack_along("hstack", "atleast_1d", lambda ndim: 0 if ndim == 1 else 1)
_stack_along("vstack", "atleast_2d", lambda ndim: 0, ("row_stack",))
_stack_along("dstack", "atleast_3d", lambda ndim: 2)


@public("torch", out=True)
def column_stack(tensors: Any) -> Any:
    """1-D tensors as columns, matrices side by side.

    >>> torch.column_stack([torch.tensor([1.0, 2.0]), torch.zeros(2, 2)])
    tensor([[1., 0., 0.],
            [2., 0., 0.]])
    """
    parts = _tensors_of("column_stack", tensors)
    return cat([p if p.ndim > 1 else p.reshape(-1, 1) for p in parts], 1)


@public("torch")
def block_diag(*tensors: Any) -> Any:
    """Matrices along the diagonal of a larger one.

    >>> torch.block_diag(torch.ones(1, 2), torch.ones(1, 1))
    tensor([[1., 1., 0.],
            [0., 0., 1.]])
    """
    if not tensors:
        return FULL(shape=(1, 0), value=0, dtype=config.default_dtype())
    parts = [t.reshape(1, -1) if t.ndim < 2 else t for t in tensors]
    if any(p.ndim > 2 for p in parts):
        raise RuntimeError("torch.block_diag: Input tensors must have 2 or fewer dimensions.")
    kind = common_dtype(parts)
    width = sum(p._shape[1] for p in parts)
    rows, left = [], 0
    for p in parts:
        right = width - left - p._shape[1]
        rows.append(constant_pad(p.to(kind), (0, left), (0, right)))
        left += p._shape[1]
    return cat(rows, 0)
