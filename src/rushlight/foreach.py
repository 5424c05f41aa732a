"""`torch._foreach_add` and its relatives: one operation on every tensor of a list.

They exist for programs that call them. Nothing is gained here by calling an operation on many
tensors at once, since what is recorded is compiled together anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any  # tensors, numbers and lists of both

from rushlight.surface import NAMESPACES
from rushlight.tensor import Tensor

_torch, _linalg = NAMESPACES["torch"], NAMESPACES["linalg"]

_PLAIN = (
    "abs", "acos", "add", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh",
    "div", "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10",
    "log1p", "log2", "max", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid",
    "sign", "sin", "sinh", "sqrt", "sub", "tan", "tanh", "trunc",
)  # fmt: skip
_IN_PLACE_ONLY = ("copy_", "zero_")


def _addcmul(x: Any, first: Any, second: Any, value: Any = 1) -> Any:
    return _torch["addcmul"](x, first, second, value=value)


def _addcdiv(x: Any, first: Any, second: Any, value: Any = 1) -> Any:
    return _torch["addcdiv"](x, first, second, value=value)


def _norm(x: Any, ord: Any = 2, dtype: Any = None) -> Any:
    return _linalg["vector_norm"](x, ord, dtype=dtype)


_SPELLED = {
    "addcmul": _addcmul, "addcdiv": _addcdiv, "norm": _norm, "maximum": _torch["clamp_min"],
    "minimum": _torch["clamp_max"],
}  # fmt: skip


def _items(name: str, x: Any, count: int) -> list[Any]:
    """An argument for each tensor: those of a list, or one for all."""
    if not isinstance(x, list | tuple):
        return [x] * count
    if len(x) != count:
        raise RuntimeError(
            f"{name}: Tensor lists must have the same number of tensors, got {count} and "
            f"{len(x)}"
        )
    return list(x)


def _over_lists(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on the items of its lists, in order; the results as a tuple."""

    def applied(self: Any, *args: Any, **named: Any) -> Any:
        lists = [a for a in (self, *args) if isinstance(a, list | tuple)]
        if not lists or not lists[0]:
            raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
        count = len(lists[0])
        rows = zip(*(_items(name, a, count) for a in (self, *args)), strict=True)
        values = {key: _items(name, value, count) for key, value in named.items()}
        return tuple(
            function(*row, **{key: value[i] for key, value in values.items()})
            for i, row in enumerate(rows)
        )

    applied.__name__ = applied.__qualname__ = name
    applied.__doc__ = f"`{name.removeprefix('_foreach_')}` of each tensor of a list."
    return applied


def _writing(function: Callable[..., Any]) -> Callable[..., Any]:
    def write(x: Tensor, *args: Any, **named: Any) -> Tensor:
        return x.copy_(function(x, *args, **named))

    return write


def __getattr__(name: str) -> Any:
    known = name.removeprefix("_foreach_")
    plain = known.removesuffix("_")
    if plain in _SPELLED:
        function: Any = _SPELLED[plain]
        function = _writing(function) if plain != known else function
    elif known in _IN_PLACE_ONLY or (plain in _PLAIN and known != plain):
        function = getattr(Tensor, known)
    elif plain in _PLAIN:
        function = _torch[plain]
    else:
        raise AttributeError(f"module 'rushlight' has no attribute {name!r}")
    return _over_lists(name, function)
