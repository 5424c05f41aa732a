"""Which blocks of queries and keys meet in attention, as PyTorch's `BlockMask` lists them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import rushlight as rl
from rushlight.tensor import Tensor

Mod = Callable[..., Any]
_INDICES = ("batch", "head", "query", "key")
_LISTS = (
    "kv_num_blocks", "kv_indices", "full_kv_num_blocks", "full_kv_indices", "q_num_blocks",
    "q_indices", "full_q_num_blocks", "full_q_indices",
)  # fmt: skip


def at_every_place(function: Mod, sizes: tuple[int, ...], *scores: Tensor) -> Tensor:
    """`function(*scores, b, h, q, k)` of single elements and indices, for all of them.

    sizes: of batches, heads, queries and keys, which the result has.
    """
    levels = len(sizes)
    for level in reversed(range(levels)):
        dims = [0] * len(scores) + [0 if i == level else None for i in range(levels)]
        function = rl.func.vmap(function, in_dims=tuple(dims), randomness="different")
    return function(*scores, *(rl.arange(size) for size in sizes))


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """The mask under which all pairs meet."""
    return batch.new_ones((), dtype=rl.bool)


def and_masks(*mask_mods: Mod) -> Mod:
    """The mask under which pairs meet that meet under all of these."""
    _check_callable("and_masks", mask_mods)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = (m(b, h, q, k) for m in mask_mods)
        return functools.reduce(lambda x, y: x & y, found, noop_mask(b, h, q, k))

    return mask


def or_masks(*mask_mods: Mod) -> Mod:
    """The mask under which pairs meet that meet under one of these."""
    _check_callable("or_masks", mask_mods)

    def mask(b: Any, h: Any, q: Any, k: Any) -> Any:
        found = (m(b, h, q, k) for m in mask_mods)
        return functools.reduce(lambda x, y: x | y, found, ~noop_mask(b, h, q, k))

    return mask


def _check_callable(name: str, mods: tuple[Mod, ...]) -> None:
    if not all(map(callable, mods)):
        raise RuntimeError(f"{name}: all inputs should be callable mask_mods: {mods}")


def create_mask(
    mod_fn: Mod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int, device: Any = None
) -> Tensor:
    """A mask as a boolean tensor (B, H, Q_LEN, KV_LEN), or what a score_mod of four further
    indices makes of zero scores, as numbers.
    """
    sizes = (1 if B is None else B, 1 if H is None else H, Q_LEN, KV_LEN)
    if _is_score_mod(mod_fn):
        return at_every_place(mod_fn, sizes, rl.zeros(sizes))
    return at_every_place(mod_fn, sizes).expand(sizes)


def _is_score_mod(function: Mod) -> bool:
    code = getattr(function, "__code__", None)
    return code is not None and code.co_argcount - len(function.__defaults__ or ()) == 5


def create_block_mask(
    mask_mod: Mod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    **orders: bool,
) -> BlockMask:
    """The blocks in which pairs meet: those where mask_mod(b, h, q, k) holds somewhere.

    mask_mod takes single indices and is mapped over all. B, H: None where it does not
    depend on them. separate_full_blocks: list the blocks where it holds everywhere apart.
    orders, _compile: about kernels of a GPU; they change nothing.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 4, 4, BLOCK_SIZE=2)
    >>> mask.to_dense().tolist()
    [[[[1, 0], [1, 1]]]]
    """
    size = _pair(BLOCK_SIZE)
    dense = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    some, whole = _blocks(dense, size)
    partial = some & ~whole if separate_full_blocks else some
    kv = _ordered(partial)
    full = _ordered(whole) if separate_full_blocks else (None, None)
    made = BlockMask.from_kv_blocks(*kv, *full, size, mask_mod, (Q_LEN, KV_LEN))
    made.is_whole = True
    return made


def _pair(size: int | tuple[int, int]) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _blocks(dense: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """In which blocks of a mask some pairs meet, and in which all; the mask is padded."""
    rows, columns = size
    below, beside = -dense.shape[-2] % rows, -dense.shape[-1] % columns
    padded = rl.nn.functional.pad(dense, (0, beside, 0, below), value=False)
    lead = dense.shape[:-2]
    tiles = padded.reshape(*lead, -1, rows, padded.shape[-1] // columns, columns)
    return tiles.any(-1).any(-2), tiles.all(-1).all(-2)


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """For each row of blocks how many there are, and their columns before all others."""
    numbers = blocks.to(rl.int32)
    order = rl.argsort(numbers, dim=-1, descending=True, stable=True)
    return numbers.sum(-1).to(rl.int32), order.to(rl.int32)


def _unordered(counts: Tensor | None, indices: Tensor | None, columns: int) -> Tensor | None:
    """The inverse of `_ordered`, for this number of columns: int32 ones and zeros."""
    if counts is None or indices is None:
        return None
    places = rl.arange(indices.shape[-1])
    listed = places < counts.unsqueeze(-1)
    wanted = rl.where(listed, indices.long(), columns)
    spare = rl.zeros((*indices.shape[:-1], columns + 1), dtype=rl.int32)
    return spare.scatter(-1, wanted, 1)[..., :columns]


class BlockMask:
    """Blocks of attention, listed for each block of queries: partial ones, to which
    `mask_mod` applies, and full ones, to which it does not.

    Of a mask made by hand the blocks that are not listed do not take part, whatever
    `mask_mod` says.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (128, 128),
        mask_mod: Mod = noop_mask,
        **orders: Any,
    ) -> None:
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self.is_whole = False  # whether the blocks say no more than mask_mod does

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = 128,
        mask_mod: Mod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        **orders: Any,
    ) -> BlockMask:
        """A mask from its blocks of keys for each block of queries.

        kv_num_blocks, (B, H, rows): how many of kv_indices, (B, H, rows, columns), count.
        full_*: the same of blocks to which mask_mod does not apply.
        """
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices come together")
        size = _pair(BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        by_query: list[Tensor | None] = []
        for counts, indices in (
            (kv_num_blocks, kv_indices), (full_kv_num_blocks, full_kv_indices),
        ):  # fmt: skip
            dense = _unordered(counts, indices, columns) if compute_q_blocks else None
            by_query += (None, None) if dense is None else _ordered(dense.transpose(-2, -1))
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        kv = (kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices)
        return cls(lengths, *kv, *by_query, size, mask_mod or noop_mask)

    @property
    def shape(self) -> tuple[int, ...]:
        """(batches, heads, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """The number of pairs."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    def to_dense(self) -> Tensor:
        """1 for each block that takes part: int32, (B, H, rows, columns)."""
        some, whole = self._partial(), self._full()
        return some if whole is None else (some | whole)

    def _partial(self) -> Tensor:
        found = _unordered(self.kv_num_blocks, self.kv_indices, self.kv_indices.shape[-1])
        assert found is not None
        return found

    def _full(self) -> Tensor | None:
        columns = self.kv_indices.shape[-1]
        return _unordered(self.full_kv_num_blocks, self.full_kv_indices, columns)

    def sparsity(self) -> float:
        """How many of a hundred pairs are in no block that takes part."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        computed = blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1]
        return 100 * (1 - computed / self.numel())

    def pairs(self, batches: int, heads: int) -> Tensor:
        """Whether each query and key meet: bool, (batches, heads, queries, keys)."""
        queries, keys = self.seq_lengths
        sizes = (
            1 if self.shape[0] == 1 and self.is_whole else batches,
            1 if self.shape[1] == 1 and self.is_whole else heads,
        )
        met = at_every_place(self.mask_mod, (*sizes, queries, keys))
        if self.is_whole:
            return met
        whole = self._full()
        met = met & self._spread(self._partial())
        return met if whole is None else met | self._spread(whole)

    def _spread(self, blocks: Tensor) -> Tensor:
        rows, columns = self.BLOCK_SIZE
        spread = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1).bool()
        return spread[..., : self.seq_lengths[0], : self.seq_lengths[1]]

    def _with(self, lists: list[Tensor | None], lengths: tuple[int, int]) -> BlockMask:
        made = BlockMask(lengths, *lists, self.BLOCK_SIZE, self.mask_mod)
        made.is_whole = self.is_whole
        return made

    def _lists(self) -> list[Tensor | None]:
        return [getattr(self, name) for name in _LISTS]

    def to(self, device: Any) -> BlockMask:
        """The mask on a device."""
        return self._with(
            [None if x is None else x.to(device) for x in self._lists()], self.seq_lengths
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """The mask of some batches, heads and blocks of queries.

        Its mask_mod stays that of the whole: it is for what follows the same positions.
        """
        wanted = index if isinstance(index, tuple) else (index,)
        wanted = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in wanted)
        kv = [None if x is None else x[wanted] for x in self._lists()[:4]]
        rows = kv[0].shape[-1]  # type: ignore[union-attr]
        queries = min(self.seq_lengths[0], rows * self.BLOCK_SIZE[0])
        lengths = (queries, self.seq_lengths[1])
        made = BlockMask.from_kv_blocks(*kv, self.BLOCK_SIZE, self.mask_mod, lengths)
        return made

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The mask of the first queries and keys."""
        rows = -(-new_q_len // self.BLOCK_SIZE[0])
        columns = -(-new_kv_len // self.BLOCK_SIZE[1])
        kept: list[Tensor | None] = []
        for blocks in (self._partial(), self._full()):
            kept += (None, None) if blocks is None else _ordered(blocks[..., :rows, :columns])
        lengths = (new_q_len, new_kv_len)
        made = BlockMask.from_kv_blocks(*kept, self.BLOCK_SIZE, self.mask_mod, lengths)
        made.is_whole = self.is_whole
        return made

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """What the mask was made of."""
        sizes = (*self.seq_lengths,) if flatten else (self.seq_lengths,)
        blocks = (*self.BLOCK_SIZE,) if flatten else (self.BLOCK_SIZE,)
        return (*sizes, *self._lists(), *blocks, self.mask_mod)

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """The blocks of each batch and head (`limit` of them) as a picture."""
        dense = self.to_dense().reshape(-1, *self.to_dense().shape[-2:])
        rows, columns = _pair(grid_size)
        pictures = []
        for blocks in dense[:limit].tolist():
            down, across = -(-len(blocks) // rows), -(-len(blocks[0]) // columns)
            lines = [row[::across] for row in blocks[::down]]
            pictures.append(
                "\n".join("".join("██" if x else "  " for x in row) for row in lines)
            )
        return "\n\n".join(pictures)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"

    def __str__(self) -> str:
        return f"{self!r}\n{self.to_string()}"
