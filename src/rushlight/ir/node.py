"""Nodes and references: the one data structure of the compiler's graph."""

from __future__ import annotations

from typing import Any  # attributes are any hashable value

from rushlight.dtypes import dtype
from rushlight.views import Shape, View, contiguous_strides, numel


class Node:
    """One primitive. Args are (node, view) pairs; a view of None reads the node whole, in
    order.

    Kinds by `op`: `leaf scalar const extent` (inputs; `extent` is a number that follows from
    sizes, which no kernel may have in its text), `map` with attrs (prim,), `cast`, `iota`,
    `random`, `gather` (computed where they are used), and `reduce contract scatter update scan
    host item attention ...` (computed by kernels of their own).
    """

    __slots__ = ("args", "attrs", "dtype", "numel", "number", "op", "origin", "shape")

    def __init__(
        self,
        number: int,
        op: str,
        args: tuple[Arg, ...],
        attrs: tuple[Any, ...],
        shape: Shape,
        dtype: dtype,
    ) -> None:
        self.number = number  # in order of creation, so args have smaller numbers
        self.op = op
        self.args = args
        self.attrs = attrs
        self.shape = shape
        self.dtype = dtype
        self.numel = numel(shape)
        self.origin: Any = None  # the trace edge whose lowering made it (for messages)

    def __repr__(self) -> str:
        args = ", ".join(
            f"%{n.number}" + ("" if v is None else f"{list(v.shape)}") for n, v in self.args
        )
        attrs = "".join(f" {a!r}" for a in self.attrs)
        return (
            f"%{self.number} = {self.op}{attrs}({args}) : {self.dtype.name}{list(self.shape)}"
        )


Arg = tuple[Node, View | None]


def view_of(arg: Arg) -> View:
    """The argument's view, spelled out."""
    node, view = arg
    return View(node.shape, contiguous_strides(node.shape), 0) if view is None else view
