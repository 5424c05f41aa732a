"""A few random graphs, compiled and interpreted; `fuzz_graphs.py` runs thousands."""

from __future__ import annotations

import os

import fuzz_graphs
import pytest

COUNT = int(os.environ.get("RUSHLIGHT_FUZZ_GRAPHS", "60"))


@pytest.mark.parametrize("first", range(0, COUNT, 10))
def test_random_graphs(first: int) -> None:
    for seed in range(first, first + 10):
        assert not fuzz_graphs.trial(seed), f"seed {seed}"
