"""Entry functions of kernels made of routines: their arguments, and launches of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rushlight.loops.kernel import BufferRef, KernelSource, Launch
from rushlight.loops.writer import Arithmetic, Routine, Writer


@dataclass(frozen=True, slots=True)
class Strided:
    """An operand in memory: where it starts and its strides in elements; 0 repeats."""

    place: BufferRef
    strides: tuple[int, ...]


class Entry:
    """An entry function being written: `v` has the address or value of every argument by name,
    `tile` the address of every scratch array.
    """

    def __init__(
        self,
        name: str,
        arithmetic: Arithmetic,
        *,
        pointers: tuple[str, ...],
        ints: tuple[str, ...],
        scratch: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.w = w = Writer(arithmetic)
        self.v: dict[str, str] = {}
        for slot, argument in enumerate(pointers + ints):
            kind = "ptr" if slot < len(pointers) else "i64"
            place = w.at("%args", str(slot), "i64")
            self.v[argument] = w.let(f"load {kind}, ptr {place}, align 8")
        self.tile = {part: w.at("%scratch", self.v[part]) for part in scratch}

    def finished(self) -> str:
        """The text of the entry."""
        return self.w.function(
            f"define void @{self.name}(ptr %args, i64 %begin, i64 %end, ptr %scratch)"
        )

    def call(self, part: str, routine: Routine, **values: str | int) -> None:
        """Call one of the kernel's own functions."""
        self.w.call(f"{self.name}_{part}", routine, **values)


def launch_of(
    source: KernelSource,
    chunks: int,
    places: Mapping[str, BufferRef],
    values: Mapping[str, int],
    *,
    pointers: tuple[str, ...],
    ints: tuple[str, ...],
    sizes: Mapping[str, int],
    arithmetic: Arithmetic,
) -> Launch:
    """Lay out scratch arrays of these sizes and put the arguments in the kernel's order."""
    known, offset = dict(values), 0
    for part, size in sizes.items():
        known[part] = offset
        offset += size
    return Launch(
        source=source,
        chunks=chunks,
        pointers=tuple(places[name] for name in pointers),
        ints=tuple(known[name] for name in ints),
        scratch=offset * arithmetic.size,
    )


def round_up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
