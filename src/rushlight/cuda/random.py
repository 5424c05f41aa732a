"""`torch.cuda.random`: with no device, seeds and states have nowhere to go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.cuda.absent import refuse

# Any, below: states are tensors of the core, devices are named in many ways.


def manual_seed(seed: int) -> None:
    """Seed the current device's generator: there is none."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator: there is none."""
    int(seed)


def seed() -> None:
    """Seed the current device's generator from the system: there is none."""


def seed_all() -> None:
    """Seed every device's generator from the system: there is none."""


def initial_seed() -> int:
    """The seed of the current device's generator."""
    refuse()


def get_rng_state(device: Any = "cuda") -> Any:
    """The state of a device's generator."""
    refuse()


def get_rng_state_all() -> list[Any]:
    """The states of all devices' generators: an empty list, which can be set again."""
    return []


def set_rng_state(new_state: Any, device: Any = "cuda") -> None:
    """Set the state of a device's generator once CUDA starts: it never does."""


def set_rng_state_all(new_states: Iterable[Any]) -> None:
    """Set the states of all devices' generators; for each there must be a device."""
    if list(new_states):
        refuse()
