"""Rearrangements that copy: repeating, turning, rolling and padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import dtypes as dt
from rushlight import errors, views
from rushlight.argument_kinds import IntList, Ints
from rushlight.ops import batching
from rushlight.ops.creation import sizes_given
from rushlight.ops.elementwise import check_tensors
from rushlight.ops.fill_value import checked_value
from rushlight.ops.registry import Linearity, Op, TensorType, documented, public
from rushlight.views import Shape

# -- repeating


@public("Tensor")
def repeat(input: Any, *repeats: Any, **named: Any) -> Any:
    """The tensor repeated this many times along each dimension.

    >>> torch.tensor([1.0, 2.0]).repeat(2, 2)
    tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """
    counts = sizes_given("repeat", repeats, named, "repeats")
    extra = len(counts) - input.ndim
    if extra < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions "
            "of tensor"
        )
    if any(c < 0 for c in counts):
        raise RuntimeError(f"repeat: Trying to create tensor with negative dimension: {counts}")
    own = (1,) * extra + tuple(input._shape)
    between = tuple(s for size in own for s in (1, size))
    wide = tuple(s for c, size in zip(counts, own, strict=True) for s in (c, size))
    final = tuple(c * size for c, size in zip(counts, own, strict=True))
    spread = input.reshape(between).expand(wide)
    return spread.clone().reshape(final)


@public("torch", "Tensor")
@documented("dims")
def tile(input: Any, *dims: Any, **named: Any) -> Any:
    """The tensor repeated; missing counts in front are 1.

    >>> torch.tensor([[1.0, 2.0]]).tile(2)
    tensor([[1., 2., 1., 2.]])
    """
    counts = sizes_given("tile", dims, named, "dims")
    return repeat(input, (1,) * (input.ndim - len(counts)) + counts)


def _repeat_counts(repeats: Any, size: int) -> Any:
    import numpy as np  # counts are data

    batching.refuse_sizes("repeat_interleave", repeats)
    counts = np.asarray(repeats._numbers()).reshape(-1)
    if repeats.dtype not in (dt.int64, dt.int32):
        raise errors.not_implemented_for("repeat_interleave", repeats.dtype, "int32 or int64")
    if counts.size == 1:
        counts = np.broadcast_to(counts, (size,))
    if counts.size != size:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = "
            f"{counts.size} and input.size(dim) = {size}"
        )
    if (counts < 0).any():
        raise RuntimeError("repeats can not be negative")
    return np.repeat(np.arange(size), counts)


@public("torch", "Tensor")
def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    """Each element repeated along `dim` (of the flattened tensor by default).

    >>> torch.tensor([1.0, 2.0]).repeat_interleave(torch.tensor([1, 2]))
    tensor([1., 2., 2.])
    """
    from rushlight.arrays import tensor_of_array  # ops come before tensors

    if repeats is None:  # counts alone: the index of each count, repeated
        if input.ndim != 1:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return tensor_of_array(_repeat_counts(input, input._shape[0]), input.dtype)
    if dim is None:
        input, dim = input.reshape(-1), 0
    if not input.ndim:
        input = input.reshape(1)
    at = views.dim_index("repeat_interleave", dim, input.ndim)
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        shape = list(input._shape)
        wide = input.unsqueeze(at + 1).expand(*shape[: at + 1], repeats, *shape[at + 1 :])
        shape[at] *= repeats
        return wide.clone().reshape(shape)
    check_tensors("repeat_interleave", repeats=repeats)
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave: repeats must be 0-dim or 1-dim tensor")
    places = _repeat_counts(repeats, input._shape[at])
    if output_size is not None and len(places) != output_size:
        raise RuntimeError("repeat_interleave: allocated size does not match required size")
    return input.index_select(at, tensor_of_array(places, dt.int64))


# -- turning

FLIP = Op(
    "flip",
    attrs=("dims",),
    type=lambda x, dims: TensorType(x.shape, x.dtype),
    lower=lambda k, x, dims: k.flip(x, dims),
    vjp=lambda g, out, x, dims: FLIP(g, dims=dims),
    jvp=Linearity.TOGETHER,
)


@public("torch", "Tensor")
@documented("dims")
def flip(input: Any, *dims: Any, **named: Any) -> Any:
    """The elements in reverse order along these dimensions.

    >>> torch.arange(3.0).flip(0)
    tensor([2., 1., 0.])
    """
    wanted = sizes_given("flip", dims, named, "dims")
    found = tuple(views.dim_index("flip", d, input.ndim) for d in wanted)
    if len(set(found)) != len(found):
        raise errors.repeated_dim("flip", found[0])
    return FLIP(input, dims=found if input.ndim else ())


@public("torch", "Tensor")
def fliplr(input: Any) -> Any:
    """Columns in reverse order.

    >>> torch.fliplr(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 1.],
            [4., 3.]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


