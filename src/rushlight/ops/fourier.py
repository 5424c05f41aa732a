"""Discrete Fourier transforms: `torch.fft`.

Three ops do all of it, each unnormalised but for a factor: complex to complex over several
dimensions, real to the non-redundant half of its spectrum, and that half back to real. `sign`
is that of the exponent. The transpose of each is one of the three again, so that derivatives of
any order follow. The transforms are NumPy's, a row at a time: bits do not depend on the batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any  # operands are tensors

import numpy as np

from rushlight import config, views
from rushlight import dtypes as dt
from rushlight.argument_kinds import Ints
from rushlight.ir.host import takes_batches
from rushlight.layout import check_layout
from rushlight.ops.creation import with_grad
from rushlight.ops.elementwise import CAST
from rushlight.ops.ranges import ARANGE
from rushlight.ops.rearrange import constant_pad, roll
from rushlight.ops.registry import Linearity, Op, TensorType, public

Dims = tuple[int, ...]
FORWARD, BACKWARD = -1, 1


# -- the ops; NumPy counts dimensions from the end, so that batches may come before


@takes_batches
def spectrum(x: Any, dims: Dims, sign: int, scale: float) -> Any:
    """Complex to complex."""
    if 0 in x.shape:
        return x
    whole = (
        np.fft.fftn(x, axes=dims) if sign < 0 else np.fft.ifftn(x, axes=dims, norm="forward")
    )
    return _scaled(whole, scale)


@takes_batches
def half_spectrum(x: Any, dim: int, sign: int, scale: float, middle: float) -> Any:
    """Real to complex; frequencies that stand for two are multiplied by `middle`."""
    out = np.fft.rfft(x, axis=dim)
    out = out if sign < 0 else np.conj(out)
    return _scaled(_weighted(out, dim, x.shape[dim], middle), scale)


@takes_batches
def from_half_spectrum(
    x: Any, dim: int, size: int, sign: int, scale: float, middle: float
) -> Any:
    """Complex to real, the inverse direction of `half_spectrum`."""
    x = _weighted(x if sign > 0 else np.conj(x), dim, size, middle)
    return _scaled(np.fft.irfft(x, size, axis=dim, norm="forward"), scale)


def _scaled(x: Any, scale: float) -> Any:
    return x if scale == 1 else x * scale


def _weighted(x: Any, dim: int, size: int, middle: float) -> Any:
    """x with all frequencies but the first, and the last of an even `size`, multiplied."""
    if middle == 1:
        return x
    weights = np.full(x.shape[dim], middle, x.real.dtype)
    weights[0] = 1
    if size % 2 == 0:
        weights[size // 2 :] = 1
    return x * weights.reshape([-1, *(1 for _ in range(-1, dim, -1))])


def _half(x: TensorType, dim: int) -> TensorType:
    shape = (*x.shape[:dim], x.shape[dim] // 2 + 1, *x.shape[dim + 1 :])
    return TensorType(shape, x.dtype.to_complex())


def _whole(x: TensorType, dim: int, size: int) -> TensorType:
    return TensorType((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype.to_real())


def _lowered(function: Callable[..., Any], type_rule: Callable[..., TensorType]) -> Any:
    def lower(k: Any, x: Any, **attrs: Any) -> Any:
        out = type_rule(TensorType(x.shape, x.dtype), **attrs)
        if 0 in out.shape:
            return k.full(out.shape, 0, out.dtype)
        ndim = len(x.shape)
        if "dims" in attrs:
            attrs["dims"] = tuple(d - ndim for d in attrs["dims"])
        else:
            attrs["dim"] -= ndim
        return k.host(function, [(out.shape, out.dtype)], x, **attrs)[0]

    return lower


def _op(name: str, attrs: Sequence[str], type_rule: Any, function: Any, vjp: Any) -> Op:
    lower = _lowered(function, type_rule)
    return Op(name, attrs=attrs, type=type_rule, lower=lower, vjp=vjp, jvp=Linearity.TOGETHER)


COMPLEX = _op(
    "fft.complex",
    ("dims", "sign", "scale"),
    lambda x, dims, sign, scale: x,
    spectrum,
    lambda g, out, x, dims, sign, scale: COMPLEX(g, dims=dims, sign=-sign, scale=scale),
)
TO_HALF = _op(
    "fft.real",
    ("dim", "sign", "scale", "middle"),
    lambda x, dim, sign, scale, middle: _half(x, dim),
    half_spectrum,
    lambda g, out, x, dim, sign, scale, middle: FROM_HALF(
        g, dim=dim, size=x.shape[dim], sign=-sign, scale=scale, middle=middle / 2
    ),
)
FROM_HALF = _op(
    "fft.inverse_real",
    ("dim", "size", "sign", "scale", "middle"),
    lambda x, dim, size, sign, scale, middle: _whole(x, dim, size),
    from_half_spectrum,
    lambda g, out, x, dim, size, sign, scale, middle: TO_HALF(
        g, dim=dim, sign=-sign, scale=scale, middle=middle * 2
    ),
)


# -- arguments


def _scale(op: str, norm: str | None, sizes: Sequence[int], sign: int) -> float:
    norm = "backward" if norm is None else norm
    if norm not in ("backward", "forward", "ortho"):
        raise RuntimeError(f'{op}: Invalid normalization mode: "{norm}"')
    count = float(math.prod(sizes))
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (norm == "forward") == (sign == FORWARD) else 1.0


def _promoted(op: str, x: Any, to_complex: bool) -> Any:
    """Integers as the default dtype; real numbers as complex ones if asked."""
    kind = x.dtype
    if kind.is_integral:
        kind = config.default_dtype()
    if kind in (dt.float16, dt.bfloat16):
        raise RuntimeError(f"{op}: Unsupported dtype {kind!r}")
    kind = kind.to_complex() if to_complex else kind
    return x if kind is x.dtype else CAST(x, dtype=kind)


def _as_real(op: str, x: Any) -> Any:
    if x.dtype.is_complex:
        raise RuntimeError(f"{op} expects a real input tensor, but got {x.dtype!r}")
    return _promoted(op, x, False)


def _resized(x: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """x cropped, or filled with zeros, at the ends of dims."""
    after = [0] * x.ndim
    for d, size in zip(dims, sizes, strict=True):
        after[d] = size - x._shape[d]
    return constant_pad(x, [0] * x.ndim, after) if any(after) else x


def _check_size(op: str, size: int) -> int:
    if size < 1:
        raise RuntimeError(f"{op}: Invalid number of data points ({size}) specified")
    return size


def _one_dim(op: str, x: Any, n: int | None, dim: int) -> tuple[int, int]:
    """The dimension, and how many of its elements count."""
    if not x.ndim:
        raise IndexError(f"{op}: Dimension specified as {dim} but tensor has no dimensions")
    at = views.dim_index(op, dim, x.ndim)
    return at, _check_size(op, x._shape[at] if n is None else n.__index__())


def _many_dims(op: str, x: Any, s: Any, dim: Any) -> tuple[list[int], list[int]]:
    """The dimensions, and how many of their elements count (-1 in `s`: all)."""
    wanted = None if s is None else [s] if isinstance(s, int) else list(s)
    if dim is not None:
        given = [dim] if isinstance(dim, int) else list(dim)
        dims = [views.dim_index(op, d, x.ndim) for d in given]
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"{op}: FFT dims must be unique, got {given}")
        if wanted is not None and len(wanted) != len(dims):
            raise RuntimeError(
                f"{op}: When given, dim and shape arguments must have the same length, got "
                f"dim={given} and s={wanted}"
            )
    elif wanted is not None:
        if len(wanted) > x.ndim:
            raise RuntimeError(
                f"{op}: Got shape with {len(wanted)} values but input tensor only has "
                f"{x.ndim} dimensions."
            )
        dims = list(range(x.ndim - len(wanted), x.ndim))
    else:
        dims = list(range(x.ndim))
    sizes = [x._shape[d] for d in dims]
    if wanted is not None:
        sizes = [own if n == -1 else n for own, n in zip(sizes, wanted, strict=True)]
    return dims, sizes


# -- transforms of complex numbers


def _complex(op: str, x: Any, dims: list[int], sizes: list[int], norm: Any, sign: int) -> Any:
    for size in sizes:
        _check_size(op, size)
    scale = _scale(op, norm, sizes, sign)
    x = _resized(_promoted(op, x, True), dims, sizes)
    return COMPLEX(x, dims=tuple(dims), sign=sign, scale=scale) if dims else x


def _complex_function(name: str, sign: int) -> None:
    def one(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        x = _promoted(name, input, True)
        at, size = _one_dim(name, x, n, dim)
        return _complex(name, x, [at], [size], norm, sign)

    def two(
        input: Any, s: Ints | None = None, dim: Ints | None = (-2, -1), norm: str | None = None
    ) -> Any:
        return _complex(name + "2", input, *_many_dims(name + "2", input, s, dim), norm, sign)

    def many(
        input: Any, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
    ) -> Any:
        return _complex(name + "n", input, *_many_dims(name + "n", input, s, dim), norm, sign)

    what = "discrete Fourier transform" if sign < 0 else "inverse discrete Fourier transform"
    _bind((one, name), (two, name + "2"), (many, name + "n"), f"The {what}")


def _bind(one: Any, two: Any, many: Any, doc: str) -> None:
    """The public forms over one, two and any dimensions."""
    over = ("along `dim`.", "over two dimensions.", "over several dimensions (all).")
    for (function, name), rest in zip((one, two, many), over, strict=True):
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"{doc} {rest}"
        public("fft", name=name, out=True)(function)


# -- transforms of real numbers


def _real(op: str, x: Any, dims: list[int], sizes: list[int], norm: Any, sign: int) -> Any:
    """The half spectrum of the last dimension, then complex transforms of the others."""
    if not dims:
        raise RuntimeError(f"{op} must transform at least one axis")
    for size in sizes:
        _check_size(op, size)
    scale = _scale(op, norm, sizes, sign)
    x = _resized(x, dims, sizes)
    *rest, last = dims
    x = TO_HALF(x, dim=last, sign=sign, scale=scale, middle=1.0)
    return COMPLEX(x, dims=tuple(rest), sign=sign, scale=1.0) if rest else x


def _inverse_real(
    op: str, x: Any, dims: list[int], sizes: list[int], norm: Any, sign: int
) -> Any:
    """Complex transforms of all dimensions but the last, then real numbers of that."""
    if not dims:
        raise RuntimeError(f"{op} must transform at least one axis")
    for size in sizes:
        _check_size(op, size)
    scale = _scale(op, norm, sizes, sign)
    *rest, last = dims
    halves = [*sizes[:-1], sizes[-1] // 2 + 1]
    x = _resized(_promoted(op, x, True), dims, halves)
    if rest:
        x = COMPLEX(x, dims=tuple(rest), sign=sign, scale=1.0)
    return FROM_HALF(x, dim=last, size=sizes[-1], sign=sign, scale=scale, middle=1.0)


def _doubled(x: Any, s: Any, dims: list[int], sizes: list[int]) -> list[int]:
    """Without another size, the real numbers of a half spectrum are even in number."""
    given = s if s is None or isinstance(s, int) else list(s)[-1] if len(s) else None
    if dims and given in (None, -1):
        return [*sizes[:-1], 2 * (x._shape[dims[-1]] - 1)]
    return sizes


def _real_function(name: str, sign: int, doc: str) -> None:
    def one(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        x = _as_real(name, input)
        at, size = _one_dim(name, x, n, dim)
        return _real(name, x, [at], [size], norm, sign)

    def _over(op: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
        x = _as_real(op, input)
        return _real(op, x, *_many_dims(op, x, s, dim), norm, sign)

    def two(
        input: Any, s: Ints | None = None, dim: Ints | None = (-2, -1), norm: str | None = None
    ) -> Any:
        return _over(name + "2", input, s, dim, norm)

    def many(
        input: Any, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
    ) -> Any:
        return _over(name + "n", input, s, dim, norm)

    _bind((one, name), (two, name + "2"), (many, name + "n"), doc)


def _inverse_real_function(name: str, sign: int, doc: str) -> None:
    def one(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
        x = _promoted(name, input, True)
        at, size = _one_dim(name, x, 1 if n is None else n, dim)
        sizes = [2 * (x._shape[at] - 1) if n is None else size]
        return _inverse_real(name, x, [at], sizes, norm, sign)

    def _over(op: str, input: Any, s: Any, dim: Any, norm: str | None) -> Any:
        dims, sizes = _many_dims(op, input, s, dim)
        return _inverse_real(op, input, dims, _doubled(input, s, dims, sizes), norm, sign)

    def two(
        input: Any, s: Ints | None = None, dim: Ints | None = (-2, -1), norm: str | None = None
    ) -> Any:
        return _over(name + "2", input, s, dim, norm)

    def many(
        input: Any, s: Ints | None = None, dim: Ints | None = None, norm: str | None = None
    ) -> Any:
        return _over(name + "n", input, s, dim, norm)

    _bind((one, name), (two, name + "2"), (many, name + "n"), doc)


_complex_function("fft", FORWARD)
_complex_function("ifft", BACKWARD)
_real_function("rfft", FORWARD, "The non-negative frequencies of real numbers")
_real_function("ihfft", BACKWARD, "The inverse of `hfft`: half a Hermitian signal,")
_inverse_real_function("irfft", BACKWARD, "The inverse of `rfft`: real numbers")
_inverse_real_function("hfft", FORWARD, "The real spectrum of a Hermitian signal's half")


# -- frequencies and their order


@public("fft", out=True)
def fftfreq(
    n: int, d: float = 1.0, *, dtype: dt.dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of `fft` of n samples at distances d: 0, 1, ..., -2, -1 by n * d.

    >>> import rushlight as torch
    >>> torch.fft.fftfreq(4)
    tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    if layout is not None:
        check_layout(layout)
    kind = _frequency_dtype("fftfreq", dtype)
    index = ARANGE(0, 1, length=n, dtype=dt.int64)
    index = index - n * (index >= (n + 1) // 2).to(dt.int64)
    return with_grad(index.to(kind) * (1.0 / (n * d)), requires_grad, device)


@public("fft", out=True)
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: dt.dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Any:  # fmt: skip
    """The frequencies of `rfft` of n samples at distances d.

    >>> torch.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    if layout is not None:
        check_layout(layout)
    kind = _frequency_dtype("rfftfreq", dtype)
    index = ARANGE(0, 1, length=n // 2 + 1, dtype=kind)
    return with_grad(index * (1.0 / (n * d)), requires_grad, device)


def _frequency_dtype(op: str, kind: dt.dtype | None) -> dt.dtype:
    kind = kind or config.default_dtype()
    if kind.is_integral:
        raise RuntimeError(f"{op} requires a floating point or complex dtype, got {kind!r}")
    return kind


def _shifted(op: str, x: Any, dim: Any, back: bool) -> Any:
    if dim is None:
        dims = list(range(x.ndim))
    else:
        dims = [dim] if isinstance(dim, int) else list(dim)
    if not dims or not x.ndim:
        return x.clone()
    sizes = [x._shape[views.dim_index(op, d, x.ndim)] for d in dims]
    return roll(x, [(s + 1) // 2 if back else s // 2 for s in sizes], dims)


@public("fft")
def fftshift(input: Any, dim: Ints | None = None) -> Any:
    """The frequency zero moved to the middle of `dim` (of all dimensions).

    >>> torch.fft.fftshift(torch.arange(4.0))
    tensor([2., 3., 0., 1.])
    """
    return _shifted("fftshift", input, dim, False)


@public("fft")
def ifftshift(input: Any, dim: Ints | None = None) -> Any:
    """The inverse of `fftshift`.

    >>> torch.fft.ifftshift(torch.arange(4.0))
    tensor([2., 3., 0., 1.])
    """
    return _shifted("ifftshift", input, dim, True)
