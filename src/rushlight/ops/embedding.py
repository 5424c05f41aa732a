"""Rows of a table by index, and gradients added back to them."""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, refusals, views
from rushlight.config import gradients_off
from rushlight.ops import batching
from rushlight.ops.bounds import check_known, extremes
from rushlight.ops.elementwise import WHERE
from rushlight.ops.registry import Op, TensorType, public
from rushlight.views import View


def _row_view(shape: tuple[int, ...], width: int) -> View:
    """Where the elements of rows lie, apart from the row's own start."""
    return View((*shape, width), (0,) * len(shape) + (1,), 0)


def _rows(k: Any, index: Any) -> Any:
    return k.reshape(k.cast(index, dt.int64), (*index.shape, 1))


def embedding_lower(k: Any, weight: Any, index: Any) -> Any:
    count, width = weight.shape
    view = _row_view(index.shape, width)
    return k.gather(weight, view, [(_rows(k, index), width, count)], "index")


EMBEDDING = Op(
    "embedding",
    type=lambda weight, index: TensorType((*index.shape, weight.shape[1]), weight.dtype),
    lower=embedding_lower,
    vjp=lambda g, out, weight, index: (
        EMBEDDING_GRAD(g, index, count=weight.shape[0], padding_idx=-1),
        None,
    ),
)


def embedding_grad_lower(k: Any, g: Any, index: Any, count: int, padding_idx: int) -> Any:
    width = g.shape[-1]
    wide = k.wide(g)
    rows = _rows(k, index)
    if padding_idx >= 0:
        wide = k.select(k.expand(rows.equals(padding_idx), wide.shape), 0, wide)
    base = k.full((count, width), 0, wide.dtype)
    view = _row_view(index.shape, width)
    return k.cast(k.scatter("add", base, wide, view, [(rows, width, count)], "index"), g.dtype)


EMBEDDING_GRAD = Op(  # a table of zeros with every row of g added at its index
    "embedding_grad",
    attrs=("count", "padding_idx"),
    type=lambda g, index, count, padding_idx: TensorType((count, g.shape[-1]), g.dtype),
    lower=embedding_grad_lower,
    vjp=lambda h, out, g, index, count, padding_idx: (
        _without_padding(EMBEDDING(h, index), index, padding_idx),
        None,
    ),
)


def _without_padding(rows: Any, index: Any, padding_idx: int) -> Any:
    if padding_idx < 0:
        return rows
    return WHERE((index == padding_idx).reshape(*index.shape, 1), 0, rows)


def _padded_op(name: str) -> Op:
    return Op(
        name,
        attrs=("padding_idx", "scale_by_freq"),
        type=lambda weight, index, **_: TensorType(
            (*index.shape, weight.shape[1]), weight.dtype
        ),
        lower=lambda k, weight, index, **_: embedding_lower(k, weight, index),
        vjp=lambda g, out, weight, index, padding_idx, scale_by_freq: (
            EMBEDDING_GRAD(
                _by_frequency(g, index, weight.shape[0]) if scale_by_freq else g,
                index,
                count=weight.shape[0],
                padding_idx=padding_idx,
            ),
            None,
        ),
    )


# as `embedding`, but rows read at padding_idx give no gradient
PADDED_EMBEDDING = _padded_op("padded_embedding")
BAG_ROWS = _padded_op("embedding_bag")


def _by_frequency(g: Any, index: Any, count: int) -> Any:
    """g divided by how often its row was read."""
    ones = WHERE(index.reshape(*index.shape, 1) >= 0, 1.0, 0.0)
    often = EMBEDDING_GRAD(ones, index, count=count, padding_idx=-1)
    return g / EMBEDDING(often, index)


def check_indices(op: str, input: Any) -> None:
    if input.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(
            f"{op}: Expected tensor for argument #1 'indices' to have one of the following "
            f"scalar types: Long, Int; but got {input.dtype!r} instead"
        )


def checked_padding(padding_idx: int | None, count: int) -> int:
    """The row without gradient as a non-negative number, -1 for none."""
    if padding_idx is None:
        return -1
    if not -count <= padding_idx < count:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx % count


def renormalise(weight: Any, input: Any, max_norm: float, norm_type: float) -> None:
    """Scale those rows in place that are read and longer than max_norm."""
    with gradients_off():
        width = weight.shape[1]
        ones = WHERE(input.reshape(*input.shape, 1) >= 0, 1.0, 0.0)
        read = EMBEDDING_GRAD(ones, input, count=weight.shape[0], padding_idx=-1) > 0
        length = weight.norm(norm_type, 1, keepdim=True) if width else weight
        scale = WHERE((length > max_norm) & read, max_norm / (length + 1e-7), 1.0)
        weight.copy_(weight * scale)


