"""What every test may rely on: fixed seeds, hypothesis profiles, versions in the header."""

from __future__ import annotations

import os
import platform
import random
import sys
from importlib.metadata import version

import hypothesis
import numpy as np
import pytest

SEED = int(os.environ.get("RUSHLIGHT_TEST_SEED", "20260"))

# Compiling makes single examples slow on purpose: no deadline. CI always draws the same ones.
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("local", deadline=None, max_examples=50)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")


def pytest_report_header() -> list[str]:
    names = ("numpy", "llvmlite", "torch", "hypothesis")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return [
        f"rushlight on {platform.machine()}, {os.cpu_count()} cores: {versions}",
        f"seed: RUSHLIGHT_TEST_SEED={SEED}",
    ]


@pytest.fixture(autouse=True)
def seeds() -> int:
    """Every test starts from the same random state, in each library that is already loaded."""
    random.seed(SEED)
    np.random.seed(SEED)
    for name in ("rushlight", "torch"):
        if seed := getattr(sys.modules.get(name), "manual_seed", None):
            seed(SEED)
    return SEED


@pytest.fixture(autouse=True)
def nothing_varies() -> None:
    """What earlier tests showed of sizes and loops decides nothing about where programs end."""
    for name in ("rushlight.trace.varying", "rushlight.repeats"):
        if name in sys.modules:
            sys.modules[name].forget()


@pytest.fixture
def nothing_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """No paths from earlier tests, and no programs of parts."""
    from rushlight import parts, zeros
    from rushlight.trace.trace import Trace, local

    zeros(1).item()
    monkeypatch.setattr(parts, "_programs", {})
    monkeypatch.setattr(local, "trace", Trace())


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ops of each program that is planned from here on."""
    from rushlight import parts, pipeline

    found: list[int] = []
    make = pipeline.make_program

    def noting(edge, request):
        found.append(sum(step.op is not None for step in edge.path()))
        return make(edge, request)

    monkeypatch.setattr(pipeline, "make_program", noting)
    monkeypatch.setattr(parts, "make_program", noting)
    return found
