"""Random graphs, compiled and interpreted: a few always, thousands in the second tier."""

from __future__ import annotations

import fuzz_graphs
import pytest


def check(first: int, count: int) -> None:
    for seed in range(first, first + count):
        assert not fuzz_graphs.trial(seed), f"seed {seed}"


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_graphs(first: int) -> None:
    check(first, 10)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 5000, 250))
def test_many_random_graphs(first: int) -> None:
    check(first, 250)