def check_dense_grad(op: str, sparse: bool) -> None:
    """Raise where a sparse gradient is asked for."""
    if sparse:
        raise errors.not_there(f"{op}(sparse=True)", "sparse gradients")


@public("F", name="embedding")
def embedding_function(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of `weight` by index (gradients are dense: sparse=True raises).

    >>> import rushlight as torch
    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.nn.functional.embedding(torch.tensor([1, 0]), table)
    tensor([[3., 4.],
            [1., 2.]])
    """
    views.flag("embedding", "sparse", sparse)
    views.flag("embedding", "scale_grad_by_freq", scale_grad_by_freq)
    check_dense_grad("embedding", sparse)
    try:
        check_indices("embedding", input)
        if weight.ndim != 2:
            shape = list(weight.shape)
            raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {shape}")
        check_known("embedding", "index", input, weight.shape[0])
        padding = checked_padding(padding_idx, weight.shape[0])
        if max_norm is not None:
            renormalise(weight, input, float(max_norm), float(norm_type))
        if padding < 0 and not scale_grad_by_freq:
            return EMBEDDING(weight, input)
        return PADDED_EMBEDDING(
            weight, input, padding_idx=padding, scale_by_freq=bool(scale_grad_by_freq)
        )
    except Exception as error:
        own = embedding_function
        return refusals.recovered(own, own, "embedding", (input, weight), {}, error)


@public("torch", name="embedding")
def embedding(
    weight: Any,
    indices: Any,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Rows of `weight` by index."""
    views.flag("embedding", "sparse", sparse)
    views.flag("embedding", "scale_grad_by_freq", scale_grad_by_freq)
    check_dense_grad("embedding", sparse)
    check_indices("embedding", indices)
    return PADDED_EMBEDDING(
        weight, indices, padding_idx=padding_idx, scale_by_freq=bool(scale_grad_by_freq)
    )


# -- bags


def _bag_numbers(offsets: Any, count: int) -> Any:
    """Which bag each of `count` positions belongs to: how many bags start at or before it, less
    1.
    """
    from rushlight.ops.creation import FULL  # a later family

    ones = FULL(shape=(count,), value=1, dtype=dt.int64)
    at = ones.cumsum(0) - 1
    return (at.reshape(-1, 1) >= offsets.reshape(1, -1)).sum(1) - 1


def _checked_bags(
    input: Any, weight: Any, offsets: Any, per_sample_weights: Any, mode: str
) -> None:
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: per_sample_weights was not None. per_sample_weights is only "
                f"supported for mode='sum' (got mode='{mode}')."
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: If per_sample_weights ({list(per_sample_weights.shape)}) is "
                f"not None, then it must have the same shape as the input ({list(input.shape)})"
            )
    for name, index in (("input", input), ("offsets", offsets)):
        if index is not None and index.dtype not in (dt.int64, dt.int32):
            wanted = "torch.int64 or torch.int32"
            raise errors.other_dtype_than("embedding_bag", name, wanted, index.dtype)
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
            "of fixed length sequences."
        )
    if input.ndim == 1 and offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if input.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if offsets is not None and offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding_bag: 'weight' must be 2-D, got {list(weight.shape)}")


@public("F")
def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """Sums, means or maxima of the rows in each bag: a row of a matrix, or a run between
    offsets.

    >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> bag = torch.tensor([[0, 1]])
    >>> torch.nn.functional.embedding_bag(bag, table)
    tensor([[2., 3.]])
    """
    check_dense_grad("embedding_bag", sparse)
    if weight.dtype is dt.int64 and input.dtype.is_floating_point:
        input, weight = weight, input  # the argument order of old programs
    _checked_bags(input, weight, offsets, per_sample_weights, mode)
    check_known("embedding_bag", "index", input, weight.shape[0])
    padding = checked_padding(padding_idx, weight.shape[0])
    if max_norm is not None:
        renormalise(weight, input, float(max_norm), float(norm_type))
    if offsets is not None:
        _check_offsets(offsets, input.shape[0])
    if input.ndim == 2:
        count, length = input.shape
        bags = (_zero_index((count, length)) + _arange(count).reshape(-1, 1)).reshape(-1)
        input = input.reshape(-1)
        per_sample_weights = (
            None if per_sample_weights is None else per_sample_weights.reshape(-1)
        )
    else:
        count = offsets.shape[0] - bool(include_last_offset)
        bags = _bag_numbers(offsets.narrow(0, 0, count), input.shape[0])
    rows = BAG_ROWS(weight, input, padding_idx=padding, scale_by_freq=bool(scale_grad_by_freq))
    is_counted = input != padding if padding >= 0 else None
    return _bagged(rows, bags, count, mode, per_sample_weights, is_counted)


