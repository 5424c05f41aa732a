"""Normalisation of numbers whose squares float32 cannot hold; float64 is the oracle."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.nn import functional as F

ROW = [1.0, -1.0, 1.5, 3.0, -0.25, 0.5, 2.0, -2.0]
NORMS = {
    "layer_norm": lambda x: F.layer_norm(x, (8,)),
    "rms_norm": lambda x: F.rms_norm(x, (8,)),
    "group_norm": lambda x: F.group_norm(x.reshape(1, 8, 1), 2),
    "batch_norm": lambda x: F.batch_norm(x.reshape(8, 1), None, None, training=True),
    "instance_norm": lambda x: F.instance_norm(x.reshape(1, 1, 8)),
    "local_response_norm": lambda x: F.local_response_norm(x.reshape(1, 8, 1), 3),
    "normalize": F.normalize,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(1)),
    "std": lambda x: x.std(1),
    "norm": lambda x: x.norm(dim=1),
}


def _run(norm, scale: float, dtype):
    x = torch.tensor([ROW], dtype=dtype) * scale
    x.requires_grad_()
    out = norm(x).reshape(-1)
    (out * torch.arange(1, 1 + out.numel(), dtype=dtype)).sum().backward()
    return out.detach().double(), x.grad.double()


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("scale", [1e15, 1e20, 1e30])
def test_large_values_are_normalised_as_in_float64(name, scale):
    out, grad = _run(NORMS[name], scale, torch.float32)
    expected, slope = _run(NORMS[name], scale, torch.float64)
    assert torch.allclose(
        out / expected.abs().max(), expected / expected.abs().max(), atol=2e-6
    )
    unit = slope.abs().max().clamp(min=1e-33)  # what float32 still holds to a few digits
    assert torch.allclose(grad / unit, slope / unit, atol=2e-5)


def test_alternating_signs_become_ones():
    x = torch.tensor([[1e30, -1e30, 1e30, -1e30]])
    assert F.layer_norm(x, (4,)).tolist() == [[1.0, -1.0, 1.0, -1.0]]
