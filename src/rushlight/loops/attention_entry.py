"""What the entry functions of both attention kernels share: their arguments, and calls on
operands and tiles.
"""

from __future__ import annotations

from rushlight.loops.attention_masks import (
    ADD_MASK,
    BLOCK_LATER,
    emit_add_mask,
    emit_block_later,
)
from rushlight.loops.entry import Entry
from rushlight.loops.tiles import READ_LANED, READ_NATURAL
from rushlight.loops.writer import LANES, STORAGE, arithmetic_of

KEY_TILE = 64  # keys that share one step of the softmax: part of the result, never tuned
AXES = ("b", "h", "t", "d")


def strides_of(*operands: str) -> tuple[str, ...]:
    """The names of the stride arguments of these operands."""
    return tuple(f"{operand}_{axis}" for operand in operands for axis in AXES)


class AttentionEntry(Entry):
    """The entry of an attention kernel.

    Operands are named as in the arguments: `q` is an address, `q_t` its stride along t. `k` has
    the sizes `width` and `wide` (whole vectors), and so have the others that are not named in
    `VALUES`.
    """

    VALUES = frozenset({"v", "out", "dout", "dv"})

    def __init__(
        self,
        name: str,
        dtype: str,
        *,
        causal: bool,
        mask: str | None,
        pointers: tuple[str, ...],
        ints: tuple[str, ...],
        scratch: tuple[str, ...],
    ) -> None:
        arguments: dict[str, tuple[str, ...]]
        arguments = {"pointers": pointers, "ints": ints, "scratch": scratch}
        super().__init__(name, arithmetic_of(dtype), **arguments)
        self.dtype, self.causal, self.mask = dtype, causal, mask
        self.scale = self._number(self.v["scale"])

    def _number(self, bits: str) -> str:
        """A number that travels as the bits of a float64, in the arithmetic type."""
        number, scalar = self.w.let(f"bitcast i64 {bits} to double"), self.w.arithmetic.scalar
        if scalar == "double":
            return number
        return self.w.let(f"fptrunc double {number} to {scalar}")

    def size_names(self, operand: str) -> tuple[str, str]:
        """The names of an operand's number of features, and of that in whole vectors."""
        return ("value_width", "value_wide") if operand in self.VALUES else ("width", "wide")

    def place(self, operand: str, batch: str, head: str, position: str) -> str:
        """The address of a row of an operand."""
        w, v = self.w, self.v
        offset = w.dot(
            (batch, v[f"{operand}_b"]), (head, v[f"{operand}_h"]), (position, v[f"{operand}_t"])
        )
        return w.at(v[operand], offset, STORAGE[self.dtype])

    def strided(self, operand: str, rows: str) -> dict[str, str]:
        """The strides and sizes of some rows of an operand, as routines name them."""
        width, _ = self.size_names(operand)
        return {
            "row": self.v[f"{operand}_t"],
            "col": self.v[f"{operand}_d"],
            "rows": rows,
            "cols": self.v[width],
        }

    def read_natural(
        self,
        operand: str,
        source: str,
        rows: str,
        tile: str,
        padded: str | int,
        scale: str = "1.0",
    ) -> None:
        """Copy rows to a tile with a row for each position, zeros up to `padded` rows."""
        self.call(
            "rows",
            READ_NATURAL,
            source=source,
            tile=tile,
            width=self.v[self.size_names(operand)[1]],
            padded=padded,
            scale=scale,
            **self.strided(operand, rows),
        )

    def read_laned(
        self, operand: str, source: str, rows: str, tile: str, lanes: int, scale: str = "1.0"
    ) -> None:
        """Copy rows to a tile with a lane for each position."""
        strided = self.strided(operand, rows)
        self.call(
            "laned", READ_LANED, source=source, tile=tile, lanes=lanes, scale=scale, **strided
        )

    def block(
        self, batch: str, head: str, query: str, key: str, rows: str, count: str, lanes: int
    ) -> None:
        """Add the mask to the tile `scores`, and block the keys after each query if there are
        any.
        """
        w, v, scores = self.w, self.v, self.tile["scores"]
        if self.mask:
            corner = w.dot(
                (batch, v["mask_b"]),
                (head, v["mask_h"]),
                (query, v["mask_t"]),
                (key, v["mask_d"]),
            )
            self.call(
                "mask",
                ADD_MASK,
                source=w.at(v["mask"], corner, STORAGE[self.mask]),
                row=v["mask_t"],
                col=v["mask_d"],
                rows=rows,
                cols=count,
                tile=scores,
                lanes=lanes,
            )
        if self.causal:
            with w.when(w.test("sgt", w.add(key, count), w.add(query, 1))):
                self.call(
                    "later",
                    BLOCK_LATER,
                    tile=scores,
                    lanes=lanes,
                    keys=count,
                    query=query,
                    key=key,
                )

    @property
    def may_block(self) -> bool:
        """Whether some pairs of queries and keys take no part."""
        return self.causal or self.mask is not None

    def is_broken(self, part: str, size: str) -> str:
        """Whether a part of scratch (a whole number of vectors) holds inf or nan.

        Note: blocked numbers. The weight of a blocked pair is 0, which times inf or nan is nan.
        To choose at every element would be slow; so products are made the quick way, and only
        if something in the result is not finite, made again by choosing.
        """
        w = self.w
        nothing = [(w.arithmetic.vector, "zeroinitializer")]
        with w.loop(size, step=LANES, carried=nothing) as place:
            value = w.load(w.at(self.tile[part], place.index))
            place.next.append(w.fma(value, "zeroinitializer", place.values[0]))
        total = w.sum_in_halves(place.values[0])
        return w.let(f"fcmp uno {w.arithmetic.scalar} {total}, {total}")

    def blocking_functions(self) -> list[str]:
        """The texts of the functions that `block` calls."""
        arithmetic, texts = self.w.arithmetic, []
        if self.mask:
            texts.append(emit_add_mask(f"{self.name}_mask", arithmetic, self.mask))
        if self.causal:
            texts.append(emit_block_later(f"{self.name}_later", arithmetic))
        return texts
