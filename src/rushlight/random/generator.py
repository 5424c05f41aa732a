"""Generators: a 64-bit seed and a counter of the elements drawn so far."""

from __future__ import annotations

import contextlib
import os
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any  # states are tensors, devices have several forms

from rushlight import forks
from rushlight.devices import CPU, check_usable, device

DEFAULT_SEED = 67280421310721  # what PyTorch starts from
_WORD = 1 << 64


_lock = threading.RLock()  # on the position of every generator
forks.hold("streams", _lock)


class Watch:
    """Who is told of every draw (a call being captured), if anybody."""

    draw: Callable[[Generator, int], None] | None = None


class Generator:
    """A stream of random numbers: (seed, counter).

    >>> import rushlight as torch
    >>> g = torch.Generator().manual_seed(3)
    >>> torch.rand(2, generator=g).shape
    torch.Size([2])
    """

    def __init__(self, device: Any = "cpu") -> None:
        check_usable(device)
        self._seed = DEFAULT_SEED
        self._counter = 0

    @property
    def device(self) -> device:
        return CPU

    def manual_seed(self, seed: int) -> Generator:
        """Start again from this seed (any 64-bit number, signed or not)."""
        if isinstance(seed, float):
            raise RuntimeError(f"manual_seed expected a whole number, but got {seed}")
        seed = int(seed)
        if not -(_WORD >> 1) <= seed < _WORD:
            raise ValueError(
                f"Overflow when unpacking long long: the seed {seed} must fit in 64 bits"
            )
        with _lock:
            self._seed, self._counter = seed % _WORD, 0
        return self

    def seed(self) -> int:
        """Start again from a seed of the system's, and return it."""
        fresh = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(fresh)
        return fresh

    def initial_seed(self) -> int:
        return self._seed

    def take(self, count: int) -> tuple[int, int]:
        """Reserve `count` elements: the seed (as a signed word) and the first counter."""
        if Watch.draw is not None:
            Watch.draw(self, count)
        with _lock:
            first = self._counter
            self._counter = (first + count) % (_WORD >> 1)
        return (self._seed + (_WORD >> 1)) % _WORD - (_WORD >> 1), first

    @property
    def place(self) -> tuple[int, int]:
        """Seed and counter: where in the stream the next draw is taken."""
        with _lock:
            return self._seed, self._counter

    def go_to(self, place: tuple[int, int]) -> None:
        """Draw next from a `place`."""
        with _lock:
            self._seed, self._counter = place

    def get_state(self) -> Any:
        """Seed and counter as a uint8 tensor."""
        from rushlight.arrays import tensor  # tensors know generators only through ops
        from rushlight.dtypes import uint8  # as above

        with _lock:
            state = struct.pack("<QQ", self._seed, self._counter)
        return tensor(list(state), dtype=uint8)

    def set_state(self, new_state: Any) -> Generator:
        """Go on from a state that `get_state` gave."""
        if not hasattr(new_state, "_storage"):
            raise TypeError(f"expected a torch.ByteTensor, but got {type(new_state).__name__}")
        if new_state.dtype.name != "uint8":
            raise TypeError(f"RNG state must be a torch.ByteTensor, not {new_state.dtype!r}")
        raw = bytes(new_state.tolist())
        if len(raw) != 16:
            raise RuntimeError(f"RNG state has 16 bytes, but got {len(raw)}")
        with _lock:
            self._seed, self._counter = struct.unpack("<QQ", raw)
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator().set_state(self.get_state())

    def __getstate__(self) -> tuple[int, int]:
        return self._seed, self._counter

    def __setstate__(self, state: tuple[int, int]) -> None:
        self._seed, self._counter = state


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; the same seed gives the same numbers."""
    return default_generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the default generator from the system, and return the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> Any:
    """The state of the default generator, as a uint8 tensor."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Set the state of the default generator."""
    default_generator.set_state(new_state)


def thread_safe_generator() -> Generator | None:
    """The generator of a loader's worker thread: None, for the workers here are processes,
    and the default generator is each one's own.
    """
    return None


@contextlib.contextmanager
def fork_rng(
    devices: Any = None, enabled: bool = True, _caller: str = "fork_rng",
    _devices_kw: str = "devices", device_type: str = "cpu",
) -> Iterator[None]:  # fmt: skip
    """What is drawn inside leaves the default generator as it was."""
    before = default_generator.place
    try:
        yield
    finally:
        if enabled:
            default_generator.go_to(before)


@contextlib.contextmanager
def drawing_from(place: tuple[int, int]) -> Iterator[None]:
    """What is drawn inside starts at `place` and leaves the default generator as it was."""
    with fork_rng():
        default_generator.go_to(place)
        yield
