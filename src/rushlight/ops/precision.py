"""Which precision each public function computes in under autocast: one table, by name.

Under autocast a function of LOW takes its floating-point operands in autocast's dtype, one of
HIGH takes half precision as float32, and all others take what they are given. Float64 is left
as it is, as by PyTorch, whose lists for the CPU these are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any  # wraps functions of any signature

from rushlight import argument_kinds, refusals
from rushlight import dtypes as dt
from rushlight.config import scopes
from rushlight.dtypes import dtype

LOW = {
    "linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "addbmm", "vecdot", "einsum",
    "tensordot", "inner", "chain_matmul", "multi_dot", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "prelu",
    "scaled_dot_product_attention",
}  # fmt: skip
HIGH = {
    "avg_pool3d", "max_pool3d", "max_unpool2d", "max_unpool3d", "adaptive_avg_pool3d",
    "adaptive_max_pool3d", "fractional_max_pool2d", "fractional_max_pool3d", "grid_sample",
    "prod", "trace", "quantile", "nanquantile", "cdist", "stft", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "nll_loss", "cross_entropy", "kl_div",
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss",
    "ctc_loss", "hinge_embedding_loss", "poisson_nll_loss", "margin_ranking_loss",
    "soft_margin_loss", "triplet_margin_loss", "multi_margin_loss", "multilabel_margin_loss",
    "inverse", "pinverse", "cholesky", "cholesky_ex", "cholesky_inverse", "cholesky_solve",
    "lu_solve", "qr", "svd", "svdvals", "eigh", "eigvalsh", "solve", "lstsq", "inv", "inv_ex",
    "matrix_rank", "cond", "triangular_solve", "tensorinv", "tensorsolve",
    "householder_product",
}  # fmt: skip

Function = Callable[..., Any]


def under_autocast(name: str, function: Function) -> Function:
    """The function as it is called by users: operands are cast first where autocast is on."""
    if name not in LOW and name not in HIGH:
        return function
    is_low = name in LOW
    kinds = argument_kinds.kinds_of(function, name)
    first, fitted = kinds.first, kinds.fitted

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        lowered = scopes.autocast
        if lowered is None:
            try:
                if kwargs or len(args) > first:
                    args, kwargs = fitted(args, kwargs)
                return function(*args, **kwargs)
            except Exception as error:
                return refusals.recovered(inner, function, name, args, kwargs, error)
        scopes.autocast = None  # what it is made of computes in what it is given
        try:
            to = lowered if is_low else dt.float32
            given = [_cast(a, to) for a in args]
            return function(*given, **{k: _cast(a, to) for k, a in kwargs.items()})
        finally:
            scopes.autocast = lowered

    return inner


def is_cast(called: Function) -> bool:
    """Whether a function is one that `under_autocast` made."""
    return called.__code__.co_filename == __file__


def as_given(function: Function) -> Function:
    """The function without autocast: forms that write into a tensor take what it holds."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        lowered, scopes.autocast = scopes.autocast, None
        try:
            return function(*args, **kwargs)
        finally:
            scopes.autocast = lowered

    return inner


def _cast(x: Any, to: dtype) -> Any:
    if isinstance(x, list | tuple):
        return type(x)(_cast(part, to) for part in x) if type(x) in (list, tuple) else x
    kind = getattr(x, "dtype", None)
    if not isinstance(kind, dtype) or not kind.is_floating_point or kind in (to, dt.float64):
        return x
    return x.to(to)
