"""Named tuples that public functions of several results return."""

from __future__ import annotations

from typing import Any, NamedTuple  # fields are tensors


class max(NamedTuple):  # noqa: A001, N801 - PyTorch's name
    values: Any
    indices: Any


class min(NamedTuple):  # noqa: A001, N801 - PyTorch's name
    values: Any
    indices: Any


class cummax(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class cummin(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class median(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class nanmedian(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class mode(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class aminmax(NamedTuple):  # noqa: N801 - PyTorch's name
    min: Any
    max: Any


class frexp(NamedTuple):  # noqa: N801 - PyTorch's name
    mantissa: Any
    exponent: Any


class sort(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class topk(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class kthvalue(NamedTuple):  # noqa: N801 - PyTorch's name
    values: Any
    indices: Any


class histogram(NamedTuple):  # noqa: N801 - PyTorch's name
    hist: Any
    bin_edges: Any


class QR(NamedTuple):
    Q: Any
    R: Any
