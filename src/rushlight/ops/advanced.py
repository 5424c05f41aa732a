"""Picking and placing along one dimension: index_select, gather, scatter and their
relatives.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

import numpy as np

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import Number
from rushlight.ops import batching
from rushlight.ops.bounds import check_known
from rushlight.ops.creation import FILL, FULL, unrelated
from rushlight.ops.elementwise import WHERE, check_tensors
from rushlight.ops.embedding import check_dense_grad
from rushlight.ops.fill_value import checked_value
from rushlight.ops.index_arrays import index_op, index_put_op, only_last
from rushlight.ops.indexing import is_mask
from rushlight.ops.registry import NOT_DIFFERENTIABLE, Op, TensorType, public, recorder
from rushlight.views import Shape, View

Array = np.ndarray[Any, Any]

# -- gather and scatter


def _along(shape: Shape, dim: int, index: Shape) -> View:
    """Where `gather` and `scatter` look, apart from the index itself (0-d counts as one
    element).
    """
    strides = list(views.contiguous_strides(shape))
    if strides:
        strides[dim] = 0
    return View(index, tuple(strides), 0)


def _steps(k: Any, shape: Shape, dim: int, index: Any) -> list[tuple[Any, int, int]]:
    stride = views.contiguous_strides(shape)[dim] if shape else 1
    return [(k.cast(index, dt.int64), stride, shape[dim] if shape else 1)]


def _gather_lower(k: Any, x: Any, index: Any, dim: int) -> Any:
    if 0 in index.shape:
        return k.full(index.shape, 0, x.dtype)
    return k.gather(x, _along(x.shape, dim, index.shape), _steps(k, x.shape, dim, index))


def _gather_vjp(g: Any, out: Any, x: Any, index: Any, dim: int) -> Any:
    return GATHER_SUM(g, index, shape=tuple(x.shape), dim=dim), None


def gather_op(name: str, vjp: Any = _gather_vjp) -> Op:
    """Elements along a dimension, for a function whose errors and gradients have its name."""
    return Op(
        name,
        attrs=("dim",),
        type=lambda x, index, dim: TensorType(index.shape, x.dtype),
        lower=_gather_lower,
        vjp=vjp,
    )


GATHER = gather_op("gather")
TAKE_ALONG = gather_op("take_along_dim")


def _placed(k: Any, kind: str, base: Any, source: Any, index: Any, dim: int) -> Any:
    if 0 in index.shape:
        return base
    view = _along(base.shape, dim, index.shape)
    return k.scatter(kind, base, source, view, _steps(k, base.shape, dim, index))


def _gather_sum_lower(k: Any, g: Any, index: Any, shape: Shape, dim: int) -> Any:
    wide = k.wide(g)
    return k.cast(_placed(k, "add", k.full(shape, 0, wide.dtype), wide, index, dim), g.dtype)


GATHER_SUM = Op(  # zeros of `shape` with every element of g added where `gather` read it
    "gather_sum",
    attrs=("shape", "dim"),
    type=lambda g, index, shape, dim: TensorType(shape, g.dtype),
    lower=_gather_sum_lower,
    vjp=lambda h, out, g, index, shape, dim: (GATHER(h, index, dim=dim), None),
)


def scatter_lower(k: Any, base: Any, source: Any, index: Any, dim: int, kind: str) -> Any:
    work = base.dtype
    if kind == "add" and work is dt.bool_:
        work = dt.int32
    if kind != "set":
        work = dt.float32 if work in (dt.float16, dt.bfloat16) else work
    part = k.expand(source, index.shape) if not source.shape else source
    for d, size in enumerate(index.shape):
        if part.shape[d] != size:
            part = k.slice(part, d, 0, size)
    if kind == "mul" and work.is_complex:  # no kernel multiplies pairs
        index = k.checked(index, index, base.shape[dim] if base.shape else 1, "index")
        ready = base, k.cast(part, work), index
        return k.host(_products, ((base.shape, work),), *ready, dim=dim)[0]
    out = _placed(k, kind, k.cast(base, work), k.cast(part, work), index, dim)
    return k.cast(out, base.dtype)


def _products(base: Array, part: Array, index: Array, dim: int) -> Array:
    """A copy of `base` with the elements of `part` multiplied to it, in their order. Indices
    out of range go anywhere: the flush raises after it.
    """
    made = np.atleast_1d(base).copy()
    places: list[Array] = list(np.indices(index.shape)) or [index]
    places[dim] = np.clip(index, 0, made.shape[dim] - 1)
    np.multiply.at(made, tuple(places), part)
    return made.reshape(base.shape)


def _scatter_vjp(
    g: Any, out: Any, base: Any, source: Any, index: Any, dim: int, kind: str
) -> Any:
    if kind not in ("set", "add"):
        raise errors.not_differentiable(f"scatter with reduce={kind!r}")
    chosen = GATHER(g, index, dim=dim)
    if kind == "add":
        return g, grown(chosen, source.shape), None
    empty = FULL(shape=tuple(g.shape), value=-1, dtype=dt.int64)
    kept = only_last(
        chosen,
        lambda order: SCATTER(empty, order, index, dim=dim, kind="set"),
        lambda placed: GATHER(placed, index, dim=dim),
    )
    return SCATTER(g, 0, index, dim=dim, kind="set"), grown(kept, source.shape), None


def grown(g: Any, shape: Shape) -> Any:
    """A gradient of the used corner of an operand, with zeros around it."""
    if not shape:
        return g.sum()
    if tuple(g.shape) == tuple(shape):
        return g
    from rushlight.ops.rearrange import constant_pad  # only when src was larger than index

    after = [s - o for s, o in zip(shape, g.shape, strict=True)]
    return constant_pad(g, [0] * len(shape), after)


def scatter_op(name: str) -> Op:
    """Elements put or added at the places of `scatter`, for a function whose errors and
    gradients have its name.
    """
    return Op(
        name,
        attrs=("dim", "kind"),
        type=lambda base, source, index, dim, kind: TensorType(base.shape, base.dtype),
        lower=scatter_lower,
        vjp=_scatter_vjp,
    )


SCATTER = scatter_op("scatter")
SCATTER_ADD = scatter_op("scatter_add")


def check_along(op: str, x: Any, dim: int, index: Any, source: Any = None) -> int:
    """The dimension of a gather or scatter, after checking its operands against each other."""
    at = views.dim_index(op, dim, x.ndim)
    shape = index._shape
    if not views.numel(shape):
        return at
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(f"{op}(): Expected dtype int64 for index")
    if x._shape == shape and (source is None or source._shape == shape):
        return at
    if max(index.ndim, 1) != max(x.ndim, 1):
        raise RuntimeError(
            f"{op}: Index tensor must have the same number of dimensions as input tensor, got "
            f"{errors.shape_text(index._shape)} and {errors.shape_text(x._shape)}"
        )
    for d, size in enumerate(index._shape):
        own = x._shape[d] if x.ndim else 1
        limit = source._shape[d] if source is not None and source.ndim else size
        if (d != at and size > own) or size > limit:
            raise RuntimeError(
                f"{op}: Expected index {errors.shape_text(index._shape)} to be smaller than "
                f"self {errors.shape_text(x._shape)} apart from dimension {at}"
            )
    if source is not None and max(source.ndim, 1) != max(index.ndim, 1):
        raise RuntimeError(
            f"{op}: Index tensor must have the same number of dimensions as src tensor, got "
            f"{errors.shape_text(index._shape)} and {errors.shape_text(source._shape)}"
        )
    return at


@public("torch", "Tensor", out=True)
def gather(input: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    """out[i][j] = input[index[i][j]][j] for dim 0, and so on.

    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.gather(x, 1, torch.tensor([[1], [0]]))
    tensor([[2.],
            [3.]])
    """
    check_dense_grad("gather", sparse_grad)
    at = check_along("gather", input, dim, index)
    if input.ndim == 0 and index.ndim == 1:
        input = input.reshape(1)
    if input.ndim and index.ndim == 0:
        return GATHER(input, index.reshape(1), dim=at).reshape(())
    if not index.numel() and index.ndim != input.ndim:
        return unrelated(input.new_empty(index._shape), input)
    return GATHER(input, index, dim=at)


def _scatter(made_by: Op, x: Any, dim: int, index: Any, source: Any, kind: str) -> Any:
    op = made_by.name
    is_tensor = hasattr(source, "_storage")
    at = check_along(op, x, dim, index, source if is_tensor else None)
    if is_tensor and source.dtype is not x.dtype:
        raise RuntimeError(f"{op}(): Expected self.dtype to be equal to src.dtype")
    if not views.numel(index._shape):
        return unrelated(x.clone(), source)
    shape = x._shape
    if not shape:
        x = x.reshape(1)
    if not index._shape:
        index = index.reshape(1)
    if is_tensor and not source._shape:
        source = source.reshape(1)
    made = made_by(x, source, index, dim=at, kind=kind)
    return made if shape else made.reshape(())


_OLD_REDUCES = {None: "set", "add": "add", "multiply": "mul"}


@public("torch", "Tensor", inplace=True, out=True)
def scatter(
    input: Any, dim: int, index: Any, src: Any = None, *, value: Any = None, reduce: Any = None
) -> Any:
    """A copy with self[index[i][j]][j] = src[i][j] (or one value) for dim 0, and so on.

    >>> torch.zeros(3).scatter(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    if reduce not in _OLD_REDUCES:
        raise RuntimeError("reduce argument must be either add or multiply.")
    source = checked_value("scatter", value if src is None else src, input.dtype)
    return _scatter(SCATTER, input, dim, index, source, _OLD_REDUCES[reduce])


@public("torch", "Tensor", inplace=True, out=True)
def scatter_add(input: Any, dim: int, index: Any, src: Any) -> Any:
    """A copy with src added at the places of `scatter`.

    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
    tensor([3., 0., 0.])
    """
    check_tensors("scatter_add", src=src)
    return _scatter(SCATTER_ADD, input, dim, index, src, "add")


@public("torch", "Tensor", out=True)
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """`gather` after broadcasting both (of the flattened tensor by default). Along a given
    `dim` negative indices count from its end.

    >>> x = torch.tensor([[3.0, 1.0], [2.0, 4.0]])
    >>> torch.take_along_dim(x, x.argsort(1), 1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    if indices.dtype is not dt.int64:
        raise RuntimeError(
            f"take_along_dim(): dtype of indices should be Long but got {indices.dtype!r}"
        )
    if dim is None:
        return TAKE_ALONG(input.reshape(-1), indices.reshape(-1), dim=0)
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of "
            f"dimensions, but got {input.ndim} dimensions for input, and {indices.ndim} for "
            "indices"
        )
    at = views.dim_index("take_along_dim", dim, input.ndim)
    own, wanted = list(input._shape), list(indices._shape)
    own[at] = wanted[at] = 1
    common = list(views.broadcast_shapes("take_along_dim", own, wanted))
    source, chosen = list(common), list(common)
    source[at], chosen[at] = input._shape[at], indices._shape[at]
    wrapped = WHERE(indices < 0, indices + input._shape[at], indices)
    return TAKE_ALONG(input.expand(source), wrapped.expand(chosen), dim=at)


# -- along one dimension


INDEX_SELECT = index_op("index_select")
INDEX_ADD = index_put_op("index_add")
INDEX_COPY = index_put_op("index_copy")
INDEX_FILL = index_put_op("index_fill", NOT_DIFFERENTIABLE)  # only where to fill
TAKE = index_op("take")
PUT = index_put_op("put")


def _check_vector(op: str, index: Any) -> Any:
    if index.ndim > 1:
        raise IndexError(
            f"{op}(): Index is supposed to be a vector, got {index.ndim} dimensions"
        )
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            f"{op}(): Expected dtype int32 or int64 for index, got {index.dtype!r}"
        )
    return index if index.ndim else index.reshape(1)


@public("torch", "Tensor", out=True)
def index_select(input: Any, dim: int, index: Any) -> Any:
    """The parts at these indices of a dimension.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).index_select(1, torch.tensor([1, 0]))
    tensor([[2., 1.],
            [4., 3.]])
    """
    at = views.dim_index("index_select", dim, input.ndim)
    vector = _check_vector("index_select", index)
    x = input if input.ndim else input.reshape(1)
    check_known("index_select", "index", vector, x._shape[at])
    out = INDEX_SELECT(x, vector, dims=(at,), wraps=False)
    return out if input.ndim else out.reshape(())


def placed_parts(
    op: str, x: Any, dim: int, index: Any, source: Any
) -> tuple[Any, Any, Any, int]:
    at = views.dim_index(op, dim, x.ndim)
    vector = _check_vector(op, index)
    if op == "index_copy" and index.dtype is not dt.int64:
        raise errors.other_dtype_than(op, "index", "torch.int64", index.dtype)
    if source.dtype is not x.dtype:
        raise RuntimeError(
            f"{op}(): self and source expected to have the same dtype, but got (self) "
            f"{x.dtype!r} and (source) {source.dtype!r}"
        )
    given = x
    x = x if x.ndim else x.reshape(1)
    check_known(op, "index", vector, x._shape[at])
    if not source.ndim and (op == "index_copy" or x is not given):
        source = source.reshape((1,) * x.ndim) if x.ndim == 1 else source.reshape(1)
    wanted = (*x._shape[:at], vector._shape[0], *x._shape[at + 1 :])
    if source._shape != wanted:
        is_short = source.ndim != x.ndim or source._shape[at] != wanted[at]
        raise (IndexError if op == "index_copy" and is_short else RuntimeError)(
            f"{op}(): Number of indices ({vector._shape[0]}) and source of shape "
            f"{errors.shape_text(source._shape)} do not fit self of shape "
            f"{errors.shape_text(x._shape)} along dimension {at}"
        )
    return x, vector, source, at


@public("torch", "Tensor", inplace=True, out=True)
def index_add(input: Any, dim: int, index: Any, source: Any, *, alpha: Number = 1) -> Any:
    """A copy with parts of `source` added at these indices of a dimension.

    >>> torch.zeros(3).index_add(0, torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
    tensor([3., 0., 0.])
    """
    x, vector, parts, at = placed_parts("index_add", input, dim, index, source)
    parts = parts if alpha == 1 else parts * alpha
    out = INDEX_ADD(x, parts, vector, dims=(at,), accumulate=True, wraps=False)
    return out.reshape(input._shape)


@public("torch", "Tensor", inplace=True, out=True)
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """A copy with parts of `source` at these indices of a dimension.

    >>> torch.zeros(3).index_copy(0, torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    x, vector, parts, at = placed_parts("index_copy", input, dim, index, source)
    out = INDEX_COPY(x, parts, vector, dims=(at,), accumulate=False, wraps=False)
    return out.reshape(input._shape)


@public("torch", "Tensor", inplace=True)
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """A copy with one value at these indices of a dimension.

    >>> torch.zeros(3).index_fill(0, torch.tensor([0, 2]), 9)
    tensor([9., 0., 9.])
    """
    at = views.dim_index("index_fill", dim, input.ndim)
    if index.ndim > 1:
        raise RuntimeError(f"index_fill_(): Index has to be a vector, got {index.ndim}-D")
    if hasattr(value, "ndim") and value.ndim:
        raise RuntimeError(
            f"index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if index.dtype is not dt.int64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    if isinstance(value, complex) and not input.dtype.is_complex:
        raise errors.value_overflows("index_fill", value, input.dtype)
    vector = index if index.ndim else index.reshape(1)
    size = input._shape[at] if input.ndim else 1
    chosen = FULL(shape=(size,), value=False, dtype=dt.bool_)
    if size:  # among no elements, PyTorch lets every index be
        chosen = INDEX_FILL(chosen, True, vector, dims=(0,), accumulate=False, wraps=True)
    line = [size if d == at else 1 for d in range(input.ndim)]
    return masked_fill(input, chosen.reshape(line), value)


@public("torch", "Tensor", out=True)
def take(input: Any, index: Any) -> Any:
    """Elements of the flattened tensor.

    >>> torch.take(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([0, 3]))
    tensor([1., 4.])
    """
    if index.dtype is not dt.int64:
        raise RuntimeError(f"take(): Expected a long tensor for index, but got {index.dtype!r}")
    if not input.numel() and index.numel():
        raise IndexError("take(): tried to take from an empty tensor")
    return TAKE(input.reshape(-1), index, dims=(0,), wraps=True)


@public("Tensor", name="put_")
def put_(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Write (or add) elements at positions of the flattened tensor.

    >>> torch.zeros(3).put_(torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    return recorder.write(input, put(input, index, source, accumulate), "put_")


@public("torch", "Tensor")
def put(input: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """A copy with elements at positions of the flattened tensor.

    >>> torch.put(torch.zeros(3), torch.tensor([2, 0]), torch.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    if index.dtype is not dt.int64:
        raise RuntimeError(f"put_(): Expected a long tensor for index, but got {index.dtype!r}")
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{input.dtype!r} and source.dtype = {source.dtype!r}"
        )
    if source.numel() != index.numel():
        raise IndexError(
            f"put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}"
        )
    flat, places, values = input.reshape(-1), index.reshape(-1), source.reshape(-1)
    made = PUT(flat, values, places, dims=(0,), accumulate=bool(accumulate), wraps=True)
    return made.reshape(input._shape)


# -- masks


def _check_masked(op: str, mask: Any) -> None:
    if mask.dtype is not dt.bool_:
        raise RuntimeError(
            f"{op} only supports boolean masks, but got mask with dtype {mask.dtype!r}"
        )


@public("torch", "Tensor", inplace=True)
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    """One value where the mask holds, the input elsewhere.

    >>> x = torch.tensor([-1.0, 2.0])
    >>> x.masked_fill(x < 0, 0)
    tensor([0., 2.])
    """
    _check_masked("masked_fill_", mask)
    if hasattr(value, "_storage") and value.ndim:
        raise RuntimeError(
            f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    if hasattr(value, "_storage") and value.dtype.is_complex and not input.dtype.is_complex:
        raise errors.value_overflows("masked_fill_", f"of {value.dtype!r}", input.dtype)
    value = checked_value("masked_fill_", value, input.dtype)
    value = FILL(value, shape=(), dtype=input.dtype)
    return WHERE(mask, value, input)


@public("torch", "Tensor", out=True)
def masked_select(input: Any, mask: Any) -> Any:
    """The elements where the mask holds, in order, as a vector.

    >>> x = torch.tensor([-1.0, 2.0, 3.0])
    >>> torch.masked_select(x, x.abs() > 1)
    tensor([2., 3.])
    """
    if not is_mask(mask) or mask.dtype is not dt.bool_:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    batching.refuse_sizes("masked_select", mask)
    shape = views.broadcast_shapes("masked_select", input._shape, mask._shape)
    wide, chosen = input.expand(shape), mask.expand(shape)
    if not shape:
        wide, chosen = wide.reshape(1), chosen.reshape(1)
    return wide[chosen]


def _nth_lower(k: Any, x: Any, places: Any) -> Any:
    view = View(places.shape, (0,) * len(places.shape), 0)
    return k.gather(x, view, [(places, 1, x.shape[0])], "element of the source")


NTH = Op(  # the elements of a vector that fill a mask; too few of them are an error
    "masked_scatter",
    type=lambda x, places: TensorType(places.shape, x.dtype),
    lower=_nth_lower,
    vjp=lambda g, out, x, places: (
        GATHER_SUM(g, places, shape=tuple(x.shape), dim=0),
        None,
    ),
)


@public("torch", "Tensor", inplace=True)
def masked_scatter(input: Any, mask: Any, source: Any) -> Any:
    """The elements of source, in order, where the mask holds; the input elsewhere.

    >>> x = torch.tensor([-1.0, 2.0, -3.0])
    >>> x.masked_scatter(x < 0, torch.tensor([8.0, 9.0]))
    tensor([8., 2., 9.])
    """
    _check_masked("masked_scatter_", mask)
    if source.dtype is not input.dtype:
        raise RuntimeError(
            f"masked_scatter_: expected self and source to have same dtypes but got "
            f"{input.dtype!r} and {source.dtype!r}"
        )
    shape = views.broadcast_shapes("masked_scatter", input._shape, mask._shape)
    chosen = mask.expand(shape)
    wide = input.expand(shape)
    if not source.numel() or not wide.numel():
        return unrelated(wide.clone(), source)
    count = chosen.reshape(-1).to(dt.int64).cumsum(0)
    places = WHERE(chosen.reshape(-1), count - 1, 0)
    values = NTH(source.reshape(-1), places).reshape(shape)
    return WHERE(chosen, values, wide)
