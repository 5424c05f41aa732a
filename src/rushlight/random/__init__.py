"""Random state: generators, seeds, and how to save and restore them.

A generator is a seed and a counter. An operation that draws takes both when it is recorded, so
what is drawn never depends on when, where or in how many pieces it is computed.
"""

from rushlight.random.generator import (
    Generator,
    default_generator,
    fork_rng,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
    thread_safe_generator,
)

__all__ = [
    "Generator",
    "default_generator",
    "fork_rng",
    "get_rng_state",
    "initial_seed",
    "manual_seed",
    "seed",
    "set_rng_state",
    "thread_safe_generator",
]
