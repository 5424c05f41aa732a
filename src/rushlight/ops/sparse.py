"""Functions of sparse tensors, of which there are none here: each raises what PyTorch raises
for tensors that are dense.
"""

from __future__ import annotations

from typing import Any, NoReturn  # dense tensors

from rushlight.argument_kinds import Number
from rushlight.ops.registry import public


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(f"{name}: tensors here are dense, and this is a function of sparse ones")


@public("torch", "Tensor")
def smm(input: Any, mat: Any) -> NoReturn:
    """A sparse matrix times a dense one, as a sparse one: raises RuntimeError."""
    _refuse("smm")


@public("torch")
def saddmm(
    input: Any, mat1: Any, mat2: Any, *, beta: Number = 1, alpha: Number = 1
) -> NoReturn:
    """`smm` with something added: raises RuntimeError."""
    _refuse("saddmm")


@public("torch")
def indices_copy(input: Any) -> NoReturn:
    """The indices of a sparse tensor: raises RuntimeError."""
    _refuse("indices_copy")


@public("torch")
def values_copy(input: Any) -> NoReturn:
    """The values of a sparse tensor: raises RuntimeError."""
    _refuse("values_copy")
