"""Movement: the same elements in another shape, order or part; nearly all of it views."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import IntList, Ints
from rushlight.layout import Size
from rushlight.ops.creation import check_sizes, sizes_given, sizes_of
from rushlight.ops.elementwise import the_tensor
from rushlight.ops.registry import public
from rushlight.ops.view_ops import (
    AS_STRIDED,
    DIAGONAL,
    EXPAND,
    PERMUTE,
    PICK,
    RESHAPE,
    SELECT,
    SLICE,
    UNFOLD,
    check_no_leaf,
    own_view,
    stored_elements,
    take_view,
)
from rushlight.views import Shape, View

# -- shapes


def _own_shape(x: Any, shape: tuple[Any, ...], named: dict[str, Any], op: str) -> Shape:
    if named:
        shape = (named.get("shape", named.get("size")),)
    return views.resolve_shape(op, sizes_of(op, "shape", shape), x._shape)


@public("Tensor")
def view(input: Any, *shape: Any, **named: Any) -> Any:
    """The same elements under another shape, sharing memory; RuntimeError if that needs a copy.

    `view(dtype)` reads the same bytes as another dtype.

    >>> torch.arange(6.0).view(2, -1)
    tensor([[0., 1., 2.],
            [3., 4., 5.]])
    """
    kind = named.pop("dtype", None) or (shape[0] if len(shape) == 1 else None)
    if isinstance(kind, dt.dtype):
        from rushlight.ops.convert import view_as_dtype  # conversions come after movement

        return view_as_dtype(input, kind)
    return take_view(RESHAPE, input, shape=_own_shape(input, shape, named, "view"))


@public("Tensor")
def reshape(input: Any, *shape: Any, **named: Any) -> Any:
    """The same elements under another shape: a view where possible, otherwise a copy.

    >>> torch.arange(6.0).view(2, 3).t().reshape(-1)
    tensor([0., 3., 1., 4., 2., 5.])
    """
    sizes = _own_shape(input, shape, named, "reshape")
    if views.try_reshape(own_view(input), sizes) is None:
        input = input.clone()
    return take_view(RESHAPE, input, shape=sizes)


@public("torch", name="reshape")
def reshape_function(input: Any, shape: Any) -> Any:
    """The same elements under another shape: a view where possible, otherwise a copy."""
    return reshape(input, shape)


@public("Tensor")
def view_as(input: Any, other: Any) -> Any:
    """`view` with the shape of another tensor."""
    return view(input, other._shape)


@public("Tensor")
def reshape_as(input: Any, other: Any) -> Any:
    """`reshape` to the shape of another tensor."""
    return reshape(input, other._shape)


@public("torch", "Tensor")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """The dimensions from start to end as one.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).flatten()
    tensor([1., 2., 3., 4.])
    """
    ndim, shape = input.ndim, input._shape
    first = views.dim_index("flatten", start_dim, ndim)
    last = views.dim_index("flatten", end_dim, ndim)
    if first > last:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not ndim:
        return reshape(input, (1,))
    if first == last:
        return input
    merged = views.numel(shape[first : last + 1])
    return reshape(input, (*shape[:first], merged, *shape[last + 1 :]))


@public("torch", "Tensor")
def ravel(input: Any) -> Any:
    """All elements in one dimension.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).ravel()
    tensor([1., 2., 3., 4.])
    """
    return take_view(RESHAPE, input.contiguous(), shape=(input.numel(),))


@public("torch", "Tensor")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One dimension as several of these sizes (one may be -1).

    >>> torch.arange(6.0).unflatten(0, (2, -1))
    tensor([[0., 1., 2.],
            [3., 4., 5.]])
    """
    at = views.dim_index("unflatten", dim, input.ndim)
    sizes = sizes_of("unflatten", "sizes", (sizes,))
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    known = views.numel([s for s in sizes if s != -1])
    size = input._shape[at]
    if -1 in sizes and known and size % known == 0:
        sizes = tuple(size // known if s == -1 else s for s in sizes)
    if views.numel(sizes) != size or min(sizes) < 0:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim "
            f"{dim} ({size}) in the input tensor"
        )
    return view(input, (*input._shape[:at], *sizes, *input._shape[at + 1 :]))


