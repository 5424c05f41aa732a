"""softmax, log_softmax and softmin, each with the largest element subtracted first, and samples
of the Gumbel-softmax distribution.
"""

from __future__ import annotations

from typing import Any  # operands are tensors

from rushlight import errors, views
from rushlight.advice import warn_caller
from rushlight.dtypes import dtype
from rushlight.ops import batching
from rushlight.ops.creation import FULL
from rushlight.ops.elementwise import CAST, scaled, the_tensor
from rushlight.ops.registry import Op, TensorType, public


def _float_type(name: str) -> Any:
    def rule(x: TensorType, dim: int) -> TensorType:
        if x.dtype.is_complex or x.dtype.is_integral and x.numel:
            raise errors.not_implemented_for(name, x.dtype, "a floating dtype (pass `dtype=`)")
        return x

    return rule


def shifted(k: Any, x: Any, dims: tuple[int, ...]) -> tuple[Any, Any]:
    """x minus its maximum (kept finite nowhere: a row of -inf gives NaN), and the sum of
    exp.
    """
    low = x - k.reduce("max", x, dims, True)
    return low, k.reduce("sum", k.exp(low), dims, True)


def softmax_lower(k: Any, x: Any, dim: int) -> Any:
    if 0 in x.shape:
        return x
    if not x.shape:  # 1, or NaN of what is not finite
        return k.cast(k.exp(k.wide(x) - k.wide(x)), x.dtype)
    low, total = shifted(k, k.wide(x), (dim,))
    return k.cast(k.exp(low) / total, x.dtype)


def log_softmax_lower(k: Any, x: Any, dim: int) -> Any:
    if 0 in x.shape:
        return x
    if not x.shape:
        return x - x
    low, total = shifted(k, k.wide(x), (dim,))
    return k.cast(low - k.log(total), x.dtype)


def _dims(x: Any, dim: int) -> tuple[int, ...]:
    return (dim,) if x.ndim else ()


def _sum(x: Any, dim: int) -> Any:
    return x.sum(dim, keepdim=True) if x.ndim else x


SOFTMAX = Op(
    "softmax",
    attrs=("dim",),
    type=_float_type("softmax"),
    lower=softmax_lower,
    vjp=lambda g, out, x, dim: SOFTMAX_GRAD(g, out, dim=dim),
)


def softmax_grad_lower(k: Any, g: Any, out: Any, dim: int) -> Any:
    kind = g.dtype
    g, out = k.wide(g), k.wide(out)
    product = k.select(g.equals(0), g, g * out)
    inner = g - k.reduce("sum", product, _dims_of(g, dim), True)
    return k.cast(k.select(inner.equals(0), inner, inner * out), kind)


def _dims_of(ref: Any, dim: int) -> tuple[int, ...]:
    return (dim,) if ref.shape else ()


SOFTMAX_GRAD = Op(  # out * (g - sum(g * out))
    "softmax_grad",
    attrs=("dim",),
    type=lambda g, out, dim: g,
    lower=softmax_grad_lower,
    vjp=lambda h, _, g, out, dim: (
        SOFTMAX_GRAD(h, out, dim=dim),
        scaled(h, g - _sum(scaled(g, out), dim)) - scaled(g, _sum(scaled(h, out), dim)),
    ),
)
LOG_SOFTMAX = Op(
    "log_softmax",
    attrs=("dim",),
    type=_float_type("log_softmax"),
    lower=log_softmax_lower,
    vjp=lambda g, out, x, dim: LOG_SOFTMAX_GRAD(g, out, dim=dim),
)


def log_softmax_grad_lower(k: Any, g: Any, out: Any, dim: int) -> Any:
    kind = g.dtype
    g, out = k.wide(g), k.wide(out)
    total = k.reduce("sum", g, _dims_of(g, dim), True)
    share = k.exp(out) * total
    return k.cast(g - k.select(k.expand(total, g.shape).equals(0), 0, share), kind)


