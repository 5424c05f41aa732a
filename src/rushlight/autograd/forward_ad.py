"""`torch.autograd.forward_ad`: dual tensors, which carry a tangent through a computation."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.autograd import tangents
from rushlight.autograd.grad_mode import Decorating
from rushlight.autograd.tangents import Level
from rushlight.config import scopes
from rushlight.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """The two parts of a dual tensor; the tangent is None where there is none."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin a level of forward mode and return its number."""
    tangents.enter()
    return len(scopes.levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End the innermost level: tangents of its dual tensors are gone."""
    innermost = len(scopes.levels) - 1
    if innermost < 0 or level not in (None, innermost):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. "
            "This is not supported."
        )
    tangents.leave(scopes.levels[innermost])


class dual_level(Decorating):
    """A level of forward mode as a context manager (or around a function).

    >>> import rushlight as torch
    >>> import rushlight.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(torch.tensor(3.0), torch.tensor(1.0))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """`tensor` with a tangent: what is computed from it has the tangent of the result.

    Both have the same shape and a floating or complex dtype; ValueError for other dtypes,
    RuntimeError for other shapes or outside a level. The result is a copy: writes to it leave
    `tensor` as it is.
    """
    place = _level(level)
    if place is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to "
            "enter_dual_level() first."
        )
    for x in (tensor, tangent):
        if place.holds(x):
            raise RuntimeError(
                "Making a dual Tensor based on a Tensor that already has a forward gradient at "
                f"the same level {scopes.levels.index(place)} is not supported."
            )
    made: Tensor = tangents.made_dual(tensor, tangent, place)
    return made


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The tensor without its tangent, and the tangent."""
    place = _level(level)
    if place is None:
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*tangents.unpacked(tensor, place))


def _level(number: int | None) -> Level | None:
    """The level of a number, or the innermost; None outside all levels."""
    levels = scopes.levels
    if number is None:
        return levels[-1] if levels else None
    return levels[number] if 0 <= number < len(levels) else None