def _check_offsets(offsets: Any, length: int) -> None:
    """Raise for bags that begin nowhere, if the offsets are in memory."""
    if offsets._storage.value.buffer is None or not offsets.numel():
        return
    first, last = (int(offsets._numbers()[i]) for i in (0, -1))
    if first != 0:
        raise RuntimeError(
            f"embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the "
            f"mini-batch has to start from position 0, but got {first}"
        )
    if last > length:
        raise RuntimeError(
            f"embedding_bag: offsets[-1] can not be greater than input's length {length} but "
            f"got offsets[-1] of {last}"
        )


def _arange(count: int) -> Any:
    from rushlight.ops.ranges import ARANGE  # a later family

    return ARANGE(0, 1, length=count, dtype=dt.int64)


def _zero_index(shape: tuple[int, ...]) -> Any:
    from rushlight.ops.creation import FULL  # a later family

    return FULL(shape=shape, value=0, dtype=dt.int64)


def _bagged(rows: Any, bags: Any, count: int, mode: str, weights: Any, is_counted: Any) -> Any:
    width = rows.shape[1]
    if mode == "max":
        return _bag_maxima(rows, bags, count, is_counted)
    if weights is not None:
        rows = rows * weights.reshape(-1, 1)
    if is_counted is not None:
        rows = WHERE(is_counted.reshape(-1, 1), rows, 0)
    total = EMBEDDING_GRAD(rows, bags, count=count, padding_idx=-1)
    if mode == "sum" or not width:
        return total
    ones = WHERE(bags >= 0, 1.0, 0.0) if is_counted is None else WHERE(is_counted, 1.0, 0.0)
    sizes = EMBEDDING_GRAD(ones.reshape(-1, 1), bags, count=count, padding_idx=-1)
    return total / WHERE(sizes == 0, 1, sizes).to(total.dtype)


BAG_MAX = Op(  # (bag maxima, the position in `rows` each came from; -1 for an empty bag)
    "bag_max",
    attrs=("count",),
    type=lambda rows, bags, count: (
        TensorType((count, rows.shape[1]), rows.dtype),
        TensorType((count, rows.shape[1]), dt.int64),
    ),
    lower=lambda k, rows, bags, count: tuple(
        k.host(
            _numpy_bag_max,
            [((count, rows.shape[1]), rows.dtype), ((count, rows.shape[1]), dt.int64)],
            rows,
            bags,
            count=count,
        )
    ),
    vjp=lambda g, out, rows, bags, count: (_bag_max_vjp(g[0], out[1], rows), None),
    reads=1,
)


def _numpy_bag_max(rows: Any, bags: Any, count: int) -> tuple[Any, Any]:
    import numpy as np  # ops see NumPy only in host functions

    values = np.zeros((count, rows.shape[1]), rows.dtype)
    places = np.full((count, rows.shape[1]), -1, np.int64)
    for i, bag in enumerate(bags):
        if bag < 0:
            continue
        better = (places[bag] < 0) | (rows[i] > values[bag])
        values[bag] = np.where(better, rows[i], values[bag])
        places[bag] = np.where(better, i, places[bag])
    return values, places


def _bag_max_vjp(g: Any, places: Any, rows: Any) -> Any:
    from rushlight.ops.creation import FULL  # a later family

    zeros = FULL(shape=tuple(rows.shape), value=0, dtype=g.dtype)
    is_real = places >= 0
    return zeros.scatter_add(0, WHERE(is_real, places, 0), WHERE(is_real, g, 0))


def _bag_maxima(rows: Any, bags: Any, count: int, is_counted: Any) -> Any:
    if is_counted is not None:
        bags = WHERE(is_counted, bags, -1)
    return BAG_MAX(rows, bags, count=count)[0]


def _least_and_most(classes: Any, count: int) -> tuple[int, int]:
    if classes.is_meta and count != -1:
        return 0, count - 1
    return extremes(classes.detach()) if classes.numel() else (0, -1)


@public("F")
def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """1 at each index, 0 elsewhere, along a new last dimension.

    >>> torch.nn.functional.one_hot(torch.tensor([0, 2]))
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    if tensor.dtype is not dt.int64:
        raise RuntimeError(
            f"one_hot is only applicable to index tensor of type LongTensor, got "
            f"{tensor.dtype!r}"
        )
    num_classes = views.whole_number("one_hot", "num_classes", num_classes)
    if tensor.numel() == 0 and num_classes <= 0:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    if num_classes == -1:
        batching.refuse_sizes("one_hot without num_classes", tensor)
    low, high = _least_and_most(batching.whole(tensor), num_classes)
    if low < 0:
        raise RuntimeError("Class values must be non-negative.")
    if num_classes != -1 and num_classes < 1:
        raise RuntimeError("num_classes should be positive")
    if num_classes != -1 and high >= num_classes:
        raise RuntimeError("Class values must be smaller than num_classes.")
    classes = high + 1 if num_classes == -1 else num_classes
    return (tensor.reshape(*tensor.shape, 1) == _arange(classes)).to(dt.int64)
