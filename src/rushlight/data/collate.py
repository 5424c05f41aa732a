"""Putting samples together into a batch."""

from __future__ import annotations

import collections.abc
import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.tensor import Tensor

CollateTable = dict[Any, Callable[..., Any]]


def default_convert(data: Any) -> Any:
    """The NumPy arrays and numbers in a sample as tensors; all else as it is."""
    if isinstance(data, Tensor):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        is_text = isinstance(data, np.ndarray) and re.search(r"[SaUO]", data.dtype.str)
        return data if is_text else rl.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _rebuilt_mapping(data, {key: default_convert(data[key]) for key in data})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(part) for part in data))
    if isinstance(data, tuple):
        return [default_convert(part) for part in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes)):
        return _rebuilt_sequence(data, [default_convert(part) for part in data])
    return data


def default_collate(batch: Any) -> Any:
    """A batch of samples with a new first dimension, for samples of any nesting.

    Tensors and arrays are stacked, numbers become a tensor, text stays a list; mappings and
    sequences are collated part by part.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


def collate(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Any:
    """Collate by a table from types to functions of (batch, *, collate_fn_map)."""
    first = batch[0]
    function = _function_for(type(first), collate_fn_map or {})
    if function is not None:
        return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, collections.abc.Mapping):
        columns = {
            key: collate([sample[key] for sample in batch], collate_fn_map=collate_fn_map)
            for key in first
        }
        return _rebuilt_mapping(first, columns)
    if isinstance(first, collections.abc.Sequence):
        return _collate_sequences(batch, first, collate_fn_map)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first)}"
    )


def _function_for(kind: type, table: CollateTable) -> Callable[..., Any] | None:
    if kind in table:
        return table[kind]
    return next((fn for base, fn in table.items() if issubclass(kind, base)), None)


def _collate_sequences(batch: Any, first: Any, table: CollateTable | None) -> Any:
    samples = list(batch)
    if any(len(sample) != len(first) for sample in samples):
        raise RuntimeError("each element in list of batch should be of equal size")
    columns = [collate(column, collate_fn_map=table) for column in zip(*samples, strict=True)]
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*columns)
    return columns if isinstance(first, tuple) else _rebuilt_sequence(first, columns)


def _rebuilt_mapping(original: Any, values: dict[Any, Any]) -> Any:
    """`values` in the type of the original where that can be built, else a dict."""
    try:
        if isinstance(original, collections.abc.MutableMapping):
            clone = copy.copy(original)
            clone.update(values)
            return clone
        return type(original)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def _rebuilt_sequence(original: Any, values: list[Any]) -> Any:
    try:
        if isinstance(original, collections.abc.MutableSequence):
            clone = copy.copy(original)
            for i, value in enumerate(values):
                clone[i] = value
            return clone
        return type(original)(values)
    except TypeError:
        return values


def _stack(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Tensor:
    return rl.stack(list(batch), 0)


def _stack_arrays(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Any:
    if re.search(r"[SaUO]", batch[0].dtype.str):
        raise TypeError(
            "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
            f"lists; found {batch[0].dtype}"
        )
    return collate([rl.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def _gather_scalars(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Tensor:
    return rl.as_tensor(np.array(batch))


def _gather_floats(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Tensor:
    return rl.tensor(batch, dtype=rl.float64)


def _gather_ints(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Tensor:
    return rl.tensor(batch)


def _keep(batch: Any, *, collate_fn_map: CollateTable | None = None) -> Any:
    return batch


default_collate_fn_map: CollateTable = {
    Tensor: _stack,
    np.ndarray: _stack_arrays,
    (np.bool_, np.number, np.object_): _gather_scalars,
    float: _gather_floats,
    int: _gather_ints,
    str: _keep,
    bytes: _keep,
}