@public("torch", "Tensor", inplace=False)
def squeeze(input: Any, dim: Ints | None = None, axis: Ints | None = None) -> Any:
    """Without dimensions of size 1 (all of them, or those named; `axis` is NumPy's name).

    >>> torch.tensor([[1.0, 2.0]]).squeeze(0)
    tensor([1., 2.])
    """
    ndim = input.ndim
    dim = axis if dim is None else dim
    if dim is None:
        chosen: tuple[int, ...] = tuple(range(ndim))
    else:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        chosen = tuple(views.dim_index("squeeze", d, ndim) for d in dims)
        if len(set(chosen)) != len(chosen):
            raise errors.repeated_dim("squeeze", chosen[0])
    items = tuple(
        0 if s == 1 and d in chosen else (0, s, 1) for d, s in enumerate(input._shape)
    )
    return take_view(PICK, input, items=items)


@public("torch", "Tensor")
def unsqueeze(input: Any, dim: int | None = None, axis: int | None = None) -> Any:
    """With a dimension of size 1 inserted at `dim` (NumPy's `axis`).

    >>> torch.tensor([1.0, 2.0]).unsqueeze(1)
    tensor([[1.],
            [2.]])
    """
    if dim is None:
        if axis is None:
            raise TypeError("unsqueeze() missing 1 required positional argument: 'dim'")
        dim = axis
    at = views.dim_index("unsqueeze", dim, input.ndim + 1)
    shape = input._shape
    return take_view(RESHAPE, input, shape=(*shape[:at], 1, *shape[at:]))


def expanded_shape(op: str, own: Shape, wanted: Shape) -> Shape:
    """`wanted` with -1 filled in, checked to be a broadcast of `own`."""
    extra = len(wanted) - len(own)
    if extra < 0:
        raise RuntimeError(
            f"{op}: the number of sizes provided ({len(wanted)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({len(own)})"
        )
    shape = tuple(
        own[i - extra] if size == -1 and i >= extra else size for i, size in enumerate(wanted)
    )
    for i, size in enumerate(own):
        if size != 1 and size != shape[i + extra]:
            raise RuntimeError(
                f"{op}: The expanded size of the tensor ({shape[i + extra]}) must match the "
                f"existing size ({size}) at non-singleton dimension {i + extra}.  Target "
                f"sizes: {list(wanted)}.  Tensor sizes: {list(own)}"
            )
    check_sizes(op, shape)
    if any(s < 0 for s in shape):
        raise RuntimeError(f"{op}: invalid sizes {list(wanted)}")
    return shape


@public("Tensor")
def expand(input: Any, *sizes: Any, implicit: bool = False, **named: Any) -> Any:
    """Broadcast to a larger shape without copying (-1 keeps a size).

    >>> torch.tensor([[1.0], [2.0]]).expand(-1, 3)
    tensor([[1., 1., 1.],
            [2., 2., 2.]])
    """
    wanted = sizes_given("expand", sizes, named, "size")
    return take_view(EXPAND, input, shape=expanded_shape("expand", input._shape, wanted))


@public("Tensor")
def expand_as(input: Any, other: Any) -> Any:
    """Broadcast to the shape of another tensor.

    >>> torch.tensor([1.0, 2.0]).expand_as(torch.ones(2, 2))
    tensor([[1., 2.],
            [1., 2.]])
    """
    return expand(input, other._shape)


@public("torch", "Tensor")
def broadcast_to(input: Any, size: IntList) -> Any:
    """Broadcast to a larger shape without copying.

    >>> torch.broadcast_to(torch.tensor([1.0, 2.0]), (2, 2))
    tensor([[1., 2.],
            [1., 2.]])
    """
    return expand(input, size)