@public("torch", "Tensor")
def flipud(input: Any) -> Any:
    """Rows in reverse order.

    >>> torch.flipud(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


@public("torch", "Tensor")
def rot90(input: Any, k: int = 1, dims: IntList = (0, 1)) -> Any:
    """Turned by 90 degrees k times, from the first of two dimensions towards the second.

    >>> torch.rot90(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 4.],
            [1., 3.]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (views.dim_index("rot90", d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"expected rotation dims to be different, but got {dims}")
    turns = k % 4
    if turns == 0:
        return input.clone()
    if turns == 2:
        return flip(input, a, b)
    turned = flip(input, b if turns == 1 else a)
    return turned.transpose(a, b).clone()


def _roll_lower(k: Any, x: Any, dim: int, shift: int) -> Any:
    size = x.shape[dim]
    head = k.slice(x, dim, size - shift, shift)
    return k.cat([head, k.slice(x, dim, 0, size - shift)], dim)


ROLL = Op(
    "roll",
    attrs=("dim", "shift"),
    type=lambda x, dim, shift: TensorType(x.shape, x.dtype),
    lower=_roll_lower,
    vjp=lambda g, out, x, dim, shift: ROLL(g, dim=dim, shift=g.shape[dim] - shift),
    jvp=Linearity.TOGETHER,
)


def _moves(name: str, given: Any) -> tuple[int, ...]:
    several = given if isinstance(given, tuple | list) else (given,)
    return tuple([views.whole_number("roll", name, x) for x in several])


@public("torch", "Tensor")
def roll(input: Any, shifts: Ints, dims: Ints | None = None) -> Any:
    """Elements moved round along dimensions (round the flattened tensor by default).

    >>> torch.arange(4.0).roll(1)
    tensor([3., 0., 1., 2.])
    """
    moves = _moves("shifts", shifts)
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        if len(moves) != 1:
            raise RuntimeError(
                f"shifts and dimensions must align. shifts: {len(moves)}, dims:0"
            )
        return roll(input.reshape(-1), moves, (0,)).reshape(input._shape)
    axes = _moves("dims", dims)
    if len(moves) != len(axes):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(moves)}, dims:{len(axes)}"
        )
    out = input
    for move, axis in zip(moves, axes, strict=True):
        at = views.dim_index("roll", axis, input.ndim)
        size = input._shape[at] if input.ndim else 0
        if size and move % size:
            out = ROLL(out, dim=at, shift=move % size)
    return out.clone() if out is input else out


# -- padding


def _padded_shape(shape: Shape, before: Shape, after: Shape) -> Shape:
    return tuple(s + b + a for s, b, a in zip(shape, before, after, strict=True))


PAD = Op(
    "pad",
    attrs=("before", "after", "value"),
    type=lambda x, before, after, value: TensorType(
        _padded_shape(x.shape, before, after), x.dtype
    ),
    lower=lambda k, x, before, after, value: k.pad(x, before, after, value),
    vjp=lambda g, out, x, before, after, value: PAD(
        g, before=tuple(-b for b in before), after=tuple(-a for a in after), value=0
    ),
)


def constant_pad(x: Any, before: Sequence[int], after: Sequence[int], value: Any = 0) -> Any:
    """x with this many elements of `value` before and after along each dimension (negative:
    cut).
    """
    if any(s < 0 for s in _padded_shape(x._shape, tuple(before), tuple(after))):
        raise RuntimeError(
            f"pad: the resulting size is negative: input {errors.shape_text(x._shape)}, before "
            f"{list(before)}, after {list(after)}"
        )
    value = checked_value("pad", value, x.dtype)
    return PAD(x, before=tuple(before), after=tuple(after), value=value)


@public("torch")
def constant_pad_nd(input: Any, pad: IntList, value: Any = 0) -> Any:
    """Padding given as (left, right, top, bottom, ...), from the last dimension backwards.

    >>> torch.constant_pad_nd(torch.ones(1, 2), (1, 0), 9.0)
    tensor([[9., 1., 1.]])
    """
    if len(pad) % 2 or len(pad) // 2 > input.ndim:
        raise RuntimeError(
            f"pad: padding length must be even and at most twice the {input.ndim} dimensions "
            f"of the input, got {len(pad)}"
        )
    before, after = [0] * input.ndim, [0] * input.ndim
    for i in range(len(pad) // 2):
        before[-1 - i], after[-1 - i] = int(pad[2 * i]), int(pad[2 * i + 1])
    return constant_pad(input, before, after, value)
