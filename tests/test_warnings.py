"""Warnings say what is likely a mistake, at the user's line."""

from __future__ import annotations

import warnings

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F

one, two = torch.ones(1, 2), torch.ones(2, 1)

MISTAKES = {
    "mse_loss": (lambda: F.mse_loss(one, two), "mse_loss: Using a target size"),
    "l1_loss": (lambda: F.l1_loss(one, two), "l1_loss: Using a target size"),
    "smooth_l1_loss": (lambda: F.smooth_l1_loss(one, two), "smooth_l1_loss: Using a target"),
    "huber_loss": (lambda: F.huber_loss(one, two), "huber_loss: Using a target size"),
    "MSELoss": (lambda: nn.MSELoss()(one, two), "mse_loss: Using a target size"),
    "kl_div": (lambda: F.kl_div(one, one), "reduction: 'mean' divides"),
    "std": (lambda: torch.ones(1).std(), r"std\(\): degrees of freedom is <= 0"),
    "var": (lambda: torch.ones(3, 1).var(1), r"var\(\): degrees of freedom"),
    "std_mean": (lambda: torch.std_mean(torch.ones(1)), r"std_mean\(\): degrees of freedom"),
    "var of nothing": (lambda: torch.ones(3, 0).var(0, correction=0), r"var\(\): degrees"),
    "grad": (lambda: (torch.ones(2, requires_grad=True) * 2).grad, "not a leaf Tensor"),
    "grad of a view": (lambda: torch.ones(2, requires_grad=True)[0].grad, "not a leaf"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_points_at_the_line(name: str) -> None:
    call, text = MISTAKES[name]
    with pytest.warns(UserWarning, match=text) as found:
        call()
    assert [w.filename for w in found] == [__file__]
    assert found[0].lineno == call.__code__.co_firstlineno


def test_what_is_no_mistake() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        leaf = torch.ones(2, requires_grad=True)
        assert leaf.grad is None
        assert (leaf * 2).detach().grad is None
        kept = leaf * 2
        kept.retain_grad()
        assert kept.grad is None
        assert torch.ones(1).std(correction=0).item() == 0
        assert torch.ones(2).var().item() == 0