@public("torch")
def broadcast_tensors(*tensors: Any) -> Any:
    """Views of all tensors in their common shape.

    >>> torch.broadcast_tensors(torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 4.0]))
    (tensor([[1., 1.],
            [2., 2.]]), tensor([[3., 4.],
            [3., 4.]]))
    """
    if len(tensors) == 1 and isinstance(tensors[0], Sequence):
        tensors = tuple(tensors[0])
    if not tensors:
        return ()
    shape = views.broadcast_shapes("broadcast_tensors", *(t._shape for t in tensors))
    return tuple([expand(t, shape) for t in tensors])


@public("torch")
def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that sizes broadcast to.

    >>> torch.broadcast_shapes((2, 1), (3,))
    torch.Size([2, 3])
    """
    plain = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(size < 0 for shape in plain for size in shape):
        raise RuntimeError(f"broadcast_shapes: negative sizes in {plain}")
    return Size(views.broadcast_shapes("broadcast_shapes", *plain) if plain else ())


def _at_least(name: str, ndim: int, grow: Callable[[Any], Any]) -> None:
    def function(*tensors: Any) -> Any:
        if len(tensors) == 1 and not isinstance(tensors[0], Sequence):
            return grown(tensors[0])
        return tuple(map(grown, tensors[0] if len(tensors) == 1 else tensors))

    def grown(x: Any) -> Any:
        return x if the_tensor(name, x).ndim >= ndim else grow(x)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Views with at least {ndim} dimensions."
    public("torch", name=name)(function)


def _to_3d(x: Any) -> Any:
    shape = {0: (1, 1, 1), 1: (1, *x._shape, 1), 2: (*x._shape, 1)}[x.ndim]
    return reshape(x, shape)


_at_least("atleast_1d", 1, lambda x: reshape(x, (1,)))
_at_least("atleast_2d", 2, lambda x: reshape(x, (1, *x._shape) if x.ndim else (1, 1)))
_at_least("atleast_3d", 3, _to_3d)


# -- order of dimensions


@public("Tensor")
def permute(input: Any, *dims: Any, **named: Any) -> Any:
    """The dimensions in another order, sharing memory.

    >>> torch.permute(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), (1, 0))
    tensor([[1., 3.],
            [2., 4.]])
    """
    wanted = sizes_given("permute", dims, named, "dims")
    return take_view(PERMUTE, input, dims=_order(wanted, len(input._shape)))


@lru_cache(1 << 10)
def _order(wanted: Shape, ndim: int) -> Shape:
    """The dimensions in their new order, counted from the first."""
    if len(wanted) != ndim:
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {ndim} is "
            f"not equal to len(dims) = {len(wanted)}"
        )
    order = tuple(views.dim_index("permute", d, ndim) for d in wanted)
    if sorted(order) != list(range(ndim)):
        raise RuntimeError(
            f"permute: dims {list(order)} must name each of the {ndim} dimensions once"
        )
    return order


@public("torch", name="permute")
def permute_function(input: Any, dims: Any) -> Any:
    """The dimensions in another order, sharing memory."""
    return permute(input, dims)


@public("torch", "Tensor")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged, sharing memory.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).transpose(0, 1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    a = views.dim_index("transpose", dim0, input.ndim)
    b = views.dim_index("transpose", dim1, input.ndim)
    order = list(range(input.ndim))
    if order:
        order[a], order[b] = order[b], order[a]
    return take_view(PERMUTE, input, dims=tuple(order))


@public("torch", "Tensor")
def swapaxes(input: Any, axis0: int, axis1: int) -> Any:
    """`transpose` by NumPy's name."""
    return transpose(input, axis0, axis1)


