"""NumPy functions called between kernels (`Builder.host`): which of them take batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar  # NumPy functions of any signature

import numpy as np

Function = TypeVar("Function", bound=Callable[..., Any])
_TAKES_BATCHES: set[Callable[..., Any]] = set()


def takes_batches(function: Function) -> Function:
    """Mark a function that takes any dimensions before those of one sample, the same ones in
    all its arrays: `vmap` then need not call it for each sample.
    """
    _TAKES_BATCHES.add(function)
    return function


def does_take_batches(function: Callable[..., Any], named: Mapping[str, Any]) -> bool:
    """Whether a host call may get all samples at once; `rule` is what one on complex arrays
    calls (ir/planes.py).
    """
    rule = named.get("rule", function)
    return isinstance(rule, np.ufunc) or rule in _TAKES_BATCHES
