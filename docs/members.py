"""The page of what every tensor has and no function of `torch` is: docs/api/tensor.md.

Meanings are the docstrings of `rushlight.Tensor`, examples are kept in examples.txt.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import rushlight
from docs.families import as_method, signature

NAME = "tensor"
TITLE = "Methods and attributes of tensors"
ABOUT = """\
What belongs to the class `torch.Tensor` itself. Operations that are methods too (`x.sum()`,
`x.view(2, 3)`, `x.to(dtype)`) are on the pages of their [families](README.md)."""


@dataclass(frozen=True, slots=True)
class Member:
    """One method or attribute: how it is written, what it means."""

    name: str
    form: str
    meaning: str


def members() -> list[Member]:
    """The class's own public methods and properties, in order of declaration."""
    return [Member(name, *said) for name, said in _declared() if said is not None]


def _declared() -> Iterator[tuple[str, tuple[str, str] | None]]:
    for name, value in vars(rushlight.Tensor).items():
        if not name.startswith("_"):
            yield name, _said(name, value)


def _said(name: str, value: Any) -> tuple[str, str] | None:
    """How a member is written and what it means; None for what an operation's family says,
    and for constants.
    """
    if isinstance(value, property):
        return f"Tensor.{name}", inspect.getdoc(value.fget) or ""
    is_own = isinstance(value, FunctionType) and value.__module__ == "rushlight.tensor"
    if not is_own:
        return None
    arguments = ", ".join(as_method(signature(value)))
    return f"Tensor.{name}({arguments})", inspect.getdoc(value) or ""
