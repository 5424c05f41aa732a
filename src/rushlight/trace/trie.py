"""The trie of recorded paths: edges, what they remember, and their bounds."""

from __future__ import annotations

from typing import Any, NamedTuple  # programs and memos belong to later rooms

from rushlight.ops.registry import Op, TensorType
from rushlight.trace import varying
from rushlight.views import AnyView


class Operand(NamedTuple):
    """An operand of an edge: the position of its value, and how it is read."""

    position: int
    view: AnyView | None
    type: TensorType  # of the operand as the op sees it


class Edge:
    """One recorded step and everything found out about it on the miss.

    `kind`: 'op', 'leaf' (a realised value joins), 'number' (a Python number joins) or 'mark'
    (gradient structure only). `first` is the position of its first result, `next` the first
    position after it.
    """

    __slots__ = (
        "attrs", "children", "ends", "first", "keeps", "kind", "label", "memos", "next", "op",
        "operands",
        "out", "outs", "parent", "programs", "sizes", "where",
    )  # fmt: skip

    def __init__(self, parent: Edge | None, kind: str, next: int) -> None:
        self.parent = parent
        self.kind = kind
        self.children: dict[Any, Edge] = {}
        self.op: Op | None = None
        self.attrs: tuple[Any, ...] = ()
        self.operands: tuple[Operand, ...] = ()
        self.outs: tuple[TensorType, ...] = ()
        self.out: TensorType | None = None  # the only result, where nothing more is to be done
        self.keeps: tuple[bool, ...] = ()  # which operands a gradient node saves
        self.first = next
        self.next = next
        self.programs: dict[Any, Any] | None = None
        self.memos: dict[Any, Any] | None = None
        self.where: str = ""
        self.label: str = ""
        # those that vary in this part of the path (trace/varying.py)
        self.sizes: frozenset[int] = varying.NONE
        self.ends: set[Any] | None = None  # steps before which the program ends here

    @property
    def saves(self) -> bool:
        """Whether a gradient node of this step saves anything that its rule reads."""
        op = self.op
        return op is not None and (op.is_once or op.uses_out or any(self.keeps))

    @property
    def is_source(self) -> bool:
        """Whether nothing but numbers went into this step."""
        return all(operand.type.weak for operand in self.operands)

    def path(self) -> list[Edge]:
        """All edges from the root (left out) to this one."""
        edges = []
        edge: Edge | None = self
        while edge is not None and edge.parent is not None:
            edges.append(edge)
            edge = edge.parent
        edges.reverse()
        return edges
