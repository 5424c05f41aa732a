"""DataLoader: a dataset's samples, in a sampler's order, as collated batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from rushlight.data.collate import default_collate, default_convert
from rushlight.data.dataset import Dataset, IterableDataset
from rushlight.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)
from rushlight.trace.trace import flush

T_co = TypeVar("T_co", covariant=True)


def get_worker_info() -> Any:
    """What a dataset may know about the worker process it runs in: None in the main one."""
    return None


def _computed(made: T_co) -> T_co:
    """What a dataset or a collation made, once its tensors have been computed.

    How a sample is made may depend on its contents (the length of a word, say). Left pending,
    that would be part of the step that reads the batch, and each batch would be a step never
    seen before.
    """
    flush()
    return made


class _Endless(Sampler[None]):
    """The sampler of a stream: it says only that there is a next sample."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[T_co]):
    """Iterates over a dataset in batches.

    All loading is in the calling process for now: `num_workers`, `pin_memory` and the like are
    checked and kept, and have no effect.

    >>> import rushlight as torch
    >>> from rushlight.utils.data import TensorDataset
    >>> data = TensorDataset(torch.arange(5))
    >>> [x.tolist() for (x,) in DataLoader(data, batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    dataset: Dataset[T_co]
    batch_size: int | None
    num_workers: int
    pin_memory: bool
    drop_last: bool
    timeout: float
    sampler: Any
    _initialized = False

    def __init__(
        self,
        dataset: Dataset[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.generator = generator
        is_stream = isinstance(dataset, IterableDataset)
        if is_stream:
            _check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            _check_batch_sampler(batch_size, shuffle, sampler, drop_last)
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = _default_sampler(dataset, is_stream, bool(shuffle), generator)
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_collate if self._auto_collation else default_convert
        self.collate_fn = collate_fn
        self._initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._stream()
        return self._indexed()

    def _indexed(self) -> Iterator[Any]:
        """Samples by index."""
        fetch_many = getattr(self.dataset, "__getitems__", None)
        for chosen in self._index_sampler:
            if not self._auto_collation:
                samples = _computed(self.dataset[chosen])
            elif fetch_many:
                samples = _computed(fetch_many(chosen))
            else:
                samples = [_computed(self.dataset[i]) for i in chosen]
            yield _computed(self.collate_fn(samples))

    def _stream(self) -> Iterator[Any]:
        """Samples of a stream, as many at a time as the batch sampler asks for."""
        source = iter(self.dataset)  # type: ignore[call-overload]
        expected = self._stream_length()
        for count, chosen in enumerate(self._index_sampler):
            if not self._auto_collation:
                try:
                    samples = _computed(next(source))
                except StopIteration:
                    return
            else:
                samples = [_computed(s) for _, s in zip(chosen, source, strict=False)]
                if not samples or (self.drop_last and len(samples) < len(chosen)):
                    return
            if expected is not None and count >= expected:
                _warn_longer(expected, count + 1)
            yield _computed(self.collate_fn(samples))

    def _stream_length(self) -> int | None:
        return len(self) if hasattr(self.dataset, "__len__") else None

    def __len__(self) -> int:
        """How many batches one pass gives."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        length = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        if self.drop_last:
            return length // self.batch_size
        return -(-length // self.batch_size)

    def check_worker_number_rationality(self) -> None:
        """Nothing to check: no worker processes are started."""


_FIXED = (
    "batch_size",
    "batch_sampler",
    "sampler",
    "drop_last",
    "dataset",
    "persistent_workers",
)


def _default_sampler(dataset: Any, is_stream: bool, shuffle: bool, generator: Any) -> Any:
    if is_stream:
        return _Endless()
    if shuffle:
        return RandomSampler(dataset, generator=generator)
    return SequentialSampler(dataset)


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool
) -> None:
    if num_workers < 0:
        raise ValueError(
            "num_workers option should be non-negative; use num_workers=0 to disable "
            "multiprocessing."
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing.let num_workers "
            "> 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if num_workers > 0:
        _warn_in_process()


_warned = False


def _warn_in_process() -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            "DataLoader: num_workers > 0 has no effect yet: batches are loaded in the calling "
            "process.",
            stacklevel=4,
        )


def _warn_longer(expected: int, count: int) -> None:
    warnings.warn(
        f"DataLoader: the dataset's __len__ promised {expected} batches, but {count} have been "
        "read.",
        stacklevel=3,
    )


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in {False, None}:
        raise ValueError(
            "DataLoader with IterableDataset: expected unspecified shuffle option, but got "
            f"shuffle={shuffle}"
        )
    for name, given in (("sampler", sampler), ("batch_sampler", batch_sampler)):
        if given is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={given}"
            )


def _check_batch_sampler(batch_size: Any, shuffle: Any, sampler: Any, drop_last: bool) -> None:
    if batch_size != 1 or shuffle or sampler is not None or drop_last:
        raise ValueError(
            "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and "
            "drop_last"
        )