LOG_SOFTMAX_GRAD = Op(  # g - exp(out) * sum(g)
    "log_softmax_grad",
    attrs=("dim",),
    type=lambda g, out, dim: g,
    lower=log_softmax_grad_lower,
    vjp=lambda h, _, g, out, dim: (
        h - _sum(scaled(h, out.exp()), dim),
        -scaled(_sum(g, dim), scaled(h, out.exp())),
    ),
)


def _run(op: Op, input: Any, dim: int, kind: dtype | None) -> Any:
    try:
        if kind is not None and kind is not input.dtype:
            input = CAST(input, dtype=kind)
        return op(input, dim=views.dim_index(op.name, dim, input.ndim))
    except (AttributeError, TypeError):
        the_tensor(op.name, input)
        raise


def _needed(op: Op, axis: int | None) -> int:
    """The dimension of a call without `dim`."""
    if axis is None:
        raise TypeError(f"{op.name}() missing 1 required positional argument: 'dim'")
    return axis


@public("torch", "Tensor", "special", out=True)
def softmax(
    input: Any, dim: int | None = None, dtype: dtype | None = None, axis: int | None = None
) -> Any:
    """exp(x) / sum(exp(x)) along `dim` (NumPy's `axis`).

    >>> import rushlight as torch
    >>> torch.zeros(2).softmax(0)
    tensor([0.5000, 0.5000])
    """
    return _run(SOFTMAX, input, _needed(SOFTMAX, axis) if dim is None else dim, dtype)


@public("torch", "Tensor", "special", out=True)
def log_softmax(
    input: Any, dim: int | None = None, dtype: dtype | None = None, axis: int | None = None
) -> Any:
    """x - log(sum(exp(x))) along `dim` (NumPy's `axis`).

    >>> torch.log_softmax(torch.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    dim = _needed(LOG_SOFTMAX, axis) if dim is None else dim
    return _run(LOG_SOFTMAX, input, dim, dtype)


def _implied_dim(op: str, input: Any, dim: int | None) -> int:
    """`dim`, or PyTorch's old default: 0 for 0, 1 and 3 dimensions, otherwise 1."""
    if dim is not None:
        return dim
    ndim = the_tensor(op, input).ndim
    warn_caller(
        f"Implicit dimension choice for {op} has been deprecated. Change the call to include "
        f"dim=X as an argument."
    )
    return 0 if ndim in (0, 1, 3) else 1


@public("F", name="softmax")
def softmax_function(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Any:
    """exp(x) / sum(exp(x)) along `dim`."""
    return _run(SOFTMAX, input, _implied_dim("softmax", input, dim), dtype)


@public("F", name="log_softmax")
def log_softmax_function(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Any:
    """x - log(sum(exp(x))) along `dim`."""
    return _run(LOG_SOFTMAX, input, _implied_dim("log_softmax", input, dim), dtype)


@public("F")
def softmin(
    input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None
) -> Any:
    """softmax of -x.

    >>> torch.nn.functional.softmin(torch.tensor([0.0, 1.0]), dim=0)
    tensor([0.7311, 0.2689])
    """
    return _run(SOFTMAX, -input, _implied_dim("softmin", input, dim), dtype)


@public("F")
def gumbel_softmax(
    logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Any:
    """A sample of the Gumbel-softmax distribution; `hard` gives one-hot values with the soft
    sample's gradient (Jang et al., 2017).

    >>> torch.nn.functional.gumbel_softmax(torch.zeros(1, 3), hard=True).sum(-1)
    tensor([1.])
    """
    if eps != 1e-10:
        warn_caller("gumbel_softmax: eps is deprecated and has no effect")
    noise = FULL(shape=tuple(logits.shape), value=0, dtype=logits.dtype)
    noise = -batching.spread_like(noise, logits).exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.max(dim, keepdim=True)[1]
    sharp = soft.detach().mul(0).scatter(dim, index, 1.0)
    return sharp - soft.detach() + soft
