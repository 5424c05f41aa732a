"""The body of one kernel function under construction: loops, branches and cells that LLVM turns
into registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rushlight.loops.text import Text


class Body:
    """Text with structured control flow. Counters live in allocas, which `sroa` removes."""

    def __init__(self) -> None:
        self.text = Text()
        self.allocas: list[str] = []
        self.labels = 0
        self.slots = 0

    def pointer(self) -> str:
        """The next argument, a pointer."""
        self.slots += 1
        return self.text.slot(self.slots - 1, "ptr")

    def numbers(self, count: int) -> list[str]:
        """The next arguments, integers."""
        first = self.slots
        self.slots += count
        return [self.text.slot(first + i) for i in range(count)]

    def number(self) -> str:
        return self.numbers(1)[0]

    def cell(self, kind: str, initial: str) -> str:
        """A variable of this LLVM type."""
        name = f"%a{len(self.allocas)}"
        self.allocas.append(f"  {name} = alloca {kind}, align 64")
        self.text.line(f"store {kind} {initial}, ptr {name}")
        return name

    def _label(self) -> str:
        self.labels += 1
        return f"l{self.labels}"

    @contextmanager
    def loop(self, start: str, stop: str, step: str = "1") -> Iterator[str]:
        """`for i in range(start, stop, step)`; yields the counter."""
        text = self.text
        counter = self.cell("i64", start)
        head, body, done = self._label(), self._label(), self._label()
        text.line(f"br label %{head}")
        text.label(head)
        i = text.let(f"load i64, ptr {counter}")
        go = text.let(f"icmp slt i64 {i}, {stop}")
        text.line(f"br i1 {go}, label %{body}, label %{done}")
        text.label(body)
        yield i
        text.line(f"store i64 {text.let(f'add i64 {i}, {step}')}, ptr {counter}")
        text.line(f"br label %{head}")
        text.label(done)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        text = self.text
        body, done = self._label(), self._label()
        text.line(f"br i1 {condition}, label %{body}, label %{done}")
        text.label(body)
        yield
        text.line(f"br label %{done}")
        text.label(done)

    @contextmanager
    def nested(
        self, sizes: Sequence[str], starts: Sequence[str], strides: Sequence[Sequence[str]]
    ) -> Iterator[list[str]]:
        """Loops over all of `sizes`, outermost first; yields the offset of each access, whose
        strides along the loops are `strides[access]`.
        """
        with ExitStack() as stack:
            offsets = list(starts)
            for d, size in enumerate(sizes):
                i = stack.enter_context(self.loop("0", size))
                offsets = [self.step(o, i, s[d]) for o, s in zip(offsets, strides, strict=True)]
            yield offsets

    def step(self, offset: str, index: str, stride: str) -> str:
        """offset + index * stride"""
        part = self.text.let(f"mul i64 {index}, {stride}")
        return self.text.let(f"add i64 {offset}, {part}")

    def located(
        self, index: str, sizes: Sequence[str], strides: Sequence[Sequence[str]]
    ) -> list[str]:
        """The offset of each access at a linear index over `sizes`."""
        text = self.text
        offsets = ["0"] * len(strides)
        left = index
        for d in reversed(range(len(sizes))):
            at = left
            if d:
                at = text.let(f"urem i64 {left}, {sizes[d]}")
                left = text.let(f"udiv i64 {left}, {sizes[d]}")
            offsets = [self.step(o, at, s[d]) for o, s in zip(offsets, strides, strict=True)]
        return offsets

    def function(self, name: str) -> str:
        head = (
            f"define void @{name}(ptr %args, i64 %begin, i64 %end, ptr %scratch) {{\nentry:\n"
        )
        lines = [*self.allocas, *self.text.lines, "  ret void", "}"]
        return head + "\n".join(lines) + "\n"
