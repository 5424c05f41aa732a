"""Reductions over dimensions: sums, products, extremes, tests, norms.

Note: careful sums. float32 is summed in float64 by the `sum` primitive. Means and variances
take the mean in float64 and subtract it in two parts (`centred`), so that data far from zero
keeps what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any  # operands are tensors

from rushlight import config, errors, views
from rushlight import dtypes as dt
from rushlight.argument_kinds import Ints, dtype_given
from rushlight.dtypes import dtype
from rushlight.ops.elementwise import (
    CAST,
    WHERE,
    scaled,
    the_tensor,
)
from rushlight.ops.registry import (
    NOT_DIFFERENTIABLE,
    Linearity,
    Op,
    TensorType,
    public,
)

Dims = tuple[int, ...]


def restored(g: Any, shape: Sequence[int], dims: Dims, keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions back as size 1, expanded to `shape`."""
    return kept(g, shape, dims, keepdim).expand(shape)


def kept(g: Any, shape: Sequence[int], dims: Dims, keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions back as size 1."""
    return g if keepdim else g.reshape(views.reduced_shape(shape, dims, True))


def count_of(shape: Sequence[int], dims: Dims) -> int:
    """How many elements are reduced into one."""
    return views.numel([shape[d] for d in dims])


def check_dims_not_empty(op: str, x: Any, dim: Any, dims: Dims) -> None:
    """Extremes of nothing do not exist."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        if views.numel(x.shape) == 0:
            raise RuntimeError(
                f"{op}(): Expected reduction dim to be specified for input.numel() == 0. "
                "Specify the reduction dim with the 'dim' argument."
            )
        return
    for d in dims:
        if x.shape[d] == 0:
            raise IndexError(f"{op}(): Expected reduction dim {d} to have non-zero size.")


def reduced_type(x: TensorType, dim: Dims, keepdim: bool, dtype: dtype) -> TensorType:
    return TensorType(views.reduced_shape(x.shape, dim, keepdim), dtype)


# -- sums, means, products


def sum_lower(k: Any, x: Any, dim: Dims, keepdim: bool, dtype: dtype) -> Any:
    if dtype is dt.bool_:
        return k.reduce("any", k.cast(x, dtype), dim, keepdim)
    out = k.reduce("sum", k.wide(k.cast(x, dtype)), dim, keepdim)
    return k.cast(out, dtype)


SUM = Op(
    "sum",
    attrs=("dim", "keepdim", "dtype"),
    type=reduced_type,
    lower=sum_lower,
    vjp=lambda g, out, x, dim, keepdim, dtype: restored(g, x.shape, dim, keepdim),
    jvp=Linearity.TOGETHER,
)


@public("torch", "Tensor", out=True)
def sum(
    input: Any, dim: Ints | None = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Any:
    """Sum over `dim` (all dimensions by default); integers are summed as int64.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).sum(1)
    tensor([3., 3.])
    """
    dims = views.dim_indices("sum", dim, input.ndim)
    own = dt.int64 if input.dtype.is_integral else input.dtype
    kind = own if dtype is None else dtype_given("sum", dtype)
    return SUM(input, dim=dims, keepdim=views.flag("sum", "keepdim", keepdim), dtype=kind)


@public("Tensor")
def sum_to_size(input: Any, *size: Any) -> Any:
    """Summed over the dimensions that broadcasting `size` to the tensor's shape repeats.

    >>> torch.ones(2, 3).sum_to_size(2, 1)
    tensor([[3.],
            [3.]])
    """
    if not size:
        raise TypeError('sum_to_size() missing 1 required positional arguments: "size"')
    is_list = len(size) == 1 and isinstance(size[0], list | tuple)
    wanted = views.whole_numbers("sum_to_size", "size", size[0] if is_list else size)
    if not wanted:
        return sum(input)
    if views.broadcast_shapes("sum_to_size", wanted, input.shape) != input.shape:
        raise errors.cannot_broadcast("sum_to_size", (wanted, input.shape), -1)
    extra = input.ndim - len(wanted)
    pairs = enumerate(zip(input.shape, (0,) * extra + wanted, strict=True))
    dims = [d for d, (own, kept) in pairs if own != kept]
    return sum(input, dims, True).reshape(wanted) if dims else input


def exact_mean(k: Any, x: Any, dims: Dims, keepdim: bool = True) -> Any:
    """The mean of wide x in float64 (complex types keep their own)."""
    work = x.dtype if x.dtype.is_complex else dt.float64
    total = k.reduce("sum", x, dims, keepdim, work)
    return total / k.cast(k.extent(float(count_of(x.shape, dims))), work)


def centred(k: Any, x: Any, dims: Dims) -> Any:
    """x minus its mean, with the mean in two parts so that nothing is lost far from zero."""
    mean = exact_mean(k, x, dims)
    if x.dtype is mean.dtype:
        return x - mean
    high = k.cast(mean, x.dtype)
    low = k.cast(mean - k.cast(high, mean.dtype), x.dtype)
    return (x - high) - low


MEAN = Op(
    "mean",
    attrs=("dim", "keepdim", "dtype"),
    type=reduced_type,
    lower=lambda k, x, dim, keepdim, dtype: k.cast(
        exact_mean(k, k.wide(k.cast(x, dtype)), dim, keepdim), dtype
    ),
    vjp=lambda g, out, x, dim, keepdim, dtype: restored(
        g / count_of(x.shape, dim), x.shape, dim, keepdim
    ).contiguous(),  # as PyTorch's: a program may write to the gradient that it asked for
    jvp=Linearity.TOGETHER,
)


@public("torch", "Tensor", out=True)
def mean(
    input: Any, dim: Ints | None = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Any:
    """The mean over `dim` (all dimensions by default) of floating values.

    >>> torch.tensor([[1.0, 2.0], [3.0, 5.0]]).mean(1)
    tensor([1.5000, 4.0000])
    """
    kind = input.dtype if dtype is None else dtype_given("mean", dtype)
    if kind.is_integral:
        which = "Optional" if dtype else "Input"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {which} dtype must be either a floating "
            f"point or complex dtype. Got: {kind!r}"
        )
    dims = views.dim_indices("mean", dim, input.ndim)
    return MEAN(input, dim=dims, keepdim=views.flag("mean", "keepdim", keepdim), dtype=kind)


def _nans_out(input: Any) -> Any:
    return input if input.dtype.is_integral else WHERE(input != input, 0, input)


@public("torch", "Tensor", out=True)
def nansum(
    input: Any, dim: Ints | None = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Any:
    """Sum that takes NaN for zero.

    >>> torch.nansum(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    if input.dtype.is_complex:
        raise RuntimeError("nansum does not support complex inputs")
    return sum(_nans_out(input), dim, keepdim, dtype=dtype)


@public("torch", "Tensor", out=True)
def nanmean(
    input: Any, dim: Ints | None = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Any:
    """The mean of the elements that are not NaN.

    >>> torch.nanmean(torch.tensor([1.0, float("nan"), 2.0]))
    tensor(1.5000)
    """
    if input.dtype.is_integral:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype!r}"
        )
    total = nansum(input, dim, keepdim, dtype=dtype)
    return total / sum(input == input, dim, keepdim)


@public("torch", "Tensor")
def count_nonzero(input: Any, dim: Ints | None = None) -> Any:
    """How many elements differ from zero.

    >>> torch.count_nonzero(torch.tensor([[0.0, 1.0], [2.0, 3.0]]), dim=1)
    tensor([1, 2])
    """
    return sum(the_tensor("count_nonzero", input) != 0, dim)


def prod_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool, dtype: dtype) -> Any:
    """g times the product of the others, from running products on both sides (zeros are
    exact).
    """
    (d,) = dim
    size = x.shape[d]
    if size == 0:
        return x * 0
    x = CAST(x, dtype=dtype) if x.dtype is not dtype else x
    one = x.narrow(d, 0, 1) * 0 + 1
    cat = _cat()
    before = cat([one, x.narrow(d, 0, size - 1).cumprod(d)], d)
    after = cat([one, x.flip(d).narrow(d, 0, size - 1).cumprod(d)], d).flip(d)
    return scaled(kept(g, x.shape, dim, keepdim), before * after)


def _cat() -> Any:
    from rushlight.ops import joining  # a later family

    return joining.cat


PROD = Op(
    "prod",
    attrs=("dim", "keepdim", "dtype"),
    type=reduced_type,
    lower=lambda k, x, dim, keepdim, dtype: k.cast(
        k.reduce("prod", k.wide(k.cast(x, dtype)), dim, keepdim), dtype
    ),
    vjp=prod_vjp,
)


@public("torch", "Tensor", out=True)
def prod(
    input: Any, dim: int | None = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Any:
    """The product over one dimension, or of all elements.

    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).prod(1)
    tensor([ 2., 12.])
    """
    kind = dtype or (dt.int64 if input.dtype.is_integral else input.dtype)
    if dim is None:
        return PROD(input.reshape(-1), dim=(0,), keepdim=False, dtype=kind)
    if not isinstance(dim, int):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    d = views.dim_index("prod", dim, input.ndim)
    if input.ndim == 0:
        return PROD(input.reshape(1), dim=(0,), keepdim=False, dtype=kind)
    return PROD(input, dim=(d,), keepdim=views.flag("prod", "keepdim", keepdim), dtype=kind)


# -- tests


def _test_op(name: str) -> Op:
    def result(x: TensorType) -> dtype:
        return dt.uint8 if x.dtype is dt.uint8 else dt.bool_

    return Op(
        name,
        attrs=("dim", "keepdim"),
        type=lambda x, dim, keepdim: reduced_type(x, dim, keepdim, result(x)),
        lower=lambda k, x, dim, keepdim: k.cast(
            k.reduce(name, k.cast(x, dt.bool_), dim, keepdim), result(x)
        ),
        vjp=NOT_DIFFERENTIABLE,
    )


ALL, ANY = _test_op("all"), _test_op("any")


@public("torch", "Tensor", out=True)
def all(input: Any, dim: Ints | None = None, keepdim: bool = False) -> Any:
    """Whether every element (along `dim`) is true.

    >>> torch.tensor([[True, False], [True, True]]).all(1)
    tensor([False,  True])
    """
    return ALL(
        input,
        dim=_tested_dims("all", dim, input),
        keepdim=views.flag("all", "keepdim", keepdim),
    )


@public("torch", "Tensor", out=True)
def any(input: Any, dim: Ints | None = None, keepdim: bool = False) -> Any:
    """Whether some element (along `dim`) is true.

    >>> torch.tensor([[True, False], [False, False]]).any(1)
    tensor([ True, False])
    """
    return ANY(
        input,
        dim=_tested_dims("any", dim, input),
        keepdim=views.flag("any", "keepdim", keepdim),
    )


def _tested(op: Op, input: Any, dim: Any, keepdim: bool) -> Any:
    dims = _tested_dims(op.name, dim, input)
    return op(input, dim=dims, keepdim=views.flag(op.name, "keepdim", keepdim))


def _tested_dims(op: str, dim: Any, input: Any) -> Dims:
    """An empty list of dims reduces nothing here (unlike in sums)."""
    if isinstance(dim, list | tuple) and not dim:
        return ()
    return views.dim_indices(op, dim, input.ndim)


# -- logsumexp


def logsumexp_lower(k: Any, x: Any, dim: Dims, keepdim: bool) -> Any:
    wide = k.wide(x)
    if count_of(x.shape, dim) == 0:
        return k.full(views.reduced_shape(x.shape, dim, keepdim), float("-inf"), x.dtype)
    top = k.reduce("max", wide, dim, True)
    shift = k.select(k.map("abs", top).equals(float("inf")), 0.0, top)
    total = k.log(k.reduce("sum", k.exp(wide - shift), dim, True)) + shift
    return k.cast(k.reshape(total, views.reduced_shape(x.shape, dim, keepdim)), x.dtype)


def logsumexp_vjp(g: Any, out: Any, x: Any, dim: Dims, keepdim: bool) -> Any:
    out = kept(out, x.shape, dim, keepdim)
    finite = WHERE(out == float("-inf"), 0, out)
    return scaled(kept(g, x.shape, dim, keepdim), (x - finite).exp())


LOGSUMEXP = Op(
    "logsumexp",
    attrs=("dim", "keepdim"),
    type=lambda x, dim, keepdim: reduced_type(x, dim, keepdim, x.dtype),
    lower=logsumexp_lower,
    vjp=logsumexp_vjp,
)


@public("torch", "Tensor", "special", out=True)
def logsumexp(input: Any, dim: Ints, keepdim: bool = False) -> Any:
    """log(sum(exp(x))) over `dim` without overflow.

    >>> torch.logsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor(1000.6932)
    """
    x = CAST(input, dtype=config.default_dtype()) if input.dtype.is_integral else input
    dims = views.dim_indices("logsumexp", dim, input.ndim)
    if x.dtype.is_complex:
        return _complex_logsumexp(x, dims, views.flag("logsumexp", "keepdim", keepdim))
    return LOGSUMEXP(x, dim=dims, keepdim=views.flag("logsumexp", "keepdim", keepdim))


def _complex_logsumexp(x: Any, dims: Dims, keepdim: bool) -> Any:
    """Shifted by the largest real part, which says how large exp(x) is."""
    if count_of(x._shape, dims) == 0:
        return x.exp().sum(dims, keepdim=keepdim).log()
    real = x.detach().real
    top = real.amax(dims, keepdim=True)
    top = WHERE(top.isfinite(), top, 0)
    total = (x - top).exp().sum(dims, keepdim=keepdim)
    return total.log() + (top if keepdim else top.reshape(total._shape))
