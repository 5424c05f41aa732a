"""In which order samples are visited, and how they are grouped into batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import rushlight as rl
from rushlight import errors

T_co = TypeVar("T_co", covariant=True)


class Sampler(Generic[T_co]):
    """Gives indices, or lists of them, each time it is iterated over."""

    def __init__(self, data_source: Sized | None = None) -> None:
        if data_source is not None:
            import warnings  # only this old argument needs it

            warnings.warn(
                "`data_source` argument is not used and will be removed in 2.2.0. "
                "You may still have custom implementation that utilizes it.",
                stacklevel=2,
            )

    def __iter__(self) -> Iterator[T_co]:
        raise errors.left_to_subclasses(self, "__iter__")


class SequentialSampler(Sampler[int]):
    """All indices in order."""

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, or drawn at random with replacement."""

    data_source: Sized
    replacement: bool

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Any = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        is_empty = num_samples is None and self.num_samples == 0
        if not isinstance(self.num_samples, int) or (self.num_samples <= 0 and not is_empty):
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={self.num_samples}"
            )

    @property
    def num_samples(self) -> int:
        """How many indices one pass gives; the dataset's length unless told otherwise."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n, count = len(self.data_source), self.num_samples
        generator = _generator_or_new(self.generator)
        if self.replacement:
            for size in _pieces(count, 32):
                draws = rl.randint(high=n, size=(size,), dtype=rl.int64, generator=generator)
                yield from draws.tolist()
            return
        for size in _pieces(count, n) if n else ():
            yield from rl.randperm(n, generator=generator).tolist()[:size]

    def __len__(self) -> int:
        return self.num_samples


def _generator_or_new(generator: Any) -> Any:
    """The generator given, or one of the pass's own, seeded from the default generator."""
    if generator is not None:
        return generator
    generator = rl.Generator()
    generator.manual_seed(int(rl.empty((), dtype=rl.int64).random_().item()))
    return generator


def _pieces(total: int, size: int) -> Iterator[int]:
    """`total` in pieces of `size` and a rest."""
    for _ in range(total // size):
        yield size
    if total % size:
        yield total % size


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in rl.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with given weights, which need not sum to 1."""

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Any = None,
    ) -> None:
        if (
            not isinstance(num_samples, int)
            or isinstance(num_samples, bool)
            or num_samples <= 0
        ):
            raise ValueError(
                "num_samples should be a positive integer value, but got "
                f"num_samples={num_samples}"
            )
        if not isinstance(replacement, bool):
            raise ValueError(
                f"replacement should be a boolean value, but got replacement={replacement}"
            )
        tensor = rl.as_tensor(weights, dtype=rl.double)
        if len(tensor.shape) != 1:
            raise ValueError(
                "weights should be a 1d sequence but given weights have shape "
                f"{tuple(tensor.shape)}"
            )
        self.weights = tensor
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = rl.multinomial(
            self.weights, self.num_samples, self.replacement, generator=self.generator
        )
        return iter(drawn.tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Another sampler's indices in lists of `batch_size`."""

    def __init__(
        self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool
    ) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(
                "batch_size should be a positive integer value, but got "
                f"batch_size={batch_size}"
            )
        if not isinstance(drop_last, bool):
            raise ValueError(
                f"drop_last should be a boolean value, but got drop_last={drop_last}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        size = len(self.sampler)  # type: ignore[arg-type]
        if self.drop_last:
            return size // self.batch_size
        return (size + self.batch_size - 1) // self.batch_size


class DistributedSampler(Sampler[int]):
    """One rank's share of a dataset's indices: every `num_replicas`-th, from `rank` on.

    All ranks shuffle alike, by `seed` and the epoch last given to `set_epoch`. Where the length
    cannot be shared evenly, the first indices are repeated, or the last dropped (`drop_last`).
    With `even=False` the last ranks have one index less instead: each is visited exactly once.
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        *,
        even: bool = True,
    ) -> None:
        if num_replicas is None or rank is None:
            num_replicas, rank = _place_in_group(num_replicas, rank)
        if rank >= num_replicas or rank < 0:
            raise ValueError(
                f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]"
            )
        self.dataset = dataset
        self.num_replicas = num_replicas
        self.rank = rank
        self.epoch = 0
        self.drop_last = drop_last
        size = len(dataset)
        is_cut = drop_last and size % num_replicas != 0
        self.num_samples = size // num_replicas if is_cut else -(-size // num_replicas)
        self.total_size = self.num_samples * num_replicas
        if not even and not drop_last:
            self.num_samples, self.total_size = len(range(rank, size, num_replicas)), size
        self.shuffle = shuffle
        self.seed = seed

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        indices = list(range(size))
        if self.shuffle:
            generator = rl.Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = rl.randperm(size, generator=generator).tolist()
        endless = itertools.cycle(indices) if indices else iter(())
        padded = list(itertools.islice(endless, self.total_size))
        return iter(padded[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch begins, so that it gets an order of its own on all ranks."""
        self.epoch = epoch


def _place_in_group(num_replicas: int | None, rank: int | None) -> tuple[int, int]:
    """The size of the process group and the place in it, where they are not given."""
    group = getattr(rl, "distributed", None)
    if group is None or not group.is_available():
        raise RuntimeError("Requires distributed package to be available")
    size = group.get_world_size() if num_replicas is None else num_replicas
    return size, group.get_rank() if rank is None else rank
