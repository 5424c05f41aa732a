"""Views as copies: `permute_copy` and the like, and tensors laid out in another order."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any  # operands are tensors

from rushlight import config
from rushlight.dtypes import dtype
from rushlight.layout import check_layout
from rushlight.ops import movement, sections
from rushlight.ops.complex_parts import resolve_conj, view_as_complex, view_as_real
from rushlight.ops.creation import FULL, sizes_of, with_grad
from rushlight.ops.elementwise import the_tensor
from rushlight.ops.indexing import slice_along
from rushlight.ops.registry import public

_TAKEN_BY_NAME = {"expand_copy": ("size",), "view_copy": ("dtype",)}


def _copying(name: str, function: Callable[..., Any], *places: str) -> None:
    """Make the public form of a view function that gives copies."""

    @functools.wraps(function)
    def copied(*args: Any, out: Any = None, **named: Any) -> Any:
        from rushlight.surface import deliver  # binds the families, so it comes after them

        made = function(*args, **named)
        if not isinstance(made, tuple):
            return made.clone() if out is None else deliver(out, made, name)
        if out is None:
            return tuple(m.clone() for m in made)
        for target, part in zip(out, made, strict=True):
            deliver(target, part, name)
        return None

    known = inspect.signature(function)
    given = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    parameters = [p for p in known.parameters.values() if p.kind is not p.VAR_KEYWORD]
    named = _TAKEN_BY_NAME.get(name, ())
    parameters[1:1] = [inspect.Parameter(n, parameters[0].kind) for n in named]
    copied.__signature__ = known.replace(parameters=[*parameters, given])  # type: ignore[attr-defined]
    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"`{name[:-5]}` as a copy."
    public("torch", *places, name=name)(copied)


def _alias(input: Any) -> Any:
    return the_tensor("alias_copy", input)


def _detach(input: Any) -> Any:
    return input.detach()


def _as_real(input: Any) -> Any:
    return view_as_real(resolve_conj(input))


def _narrow(input: Any, dim: int, start: int, length: int) -> Any:
    if 0 < input.ndim <= dim:  # PyTorch's class, which is another for a `dim` below the range
        raise RuntimeError(
            f"narrow_copy(): dim {dim} is out of range for a tensor of {input.ndim} dimensions"
        )
    return movement.narrow(input, dim, start, length)


for _name, _function in {
    "view": movement.view, "permute": movement.permute_function,
    "transpose": movement.transpose, "t": movement.t, "squeeze": movement.squeeze,
    "unsqueeze": movement.unsqueeze, "select": movement.select,
    "diagonal": movement.diagonal, "expand": movement.expand, "unfold": movement.unfold,
    "as_strided": movement.as_strided, "alias": _alias, "detach": _detach, "slice": slice_along,
    "unbind": sections.unbind, "split": sections.split,
    "split_with_sizes": sections.split_with_sizes, "view_as_real": _as_real,
    "view_as_complex": view_as_complex,
}.items():  # fmt: skip
    _copying(f"{_name}_copy", _function)
_copying("narrow_copy", _narrow, "Tensor")


@public("torch", out=True)
def empty_permuted(
    size: Any, physical_layout: Any, *, dtype: dtype | None = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Any:  # fmt: skip
    """Elements to be written, with dimensions in memory in the order `physical_layout`.

    >>> torch.empty_permuted((2, 3), (1, 0)).stride()
    (1, 2)
    """
    if layout is not None:
        check_layout(layout)
    shape = sizes_of("empty_permuted", "size", (size,))
    order = sizes_of("empty_permuted", "physical_layout", (physical_layout,))
    if len(shape) != len(order):
        raise RuntimeError(
            f"empty_permuted: Number of dimensions in size does not match the length of the "
            f"physical_layout; i.e. len(size) = {len(shape)} is not equal to "
            f"len(physical_layout) = {len(order)}"
        )
    if sorted(order) != list(range(len(order))):
        raise RuntimeError(
            f"empty_permuted: physical_layout {list(order)} must name each dimension once"
        )
    stored = FULL(
        shape=tuple(shape[d] for d in order), value=0, dtype=dtype or config.default_dtype()
    )
    made = movement.permute_function(stored, [order.index(d) for d in range(len(order))])
    return with_grad(made, requires_grad, device)