@public("torch", "Tensor")
def swapdims(input: Any, dim0: int, dim1: int) -> Any:
    """`transpose` by another name."""
    return transpose(input, dim0, dim1)


@public("torch", "Tensor")
def t(input: Any) -> Any:
    """The transpose of a matrix; vectors and numbers as they are.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()
    tensor([[1., 3.],
            [2., 4.]])
    """
    if input.ndim > 2:
        raise RuntimeError(
            f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D"
        )
    return take_view(PERMUTE, input, dims=tuple(reversed(range(input.ndim))))


@public("torch", "Tensor", aliases=("moveaxis",))
def movedim(input: Any, source: Ints, destination: Ints) -> Any:
    """Dimensions moved to other places; the rest keep their order.

    >>> torch.movedim(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), 0, 1)
    tensor([[1., 3.],
            [2., 4.]])
    """
    ndim = input.ndim
    if isinstance(source, int) != isinstance(destination, int):
        raise TypeError("movedim(): source and destination must both be ints or both be lists")
    lists = [[d] if isinstance(d, int) else list(d) for d in (source, destination)]
    if len(lists[0]) != len(lists[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source {lists[0]} and destination "
            f"{lists[1]} differ in length"
        )
    start, end = ([views.dim_index("movedim", d, ndim) for d in dims] for dims in lists)
    for dims in (start, end):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in {dims}")
    placed = dict(zip(end, start, strict=True))
    rest = iter([d for d in range(ndim) if d not in start])
    order = tuple(placed[d] if d in placed else next(rest) for d in range(ndim))
    return take_view(PERMUTE, input, dims=order)


@public("torch", "Tensor")
def adjoint(input: Any) -> Any:
    """The conjugate transpose of matrices; of a number its conjugate.

    >>> torch.adjoint(torch.tensor([[1.0, 1j], [0.0, 2.0]]))
    tensor([[1.-0.j, 0.-0.j],
            [0.-1.j, 2.-0.j]])
    """
    if input.ndim == 1:
        raise RuntimeError(f"adjoint: expected at least 2 dimensions, got {input.ndim}")
    turned = transpose(input, -2, -1) if input.ndim else input
    return turned.conj() if input.dtype.is_complex else turned


# -- parts


@public("torch", "Tensor")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """`length` elements along `dim` from `start` on.

    >>> torch.arange(5.0).narrow(0, 1, 3)
    tensor([1., 2., 3.])
    """
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    at = views.dim_index("narrow", dim, input.ndim)
    size = input._shape[at]
    if hasattr(start, "_storage") and (start.ndim or not start.dtype.is_integral):
        raise RuntimeError("narrow(): start must be an 0-dim integral Tensor")
    begin = start if type(start) is int else views.whole_number("narrow", "start", start)
    if type(length) is not int:
        length = views.whole_number("narrow", "length", length)
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if not -size <= begin <= size:
        raise IndexError(
            f"narrow: start out of range (expected to be in range of [{-size}, {size}], but "
            f"got {begin})"
        )
    begin += size if begin < 0 else 0
    if begin + length > size:
        raise RuntimeError(
            f"narrow: start ({begin}) + length ({length}) exceeds dimension size ({size})."
        )
    return take_view(SLICE, input, dim=at, start=begin, length=length, step=1)


def bounded_index(op: str, index: int, size: int, dim: int) -> int:
    """A possibly negative index as 0 <= i < size."""
    if not -size <= index < size:
        raise IndexError(
            f"{op}: index {index} is out of bounds for dimension {dim} with size {size}"
        )
    return index + size if index < 0 else index


@public("torch", "Tensor")
def select(input: Any, dim: int, index: Any) -> Any:
    """The part at one index of `dim`, without that dimension.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).select(1, 0)
    tensor([1., 3.])
    """
    if not input.ndim:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    at = views.dim_index("select", dim, input.ndim)
    place = index if type(index) is int else views.whole_number("select", "index", index)
    place = bounded_index("select()", place, input._shape[at], at)
    return take_view(SELECT, input, dim=at, index=place)


@public("torch", "Tensor")
def diagonal(input: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The diagonal of two dimensions, as the last one.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).diagonal()
    tensor([1., 4.])
    """
    a = views.dim_index("diagonal", dim1, input.ndim)
    b = views.dim_index("diagonal", dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return take_view(DIAGONAL, input, offset=int(offset), dim1=a, dim2=b)


@public("Tensor")
def unfold(input: Any, dimension: int, size: int, step: int) -> Any:
    """Windows of `size` elements every `step` along a dimension, as a new last dimension.

    >>> torch.arange(5.0).unfold(0, 3, 1)
    tensor([[0., 1., 2.],
            [1., 2., 3.],
            [2., 3., 4.]])
    """
    at = views.dim_index("unfold", dimension, input.ndim)
    own = input._shape[at] if input.ndim else 1
    if size < 0:
        raise RuntimeError(f"unfold: size is {size} but must be >= 0")
    if size > own:
        raise RuntimeError(
            f"unfold: maximum size for tensor at dimension {at} is {own} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    return take_view(UNFOLD, input, dim=at, size=int(size), step=int(step))


@public("torch", "Tensor")
def as_strided(
    input: Any, size: IntList, stride: IntList, storage_offset: int | None = None
) -> Any:
    """A view of the storage with any shape, strides and offset that stay inside of it.

    >>> torch.arange(5.0).as_strided((2, 3), (1, 1))
    tensor([[0., 1., 2.],
            [1., 2., 3.]])
    """
    shape = sizes_of("as_strided", "size", (size,))
    strides = sizes_of("as_strided", "stride", (stride,))
    offset = input._offset if storage_offset is None else int(storage_offset)
    if len(shape) != len(strides):
        raise RuntimeError(
            f"as_strided: mismatch in length of strides and shape: {list(strides)} and "
            f"{list(shape)}"
        )
    if any(s < 0 for s in strides) or offset < 0:
        raise RuntimeError(
            f"as_strided: negative strides are not supported, got {list(strides)} from {offset}"
        )
    count = stored_elements(input)
    view = View(shape, strides, offset)
    if views.numel(shape) and views.span(view)[1] > count:
        raise RuntimeError(
            f"as_strided: sizes {list(shape)}, strides {list(strides)} and offset {offset} are "
            f"out of bounds for a storage of {count} elements"
        )
    return take_view(AS_STRIDED, input, shape=shape, strides=strides, offset=offset)


# -- in place


def _become(x: Any, viewed: Any) -> Any:
    """Make the handle x the view that was taken of it. A leaf, which is one where no gradients
    are recorded, goes on collecting them.
    """
    is_leaf = x.is_leaf
    x._shape, x._strides, x._offset, x._view = (
        viewed._shape, viewed._strides, viewed._offset, viewed._view,
    )  # fmt: skip
    if not is_leaf:
        x._node, x._output = viewed._node, viewed._output
    if x._base is not None:
        x._chain, x._seen = viewed._chain, viewed._seen
    x._storage.version += 1  # nothing was written, but the handle is another (as in PyTorch)
    return x


def _in_place(name: str, function: Callable[..., Any]) -> None:
    def method(input: Any, *args: Any, **named: Any) -> Any:
        check_no_leaf(name, input)
        return _become(input, function(input, *args, **named))

    method.__name__ = method.__qualname__ = name
    method.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    method.__doc__ = f"In-place form of `{name[:-1]}`: the tensor becomes the view."
    public("Tensor", name=name)(method)


for _name, _function in {
    "transpose_": transpose, "swapaxes_": swapaxes, "swapdims_": swapdims, "t_": t,
    "squeeze_": squeeze, "unsqueeze_": unsqueeze, "as_strided_": as_strided,
}.items():  # fmt: skip
    _in_place(_name, _function)
