"""Slices with a negative step: read as NumPy reads them, differentiable, and assigned to."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch

INDICES = [
    (slice(None, None, -1),),
    (slice(None), slice(3, None, -2)),
    (slice(-2, 0, -2), slice(None, None, -1)),
    (..., slice(0, 5, -1)),
    (2, None, slice(None, None, -3)),
    (slice(10, -10, -3), slice(1, 3), slice(None, None, -1)),
    (slice(None, None, -1), [0, 2, 2]),
    ([1, 0], slice(None, None, -1), slice(None, None, 2)),
]


def _array():
    return np.arange(5 * 4 * 6, dtype=np.float32).reshape(5, 4, 6)


@pytest.mark.parametrize("index", INDICES)
def test_reading(index):
    assert np.array_equal(torch.tensor(_array())[index].numpy(), _array()[index])


@pytest.mark.parametrize("index", INDICES)
def test_assigning(index):
    array, x = _array(), torch.tensor(_array())
    values = -np.arange(array[index].size, dtype=np.float32).reshape(array[index].shape)
    array[index], x[index] = values, torch.tensor(values)
    assert np.array_equal(x.numpy(), array)
    array[index] += 1000
    x[index] += 1000
    assert np.array_equal(x.numpy(), array)
    array[index], x[index] = 7, 7
    assert np.array_equal(x.numpy(), array)


def test_gradients():
    x = torch.arange(5.0, requires_grad=True)
    (x[::-2] * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert x.grad.tolist() == [100.0, 0.0, 10.0, 0.0, 1.0]
    v = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    z = torch.zeros(5)
    z[::-2] = v
    (z * torch.arange(5.0)).sum().backward()
    assert v.grad.tolist() == [4.0, 2.0, 0.0]


def test_a_step_of_zero_is_refused():
    with pytest.raises(ValueError, match="zero"):
        torch.zeros(3)[::0]
