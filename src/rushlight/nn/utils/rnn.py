"""Sequences of different lengths in one batch: padded to the longest, or packed densely."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.tensor import Tensor


class _PackedFields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_PackedFields):
    """The elements of several sequences, step by step, longest sequence first.

    `batch_sizes` says how many sequences reach each step; `sorted_indices` is the order in
    which the sequences were taken, `unsorted_indices` the way back.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if batch_sizes is None:
            raise ValueError("batch_sizes is required")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never "
                "be created manually."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences with data converted as by `Tensor.to`."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        moved = [
            None if t is None else t.to(data.device, **kwargs)
            for t in (self.sorted_indices, self.unsorted_indices)
        ]
        return type(self)(data, self.batch_sizes, *moved)

    def cpu(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self.to(self.data.cuda(*args, **kwargs).device)

    def pin_memory(self) -> PackedSequence:
        """The same sequences with each tensor as `Tensor.pin_memory` gives it."""
        orders = (self.sorted_indices, self.unsorted_indices)
        pinned = [None if t is None else t.pin_memory() for t in orders]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *pinned)

    def double(self) -> PackedSequence:
        return self.to(dtype=rl.double)

    def float(self) -> PackedSequence:
        return self.to(dtype=rl.float)

    def half(self) -> PackedSequence:
        return self.to(dtype=rl.half)

    def long(self) -> PackedSequence:
        return self.to(dtype=rl.long)

    def int(self) -> PackedSequence:
        return self.to(dtype=rl.int)

    def short(self) -> PackedSequence:
        return self.to(dtype=rl.short)

    def char(self) -> PackedSequence:
        return self.to(dtype=rl.int8)

    def byte(self) -> PackedSequence:
        return self.to(dtype=rl.uint8)

    @property
    def is_cuda(self) -> bool:
        return self.data.device.type == "cuda"

    def is_pinned(self) -> bool:
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes another."""
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Drop the padding of a batch: (T, B, ...), or (B, T, ...) with `batch_first`."""
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else [int(n) for n in lengths]
    if not sizes or min(sizes) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in "
            "'lengths' that is <= 0"
        )
    order = None
    if not enforce_sorted:
        places = sorted(range(len(sizes)), key=lambda i: -sizes[i])
        order = rl.tensor(places, dtype=rl.int64, device=input.device)
        sizes = [sizes[i] for i in places]
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    _check_lengths(input, sizes)
    batch_sizes = _batch_sizes(sizes)
    batch = input.size(1)
    rows = input.reshape(input.size(0) * batch, *input.shape[2:])
    taken = [t * batch + b for t, count in enumerate(batch_sizes) for b in range(count)]
    data = rows.index_select(0, rl.tensor(taken, dtype=rl.int64, device=input.device))
    return PackedSequence(data, rl.tensor(batch_sizes, dtype=rl.int64), order, None)


def _check_lengths(input: Tensor, sizes: list[int]) -> None:
    if len(sizes) != input.size(1):
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(sizes)} "
            f"(batch_size={input.size(1)})"
        )
    if sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. "
            "You can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence "
            "to sidestep this requirement if you do not need ONNX exportability."
        )
    if sizes[0] > input.size(0):
        raise RuntimeError(
            f"Expected lengths to be at most {input.size(0)}, the length of the padded "
            f"sequences, but the longest is {sizes[0]}"
        )


def _batch_sizes(lengths: list[int]) -> list[int]:
    """How many of the sequences, longest first, reach each step."""
    return [sum(length > t for length in lengths) for t in range(lengths[0])]


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded batch of a packed one, and the lengths of its sequences."""
    data, sizes = sequence.data, sequence.batch_sizes.tolist()
    steps = len(sizes) if total_length is None else total_length
    if steps < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    batch = sizes[0]
    padding = data.new_full((1, *data.shape[1:]), padding_value)
    places, start = [], 0
    for count in [*sizes, *[0] * (steps - len(sizes))]:
        places += [start + b if b < count else data.size(0) for b in range(batch)]
        start += count
    index = rl.tensor(places, dtype=rl.int64, device=data.device)
    padded = rl.cat((data, padding), 0).index_select(0, index)
    padded = padded.view(steps, batch, *data.shape[1:])
    lengths = rl.tensor([sum(count > b for count in sizes) for b in range(batch)])
    if batch_first:
        padded = padded.transpose(0, 1)
    back = sequence.unsorted_indices
    if back is not None:
        padded = padded.index_select(0 if batch_first else 1, back)
        lengths = lengths[back.cpu()]
    return padded, lengths


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences of different lengths stacked, the shorter ones padded."""
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"Expected padding_side to be one of left or right, but got {padding_side}."
        )
    items = list(sequences.unbind(0) if isinstance(sequences, Tensor) else sequences)
    if not items:
        raise RuntimeError("received an empty list of sequences")
    longest = max(item.size(0) for item in items)
    rows = [_padded(item, longest, padding_value, padding_side) for item in items]
    return rl.stack(rows, 0 if batch_first else 1)


def _padded(item: Tensor, length: int, value: float, side: str) -> Tensor:
    missing = length - item.size(0)
    if missing == 0:
        return item
    padding = item.new_full((missing, *item.shape[1:]), value)
    return rl.cat((item, padding) if side == "right" else (padding, item), 0)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """The sequences of a padded batch, each at its own length."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    sizes = lengths.tolist()
    return [row[:size] for row, size in zip(padded_sequences, sizes, strict=False)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences of different lengths, packed."""
    lengths = rl.as_tensor([sequence.size(0) for sequence in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed batch."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
