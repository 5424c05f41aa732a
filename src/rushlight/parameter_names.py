"""Other names of parameters: NumPy's, which PyTorch's functions take too, and those that its
documentation gives where they differ from what its functions are called with.

A call by position, or by the usual names, never comes here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any  # functions of any signature

Function = Callable[..., Any]
NUMPY = {"axis": "dim", "keepdims": "keepdim", "x2": "other"}
_FIRST = ("x", "a", "x1")  # NumPy's names of the first operand

_VALUE, _DIVISOR = {"value": "other"}, {"divisor": "other"}
_SECTIONS = {"split_size_or_sections": "indices_or_sections"}
_SIZES = {"tensor": "input", "split_size_or_sections": "split_sizes"}
METHODS: dict[str, dict[str, str]] = {  # of Tensor: documented name -> ours
    "bmm": {"batch2": "mat2"},
    "broadcast_to": {"shape": "size"},
    "cholesky_solve": {"input2": "L"},
    "dot": {"other": "tensor"},
    **dict.fromkeys(("dsplit", "hsplit", "vsplit"), _SECTIONS),
    **dict.fromkeys(("floor_divide", "true_divide"), _VALUE),
    **dict.fromkeys(("floor_divide_", "true_divide_"), _VALUE),
    **dict.fromkeys(("fmod", "fmod_", "remainder", "remainder_"), _DIVISOR),
    "index_copy": {"tensor2": "source"},
    "index_copy_": {"tensor": "source"},
    "index_reduce": {"include_input": "include_self"},
    "masked_scatter": {"tensor": "source"},
    "narrow": {"dimension": "dim"},
    "narrow_copy": {"dimension": "dim"},
    "ormqr": {"input2": "tau", "input3": "other"},
    "resize_as_": {"tensor": "the_template"},
    "split": {"split_size": "split_size_or_sections"},
    "split_with_sizes": _SIZES,
    "unsafe_split_with_sizes": _SIZES,
    "take": {"indices": "index"},
    "type_as": {"tensor": "other"},
    "where": {"y": "other"},
}
FUNCTIONS: dict[str, dict[str, str]] = {  # of the package, and of its `linalg`
    "adaptive_max_pool1d": {"inputs": "input"},
    "alpha_dropout": {"train": "training"},
    "broadcast_to": {"shape": "size"},
    "concatenate": {"axis": "dim"},
    "convolution": {"output_adding": "output_padding"},
    "dropout": {"train": "training"},
    "feature_alpha_dropout": {"train": "training"},
    "layer_norm": {"cudnn_enabled": "cudnn_enable"},
    "linalg.lu_factor": {"bool": "pivot"},
    "linalg.norm": {"input": "A"},
    "orgqr": {"tau": "input2"},
    "searchsorted": {"values": "input"},
    "split_copy": {"split_size": "split_size_or_sections"},
    "split_with_sizes": _SIZES,
    "true_divide": {"dividend": "input", "divisor": "other"},
    "unsafe_split": {"split_size_or_sections": "split_size"},
    "unsafe_split_with_sizes": _SIZES,
    "linalg.vector_norm": {"x": "input"},
}


def respelled(
    function: Function, name: str, kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Keywords under the function's own names; None where they are so already."""
    own = inspect.signature(inspect.unwrap(function)).parameters
    first = dict.fromkeys(_FIRST, next(iter(own), ""))
    known = NUMPY | first | FUNCTIONS.get(name, {}) | METHODS.get(name, {})
    made = {k if k in own else known.get(k, k): v for k, v in kwargs.items()}
    return None if list(made) == list(kwargs) or len(made) != len(kwargs) else made


def spelled(function: Function, names: Mapping[str, str]) -> Function:
    """The function with documented names for some parameters, besides its own."""

    @functools.wraps(function)
    def inner(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            kwargs = {names.get(k, k): v for k, v in kwargs.items()}
        return function(*args, **kwargs)

    inner.__signature__ = renamed(inspect.signature(function), names)  # type: ignore[attr-defined]
    return inner


def renamed(signature: inspect.Signature, names: Mapping[str, str]) -> inspect.Signature:
    """A signature that says the documented names."""
    said = {ours: documented for documented, ours in names.items()}
    return signature.replace(
        parameters=[
            p.replace(name=said.get(p.name, p.name)) for p in signature.parameters.values()
        ]
    )
