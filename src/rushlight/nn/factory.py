"""`nn.factory_kwargs`: what a layer hands on to the functions that make tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any  # values of keywords

_KEYS = ("device", "dtype", "memory_format")


def factory_kwargs(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """`device`, `dtype` and `memory_format` out of `kwargs`, joined with what is under
    `factory_kwargs` there; any other keyword, or one given twice, raises TypeError.

    >>> from rushlight import nn
    >>> nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": None}})
    {'dtype': None, 'device': 'cpu'}
    """
    given = {} if kwargs is None else dict(kwargs)
    made = dict(given.pop("factory_kwargs", {}))
    unknown = given.keys() - set(_KEYS)
    if unknown:
        raise TypeError(f"unexpected kwargs {unknown}")
    for key, value in given.items():
        if key in made:
            raise TypeError(f"{key} specified twice, in **kwargs and in factory_kwargs")
        made[key] = value
    return made
