"""References: what lowerings hold. Real ones read a node through a view; a complex one is two
of them.

Note: complex numbers. The graph has none. A complex tensor in memory is a real node with a last
dimension of 2; a lowering holds it as the planes of its real and imaginary parts, which are
views of that node with a stride of 2, or nodes of their own where they were calculated. So
whatever fuses, reduces or multiplies real numbers does it for complex ones too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rushlight.dtypes import dtype
from rushlight.ir.node import Arg, Node, view_of
from rushlight.views import Shape, View

if TYPE_CHECKING:
    from rushlight.ir.builder import Builder


class Ref:
    """A node read through a view; what lowerings hold. Operators work elementwise, with
    NumPy broadcasting, on operands of one dtype (Python numbers take the other's dtype).
    """

    __slots__ = ("k", "node", "view", "weak")

    def __init__(
        self, k: Builder, node: Node, view: View | None = None, weak: bool = False
    ) -> None:
        self.k = k
        self.node = node
        self.view = view
        self.weak = weak  # a Python number: takes the dtype of what it meets

    @property
    def shape(self) -> Shape:
        return self.node.shape if self.view is None else self.view.shape

    @property
    def dtype(self) -> dtype:
        return self.node.dtype

    @property
    def arg(self) -> Arg:
        return (self.node, self.view)

    def weakened(self, weak: bool) -> Ref:
        """The same elements as those of a Python number, or of a tensor."""
        return Ref(self.k, self.node, self.view, weak)

    def __add__(self, other: Operand) -> Ref:
        return self.k.map("add", self, other)

    def __radd__(self, other: Operand) -> Ref:
        return self.k.map("add", other, self)

    def __sub__(self, other: Operand) -> Ref:
        return self.k.map("sub", self, other)

    def __rsub__(self, other: Operand) -> Ref:
        return self.k.map("sub", other, self)

    def __mul__(self, other: Operand) -> Ref:
        return self.k.map("mul", self, other)

    def __rmul__(self, other: Operand) -> Ref:
        return self.k.map("mul", other, self)

    def __truediv__(self, other: Operand) -> Ref:
        return self.k.map("div", self, other)

    def __rtruediv__(self, other: Operand) -> Ref:
        return self.k.map("div", other, self)

    def __neg__(self) -> Ref:
        return self.k.map("neg", self)

    def __and__(self, other: Operand) -> Ref:
        return self.k.map("and", self, other)

    def __or__(self, other: Operand) -> Ref:
        return self.k.map("or", self, other)

    def __xor__(self, other: Operand) -> Ref:
        return self.k.map("xor", self, other)

    def __invert__(self) -> Ref:
        return self.k.map("not", self)

    def __lt__(self, other: Operand) -> Ref:
        return self.k.map("lt", self, other)

    def __le__(self, other: Operand) -> Ref:
        return self.k.map("le", self, other)

    def __gt__(self, other: Operand) -> Ref:
        return self.k.map("gt", self, other)

    def __ge__(self, other: Operand) -> Ref:
        return self.k.map("ge", self, other)

    def equals(self, other: Operand) -> Ref:
        return self.k.map("eq", self, other)

    def differs(self, other: Operand) -> Ref:
        return self.k.map("ne", self, other)


class Pair(Ref):
    """A complex operand as the planes of its real and imaginary parts."""

    __slots__ = ("im", "re")

    def __init__(self, re: Ref, im: Ref, weak: bool = False) -> None:
        assert re.shape == im.shape and re.dtype is im.dtype, (re.shape, im.shape)
        self.k = re.k
        self.re = re
        self.im = im
        self.weak = weak

    @property
    def shape(self) -> Shape:
        return self.re.shape

    @property
    def dtype(self) -> dtype:
        return self.re.dtype.to_complex()

    def weakened(self, weak: bool) -> Pair:
        return Pair(self.re, self.im, weak)

    def each(self, change: Callable[[Ref], Ref]) -> Pair:
        """The same done to both planes."""
        return Pair(change(self.re), change(self.im), self.weak)

    def in_memory(self) -> tuple[Node, View] | None:
        """The node that holds both parts in turn, and the view of its complex numbers; None if
        there is no such node.
        """
        if type(self.re) is not Ref or self.re.node is not self.im.node:
            return None  # of different nodes, or samples of a batch
        re, im = view_of(self.re.arg), view_of(self.im.arg)
        is_paired = re.strides == im.strides and re.offset + 1 == im.offset
        if not is_paired or any(n % 2 for n in (re.offset, *re.strides)):
            return None
        view = View(re.shape, tuple(s // 2 for s in re.strides), re.offset // 2)
        return self.re.node, view


Operand = Ref | int | float | bool | complex


def part_view(view: View, part: int) -> View:
    """A view of complex numbers as that of their real (0) or imaginary (1) parts in memory."""
    return View(view.shape, tuple(2 * s for s in view.strides), 2 * view.offset + part)
