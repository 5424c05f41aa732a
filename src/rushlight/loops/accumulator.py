"""The running value of one reduction inside a kernel: chains of 16 lanes, combined in a fixed
order.
"""

from __future__ import annotations

from typing import Any  # identities of any dtype

from rushlight import dtypes as dt
from rushlight.dtypes import dtype
from rushlight.loops import expressions as ex
from rushlight.loops.body import Body
from rushlight.loops.group import Step
from rushlight.loops.text import IOTA


def sum_dtype(kind: str, operand: dtype) -> dtype:
    """What a reduction is kept in: float64 for float sums and products."""
    if kind in ("sum", "prod") and operand.is_floating_point:
        return dt.float64
    return operand


def identity(kind: str, work: dtype) -> Any:
    if kind in ("sum", "prod"):
        return 0 if kind == "sum" else 1
    if kind in ("any", "all"):
        return kind == "all"
    low = kind in ("max", "argmax")
    if work.is_floating_point:
        return float("-inf") if low else float("inf")
    if work is dt.bool_:
        return not low
    bits = work.itemsize * 8
    if work.is_unsigned:
        return 0 if low else 2**bits - 1
    return -(2 ** (bits - 1)) if low else 2 ** (bits - 1) - 1


class Accumulator:
    """The running lanes of one reduction (and their positions, for arg forms).

    The `chains` take in vectors in turns and run beside each other: in one of them, each
    addition waits for the last.
    """

    def __init__(self, body: Body, step: Step, *, down_columns: bool, chains: int = 1) -> None:
        self.down_columns = down_columns
        self.text = body.text
        self.kind: str = step.root.home.attrs[0]
        self.operand = step.expression.node.dtype
        self.out = step.root.home.dtype
        self.work = sum_dtype(self.kind, self.operand)
        self.is_arg = self.kind.startswith("arg")
        start = ex.literal(identity(self.kind, self.work), self.work)
        self.cells = [body.cell(ex.vector(self.work), start) for _ in range(chains)]
        nowhere = f"splat (i64 {-1})"
        self.places = [body.cell("<16 x i64>", nowhere) for _ in range(chains * self.is_arg)]

    def _load(self, chain: int = 0) -> str:
        return self.text.let(f"load {ex.vector(self.work)}, ptr {self.cells[chain]}")

    def _store(self, value: str, chain: int = 0) -> None:
        self.text.line(f"store {ex.vector(self.work)} {value}, ptr {self.cells[chain]}")

    def _load_places(self, chain: int = 0) -> str:
        return self.text.let(f"load <16 x i64>, ptr {self.places[chain]}")

    def add(self, value: str, mask: str | None, at: str, chain: int = 0) -> None:
        """Take in 16 values; `at` is the position of the first (or of all, down columns)."""
        text = self.text
        value = ex.cast(text, value, self.operand, self.work)
        if self.is_arg:
            self._add_place(value, mask, at, chain)
            return
        if mask is not None:
            same = ex.literal(identity(self.kind, self.work), self.work)
            value = ex.select(text, self.work, mask, value, same)
        self._store(self._merge(self._load(chain), value), chain)

    def _merge(self, a: str, b: str) -> str:
        name = {
            "sum": "add",
            "prod": "mul",
            "max": "max",
            "min": "min",
            "any": "or",
            "all": "and",
        }
        return ex.emit(self.text, name[self.kind], self.work, [a, b])

    def _add_place(self, value: str, mask: str | None, at: str, chain: int) -> None:
        text = self.text
        index = text.splat("i64", at)
        if not self.down_columns:
            index = text.let(f"add <16 x i64> {index}, {IOTA}")
        best, place = self._load(chain), self._load_places(chain)
        wins = self._beats(value, best, index, place)
        if mask is not None:
            wins = text.let(f"and <16 x i1> {wins}, {mask}")
        self._take(wins, value, index, best, place, chain)

    def _take(
        self, wins: str, value: str, index: str, best: str, place: str, chain: int = 0
    ) -> None:
        text = self.text
        self._store(ex.select(text, self.work, wins, value, best), chain)
        kept = ex.select(text, dt.int64, wins, index, place)
        text.line(f"store <16 x i64> {kept}, ptr {self.places[chain]}")

    def _beats(self, value: str, best: str, index: str, place: str) -> str:
        """Where a candidate replaces the best so far: nothing yet, better, first NaN, or as
        good but earlier.
        """
        text, v = self.text, ex.vector(self.work)
        test = "gt" if self.kind == "argmax" else "lt"
        better = ex.emit(text, test, self.work, [value, best])
        empty = text.let(f"icmp slt <16 x i64> {place}, zeroinitializer")
        full = text.let(f"icmp sge <16 x i64> {index}, zeroinitializer")
        same = ex.emit(text, "eq", self.work, [value, best])
        if self.work.is_floating_point:
            is_nan = text.let(f"fcmp uno {v} {value}, zeroinitializer")
            best_nan = text.let(f"fcmp uno {v} {best}, zeroinitializer")
            not_best = text.let(f"xor <16 x i1> {best_nan}, {ex.SPLAT_TRUE}")
            first_nan = text.let(f"and <16 x i1> {is_nan}, {not_best}")
            better = text.let(f"or <16 x i1> {better}, {first_nan}")
            both = text.let(f"and <16 x i1> {is_nan}, {best_nan}")
            same = text.let(f"or <16 x i1> {same}, {both}")
        earlier = text.let(f"icmp slt <16 x i64> {index}, {place}")
        tie = text.let(f"and <16 x i1> {same}, {earlier}")
        wins = text.let(f"or <16 x i1> {text.let(f'or <16 x i1> {better}, {tie}')}, {empty}")
        return text.let(f"and <16 x i1> {wins}, {full}")

    def _fold(self) -> None:
        """Combine the chains, then the lanes by halves; every lane ends with the same value."""
        text, v = self.text, ex.vector(self.work)
        for chain in range(1, len(self.cells)):
            self._combine(self._load(chain), self._load_places(chain) if self.is_arg else "")
        for half in (8, 4, 2, 1):
            order = ", ".join(f"i32 {lane ^ half}" for lane in range(16))
            value, moved = self._load(), ""
            other = text.let(f"shufflevector {v} {value}, {v} poison, <16 x i32> <{order}>")
            if self.is_arg:
                place = self._load_places()
                moved = text.let(
                    f"shufflevector <16 x i64> {place}, <16 x i64> poison, <16 x i32> <{order}>"
                )
            self._combine(other, moved)

    def _combine(self, other: str, moved: str) -> None:
        """Take other lanes (at the places `moved`) into those of the first chain."""
        value = self._load()
        if self.is_arg:
            place = self._load_places()
            self._take(self._beats(other, value, moved, place), other, moved, value, place)
        else:
            self._store(self._merge(value, other))

    def combined(self) -> str:
        """The reduction of all lanes, in every lane."""
        self._fold()
        return self.result()

    def result(self) -> str:
        """The lanes as they are, in the result's dtype."""
        if self.is_arg:
            return self._load_places()
        return ex.cast(self.text, self._load(), self.work, self.out)

    def save(self, place: str) -> None:
        """Combine the lanes and keep the value (and position) in a 16-byte cell."""
        self._fold()
        text = self.text
        stored = "i8" if self.work is dt.bool_ else ex.element(self.work)
        value = ex.to_memory(text, self.work, self._load())
        one = text.let(f"extractelement <16 x {stored}> {value}, i32 0")
        text.line(f"store {stored} {one}, ptr {place}, align 8")
        if self.is_arg:
            where = self._load_places()
            index = text.let(f"extractelement <16 x i64> {where}, i32 0")
            text.line(f"store i64 {index}, ptr {text.place('i64', place, '1')}, align 8")

    def add_saved(self, place: str) -> None:
        """Take in a kept value."""
        text = self.text
        kind = dt.float32 if self.work in (dt.float16, dt.bfloat16) else self.work
        value = ex.load_one(text, kind, place)
        if self.is_arg:
            index = ex.load_one(text, dt.int64, text.place("i64", place, "1"))
            best, where = self._load(), self._load_places()
            self._take(self._beats(value, best, index, where), value, index, best, where)
            return
        self._store(self._merge(self._load(), value))
