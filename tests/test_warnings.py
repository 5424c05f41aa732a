"""Warnings say what is likely a mistake, at the user's line."""

from __future__ import annotations

import warnings

import numpy as np
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
    "softmax": (lambda: F.softmax(one), "Implicit dimension choice for softmax"),
    "log_softmax": (lambda: F.log_softmax(one), "Implicit dimension choice for log_softmax"),
    "softmin": (lambda: F.softmin(one), "Implicit dimension choice for softmin"),
    "Softmax": (lambda: nn.Softmax()(one), "Implicit dimension choice"),
    "tensor of a tensor": (lambda: torch.tensor(one), "to copy a tensor"),
    "new_tensor": (lambda: one.new_tensor(two), "to copy a tensor"),
    "list of arrays": (lambda: torch.tensor([np.ones(2)] * 2), "a list of NumPy arrays"),
    "T": (lambda: torch.ones(2, 2, 2).T, "x.T of other than two dimensions"),
    "uint8 index": (lambda: torch.ones(2)[torch.tensor([1, 0]).byte()], "indexing with torch"),
    "uint8 where": (lambda: torch.where(one.byte(), one, one), "condition of torch.uint8"),
    "meshgrid": (lambda: torch.meshgrid(torch.ones(2)), "meshgrid without indexing"),
    "cross": (lambda: torch.cross(torch.ones(1, 3), torch.ones(1, 3)), "cross without dim"),
    "stft": (lambda: torch.stft(torch.ones(8), 4, return_complex=True), "without a window"),
    "out": (lambda: torch.add(one, 1, out=torch.ones(3)), "add: out of shape"),
    "size_average": (lambda: F.mse_loss(one, one, size_average=False), "reduction='sum'"),
    "elementwise_mean": (lambda: F.l1_loss(one, one, reduction="elementwise_mean"), "'mean'"),
    "upsample": (lambda: F.upsample(torch.ones(1, 1, 2), 4), "nn.functional.upsample is"),
    "upsample_nearest": (lambda: F.upsample_nearest(torch.ones(1, 1, 2), 4), "_nearest is"),
    "dropout2d": (lambda: F.dropout2d(torch.ones(1, 2)), "dropout2d: a 2-D input"),
    "dropout2d of 3-D": (lambda: F.dropout2d(torch.ones(1, 2, 2)), "use dropout1d"),
    "dropout3d": (lambda: F.dropout3d(torch.ones(1, 2)), "dropout3d: a 2-D input"),
    "gumbel_softmax": (lambda: F.gumbel_softmax(one, eps=1.0), "eps is deprecated"),
    "cov": (lambda: torch.cov(two), r"cov\(\): degrees of freedom"),
    "masks": (
        lambda: nn.MultiheadAttention(2, 1)(
            *[torch.ones(1, 1, 2)] * 3,
            attn_mask=torch.ones(1, 1),
            key_padding_mask=torch.zeros(1, 1).bool(),
        ),
        "masks of different dtypes",
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(2, 1, 2), 1),
        "encoder_layer.self_attn.batch_first was not True",
    ),
    "InstanceNorm1d": (lambda: nn.InstanceNorm1d(4)(torch.ones(1, 3, 2)), "not num_features"),
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
        layer = nn.TransformerEncoderLayer(4, 2, 2, batch_first=True)
        assert nn.TransformerEncoder(layer, 1).use_nested_tensor
        assert torch.add(one, 1, out=torch.empty(0)).shape == (1, 2)
        assert F.dropout2d(torch.ones(1, 1, 1, 1), 0.0).item() == 1
        assert torch.meshgrid(torch.ones(2), indexing="ij")[0].shape == (2,)
        assert torch.stft(torch.ones(8), 4, window=torch.ones(4), return_complex=True).ndim == 2


def test_names_of_amp_that_are_old() -> None:
    for make in (torch.cpu.amp.autocast, torch.cpu.amp.GradScaler):
        with pytest.warns(FutureWarning, match="is deprecated: use torch.amp"):
            make()
