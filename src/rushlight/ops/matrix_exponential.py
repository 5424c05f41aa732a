"""Exponentials of matrices."""

from __future__ import annotations

from typing import Any  # operands are tensors, arrays in host functions

import numpy as np

from rushlight import dtypes as dt
from rushlight.ir.host import takes_batches
from rushlight.ops.joining import cat
from rushlight.ops.linear_algebra import Array, check_square
from rushlight.ops.registry import Op, public

TERMS = 20  # of the series, where the norm is at most 1/2: the rest is below 1e-25


@takes_batches
def _exponentials(a: Array) -> Array:
    """In double precision: a Taylor series of A / 2^s, squared s times."""
    if not a.size:
        return a
    wide, one = a.astype(np.result_type(a, np.float64)), np.eye(a.shape[-1])
    size = np.abs(wide).sum(-2).max(-1)
    size = np.where(np.isfinite(size), np.maximum(size, 0.5), 0.5)
    steps = np.ceil(np.log2(size) + 1).astype(int)
    scaled = wide / np.exp2(steps)[..., None, None]
    total = np.broadcast_to(one, wide.shape)
    for i in range(TERMS, 0, -1):
        total = one + scaled @ total / i
    for i in range(int(steps.max())):
        total = np.where((steps > i)[..., None, None], total @ total, total)
    return total.astype(a.dtype)


def exponential_vjp(g: Any, out: Any, a: Any) -> Any:
    """The upper right block of exp([[A^H, g], [0, A^H]])."""
    n, turned = a.shape[-1], a.mH
    above = cat((turned, g.expand(a.shape)), -1)
    below = cat((turned.new_zeros(turned.shape), turned), -1)
    return EXPONENTIAL(cat((above, below), -2))[..., :n, n:]


EXPONENTIAL = Op(
    "linalg.matrix_exp",
    type=lambda a: a,
    lower=lambda k, a: k.host(_exponentials, ((a.shape, a.dtype),), a)[0],
    vjp=exponential_vjp,
)


@public("linalg", "torch", "Tensor")
def matrix_exp(A: Any) -> Any:
    """The exponentials of square matrices.

    >>> import rushlight as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    wide = A.to(dt.float32) if A.dtype in (dt.float16, dt.bfloat16) else A
    check_square("linalg.matrix_exp", wide)
    made = EXPONENTIAL(wide)
    return made if wide is A else made.to(A.dtype)
