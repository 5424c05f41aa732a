"""Named tuples that public functions of several results return."""

from __future__ import annotations

from typing import Any, NamedTuple  # fields are tensors


class max(NamedTuple):
    values: Any
    indices: Any


class min(NamedTuple):
    values: Any
    indices: Any


class cummax(NamedTuple):
    values: Any
    indices: Any


class cummin(NamedTuple):
    values: Any
    indices: Any


class median(NamedTuple):
    values: Any
    indices: Any


class nanmedian(NamedTuple):
    values: Any
    indices: Any


class mode(NamedTuple):
    values: Any
    indices: Any


class aminmax(NamedTuple):
    min: Any
    max: Any


class frexp(NamedTuple):
    mantissa: Any
    exponent: Any


class sort(NamedTuple):
    values: Any
    indices: Any


class topk(NamedTuple):
    values: Any
    indices: Any


class kthvalue(NamedTuple):
    values: Any
    indices: Any


class histogram(NamedTuple):
    hist: Any
    bin_edges: Any


class QR(NamedTuple):
    Q: Any
    R: Any
