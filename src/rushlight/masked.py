"""`torch.masked`: reductions and normalisations that leave out the elements where a mask is
false.

Left-out elements are replaced by what does not change the result; where every element is left
out, the result is that value. Their gradients are exactly zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any  # operands are tensors

import rushlight as rl
from rushlight import dtypes as dt
from rushlight import errors
from rushlight.nn import functional as F
from rushlight.ops.creation import FILL, FULL
from rushlight.ops.elementwise import WHERE
from rushlight.ops.statistics import vector_norm
from rushlight.surface import guarded
from rushlight.tensor import Tensor

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp",
    "logsumexp", "mean", "median", "norm", "normalize", "prod", "softmax", "softmin", "std",
    "sum", "var",
]  # fmt: skip

Dims = int | tuple[int, ...] | None


# -- reductions


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Sums of the elements that the mask keeps.

    >>> import rushlight as torch
    >>> x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> torch.masked.sum(x, 1, mask=torch.tensor([[True, False], [True, True]]))
    tensor([1., 7.])
    """
    x = _filled(input, mask, 0)
    return x.sum(_dims(input, dim), keepdim=bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Products of the elements that the mask keeps."""
    is_real = input.dtype.is_floating_point or input.dtype.is_complex
    kind = dtype or (input.dtype if is_real else dt.int64)
    x = _filled(input, mask, 1).to(kind)
    for d in sorted(_dims(input, dim), reverse=True):
        x = x.prod(d, keepdim=bool(keepdim), dtype=dtype)
    return x


def _end(name: str) -> Callable[[Tensor], Any]:
    """The least value of a tensor's dtype for maxima, the greatest for minima."""
    is_least = name.endswith("max")

    def end(x: Tensor) -> Any:
        if x.dtype == dt.bool_:
            raise NotImplementedError(f"identity of {name} on {x.dtype!r} input")
        if x.is_floating_point() or x.is_complex():
            return -math.inf if is_least else math.inf
        limits = dt.iinfo(x.dtype)
        return limits.min if is_least else limits.max

    return end


def _extreme(name: str) -> Any:
    def function(
        input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
        mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x = _filled(input, mask, _end(name))
        made = getattr(x, name)(_dims(input, dim), keepdim=bool(keepdim))
        return made.to(dtype or input.dtype)

    return _named(function, name, "Extremes of the elements that the mask keeps.")


def _position(name: str) -> Any:
    def function(
        input: Tensor, dim: int | None = None, *, keepdim: bool | None = False,
        dtype: Any = None, mask: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        x = _filled(input, mask, _end(name))
        return getattr(x, name)(dim, keepdim=bool(keepdim)).to(dtype or input.dtype)

    return _named(
        function, name, "Positions, in the input's dtype, of extremes among what is kept."
    )


def _named(function: Any, name: str, doc: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


amax, amin = _extreme("amax"), _extreme("amin")
argmax, argmin = _position("argmax"), _position("argmin")


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Means of the elements that the mask keeps (NaN of none)."""
    kind = dtype or input.dtype
    if not (kind.is_floating_point or kind.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. Input dtype must be either a floating "
            f"point or complex dtype. Got: {kind!r}"
        )
    if mask is None:
        return input.mean(_dims(input, dim), keepdim=bool(keepdim), dtype=dtype)
    total = sum(input, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / _count(input, dim, bool(keepdim), mask)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Variances of the elements that the mask keeps."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    free = (0.0 if unbiased is False else 1.0) if correction is None else float(correction)
    kind = dtype or input.dtype
    kind = kind if kind.is_floating_point or kind.is_complex else dt.float32
    count = _count(input, dim, True, mask)
    centre = sum(input, dim, keepdim=True, dtype=kind, mask=mask) / count
    away = input - centre
    square = away * away.conj() if away.is_complex() else away * away
    total = sum(square, dim, keepdim=keepdim, dtype=kind, mask=mask)
    return total / (count.reshape(total.shape).to(kind.to_real()) - free).clamp(min=0)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *,
    correction: float | None = None, keepdim: bool | None = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Standard deviations of the elements that the mask keeps."""
    how: dict[str, Any] = {"keepdim": keepdim, "dtype": dtype, "mask": mask}
    return var(input, dim, unbiased, correction=correction, **how).sqrt()


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool | None = False,
    dtype: Any = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Vector norms of the elements that the mask keeps."""
    x = _filled(input, mask, math.inf if ord == -math.inf else 0)
    order = 2.0 if ord is None else ord
    dims = _dims(input, dim)
    return vector_norm(x, order, dims, keepdim=bool(keepdim), dtype=dtype)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Lower medians of the elements that the mask keeps (NaN of none)."""
    is_floating = input.dtype.is_floating_point
    x = _filled(input if is_floating else input.to(dt.float32), mask, math.nan)
    made = x.nanmedian(dim, keepdim=keepdim).values
    if is_floating:
        return made if dtype is None else made.to(dtype)
    if bool(made.isnan().any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point"
        )
    return made.to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log of the sum of exp of the elements that the mask keeps."""
    x = _filled(input, mask, _end("amax"))
    return x.logsumexp(_dims(input, dim), keepdim=keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: Any = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), each without what its mask leaves out."""
    a = _filled(input, input_mask, _end("amax"))
    b = _filled(other, other_mask, _end("amax"))
    return a.logaddexp(b).to(dtype or input.dtype)


# -- along one dimension


def _along(name: str, fill: Any) -> Any:
    def function(
        input: Tensor, dim: int, *, dtype: Any = None, mask: Tensor | None = None
    ) -> Tensor:
        x = _filled(input, mask, fill)
        if dtype is None and name in ("cumsum", "cumprod"):  # integers stay as wide as they are
            dtype = input.dtype
        return getattr(F if name == "softmin" else rl, name)(x, dim, dtype=dtype)

    return _named(function, name, f"`{name}` over the elements that the mask keeps.")


softmax = _along("softmax", _end("amax"))
log_softmax = _along("log_softmax", _end("amax"))
softmin = _along("softmin", _end("amin"))
cumsum = _along("cumsum", lambda x: 0)
cumprod = _along("cumprod", lambda x: 1)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """What the mask keeps, divided by its norm along `dim`, which is taken to be at least
    `eps`.
    """
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / length.clamp(min=eps)


# -- masks


def _dims(x: Tensor, dim: Dims) -> tuple[int, ...]:
    """All dimensions by default; each at most once."""
    if dim is None:
        return tuple(range(x.dim()))
    ndim, found = max(x.dim(), 1), []
    for d in (dim,) if isinstance(dim, int) else dim:
        if not -ndim <= d < ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], "
                f"but got {d})"
            )
        if d % ndim in found:
            raise RuntimeError(f"dim={d % ndim} appears multiple times in the list of dims")
        found.append(d % ndim)
    return tuple(sorted(found))


def _filled(x: Tensor, mask: Tensor | None, value: Any) -> Tensor:
    """x with `value`, or what that function gives for x, where the mask is false."""
    if not isinstance(x, Tensor):
        raise errors.NotAnOperandError(x)
    if mask is None:
        return x
    value = value(x) if callable(value) else value
    return WHERE(_expanded(x, mask), x, FILL(value, shape=(), dtype=x.dtype))


def _expanded(x: Tensor, mask: Tensor) -> Tensor:
    if mask.dim() > x.dim():
        raise IndexError(
            "_input_mask expected broadcastable mask (got mask dimensionality higher than of "
            f"the input: {mask.dim()} > {x.dim()})"
        )
    return mask.expand(x.shape).to(dt.bool_)


def _count(x: Tensor, dim: Dims, keepdim: bool, mask: Tensor | None) -> Tensor:
    every = FULL(shape=tuple(x.shape), value=True, dtype=dt.bool_)
    kept = every if mask is None else _expanded(x, mask)
    return kept.sum(_dims(x, dim), keepdim=keepdim)


for _name in __all__:
    globals()[_name] = guarded(globals()[_name], _name)
