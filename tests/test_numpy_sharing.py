"""Memory shared with NumPy: every op sees it as it was when the op was called, both ways."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.trace import trace
from rushlight.trace.trace import local


@pytest.fixture(params=["copied", "read at once"])
def _either_way(request, monkeypatch):
    """Small shared memory is copied, large memory is read at once: both must be right."""
    if request.param == "read at once":
        monkeypatch.setattr(trace, "SMALL_SHARED", 0)


@pytest.mark.usefixtures("_either_way")
def test_ops_see_an_array_as_it_was_when_they_were_called():
    array = np.ones(4, "f4")
    x = torch.from_numpy(array)
    first = x + 1
    array[:] = 5
    second = x * 2
    tail = x[2:] - 1
    array[:] = 9
    assert first.tolist() == [2, 2, 2, 2]
    assert second.tolist() == [10, 10, 10, 10]
    assert tail.tolist() == [4, 4]
    assert x.tolist() == [9, 9, 9, 9]


@pytest.mark.usefixtures("_either_way")
def test_ops_see_a_tensor_as_it_was_before_its_array_was_written():
    x = torch.zeros(3)
    array = x.numpy()
    first = x + 1
    array[:] = 7
    assert first.tolist() == [1, 1, 1]
    assert (x + 1).tolist() == [8, 8, 8]


@pytest.mark.usefixtures("_either_way")
def test_writes_of_either_side_do_not_undo_each_other():
    array = np.zeros(4, "f4")
    x = torch.from_numpy(array)
    seen = x + 1
    array[3] = 9
    x[0].add_(1)
    assert array.tolist() == [1, 0, 0, 9]
    x.mul_(2)
    assert array.tolist() == [2, 0, 0, 18]
    assert seen.tolist() == [1, 1, 1, 1]


@pytest.mark.usefixtures("_either_way")
def test_gradients_use_what_the_forward_op_saw():
    array = np.array([2.0, 3.0], "f4")
    weight = torch.ones(2, requires_grad=True)
    (torch.from_numpy(array) * weight).sum().backward()
    array[:] = 0
    assert weight.grad.tolist() == [2, 3]


def test_memory_is_no_longer_shared_once_the_array_is_gone():
    x = torch.zeros(3)
    x.sum().item()
    array = x.numpy()
    assert x._storage.value.buffer.is_shared
    part = array[1:]
    del array
    assert x._storage.value.buffer.is_shared  # a view of the array still reaches it
    del part
    assert not x._storage.value.buffer.is_shared


def test_steps_on_arrays_record_nothing_new():
    weight = torch.ones(6, 3, requires_grad=True)
    opt = torch.optim.SGD([weight], 1e-2)

    def step() -> None:
        opt.zero_grad()
        x = torch.from_numpy(np.random.rand(5, 6).astype("f4"))
        (x @ weight).square().mean().backward()
        opt.step()

    for _ in range(3):
        step()
    edges = local.trace.edges
    for _ in range(5):
        step()
    assert local.trace.edges == edges


def test_what_waits_reads_a_tensor_before_its_array_is_given_away():
    with torch.no_grad():
        x = torch.ones(6, 4) * 1
        assert x.sum().item() == 24
        part, whole, view = x[3:] * 2, x * 3, x[:, 1]
        x.numpy()[5] = 7
        assert part[2].tolist() == [2.0] * 4
        assert whole[5].tolist() == [3.0] * 4
        assert view.tolist() == [1.0] * 5 + [7.0]
        later = x * 2
        x.numpy()[0] = 5
        assert later[0, 0].item() == 2.0 and later[5, 0].item() == 14.0
