"""Modules that PyTorch has and the house has not."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import rushlight as rl


def test_classes_of_optim_are_found_where_pytorch_keeps_them():
    torch = pytest.importorskip("torch")
    checked = 0
    for info in pkgutil.iter_modules(torch.optim.__path__):
        place = importlib.import_module(f"torch.optim.{info.name}")
        for name, value in vars(place).items():
            is_own = isinstance(value, type) and value.__module__ == place.__name__
            if is_own and not info.name.startswith("_") and hasattr(rl.optim, name):
                found = getattr(importlib.import_module(f"rushlight.optim.{info.name}"), name)
                assert found is getattr(rl.optim, name)
                checked += 1
    assert checked >= 12


def test_scatter_and_gather_have_a_module():
    from rushlight.nn.parallel.scatter_gather import gather, scatter

    assert (gather, scatter) == (rl.nn.parallel.gather, rl.nn.parallel.scatter)
